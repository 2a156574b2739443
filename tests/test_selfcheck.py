"""``python -m jaxdml`` passes where all is well, and says what is not where something is broken."""

import dataclasses
import inspect
import itertools
import json
import platform
import statistics
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import __main__, _selfcheck, reference
from jaxdml._base.display import Display, RichDisplay, display
from jaxdml._cases import OPERATORS, quantized_linear_matrix_multiply, scatter_nd, top_k
from jaxdml._cases.data import FLOATS, INDEX_DTYPES, INTEGERS, TRAPS, WIDE, indices_for, unsigned
from jaxdml._cases.records import SHARDS, Example, Scenario
from jaxdml._selfcheck import ground, judging, planning, sharding
from jaxdml._selfcheck.batches import Batch, answers
from jaxdml._selfcheck.planning import CHECKS, EXAMPLES, Check, Race
from jaxdml._selfcheck.sharding import sharded_checks
from tests.kit import bits, quick
from tests.kit.meshes import COUNT, needs_devices

pytestmark = quick

RECORDS = {record.name: record for record in OPERATORS}
ROW_KEYS = {"operator", "dtype", "size", "cases", "outputs", "digest", "agrees", "failure", "timing", "placement"}
SMALL_RACES = (
    Race(RECORDS["top_k"], top_k.call("races", 3, 50, 4, "int8", "decreasing")),
    Race(RECORDS["scatter_nd"], scatter_nd.call("races", (9, 4), 5, "float32", memory="copied")),
    Race(
        RECORDS["quantized_linear_matrix_multiply"],
        quantized_linear_matrix_multiply.call("races", (), 5, 6, 7, "uint8", "int8"),
    ),
)


def check_of(operator, scenarios=(0,)):
    """Return the first check of an operator, with these scenarios alone."""
    record = RECORDS[operator]
    few = dataclasses.replace(
        record, programs=10**6, scenarios=lambda dtype: tuple(record.scenarios(dtype)[number] for number in scenarios)
    )
    return Check(few, record.dtypes[0])


def sharded_check_of(operator, dimension, means, dtype="int8", devices=COUNT):
    """Return one sharded check of an operator."""
    found = {
        (check.operator, check.dtype, check.placement.dimension, check.placement.means): check
        for check in sharded_checks(True, devices)
    }
    return found[operator, dtype, dimension, means]


@pytest.fixture
def only(monkeypatch):
    """Leave these checks and races, so that a test takes a second."""

    def leave(*checks, sharded=(), races=()):
        monkeypatch.setattr(_selfcheck, "CHECKS", tuple(checks))
        monkeypatch.setattr(_selfcheck, "sharded_checks", lambda thorough, devices: tuple(sharded))
        monkeypatch.setattr(_selfcheck, "races", lambda thorough: tuple(races))
        monkeypatch.setattr(_selfcheck, "EXAMPLES", EXAMPLES[:1])
        monkeypatch.setattr(_selfcheck, "SHARE", 0.1)
        monkeypatch.setattr(ground, "look", lambda platform: [])

    return leave


@pytest.fixture
def no_rich(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)


def run(tmp_path, *arguments):
    file = tmp_path / "report.json"
    status = __main__.main([*arguments, "--json", str(file)])
    return status, json.loads(file.read_text())


def test_cases_in_a_loop_may_lack_arguments():
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, shape, np.int8) for shape in ((3, 1, 2, 4, 4), (3, 5, 2, 1, 1)))
    scenario = Scenario("", lambda *_: (), {}, 3, "one after another")
    batch = Batch("convolution_integer", scenario, (x, None, w, None))
    for ours, oracle in zip(batch.ours(), batch.oracle(), strict=True):
        np.testing.assert_array_equal(ours, oracle)


