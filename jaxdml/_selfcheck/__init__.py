"""Compare this device with the oracle, bit for bit, and its speed with stock JAX: the work of ``python -m jaxdml``."""

import dataclasses
import hashlib
import inspect
import math
import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from itertools import islice
from typing import Any

import jax
import numpy as np

import jaxdml
from jaxdml import reference
from jaxdml._base.errors import describe
from jaxdml._selfcheck.cases import CHECKS, Check
from jaxdml._selfcheck.data import Answers, Arguments, Array, answers, unsigned
from jaxdml._selfcheck.display import Display, Side, display
from jaxdml._selfcheck.examples import EXAMPLES
from jaxdml._selfcheck.races import RACES, Race

CASES = 3000
"""Cases for each operator and dtype."""

QUICK_STRIDE, QUICK_SHARE = 3, 0.3
"""In a hurry, each dtype runs every third batch, its neighbours the others, with so much of its cases."""

REPEATS, SLOW_REPEATS, SLOW_SECONDS = 7, 3, 1.0
"""Timed runs of each side, and how many where a single one takes longer than ``SLOW_SECONDS``."""

_LARGEST_SHOWN = 2**16
"""Bytes of an argument up to which a failure holds all of it."""

Difference = tuple[int, str]
"""The case that differs first, and how."""


@dataclass(frozen=True)
class Failure:
    """A case that disagrees with the oracle, with all it takes to make it again."""

    call: str
    case: str
    difference: str
    inputs: Mapping[str, Mapping[str, Any] | None]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Spread:
    """The middle half of some times."""

    median_ms: float
    lower_quartile_ms: float
    upper_quartile_ms: float


@dataclass(frozen=True)
class Timing:
    """The times of both sides of a race, and how many times as long the stock form takes."""

    ours: Spread
    stock: Spread
    ratio: float
    repeats: int


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    operator: str
    dtype: str
    size: str
    cases: int
    outputs: int
    digest: str
    agrees: bool
    failure: Failure | None = None
    timing: Timing | None = None


def _bits(x: Array) -> Array:
    return np.ascontiguousarray(x).view(unsigned(x.dtype))


def _first_difference(got: Answers, expected: Answers) -> Difference | None:
    """Find the first case of which any bit differs."""
    if len(got) != len(expected):
        return 0, f"gave {len(got)} outputs, the oracle {len(expected)}"
    found = []
    for number, (ours, right) in enumerate(zip(got, expected, strict=True)):
        if (ours.dtype, ours.shape) != (right.dtype, right.shape):
            return 0, f"output {number} is {describe(ours)}, the oracle's {describe(right)}"
        for place in np.argwhere(_bits(ours) != _bits(right))[:1].tolist():
            here = tuple(place)
            shown = (f"{x[here]!s} (bits {int(_bits(x)[here]):#x})" for x in (ours, right))
            found.append((place[0], f"output {number} at {place[1:]}: got {{}}, the oracle says {{}}".format(*shown)))
    return min(found, default=None)


def _judge(
    ours: Callable[[], Any], expected: Answers, digest: Any = None, rows: int | None = None
) -> Difference | None:
    """Compare answers, or their first rows, with the oracle's, and add all of them to the digest."""
    try:
        got = answers(ours())
    except Exception as error:  # On a device that cannot run one operator, the others are still worth checking.
        return 0, f"raised {type(error).__name__}: {error}"
    for answer in got if digest else ():
        digest.update(answer.tobytes())
    return _first_difference(got if rows is None else tuple(answer[:rows] for answer in got), expected)


def _named(operator: str, arguments: Arguments) -> dict[str, Array | None]:
    return dict(zip(inspect.signature(getattr(reference, operator)).parameters, arguments, strict=False))


def _written(operator: str, arguments: Arguments, options: Mapping[str, Any]) -> str:
    """Write a call with the shapes of its arguments."""
    shown = [f"{name}: {describe(value)}" for name, value in _named(operator, arguments).items()]
    shown += [f"{name}={value!r}" for name, value in options.items()]
    return f"jaxdml.{operator}({', '.join(shown)})"


