"""Call an operator, and its oracle, on stacked cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

import jaxdml
from jaxdml import reference
from jaxdml._cases.records import Answers, Arguments, Array, Layout, Way


def answers(result: Any) -> Answers:
    """Bring one result, or a tuple of them, to NumPy."""
    return tuple(np.asarray(part) for part in (result if isinstance(result, tuple) else (result,)))


@dataclass(frozen=True)
class Batch:
    """Cases of one layout, drawn and stacked along a leading axis."""

    operator: str
    layout: Layout
    arguments: Arguments

    @property
    def first(self) -> Array:
        """Return the first argument of all cases."""
        assert self.arguments[0] is not None
        return self.arguments[0]

    def case(self, number: int) -> Arguments:
        """Return the arguments of one case."""
        return tuple(None if argument is None else argument[number] for argument in self.arguments)

    def ours(self) -> Answers:
        """Return the library's answers."""
        function = partial(getattr(jaxdml, self.operator), **self.layout.options)
        return _WAYS[self.layout.way](function, self)

    def oracle(self) -> Answers:
        """Return the oracle's answers."""
        function = partial(getattr(reference, self.operator), **self.layout.options)
        return (_all_at_once if self.layout.way == "all at once" else _one_by_one)(function, self)


def _all_at_once(function: Callable[..., Any], batch: Batch) -> Answers:
    return answers(function(*batch.arguments))


def _one_by_one(function: Callable[..., Any], batch: Batch) -> Answers:
    results = [answers(function(*batch.case(number))) for number in range(len(batch.first))]
    return tuple(np.stack(parts) for parts in zip(*results, strict=True))


def _one_program(function: Callable[..., Any]) -> Callable[[Callable[..., Any], Batch], Answers]:
    """Compile ``function(operator)`` as one program and call it on all cases."""
    return lambda operator, batch: _all_at_once(jax.jit(function(operator)), batch)


def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: jax.lax.map(lambda case: function(*case), arguments)


_WAYS: Mapping[Way, Callable[[Callable[..., Any], Batch], Answers]] = {
    "all at once": _one_program(lambda function: function),
    "one after another": _one_program(_loop),
    "vmap": _one_program(jax.vmap),
    "eager": _one_by_one,
}