def test_it_passes_and_writes_everything_down(only, tmp_path, monkeypatch, capsys):
    checks = [
        check_of("top_k", (0, 6)),  # The second one goes through few rows one after another.
        check_of("quantized_linear_matrix_multiply", (3,)),
        check_of("scatter_nd", (0, 7)),
        check_of("scatter_elements"),
    ]
    only(*checks)
    # All of them hold: test_cases.py.
    examples = tuple({example.operator: example for example in EXAMPLES}.values())
    monkeypatch.setattr(_selfcheck, "EXAMPLES", examples)
    status, report = run(tmp_path)
    assert status == 0
    assert set(report) == {
        *("devices", "versions", "seed", "thorough", "ground", "examples", "rows"),
        *("digest", "sharded_digest", "agrees", "seconds"),
    }
    assert report["agrees"] is True
    assert report["versions"]["jax"] == jax.__version__
    assert report["versions"]["python"] == platform.python_version()
    assert set(report["versions"]) == {"jaxdml", "jax", "jaxlib", "numpy", "python"}
    assert [set(device) for device in report["devices"]] == [{"platform", "kind", "count"}]
    assert sum(device["count"] for device in report["devices"]) == jax.device_count()
    assert len(report["examples"]) == len(examples) == len(RECORDS)
    assert all(example["agrees"] for example in report["examples"])

    ran = [(row["operator"], row["dtype"]) for row in report["rows"]]
    assert ran == [(check.operator, check.dtype) for check in checks]
    for row in report["rows"]:
        assert set(row) == ROW_KEYS
        assert (row["agrees"], row["failure"], row["timing"], row["placement"]) == (True, None, None, None)
        assert 0 < row["cases"] <= row["outputs"]
        assert len(row["digest"]) == 64
    assert len({row["digest"] for row in report["rows"]}) == len(ran)

    assert report["sharded_digest"] is None

    shown = capsys.readouterr().out
    assert "sharded" not in shown
    assert f"jax {jax.__version__}" in shown
    assert f"{jax.device_count()} x {jax.default_backend()}" in shown
    assert report["digest"][:16] in shown
    assert (
        f"Bits: right. {len(ran)} of {len(ran)} checks and {len(examples)} of {len(examples)} worked examples" in shown
    )
    assert "Speed" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_every_operator_and_every_example_is_run():
    public = {name for name in jaxdml.__all__ if hasattr(reference, name)}
    assert set(RECORDS) == public
    assert {check.operator for check in CHECKS} == public
    assert {example.operator for example in EXAMPLES} == public
    for thorough in (False, True):
        races = planning.races(thorough)
        assert {race.operator for race in races} == {name for name in public if thorough or RECORDS[name].raced}
        assert all(race.call in race.record.races for race in races)
        for race in races:
            assert any(dtype.startswith(race.call.dtype) for dtype in race.record.dtypes)
    assert 0 < len(planning.races(False)) < len(public) < len(planning.races(True))


@pytest.mark.parametrize("record", OPERATORS, ids=lambda record: record.name)
def test_the_default_spreads_a_few_programs_over_dtypes_and_layouts(record):
    every, few = (
        [(dtype, number) for dtype in record.dtypes for number, _ in Check(record, dtype).scenarios(thorough)]
        for thorough in (True, False)
    )
    count = len(record.scenarios(record.dtypes[0]))
    assert every == [(dtype, number) for dtype in record.dtypes for number in range(count)]
    assert set(few) < set(every)
    dtypes, numbers = map(set, zip(*few, strict=True))
    assert len(dtypes) == min(record.programs, len(record.dtypes))
    assert len(numbers) == min(record.programs, count)
    assert len(few) == max(len(dtypes), len(numbers))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.label)
def test_every_layout_can_be_drawn_and_answered_by_the_oracle(check):
    for number, scenario in check.scenarios(thorough=True):
        batch = Batch(check.operator, scenario, scenario.draw(planning.generator(0, str(number)), 1))
        assert len(batch.first) == len(batch.oracle()[0])
        assert all(argument is None or len(argument) == len(batch.first) for argument in batch.arguments)


