"""Quantize floats; choose the algorithm by platform, size and scales."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.sizes import at_most
from jaxdml._arithmetic.to_float32 import widened
from jaxdml._kernels.quantization import float64_quotient, quantizing
from jaxdml._placement.lowering import Form, Target, at_lowering

FEW_ELEMENTS = 2**14
"""Up to this size use the residual: asking whether the scales are ordinary, in a branch, takes as long."""


Dtype = np.dtype[np.integer]


def quantize(
    x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: Dtype, ordinary: bool = False
) -> jax.Array:
    """Return ``clamp(rint(fl(x / scale)) + zero_point)``. A quotient that is NaN counts as 0.

    Args:
      x: float32, float16, bfloat16 or int32.
      scale: float32, float16 or bfloat16 that broadcasts against ``x``.
      zero_point: integers of at most 32 bits that broadcast against ``x``, or None for 0.
      dtype: int8, uint8, int16 or uint16.
      ordinary: whether it is known while tracing that all scales are ordinary.
    """
    zero_point = None if zero_point is None else zero_point.astype(jnp.int32)
    result: jax.Array = at_lowering(
        partial(form, few=at_most(x.size, FEW_ELEMENTS) is True, ordinary=ordinary),
        *(lax.stop_gradient(x), lax.stop_gradient(widened(scale)), zero_point),
        dtype=dtype,
    )
    return result


def form(target: Target, few: bool, ordinary: bool) -> Form:
    """Say who serves where a program is lowered for ``target``."""
    if ordinary and target.platform in ("cpu", "cuda"):
        return _in_float64 if target.platform == "cpu" else _in_float64_on_gpu
    if target.platform == "cpu" and target.alone and not few and not ordinary:
        return _in_float64_or_by_residual
    return _by_residual


# Each form converts x by itself: what is made before a branch is stored.


def _by_residual(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, *, dtype: Dtype) -> jax.Array:
    return quantizing.quantize(widened(x), scale, zero_point, dtype)


def _in_float64(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, *, dtype: Dtype) -> jax.Array:
    return float64_quotient.quantize(widened(x), scale, zero_point, dtype)


def _in_float64_on_gpu(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, *, dtype: Dtype) -> jax.Array:
    return float64_quotient.quantize_on_gpu(widened(x), scale, zero_point, dtype)


def _in_float64_or_by_residual(
    x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, *, dtype: Dtype
) -> jax.Array:
    fast, exact = (partial(way, dtype=dtype) for way in (_in_float64, _by_residual))
    result: jax.Array = lax.cond(float64_quotient.are_ordinary(scale), fast, exact, x, scale, zero_point)
    return result


def quantize_by_range(x: jax.Array, scale: jax.Array, zero_point: jax.Array, dtype: Dtype) -> jax.Array:
    """Return what ``quantize`` does for the scale and the zero point of a range, stored on a CPU.

    There XLA makes one loop of what computes an array and what reads it. Without a branch each reader would quantize
    anew, and in a chain of layers compute all that comes before.
    """
    operands = lax.stop_gradient(x), lax.stop_gradient(scale), zero_point
    result: jax.Array = at_lowering(form_by_range, *operands, dtype=dtype)
    return result


def form_by_range(target: Target) -> Form:
    """Say who serves where a program is lowered for ``target``."""
    return _of_any_range if target.alone and target.platform == "cpu" else _by_residual


def _of_any_range(x: jax.Array, scale: jax.Array, zero_point: jax.Array, *, dtype: Dtype) -> jax.Array:
    of_finite, of_infinite = (partial(way, dtype=dtype) for way in (_of_finite_range, _of_infinite_range))
    result: jax.Array = lax.cond(scale < np.inf, of_finite, of_infinite, x, scale, zero_point)
    return result


def _of_finite_range(x: jax.Array, scale: jax.Array, zero_point: jax.Array, *, dtype: Dtype) -> jax.Array:
    return float64_quotient.quantize_by_any(widened(x), scale, zero_point, dtype)


def _of_infinite_range(x: jax.Array, scale: jax.Array, zero_point: jax.Array, *, dtype: Dtype) -> jax.Array:
    del scale
    zero_point = zero_point.astype(dtype)
    return jnp.where(x == x, zero_point, zero_point)  # noqa: PLR0124  # It varies over the mesh axes of x.
