"""Quantize with float64 for the quotient, where no number that matters is subnormal.

``fl(x / scale)`` is wanted, where ``fl`` rounds to float32 as IEEE 754 does. It is ``fl(x * (1 / scale))`` in float64.
The mantissas of ``x`` and ``scale`` are integers of 24 bits. Between two neighbouring float32 numbers lies a midpoint M
of 25 bits, and M times the mantissa of the scale has at most 49. So a quotient is no midpoint, and is further from one
than ``2**-49`` times itself. A reciprocal that is wrong by two units in the last place and the product of it are wrong
by less than ``2**-50`` together.

Some devices flush subnormals. A subnormal ``x`` over an ordinary scale rounds to 0, flushed or not. The reciprocal of
one is a sum of two float32 numbers; if the second one is flushed, ``2**-62`` of the reciprocal is lost.

``quantize_by_any`` takes any scale: there subnormals are read as integers, and the reciprocal stays float64.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.float_parts import int_bits
from jaxdml._arithmetic.in_float64 import as_float64, magnitude_as_float64
from jaxdml._arithmetic.nearest import TO_INTEGER, nearest
from jaxdml._kernels.requantization import sum_when_used

_LEAST, _GREATEST = 2.0**-124, 2.0**64
"""Scales between these, in magnitude, are ordinary."""


def are_ordinary(scale: Any) -> Any:
    """Tell whether all scales, of NumPy or of JAX, are ordinary: neither zero, nor subnormal, nor huge, nor NaN."""
    return ((abs(scale) >= _LEAST) & (abs(scale) <= _GREATEST)).all()


def quantize(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: np.dtype[np.integer]) -> jax.Array:
    """Return what ``quantizing.quantize`` does for ordinary scales, on a CPU."""
    zero = jnp.int32(0) if zero_point is None else zero_point
    with jax.enable_x64(True):
        by = _reciprocal(scale)
        # Without the barrier XLA might take the conversion to float32 and back for nothing.
        upper = lax.optimization_barrier(by.astype(jnp.float32))  # type: ignore[no-untyped-call]
        lower = (by - upper.astype(jnp.float64)).astype(jnp.float32)
        quotient = _quotient(x.astype(jnp.float64), sum_when_used(upper, lower))
    return _to_integers(quotient, zero, dtype)


def quantize_by_any(x: jax.Array, scale: jax.Array, zero_point: jax.Array, dtype: np.dtype[np.integer]) -> jax.Array:
    """Return what ``quantize`` does, for any one scale that is not negative; subnormal ``x`` count, too."""
    with jax.enable_x64(True):
        quotient = _quotient(as_float64(x), 1 / magnitude_as_float64(int_bits(scale)))
    return _to_integers(quotient, zero_point, dtype)


def _to_integers(quotient: jax.Array, zero: jax.Array, dtype: np.dtype[np.integer]) -> jax.Array:
    """Return what ``nearest`` does. On a CPU a large quantization with ``nearest`` took 1.2 to 1.4 of the time."""
    limits = np.iinfo(dtype)
    low, high = ((np.int32(limit) - zero).astype(jnp.float32) for limit in (limits.min, limits.max))
    quotient = jnp.where(quotient < high, quotient, high)
    quotient = jnp.where(quotient > low, quotient, low)
    rounded = lax.bitcast_convert_type(quotient + TO_INTEGER, jnp.int32)
    return rounded.astype(dtype) + zero.astype(dtype)


def quantize_on_gpu(
    x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: np.dtype[np.integer]
) -> jax.Array:
    """Return what ``quantize`` returns, on a GPU."""
    with jax.enable_x64(True):
        quotient = _quotient(x.astype(jnp.float64), _reciprocal(scale))
    return nearest(quotient, zero_point, dtype)


def _reciprocal(scale: jax.Array) -> jax.Array:
    return 1 / scale.astype(jnp.float64)


def _quotient(x: jax.Array, by: jax.Array) -> jax.Array:
    """Return ``x * by`` as float32, 0 for NaN."""
    quotient = (x * by).astype(jnp.float32)
    return jnp.where(quotient == quotient, quotient, 0)  # noqa: PLR0124