def _exactly(x: Array | None) -> Mapping[str, Any] | None:
    """Write an array for JSON, bit for bit; a large one by its shape alone."""
    if x is None:
        return None
    described = {"dtype": str(x.dtype), "shape": list(x.shape)}
    return described | ({"hex": x.tobytes().hex()} if x.nbytes <= _LARGEST_SHOWN else {})


def _failure(plan: Check | Race, arguments: Arguments, options: Mapping[str, Any], case: str, how: str) -> Failure:
    inputs = {name: _exactly(value) for name, value in _named(plan.operator, arguments).items()}
    return Failure(_written(plan.operator, arguments, options), case, how, inputs, options)


def check(plan: Check, rng: np.random.Generator, cases: int, batches: slice) -> Row:
    """Compare an operator and dtype with the oracle, in a slice of its batches."""
    digest, failure, shapes, total, outputs = hashlib.sha256(), None, [], 0, 0
    for batch in islice(plan.draw(rng, cases), batches.start, batches.stop, batches.step):
        expected = batch.oracle()
        difference = _judge(batch.ours, expected, digest)
        count = len(batch.first)
        if difference and failure is None:
            number, how = difference
            case = f"case {number} of {count}, called by {batch.call}"
            failure = _failure(plan, batch.case(number), batch.options, case, how)
        total += count
        outputs += sum(answer.size for answer in expected)
        shapes.append(batch.first.shape[1:])
    ends = dict.fromkeys((min(shapes, key=math.prod), max(shapes, key=math.prod)))
    size = " to ".join("x".join(map(str, shape)) for shape in ends)
    return Row(plan.operator, plan.dtype, size, total, outputs, digest.hexdigest(), failure is None, failure)


def race(plan: Race, rng: np.random.Generator) -> Row:
    """Compare the first rows of one large answer with the oracle, and its time with the stock form's."""
    arguments = plan.draw(rng)
    on_device = jax.device_put(arguments)
    ours = jax.jit(partial(getattr(jaxdml, plan.operator), **plan.options))
    first, *others = arguments
    assert first is not None
    expected = answers(getattr(reference, plan.operator)(first[: plan.rows], *others, **plan.options))
    digest, failure, timing = hashlib.sha256(), None, None
    difference = _judge(partial(ours, *on_device), expected, digest, plan.rows)
    if difference:
        case = f"row {difference[0]} of the {len(expected[0])} compared"
        failure = _failure(plan, arguments, plan.options, case, difference[1])
    else:
        timing = _time(ours, jax.jit(plan.stock), on_device)
    cases = len(expected[0]) if plan.operator == "top_k" else 1
    outputs = sum(answer.size for answer in expected)
    compared = cases, outputs, digest.hexdigest(), failure is None, failure
    return Row(plan.operator, plan.dtype, plan.size, *compared, timing)


def _time(ours: Callable[..., Any], stock: Callable[..., Any], arguments: Any) -> Timing:
    """Time two functions turn by turn, so that what slows the machine slows both."""

    def seconds(function: Callable[..., Any]) -> float:
        start = time.perf_counter()
        for part in jax.tree.leaves(function(*arguments)):
            part.block_until_ready()
        return time.perf_counter() - start

    # The first run compiles, the second warms; its time decides how many more are worth the wait.
    warm = [(seconds(ours), seconds(stock)) for _ in range(2)][-1]
    repeats = SLOW_REPEATS if max(warm) > SLOW_SECONDS else REPEATS
    runs = [(seconds(ours), seconds(stock)) for _ in range(repeats)]
    our, their = (_spread(side) for side in zip(*runs, strict=True))
    return Timing(our, their, their.median_ms / our.median_ms, repeats)


def _spread(times: Sequence[float]) -> Spread:
    lower, median, upper = (1000 * cut for cut in statistics.quantiles(times, method="inclusive"))
    return Spread(median, lower, upper)


def examples() -> Iterator[Mapping[str, Any]]:
    """Compute the worked examples of the source pages."""
    for example in EXAMPLES:
        call = partial(getattr(jaxdml, example.operator), *example.arguments, **example.options)
        difference = _judge(call, example.expected)
        written = _written(example.operator, example.arguments, example.options)
        yield {"call": written, "agrees": difference is None, "difference": difference and difference[1]}