def test_layouts_that_promise_nans_and_infinities_draw_them():
    for check in CHECKS:
        for _, scenario in check.scenarios(thorough=True):
            if "NaN" in scenario.trap:
                drawn = scenario.draw(planning.generator(0, check.label), scenario.cases)
                floats = [x for x in drawn if x is not None and x.dtype.kind not in "iu"]
                assert floats
                with np.errstate(invalid="ignore"):  # Of signalling NaNs.
                    assert all(np.isnan(x).any() and np.isinf(x).any() for x in floats)


@pytest.mark.parametrize("record", OPERATORS, ids=lambda record: record.name)
def test_every_operator_is_run_sharded_in_every_way_that_it_has(record):
    every, default = (
        [check for check in sharded_checks(thorough, 8) if check.operator == record.name] for thorough in (True, False)
    )
    assert {check.dtype for check in every} == set(record.dtypes)
    assert {check.dtype for check in default} == set(record.sharded_dtypes)
    takes_axis_name = "axis_name" in inspect.signature(getattr(jaxdml, record.name)).parameters
    by_name = {"shard_map"} if takes_axis_name else set()
    assert {check.placement.means for check in default} == {"Explicit axes"} | by_name
    assert {check.placement.means for check in every} == {"Explicit axes", "Auto axes"} | by_name
    assert {check.label for check in default} < {check.label for check in every}


@pytest.mark.parametrize("record", OPERATORS, ids=lambda record: record.name)
def test_sharded_cases_can_be_drawn_and_divided_among_the_devices(record):
    drawn = {}
    for check in sharded_checks(False, 8):
        if check.operator == record.name:
            drawn.setdefault((check.dtype, check.placement.dimension), check)
    for check in drawn.values():
        for batch in check.batches(0, 1.0, thorough=False):
            results = jax.tree.leaves(jax.eval_shape(batch.program(), *batch.arguments))
            arrays, specs = (*batch.arguments, *results), itertools.chain(*batch.specs)
            sizes = [array.shape[len(spec) - 1] for array, spec in zip(arrays, specs, strict=True) if spec]
            assert {size % SHARDS for size in sizes} == {0}
            assert len(set(sizes)) == 1


@pytest.mark.parametrize(("devices", "shards"), [(1, 0), (2, 2), (3, 2), (8, 8), (100, 16)])
def test_a_mesh_takes_the_largest_power_of_two_that_divides(devices, shards):
    assert {check.placement.devices for check in sharded_checks(False, devices)} == ({shards} if shards else set())


SHARDED = (
    ("top_k", "axis", "Explicit axes"),
    ("scatter_nd", "rows", "shard_map"),
    ("scatter_elements", "other axis", "Auto axes"),
)


@needs_devices
def test_sharded_checks_are_judged_and_have_a_digest_of_their_own(only, monkeypatch, tmp_path, capsys):
    one_at_a_time = []
    monkeypatch.setattr(
        sharding, "answers", lambda result: one_at_a_time.append(sharding._RUNNING.locked()) or answers(result)
    )
    only(check_of("scatter_nd"))
    alone = run(tmp_path)[1]
    reports = []
    for devices in dict.fromkeys((2, COUNT)):
        only(check_of("scatter_nd"), sharded=[sharded_check_of(*names, devices=devices) for names in SHARDED])
        capsys.readouterr()
        status, report = run(tmp_path)
        assert (status, report["agrees"]) == (0, True)
        rows = [row for row in report["rows"] if row["placement"]]
        assert len(rows) == len(report["rows"]) - 1
        assert {(row["operator"], *row["placement"].values()) for row in rows} == {
            (operator, dimension, devices, means) for operator, dimension, means in SHARDED
        }
        shown = capsys.readouterr().out
        assert report["sharded_digest"][:16] in shown
        assert f"also sharded over {devices} devices" in shown
        reports.append(report)
    assert {report["digest"] for report in reports} == {alone["digest"]}
    assert len({report["sharded_digest"] for report in reports}) == 1
    assert one_at_a_time == [True] * len(SHARDED) * len(reports)


