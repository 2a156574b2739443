"""The harness checks before it times, drops nobody silently, and its page holds what was measured."""

import dataclasses
import importlib.util
import inspect
import itertools
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import jaxdml
from benchmarks import __main__ as family
from benchmarks import environment, peers
from benchmarks.cases import (
    CASES,
    GROUPS,
    KNOWING,
    MODELS,
    OPERATORS,
    SIZES,
    SMALL,
    calls,
    sharded,
    traced,
    whole_models,
)
from benchmarks.cases.data import on
from benchmarks.cases.order import in_order, of_each_operator
from benchmarks.measuring import constants, one_case, run, watching
from benchmarks.measuring.answers import Judge, digest
from benchmarks.models import networks
from benchmarks.models.language_model import Sizes
from benchmarks.models.net import Net
from benchmarks.peers import Absent, Contender, prepare, with_jax
from benchmarks.peers.with_jax import Program
from benchmarks.reporting import compare, document, journal, plots, report, tables
from benchmarks.timing import by_calls, by_chains, by_profiler, clocks
from benchmarks.timing.by_calls import Timing
from jaxdml import reference
from jaxdml._cases import (
    argmax,
    convolution_integer,
    gather,
    matrix_multiply_integer,
    matrix_multiply_integer_to_float,
    scatter_elements,
    scatter_nd,
)
from jaxdml._cases import quantized_linear_convolution as quantized_convolution
from jaxdml._cases import top_k as selection
from jaxdml._cases._layers import Layer
from jaxdml._cases._quantizing import call as quantizing
from jaxdml._cases.quantized_linear_matrix_multiply import call as multiply
from jaxdml._cases.top_k import call as top_k
from jaxdml._kernels.integer_product import gpu as integer_product
from jaxdml._kernels.selection import cpu as _selection_cpu
from tests.kit import long, quick

pytestmark = quick

TINY = (
    on("with NaN", top_k("grid", 2, 40, 3, "float32", "decreasing")),
    on("few distinct", top_k("grid", 2, 40, 3, "int8", "increasing")),
    dataclasses.replace(top_k("growth in k", 1, 64, 4, "uint8", "decreasing"), at=4),
    multiply("models", (), 3, 8, 4, "uint8", "int8", origin="a test"),
    scatter_nd.call("models", (6, 2), 3, "float32", memory="donated", origin="a test"),
    scatter_elements.call("grid", (6, 2), 3, "float32", memory="copied", origin="a test"),
)
HERE = ("jaxdml", "lax", "numpy")
ROOFLINE = {
    "copy_gb_per_s": {"4096": 1.0, "1048576": 2.0},
    "int8_gop_per_s": 10.0,
    "busy_elsewhere": 0.0,
    "seconds": 0.1,
}


