"""Choose the method that multiplies: one int32 sum, or slices of the depth where it could overflow."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxdml._algorithms import integer_dot
from jaxdml._algorithms.requantize import requantize
from jaxdml._lowerings._platform import by_platform

Quantized = tuple[jax.Array, jax.Array | None]
"""A tensor and its zero point; None is 0."""


def _greatest(x: jax.Array, zero_point: jax.Array | None) -> int:
    """Bound ``|x - zero_point|`` from what is known while tracing."""
    return 128 if x.dtype == jnp.int8 and zero_point is None else 255


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    if integer_dot.is_aligned(a, b):
        return integer_dot.dot(a, b)
    aligned = integer_dot.aligned_dot
    return by_platform(a, b, cuda=aligned, rocm=aligned, default=integer_dot.dot)


def _integer_dot(a: Quantized, b: Quantized) -> tuple[jax.Array, jax.Array | None]:
    longest = integer_dot.longest_exact_sum(_greatest(*a), _greatest(*b))
    operands = *integer_dot.as_int8(*a), *integer_dot.as_int8(*b)
    if a[0].shape[-1] <= longest:
        return integer_dot.centered_product(*operands, _dot), None
    aligned = longest // integer_dot.ALIGNMENT * integer_dot.ALIGNMENT
    return integer_dot.split_centered_product(*operands, _dot, aligned)


METHODS: dict[str, Callable[[Quantized, Quantized], tuple[jax.Array, jax.Array | None]]] = {"integer_dot": _integer_dot}


def multiply(
    a: Quantized,
    b: Quantized,
    scales: tuple[jax.Array, jax.Array, jax.Array],
    output_zero_point: jax.Array | None,
    output_dtype: jnp.dtype,
    implementation: str | None,
) -> jax.Array:
    """Multiply and requantize; scales and zero points have the rank of the result."""
    low, high = METHODS[implementation or "integer_dot"](a, b)
    wide = None if output_zero_point is None else output_zero_point.astype(jnp.int32)
    return requantize(low, high, *scales, wide, output_dtype)