@needs_devices
def test_a_shard_that_takes_indices_for_its_own_is_found(only, monkeypatch, tmp_path, capsys):
    right = jaxdml.scatter_nd
    sharded = [sharded_check_of("scatter_nd", "rows", means) for means in ("shard_map", "Explicit axes")]
    monkeypatch.setattr(jaxdml, "scatter_nd", lambda *arguments, **o: right(*arguments, **o | {"axis_name": None}))
    only(check_of("scatter_nd"), sharded=sharded)
    status, report = run(tmp_path)
    assert status == 1
    (wrong,) = (row for row in report["rows"] if not row["agrees"])
    assert wrong["placement"] == {"dimension": "rows", "devices": COUNT, "means": "shard_map"}
    placed = f"rows sharded over {COUNT} devices with shard_map"
    assert placed in wrong["failure"]["case"]
    assert f"scatter_nd, int8, {placed}, disagrees with the oracle" in capsys.readouterr().out


@pytest.mark.parametrize("operator", ["top_k", "scatter_nd", "scatter_elements"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_thorough_run_has_thousands_of_cases(operator, dtype):
    batches = list(Check(RECORDS[operator], dtype).batches(0, _selfcheck.SHARE, thorough=True))
    # What "one after another" counts as a case are some rows.
    assert sum(batch.first[..., 0].size if operator == "top_k" else len(batch.first) for batch in batches) >= 2000
    assert len({repr(batch.scenario.options) for batch in batches}) > 1


def test_the_examples_are_those_that_the_oracle_gives():
    for example in EXAMPLES:
        got = answers(getattr(reference, example.operator)(*example.arguments, **example.options))
        for answer, expected in zip(got, example.expected, strict=True):
            np.testing.assert_array_equal(bits(answer), bits(expected), strict=True)


@pytest.mark.parametrize("dtype", INDEX_DTYPES, ids=str)
def test_indices_are_just_outside_wild_and_in_range(dtype):
    info = np.iinfo(dtype)
    drawn = indices_for(np.random.default_rng(0), (3, 5), (2000, 2), dtype)
    for size, column in zip((3, 5), drawn.T, strict=True):
        near = set(range(-size - 2, size + 3))
        wild = {info.min, info.max, 2**32, 2**32 + 1, -(2**32)}
        assert set(column.tolist()) == {value for value in near | wild if info.min <= value <= info.max}
    within = indices_for(np.random.default_rng(0), 5, (2000,), dtype, out_of_range=False)
    assert set(within.tolist()) == set(range(max(-5, info.min), 5))


@pytest.mark.parametrize("dtype", FLOATS + WIDE + INTEGERS, ids=str)
def test_every_trap_keeps_its_shape_and_dtype(dtype):
    for make in TRAPS.values():
        for shape in ((), (0,), (7,), (2, 0, 3), (2, 3, 130)):
            drawn = make(np.random.default_rng(0), shape, dtype)
            assert (drawn.shape, drawn.dtype) == (shape, dtype)


def test_quantized_cases_hold_true_ties():
    batch = next(check_of("quantized_linear_matrix_multiply").batches(0, 1.0, thorough=True))
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, _ = (
        part.astype(np.float64).reshape(len(part), *(part.shape[1:] or (1, 1))) for part in batch.arguments
    )
    quotients = (a - a_zero) @ (b - b_zero) * (a_scale * b_scale / output_scale)
    ties = (quotients % 1 == 0.5) & (np.abs(quotients) < 100)
    assert ties.mean() > 0.02


def test_sequences_cross_the_sizes_at_which_the_method_changes():
    record = RECORDS["top_k"]
    batches = list(Check(record, "float32").batches(0, 0, thorough=True))
    sizes = {(b.first.shape[-1], b.scenario.options["k"]) for b in batches}
    assert {n for n, _ in sizes} >= {1, 7, 64}
    for pruning in top_k.PRUNINGS:
        pruned = {size for size in sizes if pruning.pays(*size)}
        assert len(pruned) >= 2
        assert {n for n, _ in sizes - pruned} >= {pruning.min_length - 1, pruning.min_length}
    # A call of few rows has its own methods, and its own pruning.
    of_few = {b.first.shape[-1] for b in batches if b.first.ndim == 3 and b.first.shape[1] < top_k.MANY_ROWS}
    least = top_k.PRUNING_OF_FEW_ROWS.min_length
    assert of_few >= {least - 1, least}


def _last_bit_flipped(operator, once_in):
    """Flip the last bit of what an operator answers (of the last answer, if it gives several) where a case hashes to 0.

    Where cases are drawn as rows of one batch, each row has a hash of its own.
    """
    right, record = getattr(jaxdml, operator), RECORDS[operator]
    in_rows = any(scenario.way == "all at once" for scenario in record.scenarios(record.dtypes[0]))

    def broken(x, *arguments, **options):
        answered = right(x, *arguments, **options)
        *others, answer = jax.tree.leaves(answered)
        patterns = jax.lax.bitcast_convert_type(x, unsigned(x.dtype)).astype(np.uint32)
        axis = options.get("axis", -1) if in_rows else None
        flip = patterns.sum(axis, keepdims=in_rows, dtype=np.uint32) % once_in == 0
        if flip.ndim > answer.ndim:
            flip = flip.squeeze(axis)
        pattern = jax.lax.bitcast_convert_type(answer, unsigned(answer.dtype))
        flipped = jax.lax.bitcast_convert_type(pattern ^ flip.astype(pattern.dtype), answer.dtype)
        return jax.tree.unflatten(jax.tree.structure(answered), [*others, flipped])

    return broken


@pytest.mark.parametrize("operator", RECORDS)
def test_a_broken_operator_fails_and_is_named(operator, only, monkeypatch, tmp_path, capsys):
    only(check_of(operator), check_of("scatter_nd" if operator == "top_k" else "top_k"))
    broken = _last_bit_flipped(operator, once_in=4)
    monkeypatch.setattr(jaxdml, operator, broken)
    status, report = run(tmp_path, "--seed", "5", "--thorough")
    assert status == 1
    assert report["agrees"] is False
    assert [row["operator"] for row in report["rows"] if not row["agrees"]] == [operator]

    failure = next(row["failure"] for row in report["rows"] if not row["agrees"])
    assert failure["case"].startswith("case ")
    assert f'"{RECORDS[operator].scenarios(RECORDS[operator].dtypes[0])[0].trap}"' in failure["case"]
    shown = capsys.readouterr().out
    for text in (
        failure["call"],
        failure["case"],
        failure["difference"],
        "python -m jaxdml --seed 5 --thorough",
        "WRONG",
    ):
        assert text in shown

    # What was written down is enough to see it again.
    inputs = [
        None if value is None else np.frombuffer(bytes.fromhex(value["hex"]), value["dtype"]).reshape(value["shape"])
        for value in failure["inputs"].values()
    ]
    got = answers(broken(*inputs, **failure["options"]))
    right = answers(getattr(reference, operator)(*inputs, **failure["options"]))
    assert any((bits(ours) != bits(theirs)).any() for ours, theirs in zip(got, right, strict=True))


MISTAKES = {
    "signed zeros differ": ("top_k", 2, lambda call, x, k, **o: call(jnp.where(x == 0, jnp.abs(x), x), k, **o)),
    "values alone": ("top_k", 0, lambda call, x, k, **o: call(x, k, **o).values),
    "uint32 indices": ("top_k", 0, lambda call, x, k, **o: call(x, k, index_dtype="uint32", **o)),
    "drop is clip": ("scatter_nd", 0, lambda call, *a, mode, **o: call(*a, mode="clip", **o)),
    "64 bits are cut to 32": ("scatter_nd", 7, lambda call, x, i, u, **o: call(x, i.astype(np.int32), u, **o)),
    "it raises": ("scatter_elements", 0, lambda call, *a, **o: 1 // 0),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_typical_mistakes_are_found(mistake, only, monkeypatch, tmp_path):
    operator, scenario, wrong = MISTAKES[mistake]
    only(*(check_of(name, (scenario,) if name == operator else (0,)) for name in dict.fromkeys(("top_k", operator))))
    right = getattr(jaxdml, operator)
    monkeypatch.setattr(jaxdml, operator, lambda *arguments, **options: wrong(right, *arguments, **options))
    monkeypatch.setattr(_selfcheck, "EXAMPLES", ())
    status, report = run(tmp_path)
    assert status == 1
    assert {row["operator"] for row in report["rows"] if not row["agrees"]} == {operator}
    (difference,) = (row["failure"]["difference"] for row in report["rows"] if not row["agrees"])
    assert ("raised" in difference) == ("raised ZeroDivisionError" in difference) == (mistake == "it raises")


def test_a_wrong_example_alone_fails(only, monkeypatch, tmp_path, capsys):
    only(check_of("scatter_nd"))
    first, second = EXAMPLES[:2]
    changed = Example(first.operator, first.arguments, {**first.options, "k": 1}, first.expected)
    monkeypatch.setattr(_selfcheck, "EXAMPLES", (changed, second))
    status, report = run(tmp_path)
    assert status == 1
    assert [example["agrees"] for example in report["examples"]] == [False, True]
    assert all(row["agrees"] for row in report["rows"])
    shown = capsys.readouterr().out
    assert "1 of 2 worked examples" in shown
    assert report["examples"][0]["difference"] in shown


def test_the_seed_decides_the_data_and_other_rows_and_their_order_nothing(only, tmp_path):
    def ran(seed, *operators):
        only(*(check_of(operator, (7,)) for operator in operators))
        report = run(tmp_path, "--seed", seed)[1]
        return report["digest"], {row["operator"]: row["digest"] for row in report["rows"]}

    both = ran("1", "scatter_nd", "scatter_elements")
    assert both == ran("1", "scatter_elements", "scatter_nd")
    assert both[1]["scatter_elements"] == ran("1", "scatter_elements")[1]["scatter_elements"]
    assert both[0] != ran("2", "scatter_nd", "scatter_elements")[0]


def test_races_are_timed_and_judged(only, tmp_path, capsys):
    only(check_of("top_k"), races=SMALL_RACES)
    status, report = run(tmp_path)
    assert status == 0
    timed = [row for row in report["rows"] if row["timing"]]
    assert sorted(row["operator"] for row in timed) == sorted(race.operator for race in SMALL_RACES)
    assert {row["operator"]: (row["cases"], row["outputs"]) for row in timed} == {
        "top_k": (1, 16),
        "scatter_nd": (1, 36),
        "quantized_linear_matrix_multiply": (1, 28),
    }
    shown = capsys.readouterr().out
    for row in timed:
        timing = row["timing"]
        assert timing["repeats"] == judging.REPEATS
        for side in ("ours", "stock"):
            assert (
                0 < timing[side]["lower_quartile_ms"] <= timing[side]["median_ms"] <= timing[side]["upper_quartile_ms"]
            )
        assert timing["ratio"] == pytest.approx(timing["stock"]["median_ms"] / timing["ours"]["median_ms"])
        (line,) = (line for line in shown.splitlines() if row["operator"] in line and row["size"] in line)
        numbers = timing["ours"]["median_ms"], timing["stock"]["median_ms"], timing["ratio"]
        assert list(map(float, line.rstrip("?").split()[-3:])) == pytest.approx(numbers, rel=0.006)
        assert line.endswith("?") == (not timing["steady"])
    assert "may differ" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("disturbed", [0, 1, 3])
def test_the_speed_is_that_of_the_calls_that_nothing_disturbed(disturbed, only, monkeypatch, tmp_path, capsys):
    only(races=SMALL_RACES)
    times = iter(range(3))

    def timed(*_):
        number = next(times)
        spread = judging.Spread(1.0, 0.9, 1.1)
        return judging.Timing(spread, spread, 2.0 + number, 7, steady=number >= disturbed)

    monkeypatch.setattr(judging, "_time", timed)
    assert run(tmp_path)[0] == 0
    shown = capsys.readouterr().out
    ratios = [2.0, 3.0, 4.0][disturbed:]
    assert ("Speed" in shown) == bool(ratios)
    if ratios:
        assert (
            f"takes {statistics.geometric_mean(ratios):.2f} times as long in the geometric mean of {len(ratios)} calls"
            in shown
        )
        assert f"from {ratios[0]:.2f} (" in shown
        assert f"to {ratios[-1]:.2f} (" in shown
    assert (f"{disturbed} calls with a ?" in shown) == (disturbed > 0)


@pytest.mark.parametrize(("seconds", "steady"), [([1.0], True), ([1.0, 5.0, 2.0], False)])
def test_a_time_with_quartiles_far_apart_is_not_steady(seconds, steady, monkeypatch):
    each = itertools.cycle(seconds)
    clock = itertools.chain.from_iterable((0.0, next(each)) for _ in itertools.count())
    monkeypatch.setattr(judging.time, "perf_counter", lambda: next(clock))
    assert judging._time(lambda: (), lambda: (), ()).steady == steady


def test_a_race_that_answers_wrongly_is_not_timed(only, monkeypatch, tmp_path):
    only(races=SMALL_RACES[:1])
    monkeypatch.setattr(jaxdml, "top_k", _last_bit_flipped("top_k", once_in=1))
    status, report = run(tmp_path)
    (row,) = report["rows"]
    assert status == 1
    assert (row["agrees"], row["timing"]) == (False, None)
    assert "row 0 of the 2 compared" in row["failure"]["case"]


@pytest.mark.parametrize("race", planning.races(True), ids=lambda race: race.label)
def test_the_stock_forms_answer_the_same_question(race):
    arguments = jax.eval_shape(lambda: race.call.draw(np.random.default_rng(0)))
    ours = jax.eval_shape(lambda *a: getattr(jaxdml, race.operator)(*a, **race.call.keywords), *arguments)
    stock = jax.eval_shape(race.record.stock(race.call), *arguments)
    assert [part.shape for part in jax.tree.leaves(ours)] == [part.shape for part in jax.tree.leaves(stock)]


def test_without_rich_it_prints_lines(only, no_rich, tmp_path, capsys):
    assert type(display()) is Display
    only(check_of("top_k"), check_of("scatter_nd"), races=SMALL_RACES)
    status, _ = run(tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert [line.split("]")[0] for line in lines if line.startswith("[")] == [f"[{n}/5" for n in range(1, 6)]
    header = next(number for number, line in enumerate(lines) if line.startswith("operator"))
    table = lines[header : header + 4]
    assert sorted(line.split()[0] for line in table[1:]) == sorted(race.operator for race in SMALL_RACES)
    assert len({len(line) for line in table}) == 1


def test_with_rich_it_prints_a_table(only, tmp_path, capsys):
    pytest.importorskip("rich")
    assert type(display()) is RichDisplay
    only(check_of("top_k"), check_of("scatter_nd"), races=SMALL_RACES[:1])
    assert run(tmp_path)[0] == 0
    assert "─" * 20 in capsys.readouterr().out


def test_help_and_a_file_that_cannot_be_written_end_at_once(tmp_path, capsys):
    with pytest.raises(SystemExit, match="0"):
        __main__.main(["--help"])
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--thorough", "--json", "--seed"))
    for file in (tmp_path / "no such folder" / "file.json", tmp_path):
        with pytest.raises(SystemExit, match="2"):
            __main__.main(["--json", str(file)])
        assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(("agrees", "status"), [(True, 0), (False, 1)])
def test_without_json_the_exit_status_says_it_all(monkeypatch, agrees, status):
    monkeypatch.setattr(_selfcheck, "run", lambda **options: {"agrees": agrees, **options})
    assert __main__.main(["--seed", "3"]) == status


def test_an_absent_argument_is_written_as_null():
    assert judging._exactly(None) is None