def quickly(monkeypatch):
    """Call each contender once more, instead of timing it, measure no roof, and see nothing else at work."""

    def interleaved(runs, **plan):
        taken = {name: by_calls.seconds(call) * 1e6 for name, call in runs.items()}
        return {name: Timing(us, us, us, 1, 1, us, us) for name, us in taken.items()}

    monkeypatch.setattr(one_case, "interleaved", interleaved)
    monkeypatch.setattr(constants, "interleaved", interleaved)
    # On an accelerator NumPy would not be measured; here it is the peer that is always there.
    monkeypatch.setattr(peers, "ONLY_ON_CPUS", frozenset())
    monkeypatch.setattr(run.roofline, "measure", lambda **plan: dict(ROOFLINE))
    # What else this machine does changes no test.
    monkeypatch.setattr(environment, "busy_elsewhere", lambda before, elapsed: None if before is None else 0.0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    quickly(monkeypatch)


@pytest.fixture
def no_plots(monkeypatch):
    """Draw nothing: the plots have a test of their own."""
    monkeypatch.setattr(run.plots, "draw", lambda result, folder: None)


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    """Run all tiny cases once, for every test that reads a report, and return its folder, output and status."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as monkeypatch, run.display.console.capture() as captured:
        quickly(monkeypatch)
        status = run.main(["--cases", "*", "--peers", *HERE, "--out", str(folder)], cases=TINY)
    return folder, captured.get(), status


def wrong(case, draws):
    answers = prepare("lax", case, draws).run()
    return Contender(lambda: answers, lambda found: tuple(np.asarray(part) + 1 for part in found), "exact")


def test_a_run_writes_what_the_report_says_it_holds(a_run):
    folder, shown, status = a_run
    assert status == 0
    written = report.read(folder)
    assert set(written) == {"environment", "roofline", "broken", "cases", "left_out"}
    assert written["environment"]["versions"]["jax"] == jax.__version__
    assert written["environment"]["clock"] == clocks.CLOCKS[clocks.clock()]
    assert written["roofline"] == {name: ROOFLINE[name] for name in ROOFLINE if name != "seconds"} | {"visit": 1}
    assert [case["name"] for case in written["cases"]] == [case.name for case in in_order(TINY)]
    for case in written["cases"]:
        assert list(case["contenders"]) == list(HERE)
        assert case["busy_elsewhere"] >= 0
        for contender in case["contenders"].values():
            assert set(contender) == {"absent", "verdict", "compile_s", "timing", "wall_us", "kernels"}
            assert contender["verdict"]["accepted"]
            assert contender["timing"]["median_us"] > 0
    pictures = {"growth-in-k", "roofline", "who-is-fastest"}
    assert {file.stem for file in folder.glob("*.png")} == pictures
    assert TINY[0].size in "".join(shown.split("\n"))
    assert f"{len(TINY) + 1}/{len(TINY) + 1}" in shown  # The roofline is one more.
    assert report.digest(written["cases"])[1] in shown


@pytest.mark.usefixtures("no_plots")
def test_a_wrong_answer_gets_no_time(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(peers.PEERS, "jaxdml", {"top_k": wrong})
    arguments = ["top_k", "--cases", "*int8*", "--peers", *HERE, "--out", str(tmp_path)]
    assert run.main(arguments, cases=TINY) == 1
    ours = report.read(tmp_path)["cases"][0]["contenders"]["jaxdml"]
    assert ours["timing"] is None
    assert ours["verdict"]["different"] > 0
    assert not ours["verdict"]["accepted"]
    assert "WRONG" in capsys.readouterr().out


def test_a_peer_that_breaks_does_not_end_the_run(monkeypatch):
    def broken(case, arguments):
        raise RuntimeError("no memory\nand a long story")

    monkeypatch.setitem(peers.PEERS, "torch", {"top_k": broken})
    found = one_case.measure(TINY[0], ["torch", "numpy"], rounds=1, budget_s=1)["contenders"]
    assert found["torch"]["absent"] == "failed: RuntimeError: no memory"
    assert found["numpy"]["timing"]


def test_a_peer_that_is_not_there_is_named(monkeypatch):
    def without(case, arguments):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setitem(peers.PEERS, "torch", {"top_k": without})
    found = one_case.measure(TINY[0], ["torch", "torch prepacked"], rounds=1, budget_s=1)
    assert found["contenders"]["torch"]["absent"] == "torch is not installed"
    assert found["contenders"]["torch prepacked"]["absent"] == "no way of its own"
    entry = report.complete(report.entry(TINY[0], found), ["torch", "torch prepacked"])
    assert [peer for peer, _, _ in report.untimed([entry])] == ["torch", "torch prepacked"]


def test_a_peer_that_cannot_says_why():
    half = top_k("grid", 2, 40, 3, "bfloat16", "decreasing")
    with pytest.raises(Absent, match="no partition of bfloat16"):
        prepare("numpy", half, [half.draw(np.random.default_rng(0))])


def test_every_operator_has_cases_peers_and_an_oracle():
    assert {case.operator for case in CASES} == {*OPERATORS, *MODELS} == set(peers.EXPECTED)
    for peer, subjects in (("jaxdml", {*OPERATORS, *MODELS}), ("lax", set(OPERATORS))):
        assert set(peers.PEERS[peer]) == subjects


TRACED = tuple(traced(case) for case in SMALL if case.known)


@pytest.mark.filterwarnings("ignore:torch.*deprecated:UserWarning")
@pytest.mark.parametrize("case", [*SMALL, *TRACED], ids=lambda case: case.name)
def test_every_peer_that_is_here_answers_a_small_call(case):
    draws = [case.draw(np.random.default_rng(0))]
    judge = Judge(case, draws[0])
    for peer in (*HERE, "onnxruntime", *(["torch"] if importlib.util.find_spec("torch") else [])):
        if case.operator not in peers.PEERS[peer]:
            continue
        if peer == "onnxruntime" and case in TRACED:
            with pytest.raises(Absent, match="knows its scales"):
                prepare(peer, case, draws)
            continue
        contender = prepare(peer, case, draws)
        assert judge.judge(contender.answers(contender.run()), contender.promises).accepted, peer


@pytest.mark.parametrize("case", [*SMALL, *TRACED], ids=lambda case: case.name)
def test_scales_that_a_case_knows_are_no_arguments_of_its_program(case):
    seen = {}

    def program(*arguments):
        seen["known"] = [place for place, x in enumerate(arguments) if isinstance(x, np.ndarray)]
        return arguments[0]

    arguments = case.draw(np.random.default_rng(0))
    contender = with_jax.prepare(Program(program), case, [arguments])
    np.testing.assert_array_equal(contender.run(), arguments[0])
    assert tuple(seen["known"]) == case.known
    # These hold one number, or one of each filter, and no array of the operator's data.
    assert all(arguments[place].size <= 4 for place in case.known)
    assert all(arguments[place].ndim for place in range(len(arguments)) if place not in case.known) or not case.known
    quantizes = {"scale", "zero_point"}
    names = list(inspect.signature(getattr(jaxdml, case.operator)).parameters)
    assert {names[place] for place in case.known} == (
        {name for name in names if name.endswith(tuple(quantizes))} if case.known else set()
    )


def test_calls_with_known_scales_are_measured_and_two_of_each_operator_without():
    knowing = {case.operator for case in SMALL if case.known}
    assert knowing == KNOWING
    assert "quantized_linear_add" in knowing
    for operator in knowing:
        mine = [case for case in CASES if case.operator == operator and not case.options.get("scales")]
        without = [case for case in mine if not case.known]
        assert 1 <= len(without) <= 2 < len(mine)
        assert {case.name.removesuffix(" traced scales") for case in without} <= {case.name for case in mine}
        assert of_each_operator(mine)[0].known


def test_what_was_measured_with_traced_scales_is_told_apart():
    entry = {"operator": "quantized_linear_add", "known": [1, 2]}
    assert report.row(entry) == "quantized_linear_add"
    # So all calls of earlier reports were.
    assert report.row(entry | {"known": []}) == "quantized_linear_add, traced scales"
    assert report.row({"operator": "top_k", "known": []}) == "top_k"
    assert tables.in_code("quantized_linear_add, traced scales") == "`quantized_linear_add`, traced scales"
    then, now = reported(10.0), reported(5.0)
    assert len(compare.changes(then, now)) == 1
    now["cases"][0]["known"] = [1, 2]
    assert compare.changes(then, now) == []


def test_calls_in_flight_are_waited_for_together():
    calls = []
    run, many = with_jax.waiting(lambda: calls.append("a call"))
    many(3)
    run()
    assert len(calls) == 4
    assert by_calls.in_flight_us(lambda number: time.sleep(0.001 * number)) == pytest.approx(1000, rel=0.5)


def test_a_peer_that_tables_do_not_know_is_refused(monkeypatch):
    monkeypatch.setitem(peers._MODULES["top_k"].PEERS, "another", wrong)
    with pytest.raises(KeyError, match="another"):
        peers._of("top_k")


@pytest.mark.parametrize("memory", ["copied", "donated"])
@pytest.mark.parametrize("operator", [scatter_nd, scatter_elements], ids=lambda module: module.OPERATOR.name)
def test_peers_write_the_same(operator, memory):
    case = operator.call("test", (6, 2), 3, "float32", memory=memory)
    draws = [case.draw(np.random.default_rng(0))]
    judge = Judge(case, draws[0])
    for peer in ("jaxdml", "lax", "numpy", "onnxruntime"):
        if peer != "onnxruntime" or memory == "copied":
            contender = prepare(peer, case, draws)
            assert judge.judge(contender.answers(contender.run()), contender.promises).accepted


@pytest.mark.parametrize("by_axis", [False, True])
def test_peers_multiply_the_same(by_axis):
    case = multiply("test", (), 5, 8, 300, "uint8", "int8", by_axis=by_axis)
    draws = [case.draw(np.random.default_rng(0))]
    judge = Judge(case, draws[0])
    for peer in ("jaxdml", "lax", "numpy", "onnxruntime", "onnxruntime prepacked"):
        if by_axis and "onnxruntime" in peer:
            with pytest.raises(Absent, match="one scale"):
                prepare(peer, case, draws)
        else:
            contender = prepare(peer, case, draws)
            verdict = judge.judge(contender.answers(contender.run()), contender.promises)
            assert (verdict.compared, verdict.accepted) == (4 * 256, True)
            assert verdict.different == 0 or peer != "jaxdml"


@pytest.mark.parametrize("batch", [(), (2,)])
def test_peers_multiply_integers_exactly(batch):
    case = matrix_multiply_integer.call("test", batch, 5, 8, 300, "uint8", "int8")
    draws = [case.draw(np.random.default_rng(seed)) for seed in range(2)]
    judge = Judge(case, draws[0])
    for peer in ("jaxdml", "jaxdml prepacked", "lax", "numpy", "onnxruntime", "onnxruntime prepacked"):
        contender = prepare(peer, case, draws)
        verdict = judge.judge(contender.answers(contender.run()), contender.promises)
        assert contender.promises == "exact"
        assert (verdict.compared, verdict.different, verdict.accepted) == (4 * 256 * math.prod(batch), 0, True), peer


@pytest.mark.parametrize("by_axis", [False, True])
def test_peers_scale_integers_to_floats(by_axis):
    case = matrix_multiply_integer_to_float.call("test", 5, 8, 300, "uint8", "int8", by_axis=by_axis)
    draws = [case.draw(np.random.default_rng(seed)) for seed in range(2)]
    judge = Judge(case, draws[0])
    exact = ("jaxdml", "jaxdml prepacked", "numpy", *(() if by_axis else ("onnxruntime", "onnxruntime prepacked")))
    for peer in (*exact, "lax"):
        contender = prepare(peer, case, draws)
        answers = contender.answers(contender.run())
        verdict = judge.judge(answers, contender.promises)
        assert contender.promises == ("exact" if peer in exact else "close")
        assert (verdict.compared, verdict.accepted) == (4 * 256, True), peer
        assert verdict.different == 0 or peer == "lax", peer
    assert not judge.judge(tuple(answer * np.float32(1.000001) for answer in answers), "close").accepted


@pytest.mark.parametrize("operator", [convolution_integer, quantized_convolution], ids=lambda one: one.OPERATOR.name)
@pytest.mark.parametrize("layer", [Layer("a test", 4, 6, 8, 3, stride=2), Layer("a test", 6, 5, 12, 3, groups=6)])
def test_peers_convolve_the_same(operator, layer):
    case = operator.call("test", layer, 2, "uint8", "int8")
    draws = [case.draw(np.random.default_rng(seed)) for seed in range(2)]
    judge = Judge(case, draws[0])
    for peer in ("jaxdml", "lax", "onnxruntime", "onnxruntime prepacked"):
        contender = prepare(peer, case, draws)
        verdict = judge.judge(contender.answers(contender.run()), contender.promises)
        assert (verdict.compared, verdict.accepted) == (4 * math.prod(layer.output[1:]), True)
        assert verdict.different == 0 or "within" in contender.promises


@pytest.mark.parametrize(
    ("operator", "given", "returned"),
    [("quantize_linear", "float32", "uint8"), ("dequantize_linear", "int8", "float32")],
)
def test_peers_quantize_each_row_by_its_scale(operator, given, returned):
    case = quantizing(operator, "test", (5, 64), given, returned, by_row=True)
    draws = [case.draw(np.random.default_rng(0))]
    judge = Judge(case, draws[0])
    for peer in (*HERE, "onnxruntime"):
        contender = prepare(peer, case, draws)
        verdict = judge.judge(contender.answers(contender.run()), contender.promises)
        assert (verdict.compared, verdict.accepted) == (4 * 64, True), peer
        assert verdict.different == 0 or contender.promises == "within one", peer


def test_too_many_updates_for_a_loop_are_assigned(monkeypatch):
    case = scatter_nd.call("test", (6, 2), 3, "float32", memory="copied")
    arguments = case.draw(np.random.default_rng(0))
    module = peers._MODULES["scatter_nd"]
    _, (looped,) = module.expected(case, arguments)
    monkeypatch.setattr(module, "_LOOPS", 1)
    _, (assigned,) = module.expected(case, arguments)
    np.testing.assert_array_equal(assigned, looped)


def test_every_case_has_a_name_of_its_own():
    named = [(case.group, case.name) for case in CASES]
    assert len(set(named)) == len(named)
    assert all(case.origin for case in CASES)


def test_chosen_sizes_are_of_operators():
    assert {name: {case.operator for case in chosen} for name, chosen in SIZES.items()} == {
        name: {name} for name in OPERATORS if name in SIZES
    }


def test_an_operator_of_which_no_size_is_chosen_is_measured_as_in_the_self_check(monkeypatch):
    monkeypatch.delitem(SIZES, "top_k")
    races = selection.OPERATOR.races
    assert [case.name for case in calls(selection.OPERATOR)] == [race.name for race in races]
    assert {case.group for case in calls(selection.OPERATOR)} <= set(GROUPS)


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint32"])
@pytest.mark.parametrize("data", ["random", "ascending", "all equal", "few distinct", "with NaN", "all NaN"])
def test_the_judge_asks_about_enough_candidates(dtype, data, direction):
    if "NaN" in data and "int" in dtype:
        pytest.skip("integers hold no NaN")
    for n, k in ((1, 1), (30, 1), (30, 7), (30, 30)):
        case = on("random" if "NaN" in data else data, top_k("test", 3, n, k, dtype, direction))
        (x,) = arguments = case.draw(np.random.default_rng(n + k))
        if "NaN" in data:
            x[:, ::3] = np.nan
        if data == "all NaN":
            x[:] = np.nan
        expected = reference.top_k(x, k, direction=direction)
        assert Judge(case, arguments).judge(tuple(expected), "exact").different == 0


def test_ties_are_free_only_where_that_is_promised():
    case = on("all equal", top_k("test", 1, 8, 2, "float32", "decreasing"))
    arguments = case.draw(np.random.default_rng(0))
    other = np.ones((1, 2), np.float32), np.array([[5, 3]])
    assert Judge(case, arguments).judge(other, "values").accepted
    assert not Judge(case, arguments).judge(other, "exact").accepted
    twice = np.ones((1, 2), np.float32), np.array([[5, 5]])
    assert not Judge(case, arguments).judge(twice, "values").accepted


def test_whoever_exceeds_the_budget_is_called_once(monkeypatch):
    monkeypatch.setattr(by_calls, "doze", lambda: None)
    calls = []
    taken = by_calls.interleaved(
        {"slow": lambda: calls.append(1) or by_calls.time.sleep(2 * by_calls.WARM_S)}, rounds=5, budget_s=0.005
    )
    assert taken["slow"].samples == len(calls) == 1


def test_the_pages_hold_what_the_results_say(a_run, tmp_path):
    written = document.pages()
    assert {name: (document.PAGES / name).read_text(encoding="utf-8") for name in written} == written
    assert {file.stem for file in (document.PAGES / "benchmarks").iterdir()} == {
        file.parent.name for file in document.RESULTS.glob(f"*/{report.FILE}")
    }
    shutil.copytree(a_run[0], tmp_path / "here")
    found = document.pages(tmp_path)
    assert f"`{TINY[3].name}`: a test" in found["benchmarks/here.md"]
    assert "(../../benchmarks/results/here/roofline.png)" in found["benchmarks/here.md"]
    assert "benchmarks/here.md" in found["benchmarks.md"]
    assert list(document.pages(tmp_path / "here")) == ["benchmarks.md"]


@pytest.mark.parametrize(
    ("module", "name", "record", "read"),
    [
        (_selection_cpu, "MANY_ROWS", "CPU", lambda: _selection_cpu.CPU.many_rows),
        (integer_product, "MAX_ROWS_UNTRANSPOSED", "", lambda: integer_product.MAX_ROWS_UNTRANSPOSED),
    ],
)
def test_a_constant_has_its_value_while_the_case_compiles(monkeypatch, tmp_path, capsys, module, name, record, read):
    usual, seen = read(), []

    def program(case):
        return Program(lambda x: seen.append(read()) or x)

    monkeypatch.setattr(constants.with_jax, "ours", program)
    monkeypatch.setitem(constants.CONSTANTS, name, constants.Constant(module, name, (3, 50), TINY[:1], record))
    assert constants.main([name, "--out", str(tmp_path / "rows.jsonl")]) == 0
    assert seen == [3, 50]
    first, found = journal.rows(tmp_path / "rows.jsonl")
    assert [row["case"] for row in found] == [TINY[0].name]
    assert set(found[0]["us"]) == {"3", "50"}
    assert first["constant"] == name
    assert usual == read()
    assert TINY[0].name in capsys.readouterr().out


def test_every_constant_to_vary_is_there():
    for constant in constants.CONSTANTS.values():
        holder = getattr(constant.module, constant.record) if constant.record else constant.module
        assert isinstance(getattr(holder, constant.name.lower() if constant.record else constant.name), int)


def test_methods_are_timed_side_by_side(tmp_path, capsys):
    sizes = ["--rows", "2", "--n", "64", "--k", "3", "100", "--dtypes", "int16"]
    assert constants.main(["MANY_ROWS", *sizes, "--out", str(tmp_path / "rows.jsonl")]) == 0
    _, (row,) = journal.rows(tmp_path / "rows.jsonl")
    assert set(row["us"]) <= set(constants.SWEEPS["MANY_ROWS"].methods)
    assert "repeated_maxima" in row["us"]
    assert "repeated_maxima" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "no JSON\n", "[1]\n", '{"environment":{}}\n{"case":1}\n'])
def test_what_is_no_report_of_rows_is_said_to_be_none(text, tmp_path):
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(journal.UnreadableError, match="no report"):
        journal.rows(tmp_path / "rows.jsonl")


def test_a_row_that_was_not_finished_is_left_out(tmp_path):
    path = tmp_path / "new" / "rows.jsonl"
    journal.begin(path, journal.head(command="a test", said="more"))
    journal.add(path, "row", {"number": 1, "nothing": None})
    with path.open("a") as file:
        file.write('{"row":{"num')
    first, found = journal.rows(path)
    assert found == [{"number": 1, "nothing": None}]
    assert {"device", "commit", "versions", "command", "said"} <= first.keys()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["rows.jsonl"]
    journal.add(path, "row", {"number": 2})
    assert journal.rows(path)[1][1:] == [{"number": 2}]


def test_rows_that_are_kept_say_of_which_commit_they_are(tmp_path):
    file = tmp_path / "rows.jsonl"
    assert journal.earlier(file) == []
    for commit, number in (("a", 1), ("b", 2), ("c", 3)):
        journal.begin(file, journal.head(commit=commit), journal.earlier(file))
        journal.add(file, "row", {"number": number})
    first, found = journal.rows(file)
    assert first["commit"] == "c"
    assert found == [{"commit": "a", "number": 1}, {"commit": "b", "number": 2}, {"number": 3}]


QUICKLY = ["--cases", "*", "--peers", *HERE, "--out"]


@pytest.mark.usefixtures("no_plots")
def test_a_run_that_was_killed_goes_on_where_it_stopped(a_run, tmp_path, capsys):
    whole = (a_run[0] / report.FILE).read_text()
    lines = whole.splitlines(keepends=True)
    cases = [number for number, line in enumerate(lines) if line.startswith('{"case"')]
    # Killed while the third case was being written.
    (tmp_path / report.FILE).write_text("".join(lines[: cases[2]]) + lines[cases[2]][:40])
    before = report.read(tmp_path)
    assert len(before["cases"]) == 2
    assert run.main([*QUICKLY, str(tmp_path)], cases=TINY) == 0
    after = report.read(tmp_path)
    assert [case["name"] for case in after["cases"]] == [case.name for case in in_order(TINY)]
    roofless = [case | {"floor_us": None} for case in after["cases"][:2]]
    assert roofless == before["cases"]  # The roofline was not there yet.
    assert report.digest(after["cases"]) == report.digest(report.read(a_run[0])["cases"])
    assert f"2 of {len(TINY)} cases are" in capsys.readouterr().out


@pytest.mark.usefixtures("no_plots")
def test_a_report_of_something_else_is_left_alone(a_run, tmp_path, capsys):
    other = report.read(a_run[0])
    report.write(other | {"environment": other["environment"] | {"device": "another"}}, tmp_path)
    before = (tmp_path / report.FILE).read_bytes()
    assert run.main([*QUICKLY, str(tmp_path)], cases=TINY) == 2
    assert "device another, not" in capsys.readouterr().out
    versions = other["environment"]["versions"] | {"numpy": "1.0"}
    report.write(other | {"environment": other["environment"] | {"versions": versions}}, tmp_path)
    before = (tmp_path / report.FILE).read_bytes()
    assert run.main([*QUICKLY, str(tmp_path)], cases=TINY) == 2
    # Only what differs is said.
    assert f"versions {{'numpy': '1.0'}}, not {{'numpy': '{np.__version__}'}}, so" in capsys.readouterr().out
    assert (tmp_path / report.FILE).read_bytes() == before


@pytest.mark.parametrize("text", ["", "no JSON\n", "[1]\n", '{"environment":{"format":1,"peers":[]}}\n'])
def test_what_is_no_report_is_said_to_be_none(text, tmp_path, capsys):
    (tmp_path / report.FILE).write_text(text)
    with pytest.raises(journal.UnreadableError, match="report"):
        report.read(tmp_path)
    assert compare.main([str(tmp_path), str(tmp_path)]) == 2
    assert run.main([*QUICKLY, str(tmp_path / "new"), "--against", str(tmp_path)], cases=TINY) == 2
    assert capsys.readouterr().out.count("report") >= 2
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("no_plots")
def test_cases_for_which_there_is_no_time_are_named(monkeypatch, tmp_path, capsys):
    clock = iter(range(0, 10**6, 40))
    monkeypatch.setattr(run.display.time, "time", lambda: next(clock))
    monkeypatch.setattr(
        run.one_case,
        "measure",
        lambda *args, measure=one_case.measure, **how: measure(*args, **how) | {"seconds": 40.0},
    )
    assert run.main([*QUICKLY, str(tmp_path), "--minutes", "4"], cases=TINY) == 0
    written = report.read(tmp_path)
    done = [case["name"] for case in written["cases"]]
    assert 0 < len(done) < len(TINY)
    left = [name for name in written["left_out"] if name != "the roofline"]
    assert done + left == [case.name for case in in_order(TINY)]
    assert f"No time was left for {len(written['left_out'])} cases" in capsys.readouterr().out


def test_what_says_most_comes_first():
    order = in_order(CASES)
    assert sorted(order, key=CASES.index) == list(CASES)
    first, rest = order[: len(OPERATORS)], order[len(OPERATORS) :]
    # A small case of each operator, and no whole model: within a minute there is a figure of each.
    assert {case.operator for case in first} == set(OPERATORS)
    assert {case.group for case in first} <= {"models", "grid"}
    for case in first:
        same = [other for other in CASES if (other.operator, other.group) == (case.operator, case.group)]
        assert case.bytes <= sorted(other.bytes for other in same)[len(same) // 2]
    ranks = {"models": 0, "whole models": 0, "grid": 1, "accelerators": 2, "growth in n": 3, "growth in k": 4}
    assert (found := [ranks[case.group] for case in rest]) == sorted(found)
    # Then come the others, each turn of which whole models end.
    several = [case.operator for case in rest if not ranks[case.group]]
    turn = several[: len(set(several))]
    assert set(turn) == set(several)
    assert turn[-len(MODELS) :] == [*MODELS]
    assert [case.name for case in in_order([dataclasses.replace(TINY[0], group="of another")])] == [TINY[0].name]
    models = [case for case in CASES if case.operator in MODELS]
    assert sorted(in_order(models), key=CASES.index) == models


def taken(*medians, width=0.01, visits=2):
    """Return entries of jaxdml with these medians, known to a fraction, from so many processes."""
    return [
        {
            "group": "models",
            "name": f"case {number}",
            "visits": visits,
            "contenders": {
                "jaxdml": {
                    "absent": None,
                    "timing": {"median_us": us, "low_us": us * (1 - width), "high_us": us * (1 + width)},
                }
            },
        }
        for number, us in enumerate(medians)
    ]


def reported(*medians, **how):
    return {"environment": {"device": "a device", "commit": "abc"}, "cases": taken(*medians, **how)}


def test_a_slowdown_is_found_and_noise_is_none(capsys):
    then = reported(100.0, 10.0, 1000.0)
    assert compare.show(then, reported(100.9, 9.95, 1004.0), 0.05) == 0
    assert compare.show(then, reported(110.0, 10.0, 1000.0), 0.05) == 1
    # What is not known well enough is no slowdown.
    assert compare.show(then, reported(110.0, 10.0, 1000.0, width=0.1), 0.05) == 0
    # All together are one that no single case shows.
    many = [100.0 + number for number in range(40)]
    slower = reported(*(us * 1.1 for us in many), width=0.1)
    assert compare.show(reported(*many, width=0.1), slower, 0.05) == 1
    # If something else slowed them all, they say nothing.
    for case in slower["cases"]:
        case["busy_elsewhere"] = 1.0
    assert compare.show(reported(*many, width=0.1), slower, 0.05) == 0
    shown = capsys.readouterr().out
    assert "1 of the 3 cases that decide are slower by more than 5%" in shown
    assert "40 of 40 cases were disturbed, by other processes" in shown
    assert "1.100" in shown


@pytest.mark.parametrize(
    ("how", "busy", "said"),
    [
        ({"visits": 1}, 0.0, "3 of 3 cases were measured in one process only"),
        ({"width": 0.2}, 0.0, "3 of 3 cases were disturbed"),
        ({}, 0.8, "3 of 3 cases were disturbed"),
    ],
)
def test_what_is_not_sure_decides_nothing(capsys, how, busy, said):
    now = reported(142.0, 16.0, 1850.0, **how)
    now["cases"] = [case | {"busy_elsewhere": busy} for case in now["cases"]]
    assert compare.show(reported(100.0, 10.0, 1000.0), now, 0.05) == 0
    assert compare.show(now, reported(300.0, 30.0, 3000.0), 0.05) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count(said) == 2
    assert shown.count("they decide nothing") == 2
    assert "0 of the 0 cases that decide are slower" in shown
    assert f"slower, {'one process' if 'visits' in how else 'disturbed'}" in shown


def test_settings_that_differ_are_said(capsys):
    then, now = reported(100.0), reported(100.0)
    then["environment"] |= {"asynchronous_dispatch": False, "flags": {"XLA_FLAGS": "--one", "JAX_PLATFORMS": "cpu"}}
    now["environment"] |= {"asynchronous_dispatch": True, "flags": {"JAX_PLATFORMS": "cpu"}, "machine": {"cores": 2}}
    compare.show(then, now, 0.05)
    shown = capsys.readouterr().out
    assert "differ in asynchronous dispatch: False, now True." in shown
    assert "differ in flags: {'XLA_FLAGS': '--one'}, now {'XLA_FLAGS': None}." in shown
    # What one of them does not know, as earlier reports know no machine, is no difference.
    assert shown.count("differ in") == 2


def test_reports_are_compared_from_the_command_line(a_run, capsys):
    assert compare.main([str(a_run[0]), str(a_run[0])]) == 0
    assert "1.000" in capsys.readouterr().out


def visit(us, *, busy=0.0, digest="a"):
    times = dict.fromkeys(("median_us", "lower_quartile_us", "upper_quartile_us", "low_us", "high_us"), us)
    contender = {"timing": times | {"samples": 5, "calls_per_sample": 1}}
    return {"contenders": {"jaxdml": contender}, "busy_elsewhere": busy, "digest": digest}


def test_visits_are_taken_together():
    found = report._together([visit(10.0), visit(14.0), visit(11.0), visit(99.0, busy=1.0)])
    timing = found["contenders"]["jaxdml"]["timing"]
    assert (timing["median_us"], timing["low_us"], timing["high_us"], timing["samples"]) == (11.0, 10.0, 14.0, 15)
    assert (found["visits"], found["digest"]) == (3, "a")
    assert report._together([visit(10.0), visit(10.0, digest="b")])["digest"] is None
    assert report._together([visit(10.0, busy=1.0)])["visits"] == 1


def test_a_repetition_is_no_visit():
    disturbed, again = visit(14.0, busy=1.0) | {"visit": 1}, visit(10.0) | {"visit": 1, "brief": True}
    for lines in ([disturbed, again], [again, disturbed]):
        found = report._together(lines)
        assert (found["visits"], found["visited"], found["brief"]) == (1, 1, True)
        assert found["contenders"]["jaxdml"]["timing"]["median_us"] == 10.0
    found = report._together([disturbed, again, visit(12.0) | {"visit": 1}, visit(20.0, busy=1.0) | {"visit": 2}])
    assert (found["visits"], found["visited"]) == (1, 2)
    assert found["contenders"]["jaxdml"]["timing"]["median_us"] == 12.0


def test_the_roofline_has_the_best_rates_of_those_that_were_quiet():
    quiet, better, busy = (
        {"copy_gb_per_s": {"4096": rate, "8192": 3.0}, "int8_gop_per_s": 10.0 * rate, "busy_elsewhere": elsewhere}
        for rate, elsewhere in ((1.0, 0.0), (2.0, 0.1), (4.0, 1.0))
    )
    found = report._roofline([busy | {"visit": 1}, quiet | {"visit": 1}, better | {"visit": 2}])
    assert found == better | {"busy_elsewhere": 0.0, "visit": 2}
    assert report._roofline([busy])["int8_gop_per_s"] == 40.0
    assert report.floor_us({"bytes": 5000, "operations": 0}, found) == 2.5
    assert report.floor_us({"bytes": 5000, "operations": 400_000}, found) == 20.0
    assert report.floor_us({"bytes": 5000, "operations": 0}, None) is None


@pytest.mark.usefixtures("no_plots")
def test_the_roofline_comes_after_a_case_of_each_operator_and_is_repeated(monkeypatch, tmp_path, capsys):
    order = []
    elsewhere = iter([1.0, 0.0])

    def roof(**plan):
        order.append("the roofline")
        return ROOFLINE | {"busy_elsewhere": next(elsewhere)}

    def measure(case, *args, rounds, measure=one_case.measure, **how):
        order.append((case.name, rounds))
        found = measure(case, *args, rounds=rounds, **how)
        for contender in found["contenders"].values():
            contender["timing"] |= {"high_us": 2 * contender["timing"]["high_us"]}
        return found

    monkeypatch.setattr(run.roofline, "measure", roof)
    monkeypatch.setattr(run.one_case, "measure", measure)
    assert run.main([*QUICKLY, str(tmp_path)], cases=TINY) == 0
    brief = {case.name for case in of_each_operator(TINY)}
    names = [case.name for case in in_order(TINY)]
    first = [(name, by_calls.FEWEST if name in brief else 25) for name in names]
    # What was disturbed, or had few samples, is measured once more.
    again = [(name, 25) for name in names if name in brief]
    assert order == [*first[: len(brief)], "the roofline", *first[len(brief) :], "the roofline", *again]
    found = report.read(tmp_path)
    assert found["roofline"]["busy_elsewhere"] == 0.0
    assert [case["visits"] for case in found["cases"]] == [1] * len(TINY)
    assert not any(case.get("brief") for case in found["cases"])
    assert "the roofline: copies up to 2.0 GB/s" in capsys.readouterr().out


@pytest.mark.usefixtures("no_plots")
def test_a_report_that_has_no_roofline_yet_is_read(a_run, tmp_path):
    lines = (a_run[0] / report.FILE).read_text().splitlines(keepends=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / report.FILE).write_text("".join(line for line in lines if not line.startswith('{"roof')))
    found = report.read(tmp_path / "here")
    assert {case["floor_us"] for case in found["cases"]} == {None}
    assert "Copies:" not in document.pages(tmp_path)["benchmarks/here.md"]
    plots.draw(found, tmp_path)
    run.display.show(found["cases"])


def test_the_machine_is_described(monkeypatch):
    said = {
        "lscpu": "Core(s) per socket: 64\nL3 cache:  256 MiB (8 instances)\nHypervisor vendor: KVM\n",
        "nvidia-smi": "NVIDIA H200, 580.159.03, 143771 MiB, 700.00 W\nNVIDIA H200, other\n",
        "git": "abc\n",
    }
    monkeypatch.setattr(environment, "_said_by", lambda *command: said[command[0]])
    described = environment.describe()
    assert described["machine"]["l3_cache"] == "256 MiB (8 instances)"
    assert described["commit"] == "abc"
    assert "gpu" not in described
    monkeypatch.setattr(environment, "platform", lambda: "gpu")
    described = environment.describe()
    shown = report.machine(described)
    for part in ("hypervisor KVM", "L3 256 MiB", "driver version 580.159.03", "power limit 700.00 W", "runtime"):
        assert part in shown
    assert os.uname().release in shown
    # Earlier reports do not know it.
    assert report.machine({"host": "a host"}) is None
    monkeypatch.undo()
    assert environment._said_by("no command of this name") == ""


def test_settings_of_jax_belong_to_a_report(monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("XLA_FLAGS", "--one")
    flags = environment.describe()["flags"]
    assert (flags["JAX_ENABLE_X64"], flags["XLA_FLAGS"]) == ("1", "--one")
    assert {"flags", "asynchronous_dispatch"} <= set(run._SAME)


def test_times_that_are_not_known_well_are_marked(a_run, tmp_path):
    shutil.copytree(a_run[0], tmp_path / "here")
    assert "Marked ?" not in document.pages(tmp_path)["benchmarks/here.md"]
    file = tmp_path / "here" / report.FILE
    lines = file.read_text().splitlines(keepends=True)
    name = TINY[3].name
    place = next(number for number, line in enumerate(lines) if f'"name":"{name}"' in line)
    lines[place] = lines[place].replace('"busy_elsewhere":0.0', '"busy_elsewhere":1.0')
    file.write_text("".join(lines))
    page = document.pages(tmp_path)["benchmarks/here.md"]
    assert "Marked ?: 3 times that are known no better than within 5%, or were disturbed." in page
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}`"))
    assert row.count("?") == 3
    timing = dataclasses.asdict(Timing(10.0, 9.0, 11.0, 5, 1, 9.4, 10.6))
    case = {"busy_elsewhere": 0.0, "contenders": {"lax": {"timing": timing}}}
    assert report.unsure(case, "lax")
    timing |= {"low_us": 9.6, "high_us": 10.4}
    assert not report.unsure(case, "lax")


def test_the_prepacked_are_compared_with_the_prepacked():
    us = {"jaxdml": 10.0, "jaxdml prepacked": 8.0, "lax": 30.0, "onnxruntime": 20.0, "onnxruntime prepacked": 4.0}

    def case(*without):
        timings = {peer: {"timing": {"median_us": taken}} for peer, taken in us.items() if peer not in without}
        return {"contenders": timings}

    assert (report.ratio(case()), report.best_other(case())) == (2.0, "onnxruntime")
    assert (report.ratio_prepacked(case()), report.best_prepacked(case())) == (0.5, "onnxruntime prepacked")
    # What jaxdml cannot pack stands for itself; without another that packs there is nothing to compare.
    assert report.ratio_prepacked(case("jaxdml prepacked")) == 0.4
    assert report.ratio_prepacked(case("onnxruntime prepacked")) is None
    assert report.ratio(case("jaxdml")) is None


def test_a_ratio_is_said_from_the_side_of_the_greater():
    assert run.display.in_words(2.0) == "2.00 times as fast as"
    assert run.display.in_words(0.8130) == "1.23 times as long as"


def test_columns_without_anything_are_left_out():
    assert tables.filled(("a", "b", "c"), [("1", "-", "2"), ("3", "", "-")]) == (["a", "c"], [["1", "2"], ["3", "-"]])


def test_the_page_is_of_the_plan_that_was_measured_and_says_what_it_wrote(a_run, monkeypatch, tmp_path, capsys):
    results, pages, readme = tmp_path / "results", tmp_path / "docs", tmp_path / "README.md"
    shutil.copytree(a_run[0], results / "here")
    pages.mkdir()
    shutil.copyfile(document.README, readme)
    for name, path in (("ROOT", tmp_path), ("RESULTS", results), ("PAGES", pages), ("README", readme)):
        monkeypatch.setattr(document, name, path)
    monkeypatch.setattr(document, "HEADLINE", results / "headline.png")
    monkeypatch.setattr(document.pages, "__defaults__", (results,))
    monkeypatch.setattr(document.headline, "put_into", lambda text, folder: text)
    monkeypatch.setattr(document.headline, "devices", lambda folder: {})
    monkeypatch.setattr(document.plots, "draw_headline", lambda devices, path: path)
    document.main()
    page = (pages / "benchmarks" / "here.md").read_text(encoding="utf-8")
    assert "known within 2%, or after 25 rounds, or 2 s for a peer." in page
    assert f"Linux {os.uname().release}" in page or sys.platform != "linux"
    assert "25 rounds" not in (pages / "benchmarks.md").read_text(encoding="utf-8")
    written = capsys.readouterr().out.splitlines()
    assert {"README.md", "docs/benchmarks.md", "docs/benchmarks/here.md", "results/here/roofline.png"} <= {*written}


def test_calls_of_a_chain_wait_for_one_another():
    calls = []

    def function(x):
        return jax.pure_callback(lambda y: calls.append(1) or y, jax.ShapeDtypeStruct((3,), np.float32), x) + 1

    each = by_chains.chain(function, (jax.numpy.zeros(3, np.float32),), 2)
    each(3)
    assert len(calls) == 6
    assert int(each(0)[1]) == 0


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.operator)
def test_every_operator_runs_in_a_chain(case):
    contender = prepare("jaxdml", case, [case.draw(np.random.default_rng(0))])
    contender.chain(2)


def test_a_chain_is_timed_by_what_it_takes_longer(monkeypatch):
    now = [0.0]

    def each(calls):
        now[0] += 0.5 + 0.01 * calls  # It starts slowly, and takes ten milliseconds for each call.

    monkeypatch.setattr(by_calls.time, "perf_counter", lambda: now[0])
    (found,) = by_chains.interleaved({"a": each}, rounds=5, budget_s=100).values()
    assert found.median_us == pytest.approx(1e4)
    assert found.spread < 0.01


def board_writer(folder, *what):
    """Return the command of a process that is at case 3 and peer 1, and then does something.

    It writes to the board by itself: to import what JAX needs takes long on a machine that is at work.
    """
    begin = f"import struct; open({str(folder / watching._FILE)!r}, 'r+b').write(struct.pack('3q', 3, 1, 2))"
    return [sys.executable, "-S", "-c", ";".join([begin, *what])]


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("pass", None),
        ("raise SystemExit(2)", "its process ended with status 2"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "its process was ended by SIGSEGV"),
        ("import time; time.sleep(600)", "no answer in 60 s"),
    ],
)
def test_a_process_that_hangs_or_breaks_is_noticed(monkeypatch, tmp_path, what, wrong):
    with watching.board(tmp_path) as board:
        # Time passes once the process is at its step, however long that takes on a busy machine.
        minutes = (60 * minute * (board.read()[:2] == (3, 1)) for minute in itertools.count())
        if "sleep" in what:
            monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=minutes.__next__, sleep=time.sleep))
        assert watching.watch(board_writer(tmp_path, what), board, 60) == wrong
        assert board.read()[:2] == (3, 1)
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("no_plots")
def test_what_else_a_host_does_is_not_asked_where_an_accelerator_computes(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "platform", lambda: "another")
    assert run.main([*QUICKLY, str(tmp_path), "--clock", "calls"], cases=TINY[:1]) == 0
    (case,) = report.read(tmp_path)["cases"]
    assert "busy_elsewhere" not in case
    assert report.quiet(case)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_run_that_is_asked_to_end_ends_what_it_watches(tmp_path, number):
    usual = signal.getsignal(signal.Signals[number])
    what = f"import os, signal; print(os.getpid(), file=open({str(tmp_path / 'child')!r}, 'w'), flush=True); "
    what += f"os.kill(os.getppid(), signal.{number}); signal.pause()"
    with pytest.raises(KeyboardInterrupt), watching.board(tmp_path) as board:
        watching.watch([sys.executable, "-c", what], board, 60)
    assert not (tmp_path / watching._FILE).exists()
    assert signal.getsignal(signal.Signals[number]) is usual
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 0)


def test_a_request_to_end_waits_until_the_process_is_known(monkeypatch, tmp_path):
    started = []

    class Slow(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)  # Where Python looks for signals.

    monkeypatch.setattr(watching.subprocess, "Popen", Slow)
    with pytest.raises(KeyboardInterrupt), watching.board(tmp_path) as board:
        watching.watch([sys.executable, "-c", "import signal; signal.pause()"], board, 60)
    assert started[0].returncode == -signal.SIGKILL


@pytest.mark.usefixtures("no_plots")
def test_a_library_that_broke_is_left_out_of_its_case(a_run, monkeypatch, tmp_path, capsys):
    lines = (a_run[0] / report.FILE).read_text().splitlines(keepends=True)
    shutil.copyfile(a_run[0] / report.FILE, tmp_path / report.FILE)
    (tmp_path / report.FILE).write_text("".join(line for line in lines if not line.startswith('{"case"')))
    order = in_order(TINY)
    steps = iter([(0, HERE.index("lax")), (1, -1), None, (-1, -1)])
    monkeypatch.setattr(run, "CASES", TINY)

    def watch(command, board, limit_s):
        assert command[1:4] == ["-m", "benchmarks", "measure"]
        if step := next(steps):
            board.write(*step)
            return "no answer in 300 s"
        return run.main(command[4:])

    monkeypatch.setattr(run.watching, "watch", watch)
    assert run.main([*QUICKLY, str(tmp_path)]) == 1
    found = report.read(tmp_path)
    assert {case["name"] for case in found["cases"]} == {case.name for case in TINY}
    by_name = {case["name"]: case["contenders"] for case in found["cases"]}
    assert by_name[order[0].name]["lax"]["absent"] == "failed: no answer in 300 s"
    assert by_name[order[0].name]["jaxdml"]["timing"]
    assert {each["absent"] for each in by_name[order[1].name].values()} == {"failed: no answer in 300 s"}
    assert "The rest goes on" in capsys.readouterr().out
    report.write(found, tmp_path / "copy")
    assert report.read(tmp_path / "copy")["broken"] == found["broken"]
    # What a process says itself is not said again.
    monkeypatch.setattr(run.watching, "watch", lambda *_: f"its process ended with status {run._TOLD}")
    assert run.main([*QUICKLY, str(tmp_path / "told")]) == 2
    assert "status" not in capsys.readouterr().out
    monkeypatch.setattr(run.watching, "watch", watch)
    # Before any case has begun, there is nothing to leave out.
    assert run.main([*QUICKLY, str(tmp_path / "other"), "--visits", "2"]) == 2
    assert "what was measured is in" in capsys.readouterr().out


def test_a_peer_that_breaks_when_it_is_timed_is_named(monkeypatch):
    usual = one_case.interleaved

    def interleaved(runs, **how):
        if "lax" in runs:
            raise MemoryError("too little")
        return usual(runs, **how)

    monkeypatch.setattr(one_case, "interleaved", interleaved)
    found = one_case.measure(TINY[0], ["jaxdml", "lax"], rounds=1, budget_s=0.1)["contenders"]
    assert found["lax"]["absent"] == "failed: MemoryError: too little"
    assert found["jaxdml"]["timing"]


@pytest.mark.usefixtures("no_plots")
def test_a_process_that_nobody_watches_ends(monkeypatch, tmp_path):
    parents = itertools.count()
    monkeypatch.setattr(run.os, "getppid", lambda: next(parents))
    assert run.main([*QUICKLY, str(tmp_path), "--visit", "1"], cases=TINY) == 130
    assert report.read(tmp_path)["cases"] == []


@pytest.mark.usefixtures("no_plots")
def test_a_run_that_is_stopped_says_how_to_go_on(monkeypatch, tmp_path, capsys):
    def measure(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run.one_case, "measure", measure)
    assert run.main([*QUICKLY, str(tmp_path)], cases=TINY) == 130
    assert "the same command goes on" in capsys.readouterr().out
    assert report.read(tmp_path)["cases"] == []


def test_a_full_disk_is_said_in_a_line(monkeypatch, tmp_path, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal.os, "fsync", full)
    assert run.main([*QUICKLY, str(tmp_path)], cases=TINY) == 2
    assert "No space left on device" in capsys.readouterr().out


def test_a_device_that_jax_knows_by_another_name_is_timed_by_chains(monkeypatch):
    monkeypatch.setattr(environment, "platform", lambda: "another")
    monkeypatch.setattr(clocks.by_profiler, "_spans", lambda call, calls: [])
    clocks.clock.cache_clear()
    try:
        assert clocks.clock() == "chains"
    finally:
        clocks.clock.cache_clear()


def test_samples_stop_when_the_median_is_known(monkeypatch):
    monkeypatch.setattr(by_calls, "doze", lambda: None)
    monkeypatch.setattr(by_calls, "_warm", lambda run: 1e-3)
    monkeypatch.setattr(by_calls, "seconds", lambda run, calls=1: 1e-3 * calls)
    (known,) = by_calls.interleaved({"a": lambda: 0}, rounds=50, budget_s=10, spread=0.02).values()
    assert known.samples == by_calls.FEWEST
    noise = iter(np.random.default_rng(0).uniform(0.5, 2, 100))
    monkeypatch.setattr(by_calls, "seconds", lambda run, calls=1: 1e-3 * calls * next(noise))
    (unknown,) = by_calls.interleaved({"a": lambda: 0}, rounds=50, budget_s=10, spread=0.02).values()
    assert unknown.samples == 50


def test_all_nans_have_one_digest():
    one, other = np.array([1, np.nan], np.float32), np.array([0x3F800000, 0xFFC00001], np.uint32).view(np.float32)
    assert digest((one,)) == digest((other,))
    assert digest((one,)) != digest((-one,))
    assert digest((one,)) != digest((one[None],))


def test_each_word_of_the_command_names_a_module(capsys):
    for command in family.COMMANDS.values():
        assert importlib.util.find_spec(f"benchmarks.{command.module}")
    family.main(["--help"])
    assert all(word in capsys.readouterr().out for word in ("compare",))


Block = networks.Block
SMALL_MOBILE = networks.Image((Block(1, 8), Block(2, 8), Block(2, 12, 1, 2)), 32, 1280, 32, 10)
SMALL_RESIDUAL = networks.Image((Block(4, 32), Block(4, 64, 1, 2)), 64, size=32, classes=10)
SMALL_NETWORKS = {
    "mobilenet_v2": (lambda: networks.mobilenet_v2(Net("small"), SMALL_MOBILE), (3, 32, 32), 0),
    "resnet_50": (lambda: networks.resnet(Net("small"), SMALL_RESIDUAL), (3, 32, 32), 0),
    "bert_base": (lambda: networks.bert_base(Net("small"), networks.Text(1, 16, 2, 32, 50, 8)), (8,), 50),
    "resnet_50_trained": (lambda: networks.resnet(Net("small", spread=0.7), SMALL_RESIDUAL), (3, 32, 32), 0),
    "language_model": (lambda: networks.language_model_of_bytes(Sizes()), (whole_models.PROMPT + 1,), 256),
}


@pytest.fixture
def small_networks(monkeypatch):
    """Make a small network wherever a whole one is asked for."""
    monkeypatch.setattr(networks, "NETWORKS", {name: made for name, (made, _, _) in SMALL_NETWORKS.items()})
    networks.made.cache_clear()
    yield {
        name: whole_models.call(name, 2, whole_models.Network("a test", shape, words, 10, 100, 1000))
        for name, (_, shape, words) in SMALL_NETWORKS.items()
    }
    networks.made.cache_clear()


@pytest.mark.parametrize("name", list(SMALL_NETWORKS))
def test_whole_models_are_near_their_floats(small_networks, name):
    case = small_networks[name]
    draws = [case.draw(np.random.default_rng(0))]
    judge = Judge(case, draws[0])
    others = [] if name == "language_model" else ["jaxdml QDQ"]
    for peer in (*others, "jaxdml", "jaxdml float32", "jaxdml bfloat16", "onnxruntime", "onnxruntime float32"):
        contender = prepare(peer, case, draws)
        contender.run()
        given = contender.answers(contender.run())
        assert judge.judge(given, contender.promises).accepted, peer
        assert not judge.judge((given[0] * np.float32(1.2),), contender.promises).accepted, peer
        assert not judge.judge((given[0][:1],), contender.promises).accepted, peer
    assert not judge.judge((given[0] * np.float32("nan"),), "int8").accepted


@pytest.mark.usefixtures("no_plots")
def test_a_whole_model_is_a_case_like_others(small_networks, tmp_path, capsys):
    case = small_networks["mobilenet_v2"]
    among = ["--peers", "jaxdml", "onnxruntime", "lax", "--out", str(tmp_path)]
    assert run.main(["mobilenet_v2", *among], cases=(case, *TINY)) == 0
    (found,) = report.read(tmp_path)["cases"]
    assert found["contenders"]["jaxdml"]["timing"]
    assert found["contenders"]["lax"]["absent"] == "no way of its own"
    # What is only near has no digest that another device would give.
    assert found["digest"] is None
    assert "mobilenet_v2 batch 2" in capsys.readouterr().out
    shutil.copytree(tmp_path, tmp_path / "results" / "here")
    page = document.pages(tmp_path / "results")["benchmarks/here.md"]
    assert "## Whole models" in page
    assert "ten in flight" not in page


@pytest.mark.usefixtures("no_plots")
@long
def test_whole_models_on_an_accelerator_have_the_wall_time_of_a_call(small_networks, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(environment, "platform", lambda: "another")
    monkeypatch.setattr(by_calls, "IN_FLIGHT", 2)
    models = small_networks["mobilenet_v2"], small_networks["language_model"]
    among = ["--peers", "jaxdml", "onnxruntime", "--out", str(tmp_path / "here"), "--clock", "calls", "--cases", "*"]
    assert run.main(among, cases=(*models, TINY[0])) == 0
    for case in report.read(tmp_path / "here")["cases"]:
        walls = {peer: one["wall_us"] for peer, one in case["contenders"].items()}
        assert (walls["jaxdml"] is None) == (case["group"] != whole_models.GROUP)
        assert walls["onnxruntime"] is None
    assert "by the wall" in " ".join(capsys.readouterr().out.split())
    assert (
        "in brackets the wall time of a call from Python, with ten in flight."
        in (document.pages(tmp_path)["benchmarks/here.md"])
    )


def test_channels_differ_as_those_of_trained_networks_do():
    factors = Net("spread", spread=0.7).channels(10_000)
    assert np.mean(factors**2) == pytest.approx(1, rel=1e-5)
    alive = factors[factors > 1e-4]
    assert 0.98 < len(alive) / len(factors) < 0.999
    assert np.std(np.log2(alive)) == pytest.approx(0.7, rel=0.03)
    assert (Net("alike").channels(9) == 1).all()


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet_50"])
def test_what_is_known_of_a_network_is_so(name):
    made, known = networks.NETWORKS[name](), whole_models.NETWORKS[name]
    assert networks.multiplications(made) == known.multiplications
    assert sum(math.prod(each.dims) for each in made.graph.initializer) == known.weights


def test_what_is_known_of_transformers_follows_from_their_sizes():
    small = networks.Text(2, 16, 2, 32, 50, 8)
    encoder = small.layers * (4 * small.hidden**2 + 2 * small.hidden * small.wide)
    attention = small.layers * 2 * small.length * small.hidden
    assert networks.multiplications(networks.bert_base(Net("small"), small)) == small.length * (encoder + attention)
    assert whole_models.NETWORKS["language_model"].weights == networks.SMALL_DECODER.weights
    assert whole_models.NETWORKS["bert_base"].shape == (networks.ENCODER.length,)


def test_what_a_case_lacks_is_said(monkeypatch):
    def draw(random):
        raise ModuleNotFoundError("No module named 'onnx'", name="onnx")

    def huge(random):
        raise MemoryError("too much")

    for way, reason in ((draw, "onnx is not installed"), (huge, "failed: MemoryError: too much")):
        found = one_case.measure(dataclasses.replace(TINY[0], draw=way), ["jaxdml"], rounds=1, budget_s=0.1)
        assert found["contenders"]["jaxdml"]["absent"] == reason


OF_TWO = tuple(
    sharded.over(case, letter, 2)
    for case, letter in (
        (top_k("sharded", 2, 64, 3, "float32", "decreasing"), "n"),
        (top_k("growth in devices", 2, 64, 3, "float32", "decreasing"), "b"),
        (argmax.call("sharded", (2, 64), "float32"), "n"),
        (gather.call("sharded", (8, 3), (5,), "float32"), "m"),
        (scatter_nd.call("sharded", (8, 2), 3, "float32", memory="copied"), "m"),
        (multiply("sharded", (), 4, 8, 6, "int8", "int8"), "m"),
        (multiply("sharded", (), 4, 8, 6, "int8", "int8"), "n"),
        (multiply("growth in devices", (), 4, 8, 6, "int8", "int8"), "k"),
        (quantized_convolution.call("sharded", Layer("a test", 4, 6, 8, 3), 2, "uint8", "int8"), "n"),
    )
)
needs_two = pytest.mark.skipif(jax.device_count() < 2, reason="needs two devices")


@needs_two
@long
def test_sharded_cases_are_measured_and_shown(tmp_path, capsys):
    arguments = [
        "--devices",
        "2",
        "--commit",
        "abc",
        "--peers",
        "jaxdml",
        "jaxdml auto axes",
        "jaxdml one device",
        "lax",
        "numpy",
    ]
    assert run.main([*arguments, "--out", str(tmp_path / "here")], cases=OF_TWO) == 0
    found = report.read(tmp_path / "here")
    assert (found["environment"]["devices"], found["environment"]["commit"]) == (2, "abc")
    assert len(found["cases"]) == len(OF_TWO)
    for case in found["cases"]:
        assert case["name"].endswith(" over 2")
        for peer in ("jaxdml", "jaxdml auto axes", "jaxdml one device", "lax"):
            verdict = case["contenders"][peer]["verdict"]
            assert verdict["accepted"], (peer, case["name"])
        assert case["contenders"]["numpy"]["absent"] == "no way of its own"
        assert case["digest"]
    assert (tmp_path / "here" / "growth-in-devices.png").exists()
    page = document.pages(tmp_path)["benchmarks/here.md"]
    assert ", as 2 devices\n" in page
    assert report.title(found["environment"] | {"platform": "gpu", "device": "a GPU"}) == "2 x a GPU"
    assert "## Sharded calls" in page
    assert "## Work that grows with the devices" in page
    assert "Efficiency: " not in page
    # A report of another number of devices is another report.
    assert run.main([*QUICKLY, str(tmp_path / "here")], cases=TINY) == 2
    assert "devices 2, not 1" in capsys.readouterr().out


def test_efficiency_is_the_time_of_one_device_by_that_of_several():
    def case(devices, us):
        timing = {"median_us": us, "spread": 0.01, "low_us": us, "high_us": us, "samples": 9}
        contenders = {"jaxdml": {"timing": timing, "verdict": {"accepted": True}}}
        name = f"a test over {devices}"
        return {
            "group": "growth in devices",
            "operator": "top_k",
            "at": devices,
            "name": name,
            "contenders": contenders,
        }

    (said,) = document._efficiency([case(1, 90), case(4, 100)])
    assert "| `a test over 4` | 4 | 90% |" in re.sub(" +", " ", said)
    assert not list(document._efficiency([case(4, 100)]))


def test_a_collective_counts_without_waiting():
    span = by_profiler.Span
    one = [span(0, 10, "fusion"), span(10, 90, "ncclDevKernel_AllReduce")]
    other = [span(0, 12, "fusion"), span(12, 32, "ncclDevKernel_AllReduce")]
    first, second = by_profiler._without_waiting([one, other])
    assert (first, second) == ([one[0], one[1]._replace(end=30)], other)


@needs_two
def test_sharded_arguments_are_sharded():
    for case in OF_TWO:
        contender = prepare("jaxdml", case, [case.draw(np.random.default_rng(0))])
        (first, *_) = jax.tree.leaves(contender.run())
        assert len(first.sharding.device_set) == 2, case.name


def test_every_operator_has_sharded_cases():
    found = sharded.cases(4)
    assert {case.operator for case in found} == set(OPERATORS)
    assert {sharded.devices_of(case) for case in found} == {1, 2, 4}
    assert {case.at for case in found if case.group == sharded.GROWTH} == {1, 2, 4}
    assert len({case.name for case in found}) == len(found)
    assert set(plots._COLOURS) <= set(plots._MARKERS) | {"onnxruntime float32", "torch.compile bfloat16"}
    assert all(map(sharded._can_be, found))


def test_the_headline_is_drawn_where_devices_have_other_operators(tmp_path):
    devices = {"a CPU": {"top_k": [0.5, 8.0], "gather": [1.0]}, "a GPU": {"argmax": [0.9]}}
    assert plots.draw_headline(devices, tmp_path / "headline.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--devices", "4096"], "not 4096"),
        (["--devices", "0"], "from 1 on"),
        (["nothing_like_this"], "no operator nothing_like_this"),
        (["--cases", "nothing like this"], "no case matches"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_line(tmp_path, capsys, arguments, said):
    try:
        status = run.main([*arguments, "--out", str(tmp_path / "new")])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    output = capsys.readouterr()
    assert said in output.out + output.err
    assert not (tmp_path / "new").exists()
