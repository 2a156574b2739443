"""Statistics of arrays, and what is normalized by them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.nearest import nearest
from jaxdml._arithmetic.signedness import as_int8

Average = Callable[[jax.Array, Sequence[int]], jax.Array]
"""``average(x, axes)`` returns the mean along axes, which stay."""


def plain(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Return the mean along axes."""
    return x.mean(axes, keepdims=True)


def moments(x: jax.Array, axes: Sequence[int], average: Average = plain) -> tuple[jax.Array, jax.Array]:
    """Return the mean and the variance, from the differences to the mean."""
    mean = average(x, axes)
    return mean, average(jnp.square(x - mean), axes)


def local_response(
    x: jax.Array, axes: Sequence[int], *, size: int, alpha: float, beta: float, bias: float
) -> jax.Array:
    """Divide each element by a power of the sum of squares around it, along one axis or several.

    A window of ``size`` elements begins ``(size - 1) // 2`` before an element, and is cut at the ends of the array.
    """
    before = (size - 1) // 2
    window = [size if d in axes else 1 for d in range(x.ndim)]
    padding = [(before, size - 1 - before) if d in axes else (0, 0) for d in range(x.ndim)]
    total = lax.reduce_window(jnp.square(x), np.zeros((), x.dtype), lax.add, window, (1,) * x.ndim, padding)
    return x / (bias + alpha / size * total) ** beta


def normalized_integers(
    x: jax.Array,
    axes: Sequence[int],
    epsilon: float,
    scale: jax.Array,
    bias: jax.Array | None,
    out_scale: float,
    zero_point: int,
    dtype: Any,
) -> jax.Array | None:
    """Normalize 8-bit integers by their mean and variance along axes in float32, and quantize the result.

    The zero point of ``x`` does not change the result, and its scale only changes ``epsilon``. From each of ``n``
    integers the mean is subtracted without an error, as ``n * x - sum(x)``, as long as these fit 24 bits.

    Args:
      x: int8 or uint8.
      axes: whose sizes are known.
      epsilon: what is added to the variance of the integers.
      scale: float32, broadcasts against ``x``.
      bias: the same, or None.
      out_scale: of the result.
      zero_point: of the result.
      dtype: int8 or uint8.

    Returns:
      Integers of that dtype, or None if there is nothing to normalize, or if float32 does not hold what is added to the
      variance, or what multiplies the result. NaN counts as 0.
    """
    count = math.prod(x.shape[axis] for axis in axes)
    with np.errstate(over="ignore", divide="ignore"):
        least, by = np.float32(epsilon * count**2), np.float32(1 / np.float64(out_scale))
    # XLA takes a subnormal for 0.
    if not all(np.finfo(np.float32).tiny <= number < np.inf for number in (least, by)):
        return None
    integers = as_int8(x, None)[0].astype(jnp.float32)
    # Of a difference in place of this sum the compiler for TPUs stores float32 twice.
    distance = integers * np.float32(count) + -jnp.sum(integers, axes, keepdims=True)
    variance = jnp.sum(jnp.square(distance), axes, keepdims=True) * np.float32(1 / count)
    result = distance * lax.rsqrt(variance + least) * scale
    quotient = (result if bias is None else result + bias) * by
    return nearest(jnp.where(quotient == quotient, quotient, 0), jnp.int32(zero_point), dtype)  # noqa: PLR0124
