"""What sharded calls send between devices keeps the bounds. It is read from the HLO, so the reading is tested too."""

import math

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.cases.sharded_calls import CALLS
from benchmarks.cases.shardings import DEVICES, NOTHING, ONE, Bound, block, mesh_of, same, shards
from benchmarks.compiling import compilers
from benchmarks.compiling.collectives import Collective, collectives
from tests.kit import quick
from tests.sharded_calls import SMALL, WAYS, named

pytestmark = quick

HERE = jax.devices("cpu")
eight = pytest.mark.skipif(len(HERE) < DEVICES, reason=f"{DEVICES} CPU devices are needed; JAX sees {len(HERE)}")


@eight
@pytest.mark.parametrize(("call", "way"), WAYS, ids=named)
def test_a_sharded_call_keeps_its_bound(call, way):
    found = compilers.compiled(call, way, compilers.devices_of("cpu"))
    assert found["raises"] is None
    assert found["keeps"], found
    assert found["as_written"], found["results"]


@pytest.mark.parametrize("call", [*SMALL, *CALLS], ids=named)
def test_a_gather_of_the_data_would_break_the_bound(call):
    if call.sharding == "k above a shard's length":
        pytest.skip("there the keys and the indices that may be sent are more than the data")
    (data, *_), (spec, *_) = call.arguments, call.specs
    on_each = math.prod(block(call.axes, data.shape, tuple(spec)))
    for entry in filter(None, spec):
        assert on_each * shards(call.axes, entry) > max(call.bound_of(way).elements for way in call.ways)


def test_a_bound_can_be_broken():
    counted, uncounted = Bound("a rule", 100, 1), Bound("a rule", 100, None)
    for bound, elements, count, kept in (
        *((counted, 100, 1, True), (counted, 101, 1, False), (counted, 100, 2, False)),
        *((uncounted, 100, 2, True), (uncounted, 101, 1, False), (NOTHING, 0, 0, True), (NOTHING, 0, 1, False)),
    ):
        assert bound.keeps(elements, count) is kept
    assert compilers.summary([Collective("all-gather", 9, 36)], counted)["keeps"]
    assert not compilers.summary([Collective("all-gather", 9, 36, None)], counted)["keeps"]


def test_xla_chooses_the_collectives_under_auto_axes_only():
    for call in SMALL:
        for way in call.ways:
            assert (call.bound_of(way).collectives is None) is (way == "Auto" and call.bound != NOTHING)


def test_specs_are_compared_by_what_they_shard():
    assert same(P("d"), P(("d",), None))
    assert same(P(), P(None, None))
    assert not same(P("d"), P(None, "d"))
    assert not same(P(("d", "e")), P(("e", "d")))


def test_every_call_has_a_name_of_its_own():
    for calls in (SMALL, CALLS):
        assert len({call.name for call in calls}) == len(calls)


def everywhere(x):
    return lax.all_gather(x, "d", tiled=True)


PROGRAMS = {
    "nothing": (lambda x: x + 1, []),
    "a gather": (everywhere, [Collective("all-gather", 64, 256)]),
    "a sum": (lambda x: lax.psum(x, "d"), [Collective("all-reduce", 8, 32)]),
    "a sum of which each device keeps a part": (
        lambda x: lax.psum_scatter(x, "d", tiled=True),
        [Collective("reduce-scatter", 8, 32)],
    ),
    "a turn": (
        lambda x: lax.ppermute(x, "d", [(i, (i + 1) % DEVICES) for i in range(DEVICES)]),
        [Collective("collective-permute", 8, 32)],
    ),
    # Its operands and results are tuples on a CPU.
    "an exchange": (lambda x: lax.all_to_all(x, "d", 0, 0, tiled=True), [Collective("all-to-all", 8, 32)]),
    "two bytes an element": (lambda x: everywhere(x.astype(jnp.int16)), [Collective("all-gather", 64, 128)]),
    "two": (
        lambda x: (everywhere(x), lax.psum(x, "d")),
        [Collective("all-gather", 64, 256), Collective("all-reduce", 8, 32)],
    ),
    "five rounds of three": (
        lambda x: lax.fori_loop(0, 5, lambda _, x: lax.fori_loop(0, 3, lambda _, x: lax.psum(x, "d") - x, x), x),
        [Collective("all-reduce", 8, 32, 15)],
    ),
    "as many rounds as the data says": (
        lambda x: lax.while_loop(lambda x: x.max() < 9, lambda x: lax.psum(x, "d") + 1, lax.pmax(x, "d")),
        [Collective("all-reduce", 8, 32), Collective("all-reduce", 8, 32, None)],
    ),
    "a branch": (
        lambda x: lax.cond(x[0] > 0, lambda x: lax.psum(x, "d"), lambda x: x * 2, lax.pmax(x, "d")),
        [Collective("all-reduce", 8, 32)] * 2,
    ),
}


