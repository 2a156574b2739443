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


def _product(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> jax.Array:
    on_gpu = integer_dot.centered_product_for_gpus
    return by_platform(a, za, b, zb, cuda=on_gpu, rocm=on_gpu, default=integer_dot.centered_product)


def _integer_dot(a: Quantized, b: Quantized) -> tuple[jax.Array, jax.Array | None]:
    longest = integer_dot.longest_exact_sum(_greatest(*a), _greatest(*b))
    operands = *integer_dot.as_int8(*a), *integer_dot.as_int8(*b)
    if a[0].shape[-1] <= longest:
        return _product(*operands), None
    return integer_dot.split_centered_product(*operands, _product, longest)


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
