"""What compilers are asked: every operator, by calls that trace, and what is kept of the answers."""

import jax
import numpy as np
import pytest

from benchmarks.cases import estimated
from benchmarks.compiling import compilers, estimates
from benchmarks.reporting import estimates_table, journal
from benchmarks.reporting.journal import earlier
from jaxdml._cases import quantized_linear_add
from tests.kit import OPERATORS


@pytest.fixture(autouse=True)
def _as_users_write_stock_jax():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


SMALL = (
    estimated.of(quantized_linear_add.call("a test", (4, 64), "uint8", origin="a test")),
    estimated._quantized_product(2, 8, 4, packed=True),
)


def test_every_operator_has_a_cell():
    assert sorted({cell.operator for cell in estimated.CELLS}) == OPERATORS
    assert len({cell.title for cell in estimated.CELLS}) == len(estimated.CELLS) >= 60


@pytest.mark.parametrize("cell", estimated.CELLS, ids=lambda cell: cell.title)
def test_both_sides_return_the_same_shapes(cell):
    ours, stock = (jax.tree.leaves(jax.eval_shape(function, *given)) for function, given in cell.sides()[:2])
    assert [x.shape for x in ours] == [x.shape for x in stock]


def test_answers_are_kept_and_taken_up_again(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compilers, "device_of", lambda target: jax.devices()[0])
    file = tmp_path / "estimates.jsonl"
    given = ["--targets", "v5e", "--out", str(file)]
    assert estimates.main(given, SMALL[:1]) == 0
    first = earlier(file)
    assert estimates.main([*given, "--resume"], SMALL) == 0
    _, rows = journal.rows(file)
    assert rows[:1] == first
    assert [row["operator"] for row in rows] == ["quantized_linear_add", "quantized_linear_matrix_multiply"]
    assert rows[0]["least"] == 3 * 4 * 64
    assert all(row["compiled"]["v5e"][side]["bytes"] > 0 for row in rows for side in estimates.SIDES)
    assert "of stock's bytes" in capsys.readouterr().out
    assert all(row["compiled"]["v5e"][side]["cpu_s"] >= 0 for row in rows for side in estimates.SIDES)
    page = estimates_table.markdown(file)
    assert "0 take more than 10 s of CPU" in page
    assert "**`quantized_linear_add`**" in page
    assert "`uint8 4x64`" in page


def test_what_does_not_compile_is_told_and_fails(monkeypatch, tmp_path, capsys):
    def broken(x):
        raise RuntimeError("no such program")

    monkeypatch.setattr(compilers, "device_of", lambda target: jax.devices()[0])
    sides = estimated.Sides((broken, [np.zeros(2)]), (jax.lax.neg, [np.zeros(2)]), 16)
    cell = estimated.Cell("top_k", "broken", lambda: sides)
    file = tmp_path / "estimates.jsonl"
    assert estimates.main(["--targets", "v5e", "--out", str(file)], [*SMALL[:1], cell]) == 1
    assert "no such program" in journal.rows(file)[1][-1]["compiled"]["v5e"]["jaxdml"]["raises"]
    assert "program" in capsys.readouterr().out
    assert "raises" in estimates_table.markdown(file)


@pytest.mark.parametrize(("ours", "stock", "slow"), [(9, 1, 0), (11, 5, 1), (11, 6, 0), (30, 20, 0)])
def test_slow_is_both_more_than_ten_seconds_and_twice_those_of_stock(ours, stock, slow):
    def side(seconds):
        return {"raises": None, "bytes": 1, "cpu_s": seconds}

    rows = [{"compiled": {"v5e": {"jaxdml": side(ours), "stock": side(stock)}}}]
    assert f" {slow} take more than 10 s of CPU and twice stock's" in estimates_table.summary(rows, "v5e")
    del rows[0]["compiled"]["v5e"]["stock"]["cpu_s"]
    assert estimates_table.summary(rows, "v5e").endswith("0 above 1.1.")