@eight
@pytest.mark.parametrize("name", PROGRAMS)
def test_collectives_are_read_from_a_program(name):
    function, expected = PROGRAMS[name]
    mesh = mesh_of(ONE, HERE[:DEVICES], AxisType.Auto)
    x = jax.ShapeDtypeStruct((64,), "int32", sharding=NamedSharding(mesh, P("d")))
    block = jax.shard_map(function, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    found = collectives(jax.jit(block).lower(x).compile().as_text())
    assert sorted(found, key=str) == sorted(expected, key=str)


def program(*lines, before=""):
    body = "".join(f"  {line}\n" for line in lines)
    return f"HloModule m\n\n{before}\nENTRY %main.1 (p: f32[8]) -> f32[64] {{\n{body}}}\n"


P0 = '%p = f32[8]{0:T(256)} parameter(0), sharding={devices=[8]<=[8]}, metadata={op_name="x[(0)]"}'
WRITTEN = {
    "a pair of start and done": (
        program(
            P0,
            "%s = (f32[8]{0}, f32[64]{0:T(256)S(1)}, u32[]{:S(2)}, u32[]{:S(2)}) all-gather-start(%p), dimensions={0}",
            "ROOT %d = f32[64]{0} all-gather-done(%s)",
        ),
        [Collective("all-gather", 64, 256)],
    ),
    "a pair whose start has no tuple": (
        program(P0, "%s = f32[8]{0} all-reduce-start(%p), to_apply=%add", "ROOT %d = f32[8]{0} all-reduce-done(%s)"),
        [Collective("all-reduce", 8, 32)],
    ),
    "several made one": (
        program(
            P0,
            "%q = bf16[3,5]{1,0} parameter(1)",
            "%r = (f32[8]{0}, /*index=1*/bf16[3,5]{1,0}) all-reduce(%p, /*index=1*/%q), channel_id=1, to_apply=%add",
            "ROOT %g = f32[8]{0} get-tuple-element(%r), index=0",
        ),
        [Collective("all-reduce", 23, 62)],
    ),
    "an asynchronous computation": (
        program(
            P0,
            "%s = ((f32[8]{0}), f32[8]{0}, s32[]) async-start(%p), calls=%wrapped",
            "%u = ((f32[8]{0}), f32[8]{0}, s32[]) async-update(%s), calls=%wrapped",
            "ROOT %d = f32[8]{0} async-done(%u), calls=%wrapped",
            before="%wrapped (w: f32[8]) -> f32[8] {\n  %w = f32[8]{0} parameter(0)\n"
            "  ROOT %a = f32[8]{0} all-to-all(%w), dimensions={0}\n}\n",
        ),
        [Collective("all-to-all", 8, 32)],
    ),
    "types with operands, bits and truth values": (
        program(
            "ROOT %r = (pred[16], s4[6,2]) collective-permute(pred[16] %p, s4[6,2]{1,0} %q)",
            "%p = pred[16] iota()",
            "%q = s4[6,2] iota()",
        ),
        [Collective("collective-permute", 28, 22)],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_collectives_are_read_from_a_text(name):
    text, expected = WRITTEN[name]
    assert collectives(text) == expected


def test_what_is_no_hlo_is_refused():
    for line in ("%a = f32[8]", "%a = f32[8] add(%p"):
        with pytest.raises(ValueError, match=r"instruction|parenthesis"):
            collectives(program(line))


@eight
def test_the_tool_saves_what_it_shows(tmp_path, capsys):
    pytest.importorskip("rich")
    from benchmarks.compiling import traffic
    from benchmarks.reporting import traffic_table
    from benchmarks.reporting.journal import rows

    file = tmp_path / "traffic.jsonl"
    assert traffic.main(["--calls", "scatter_nd: slices", "--platforms", "cpu", "--out", str(file)], SMALL) == 0
    shown = capsys.readouterr().out
    assert "nothing" in shown
    assert "2 of 2 rows keep their bound" in shown
    first, written = rows(file)
    assert first["versions"]["jax"] == jax.__version__
    assert [(row["sharding"], row["way"]) for row in written] == [("slices", "Auto"), ("slices", "Explicit")]
    for row in written:
        assert row["bound"] == NOTHING._asdict()
        assert set(row["compiled"]["cpu"]) == set(traffic_table.SIDES)
        assert row["compiled"]["cpu"]["jaxdml"]["elements"] == 0
    table = traffic_table.markdown(file)
    assert "| slices, `float32[64, 8]` | Auto | nothing | nothing | nothing |" in table
    assert f"jax {jax.__version__}" in table


def test_a_row_that_raises_or_breaks_its_bound_is_told(monkeypatch, tmp_path, capsys):
    pytest.importorskip("rich")
    from benchmarks.compiling import traffic

    broken = compilers.summary([Collective("all-gather", 64, 256)], NOTHING) | {"raises": None}
    answers = [broken, {"raises": "TypeError: no"}] * 2
    monkeypatch.setattr(compilers, "compiled", lambda *_, **__: answers.pop(0))
    chosen = ["--calls", "*slices", "--platforms", "cpu", "--out", str(tmp_path / "traffic.jsonl")]
    assert traffic.main(chosen, SMALL) == 1
    shown = capsys.readouterr().out
    assert "1 all-gather: 64" in shown
    assert "raises TypeError" in shown
    assert "0 of 2 rows keep their bound" in shown
