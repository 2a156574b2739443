"""Quantize floats; choose the algorithm by platform, size and scales."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.sizes import at_most
from jaxdml._arithmetic.to_float32 import widened
from jaxdml._kernels.quantization import float64_quotient, quantizing
from jaxdml._placement.partitioning import by_partitioning
from jaxdml._placement.platforms import Kernel, run

FEW_ELEMENTS = 2**14
"""Up to this size use the residual: asking whether the scales are ordinary, in a branch, takes as long."""


def quantize(
    x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: np.dtype[np.integer], ordinary: bool = False
) -> jax.Array:
    """Return ``clamp(rint(fl(x / scale)) + zero_point)``. A quotient that is NaN counts as 0.

    Args:
      x: float32, float16, bfloat16 or int32.
      scale: float32 that broadcasts against ``x``.
      zero_point: int32 that broadcasts against ``x``, or None for 0.
      dtype: int8, uint8, int16 or uint16.
      ordinary: whether it is known while tracing that all scales are ordinary.
    """
    operands = lax.stop_gradient(x), lax.stop_gradient(scale), zero_point

    # Each form converts x by itself: what is made before a branch is stored.
    def by_residual(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None) -> jax.Array:
        return quantizing.quantize(widened(x), scale, zero_point, dtype)

    def in_float64(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None) -> jax.Array:
        return float64_quotient.quantize(widened(x), scale, zero_point, dtype)

    def by_conversion(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None) -> jax.Array:
        return float64_quotient.quantize_by_conversion(widened(x), scale, zero_point, dtype)

    if ordinary:
        return run(Kernel(by_residual, cpu=in_float64, cuda=by_conversion), *operands)
    if at_most(x.size, FEW_ELEMENTS):
        return by_residual(*operands)

    def on_cpu(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None) -> jax.Array:
        return lax.cond(float64_quotient.are_ordinary(scale), in_float64, by_residual, x, scale, zero_point)

    kernel = Kernel(by_residual, cpu=on_cpu)
    return by_partitioning(
        lambda *operands: run(kernel, *operands), lambda devices, *operands: by_residual(*operands), *operands
    )


def quantize_by_range(x: jax.Array, scale: jax.Array, zero_point: jax.Array, dtype: np.dtype[np.integer]) -> jax.Array:
    """Return what ``quantize`` does for the scale and the zero point of a range, stored on a CPU.

    There XLA makes one loop of what computes an array and what reads it. Without a branch each reader would quantize
    anew, and in a chain of layers compute all that comes before.
    """

    def by_residual(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
        return quantizing.quantize(widened(x), scale, zero_point, dtype)

    def in_float64(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
        return float64_quotient.quantize_by_any(widened(x), scale, zero_point, dtype)

    def of_infinite_range(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
        zero_point = zero_point.astype(dtype)
        return jnp.where(x == x, zero_point, zero_point)  # noqa: PLR0124  # It varies over the mesh axes of x.

    def on_cpu(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
        return lax.cond(scale < np.inf, in_float64, of_infinite_range, x, scale, zero_point)

    operands = lax.stop_gradient(x), lax.stop_gradient(scale), zero_point
    kernel = Kernel(by_residual, cpu=on_cpu)
    return by_partitioning(
        lambda *operands: run(kernel, *operands), lambda devices, *operands: by_residual(*operands), *operands
    )
