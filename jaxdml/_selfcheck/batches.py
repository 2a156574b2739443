"""Call an operator, and its oracle, on stacked cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic.bits import bits_of
from jaxdml._cases.records import Answers, Arguments, Array, Scenario, Way


def answers(result: Any) -> Answers:
    """Bring one result, or a tuple of them, to NumPy."""
    return tuple(np.asarray(part) for part in (result if isinstance(result, tuple) else (result,)))


@dataclass(frozen=True)
class Batch:
    """Cases of one scenario, drawn and stacked along a leading axis."""

    operator: str
    scenario: Scenario
    arguments: Arguments

    @property
    def called(self) -> str:
        """Say how the operator is called."""
        return self.scenario.way

    @property
    def first(self) -> Array:
        """Return the first argument of all cases."""
        assert self.arguments[0] is not None
        return self.arguments[0]

    def case(self, number: int) -> Arguments:
        """Return the arguments of one case."""
        return tuple(None if argument is None else argument[number] for argument in self.arguments)

    def program(self, **more: Any) -> Callable[..., Any]:
        """Return a function of the stacked arguments that calls the operator with its options and ``more`` of them."""
        return _PROGRAMS[self.scenario.way](partial(getattr(jaxdml, self.operator), **self.scenario.options, **more))

    def ours(self) -> Answers:
        """Return the library's answers."""
        if self.scenario.way == "eager":
            return self._one_by_one(getattr(jaxdml, self.operator))
        return answers(jax.jit(self.program())(*self.arguments))

    def oracle(self) -> Answers:
        """Return the oracle's answers."""
        function = getattr(reference, self.operator)
        if self.scenario.way == "all at once":
            return answers(function(*self.arguments, **self.scenario.options))
        return self._one_by_one(function)

    def _one_by_one(self, function: Callable[..., Any]) -> Answers:
        cases = map(self.case, range(len(self.first)))
        results = [answers(function(*case, **self.scenario.options)) for case in cases]
        return tuple(np.stack(parts) for parts in zip(*results, strict=True))


def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of stacked cases that calls ``function`` in a loop.

    Floats enter and leave the loop as bits: XLA's CPU backend quiets NaNs of bfloat16 where it slices them in a loop.
    """

    def in_loop(*arguments: Any) -> Any:
        dtypes = jax.tree.map(lambda x: x.dtype, arguments)
        results = jax.eval_shape(lambda *cases: function(*jax.tree.map(lambda x: x[0], cases)), *arguments)

        def one(case: Any) -> Any:
            return jax.tree.map(_bits, function(*jax.tree.map(_of_bits, case, dtypes)))

        stacked = jax.lax.map(one, jax.tree.map(_bits, arguments))
        return jax.tree.map(lambda bits, like: _of_bits(bits, like.dtype), stacked, results)

    return in_loop


def _bits(x: Any) -> Any:
    return bits_of(x) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _of_bits(bits: Any, dtype: Any) -> Any:
    return jax.lax.bitcast_convert_type(bits, dtype)


_PROGRAMS: Mapping[Way, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "all at once": lambda function: function,
    "one after another": _loop,
    "vmap": jax.vmap,
}
