"""Compare answers with the oracle's, bit for bit, and times with those of the stock forms."""

import hashlib
import inspect
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

import jaxdml
from jaxdml import reference
from jaxdml._base.errors import describe
from jaxdml._cases.data import unsigned
from jaxdml._cases.records import Answers, Arguments, Array, Example
from jaxdml._selfcheck.batches import answers
from jaxdml._selfcheck.planning import Check, Race, generator
from jaxdml._selfcheck.sharding import Placement, ShardedCheck

REPEATS, SLOW_REPEATS, SLOW_SECONDS = 7, 3, 1.0
"""How many runs of each side to time; where one run takes longer than ``SLOW_SECONDS``, ``SLOW_REPEATS``."""

_STEADY = 1.5
"""How far apart the quartiles of a time may be."""

_LARGEST_SHOWN = 2**16
"""Arguments of up to so many bytes are written in full with a failure."""

Difference = tuple[int, str]
"""The case that differs first, and how."""


@dataclass(frozen=True)
class Failure:
    """A case that disagrees with the oracle, with all that is needed to reproduce it."""

    call: str
    case: str
    difference: str
    inputs: Mapping[str, Mapping[str, Any] | None]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Spread:
    """The median and the quartiles of some times."""

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
    steady: bool
    """Whether no side's quartiles lie further apart than ``_STEADY``; other work disturbs what is not steady."""


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
    placement: Placement | None = None


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
            shown = (f"{np.atleast_1d(x)[here]!s} (bits {int(_bits(x)[here]):#x})" for x in (ours, right))
            found.append((place[0], f"output {number} at {place[1:]}: got {{}}, the oracle says {{}}".format(*shown)))
    return min(found, default=None)


def _judge(
    ours: Callable[[], Any], expected: Answers, digest: Any = None, rows: int | None = None
) -> Difference | None:
    """Compare answers, or their first rows, with the oracle's, and add all of them to the digest."""
    try:
        got = answers(ours())
    except Exception as error:  # Where a device cannot run one operator, the others are still checked.
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


def _failure(operator: str, arguments: Arguments, options: Mapping[str, Any], case: str, how: str) -> Failure:
    inputs = {name: _exactly(value) for name, value in _named(operator, arguments).items()}
    return Failure(_written(operator, arguments, options), case, how, inputs, options)


def check(plan: Check, seed: int, share: float, thorough: bool) -> Row:
    """Compare an operator and dtype with the oracle."""
    digest, failure, shapes, total, outputs = hashlib.sha256(), None, [], 0, 0
    for batch in plan.batches(seed, share, thorough):
        expected, scenario = batch.oracle(), batch.scenario
        difference = _judge(batch.ours, expected, digest)
        count = len(batch.first)
        if difference and failure is None:
            number, how = difference
            case = f'case {number} of {count} of "{scenario.trap}", called {batch.called}'
            failure = _failure(plan.operator, batch.case(number), scenario.options, case, how)
        total += count
        outputs += sum(answer.size for answer in expected)
        shapes.append(batch.first.shape[1:])
    ends = dict.fromkeys((min(shapes, key=math.prod), max(shapes, key=math.prod)))
    size = " to ".join("x".join(map(str, shape)) for shape in ends)
    placement = plan.placement if isinstance(plan, ShardedCheck) else None
    compared = total, outputs, digest.hexdigest(), failure is None, failure
    return Row(plan.operator, plan.dtype, size, *compared, placement=placement)


@dataclass(frozen=True)
class Judged:
    """A race whose answer is judged and whose programs are compiled. What is left is to time it."""

    row: Row
    ours: Callable[..., Any]
    stock: Callable[..., Any]
    arguments: Any

    def timed(self) -> Row:
        """Return the row with its times, if the answer is right."""
        return replace(self.row, timing=_time(self.ours, self.stock, self.arguments)) if self.row.agrees else self.row


def race(plan: Race, seed: int) -> Judged:
    """Compare the first rows of one large answer with the oracle, and make ready to time it."""
    call, options, rows = plan.call, plan.call.keywords, plan.record.judged_rows
    arguments = call.draw(generator(seed, plan.label))
    ours, stock = (
        jax.jit(call.program(function, arguments))
        for function in (partial(getattr(jaxdml, plan.operator), **options), plan.record.stock(call))
    )
    on_device = jax.device_put(call.inputs(arguments))
    first, *others = arguments
    expected = answers(getattr(reference, plan.operator)(first[:rows], *others, **options))
    digest, failure = hashlib.sha256(), None
    difference = _judge(partial(ours, *on_device), expected, digest, rows)
    if difference:
        case = f"row {difference[0]} of the {len(expected[0])} compared"
        failure = _failure(plan.operator, arguments, options, case, difference[1])
    outputs = sum(answer.size for answer in expected)
    compared = 1, outputs, digest.hexdigest(), failure is None, failure
    row = Row(plan.operator, call.dtype, call.size, *compared)
    if not difference:
        answers(stock(*on_device))  # Compiles it, and waits.
    return Judged(row, ours, stock, on_device)


def _time(ours: Callable[..., Any], stock: Callable[..., Any], arguments: Any) -> Timing:
    """Time two functions in turn, so that whatever slows the machine slows both."""

    def seconds(function: Callable[..., Any]) -> float:
        start = time.perf_counter()
        for part in jax.tree.leaves(function(*arguments)):
            part.block_until_ready()
        return time.perf_counter() - start

    # The first run compiles where this thread has other settings, the second warms up and decides how many follow.
    warm = [(seconds(ours), seconds(stock)) for _ in range(2)][-1]
    repeats = SLOW_REPEATS if max(warm) > SLOW_SECONDS else REPEATS
    runs = [(seconds(ours), seconds(stock)) for _ in range(repeats)]
    our, their = (_spread(side) for side in zip(*runs, strict=True))
    steady = all(side.upper_quartile_ms <= _STEADY * side.lower_quartile_ms for side in (our, their))
    return Timing(our, their, their.median_ms / our.median_ms, repeats, steady)


def _spread(times: Sequence[float]) -> Spread:
    lower, median, upper = (1000 * cut for cut in statistics.quantiles(times, method="inclusive"))
    return Spread(median, lower, upper)


def judge_example(example: Example) -> Mapping[str, Any]:
    """Compare the answer to a worked example with the one printed in the source."""
    call = partial(getattr(jaxdml, example.operator), *example.arguments, **example.options)
    difference = _judge(call, example.expected)
    written = _written(example.operator, example.arguments, example.options)
    return {"call": written, "agrees": difference is None, "difference": difference and difference[1]}
