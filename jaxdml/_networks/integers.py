"""Arithmetic that integers do in their own way: quotients without a fraction, powers. In NumPy or jax.numpy."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.nearest import by_addition


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
    """Return powers in the type of ``x``, whatever that of ``y``; those of integers are exact where it holds them."""
    if not is_integer(x):
        wide = x.dtype if is_integer(y) else max(x.dtype, y.dtype, key=lambda dtype: dtype.itemsize)
        return xp.power(x.astype(wide), y.astype(wide)).astype(x.dtype)
    if is_integer(y):
        return _integer_power(xp, x, y)
    # The float function alone might miss an integer by a little, and then lose 1 where the fraction is dropped.
    integral = (y >= 0) & (y == xp.floor(y)) & (y < 2.0**31)
    exact = _integer_power(xp, x, xp.where(integral, y, 0).astype(np.int32))
    return xp.where(integral, exact, to_integers(xp, xp.power(x.astype(float), y.astype(float)), x.dtype))


def _integer_power(xp: ModuleType, x: Any, y: Any) -> Any:
    power = xp.power(x, xp.clip(y, 0, _LONGEST).astype(x.dtype))
    return xp.where(xp.abs(x) == 1, xp.where(y % 2 == 0, 1, x), xp.where(y < 0, 0, power)).astype(x.dtype)


_LONGEST = 63
"""No integer type holds a power with a greater exponent, but those of 0, 1 and -1."""


def to_integers(xp: ModuleType, x: Any, dtype: Any) -> Any:
    """Convert floats: fractions are dropped, what the type does not hold is saturated, NaN becomes 0."""
    x = x.astype(np.promote_types(x.dtype, np.float32))
    lowest, greatest = jnp.iinfo(dtype).min, jnp.iinfo(dtype).max
    # The greatest integer may lie between two floats; the one after it is a power of two.
    above = x >= float(greatest + 1)
    converted = xp.where((x > lowest) & ~above, x, 0).astype(dtype)
    return xp.where(above, np.asarray(greatest, dtype), xp.where(x <= lowest, np.asarray(lowest, dtype), converted))


def to_nearest_integers(x: jax.Array) -> jax.Array:
    """Round float32 from -1/2 to below ``2**22`` to uint32, ties to even: on a GPU an addition is the fastest way."""
    return by_addition(x).astype(jnp.uint32)