def surroundings() -> dict[str, Any]:
    """Say on what this runs: the devices and the versions."""
    try:
        own = metadata.version("jaxdml")
    except metadata.PackageNotFoundError:
        own = "not installed, run from its source"
    versions = {"jaxdml": own, "jax": jax.__version__, "jaxlib": metadata.version("jaxlib"), "numpy": np.__version__}
    counted = Counter((device.platform, device.device_kind) for device in jax.devices())
    return {
        "devices": [{"platform": name, "kind": kind, "count": count} for (name, kind), count in counted.items()],
        "versions": versions | {"python": platform.python_version()},
    }


_COLUMNS: Mapping[str, Side] = {
    "operator": "left",
    "dtype": "left",
    "size": "left",
    "ours (ms)": "right",
    "stock (ms)": "right",
    "stock / ours": "right",
    "cases": "right",
    "outputs": "right",
    "agrees": "left",
}


def _cells(row: Row) -> tuple[str, ...]:
    timing = row.timing
    times = ("-",) * 3
    if timing:
        times = f"{timing.ours.median_ms:.3f}", f"{timing.stock.median_ms:.3f}", f"{timing.ratio:.2f}"
    compared = str(row.cases), str(row.outputs)
    return row.operator, row.dtype, row.size, *times, *compared, "yes" if row.agrees else "NO"


def run(*, quick: bool = False, seed: int = 0, show: Display | None = None) -> dict[str, Any]:
    """Check and time everything, show it, and return it as JSON can hold it.

    Args:
      quick: run a tenth of the cases and no race.
      seed: what all data is drawn from; the same seed gives every device the same data.
      show: where to show it; None chooses.
    """
    show = show or display()
    start = time.perf_counter()
    report = surroundings() | {"seed": seed, "quick": quick}
    for device in report["devices"]:
        show.line("Device: {count} x {platform}, {kind}".format(**device))
    show.line(", ".join(f"{name} {version}" for name, version in report["versions"].items()))

    report["examples"] = list(examples())
    wrong = [example for example in report["examples"] if not example["agrees"]]
    show.line(f"{len(EXAMPLES) - len(wrong)} of {len(EXAMPLES)} worked examples of DirectML's pages agree.")
    for example in wrong:
        show.line("  {call}\n    {difference}".format(**example))

    jobs: list[Check | Race] = [*CHECKS, *(() if quick else RACES)]
    cases, stride = (round(QUICK_SHARE * CASES), QUICK_STRIDE) if quick else (CASES, 1)
    rngs = np.random.default_rng(seed).spawn(len(jobs))
    rows = [
        check(job, rngs[number], cases, slice(number % stride, None, stride))
        if isinstance(job, Check)
        else race(job, rngs[number])
        for number, job in enumerate(show.follow(jobs))
    ]
    operators = list(dict.fromkeys(row.operator for row in rows))
    rows.sort(key=lambda row: operators.index(row.operator))
    show.table(_COLUMNS, [_cells(row) for row in rows])
    if not quick:
        show.line("Times are medians. The stock forms may answer differently for NaNs, -0.0 and rounding.")
    report["rows"] = [dataclasses.asdict(row) for row in rows]
    report["digest"] = hashlib.sha256("".join(row.digest for row in rows).encode()).hexdigest()
    report["agrees"] = not wrong and all(row.agrees for row in rows)
    report["seconds"] = time.perf_counter() - start
    _conclude(report, rows, show)
    return report


def _conclude(report: Mapping[str, Any], rows: Iterable[Row], show: Display) -> None:
    failed = [row for row in rows if row.failure]
    for row in failed:
        assert row.failure is not None
        show.line(f"{row.operator}, {row.dtype}, disagrees with the oracle:")
        for text in (row.failure.call, row.failure.case, row.failure.difference):
            show.line(f"  {text}")
    if failed:
        again = "python -m jaxdml --seed {seed}".format(**report) + (" --quick" if report["quick"] else "")
        show.line(f"To get the same cases again: {again}; with --json FILE it writes their inputs, bit for bit.")
    show.line("Digest of every output, to compare with another device: {digest:.16}".format(**report))
    verdict = "Everything agrees" if report["agrees"] else "SOMETHING DISAGREES"
    show.line(f"{verdict} with the oracle, bit for bit; {{seconds:.0f}} s.".format(**report))
