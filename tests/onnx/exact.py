"""Real numbers that are sums of integers times rational scales, rounded once: what an exact quantized operator does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

Term = tuple[np.ndarray, np.ndarray]
"""Integers, or rationals, and rationals that broadcast to them: their product is meant."""


def rationals(values: Any) -> np.ndarray:
    """Return the exact values of floats."""
    given = np.asarray(values)
    made = np.empty(given.shape, object)
    made.flat = [Fraction(float(value)) for value in given.flat]
    return made


def rounded(terms: Sequence[Term], scale: np.ndarray, zero: Any, dtype: Any) -> np.ndarray:
    """Divide a sum by a scale in real numbers, round half to even, add a zero point, and clamp.

    Where a quotient in float64 is far enough from a half it is right; all others are computed in rational numbers.
    """
    quotients = [(values, np.asarray(factors / scale, object)) for values, factors in terms]
    parts = [values.astype(np.float64) * factors.astype(np.float64) for values, factors in quotients]
    near = np.asarray(sum(parts))
    error = np.ldexp(1 + np.asarray(sum(map(abs, parts))), -45)
    nearest = np.array(np.rint(near))
    doubtful = (abs(abs(near - np.floor(near)) - 0.5) <= error) & (abs(near) < 2**20)
    spread = [tuple(np.broadcast_to(array, near.shape) for array in pair) for pair in quotients]
    for place in map(tuple, np.argwhere(doubtful)):
        nearest[place] = round(sum(_exactly(values[place]) * factors[place] for values, factors in spread))
    bounds = np.iinfo(dtype)
    return np.clip(nearest + np.asarray(zero, np.float64), bounds.min, bounds.max).astype(dtype)


def _exactly(value: Any) -> Any:
    return value if isinstance(value, Fraction) else int(value)


def along(parameter: Any, rank: int, axis: int | None) -> np.ndarray:
    """Shape a scale or zero point so that it broadcasts: one of one element serves all."""
    parameter = np.asarray(parameter)
    if parameter.size == 1:
        return parameter.reshape(())
    if parameter.ndim == rank:
        return parameter
    shape = [1] * rank
    shape[1 if axis is None else axis] = -1
    return parameter.reshape(shape)


@dataclass(eq=False)
class Real:
    """Real numbers that follow from integers; floats only where a node wants floats.

    Attributes:
      quantized: rounds once: called with a scale of rationals, a zero point and a dtype.
      literal: computes the floats as the nodes are written.
      stored: the integers, less their zero point, and the scale, if that is all there is to it.
    """

    quantized: Callable[[np.ndarray, Any, Any], np.ndarray]
    literal: Callable[[], np.ndarray]
    stored: Term | None = None
    _floats: list[np.ndarray] = field(default_factory=list)

    def floats(self) -> np.ndarray:
        """Return the floats, computed once."""
        if not self._floats:
            self._floats.append(np.asarray(self.literal()))
        return self._floats[0]

    @property
    def by_one_scale(self) -> bool:
        """Whether these are integers with one scale."""
        return self.stored is not None and self.stored[1].size == 1


def of_terms(terms: Sequence[Term], literal: Callable[[], np.ndarray], stored: bool = False) -> Real:
    """Return a sum of terms; ``stored``: its one term is a tensor of integers."""
    return Real(partial(rounded, terms), literal, terms[0] if stored else None)
