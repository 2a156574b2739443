"""Arithmetic that integers do in their own way: quotients without a fraction, powers. In NumPy or jax.numpy."""

from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


def is_integer(x: Any) -> bool:
    """Whether an array holds integers, or sizes that are symbols."""
    return x.dtype.hasobject or bool(jnp.issubdtype(x.dtype, jnp.integer))


def truncating_divide(xp: ModuleType, a: Any, b: Any) -> Any:
    """Divide integers and drop the fraction."""
    if xp is jnp:
        return lax.div(*jnp.broadcast_arrays(a, b))
    quotient = np.floor_divide(a, b)
    if a.dtype.hasobject:  # Sizes are not negative.
        return quotient
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(a.dtype)


def power(xp: ModuleType, x: Any, y: Any) -> Any:
    """Return powers in the type of ``x``, whatever that of ``y``; those of integers are exact."""
    if not is_integer(x):
        return xp.power(x, y.astype(x.dtype) if is_integer(y) else y).astype(x.dtype)
    if is_integer(y):
        return _integer_power(xp, x, y.astype(x.dtype))
    # The float function alone might miss an integer by a little, and then lose 1 where the fraction is dropped.
    integral = (y >= 0) & (y == xp.floor(y))
    exact = _integer_power(xp, x, xp.where(integral, y, 0).astype(x.dtype))
    return xp.where(integral, exact, xp.power(x.astype(float), y).astype(x.dtype))


def _integer_power(xp: ModuleType, x: Any, y: Any) -> Any:
    small = (x == 1) | (x == -1)
    power = xp.power(x, xp.maximum(y, 0))
    return xp.where(small, xp.where(y % 2 == 0, 1, x), xp.where(y < 0, 0, power)).astype(x.dtype)
