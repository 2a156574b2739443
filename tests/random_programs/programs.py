"""Draw an operator with what is around it, as a whole and in parts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxdml
from jaxdml import reference
from tests.kit.methods import METHODS
from tests.random_programs.calls import RECORDS, Call, draw_call
from tests.random_programs.operands import FEW, LARGEST, MANY, PERIOD, Array, Drawing, Operand
from tests.random_programs.surroundings import Step, draw_steps


class Runnable(NamedTuple):
    """A function for ``jax.jit``, its arguments, and its results."""

    function: Callable[..., tuple[Any, ...]]
    arguments: tuple[Array, ...]
    expected: tuple[Array, ...]
    """Where it is of float64, only the values are known, else the bits."""


@dataclass(frozen=True)
class Program:
    """An operator with what is around it."""

    name: str
    call: Call
    draw: Drawing
    method: str | None
    answers: tuple[list[Array], ...]
    """The results of the operator, each for every value of the mapped axis that differs."""
    chosen: int
    """The result that something follows."""
    steps: list[Step]
    final: list[Array]
    """What follows it, as one of ``answers``."""
    all_results: bool
    """Whether the program returns the results of the operator too."""
    place: int
    """Where the mapped axis is, in arrays that have so many dimensions."""

    def __str__(self) -> str:
        operands = ", ".join(map(str, self.call.operands))
        around = f"vmap over {self.draw.size} at {self.place} of " if self.draw.vmap else ""
        following = ", ".join(step.text for step in self.steps)
        return f"{around}{self.name}({operands}, {self.call.options}, {self.method}), then {following}"

    def whole(self) -> Runnable:
        """Return the program."""
        return self._with_operator([(x.given, x.build) for x in self._operands()], after=True)

    def parts(self) -> dict[str, Runnable]:
        """Return what is left of the program if some parts of it are given by their results, as arguments."""
        made = [(x.given, x.build) for x in self._operands()]
        given = [(((x.value, x.mapped),), _itself) for x in self._operands()]
        result = self._result(self.answers[self.chosen], at=0)
        return {
            "the operator": self._with_operator(given, after=False),
            "the operator and what is before": self._with_operator(made, after=False),
            "the operator and what follows": self._with_operator(given, after=True),
            "what follows": self._runnable(lambda y, *more: (self._follow(y, more),), [(result, True)], [self.final]),
        }

    def _operands(self) -> list[Operand]:
        return [x for x in self.call.operands if x is not None]

    def _with_operator(self, made: Sequence[tuple[Any, ...]], after: bool) -> Runnable:
        options = {**self.call.options, **({"implementation": self.method} if self.method else {})}
        # The sign of a zero in a product of floats depends on the order of its sum.
        answers = self.answers
        if any(x.way.startswith("product") and x.value.dtype.kind == "f" for x in self._operands()):
            answers = tuple([_of_float64(result) for result in results] for results in answers)

        def function(*arrays: Any) -> tuple[Any, ...]:
            rest = iter(arrays)
            built = iter([build(*islice(rest, len(given))) for given, build in made])
            operands = [None if x is None else next(built) for x in self.call.operands]
            results = _tuple(getattr(jaxdml, self.name)(*operands, **options))
            followed = (self._follow(results[self.chosen], rest),) if after else ()
            return (*followed, *(results if self.all_results or not after else ()))

        arguments = [argument for given, _ in made for argument in given]
        expected = [*([self.final] if after else []), *(answers if self.all_results or not after else [])]
        return self._runnable(function, arguments, expected, after)

    def _follow(self, y: Any, arrays: Iterable[Any]) -> Any:
        rest = iter(arrays)
        for step in self.steps:
            y = step.jax(y, *islice(rest, len(step.given)))
        return y

    def _runnable(
        self,
        function: Callable[..., tuple[Any, ...]],
        arguments: Sequence[tuple[Array, bool]],
        expected: Sequence[list[Array]],
        after: bool = True,
    ) -> Runnable:
        """Return a function that is mapped, if it is to be, with the arguments of what follows."""
        if after:
            arguments = [*arguments, *((array, False) for step in self.steps for array in step.given)]
        if self.draw.vmap:
            axes = [min(self.place, array.ndim - 1) if mapped else None for array, mapped in arguments]
            results = tuple(min(self.place, result[0].ndim) for result in expected)
            function = jax.vmap(function, in_axes=axes, out_axes=results)
            arguments = [
                (array if axis is None else np.moveaxis(array, 0, axis), False)
                for (array, _), axis in zip(arguments, axes, strict=True)
            ]
        return Runnable(function, tuple(array for array, _ in arguments), tuple(map(self._result, expected)))

    def _result(self, answers: list[Array], at: int | None = None) -> Array:
        if not self.draw.vmap:
            return answers[0]
        stacked = np.stack(answers)[np.arange(self.draw.size) % PERIOD]
        return np.moveaxis(stacked, 0, min(self.place, answers[0].ndim) if at is None else at)


def _of_float64(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _itself(x: Any) -> Any:
    return x


def _tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple) else (results,)


NAMES = sorted(RECORDS)
"""The operators: a program of each in turn."""


def draw_program(seed: int, number: int) -> Program:
    """Draw the program of this number: numbers that follow each other have other operators."""
    for attempt in count():
        rng = np.random.default_rng([seed, number, attempt])
        size, vmap = int(rng.choice(MANY if rng.random() < 0.5 else FEW)), rng.random() < 0.35
        program = _drawn(NAMES[number % len(NAMES)], Drawing(rng, size, vmap))
        if program is not None:
            return program
    raise AssertionError


def _drawn(name: str, draw: Drawing) -> Program | None:
    """Draw a program of an operator, or None if it is too large."""
    call = draw_call(name, draw)
    if any(x is not None and x.value.size > LARGEST for x in call.operands):
        return None

    def judged(place: int) -> tuple[Array, ...]:
        operands = [None if x is None else x.judged(place) for x in call.operands]
        return _tuple(getattr(reference, name)(*operands, **call.options))

    answers = [judged(place) for place in range(min(PERIOD, draw.size) if draw.vmap else 1)]
    rows = [len(x.value) for x in call.operands if x is not None and x.rows] if call.repeats else []
    if (draw.size if draw.vmap else max(rows, default=PERIOD) / PERIOD) * max(x.size for x in answers[0]) > LARGEST:
        return None
    if rows:
        again = np.arange(rows[0]) % PERIOD
        answers = [tuple(result[again] if result.ndim else result for result in answers[0])]
    results = tuple(list(result) for result in zip(*answers, strict=True))
    chosen = int(draw.rng.integers(len(results)))
    steps, final = draw_steps(draw.rng, results[chosen])
    method = draw.pick(None, *METHODS.get(name, ()))
    is_all, place = draw.rng.random() < 0.3, int(draw.rng.integers(3))
    program = Program(name, call, draw, method, results, chosen, steps, final, is_all, place)
    return program if method is None or _serves(program.whole()) else replace(program, method=None)


def _serves(program: Runnable) -> bool:
    """Tell whether the forced method serves the operands."""
    try:
        jax.eval_shape(program.function, *program.arguments)
    except NotImplementedError:
        return False
    return True
