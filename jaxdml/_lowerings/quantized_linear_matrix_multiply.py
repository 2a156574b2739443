"""Choose the methods that multiply and that round: by platform, and by how deep and how high the product is."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxdml._algorithms import aligned_product, integer_dot
from jaxdml._algorithms.requantize import Scales, requantize, requantize_by_multiplier
from jaxdml._algorithms.row_product import row_product
from jaxdml._lowerings._platform import by_platform, cpu_features

Quantized = tuple[jax.Array, jax.Array | None]
"""A tensor and its zero point; None is 0."""


def _greatest(x: jax.Array, zero_point: jax.Array | None) -> int:
    """Bound ``|x - zero_point|`` from what is known while tracing."""
    return 128 if x.dtype == jnp.int8 and zero_point is None else 255


Operands = tuple[jax.Array, jax.Array | None, jax.Array, jax.Array | None]
Shift = Callable[[jax.Array, jax.Array | None], Quantized]
"""``integer_dot.as_int8`` or ``integer_dot.as_uint8``."""

_MIXED_SIGNS = frozenset({"avx512_vnni", "amx_int8"})
"""CPU features for which XLA has a kernel of uint8 x int8; with the first, it has none as fast of int8 x int8."""


MAX_ROWS_UNTURNED = 64
"""With more rows than that, on a GPU, turning the right matrix pays; ``python -m benchmarks.constants`` tells."""


def _on_gpu(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> integer_dot.Centered:
    """Multiply around what XLA's GPU backend gets wrong, or does slowly.

    For shallow int8 products it can choose a generated kernel with a depth tile of 16, whose sums are wrong
    (docs/platforms.md). So those are no int8 products.
    """
    if a.shape[-1] <= aligned_product.DEEPEST_FLOAT_SUM:
        return aligned_product.float_product(a, za, b, zb)
    few = integer_dot.as_matrices(a, b)[0].shape[-2] <= MAX_ROWS_UNTURNED
    return (aligned_product.unturned_product if few else aligned_product.turned_product)(a, za, b, zb)


def _exactly(operands: Operands, multiply: integer_dot.Product) -> jax.Array:
    a, _, b, _ = operands
    return integer_dot.centered(multiply(*operands), integer_dot.product_shape(a, b))


def _round(
    operands: Operands,
    scales: Scales,
    zero_point: jax.Array | None,
    *,
    multiply: integer_dot.Product,
    dtype: jnp.dtype,
) -> jax.Array:
    return requantize(_exactly(_shifted(operands, integer_dot.as_int8), multiply), None, *scales, zero_point, dtype)


def _round_on_cpu(
    operands: Operands, scales: Scales, zero_point: jax.Array | None, *, shift: Shift, dtype: jnp.dtype
) -> jax.Array:
    """Round by multipliers: a CPU's branches cost nothing. Those of a GPU wait for the host."""
    a, _, b, _ = operands
    shape = integer_dot.product_shape(a, b)
    single = a.shape[-2] == 1 and a.shape[-1] > 0 and math.prod(shape[:-2]) == math.prod(b.shape[:-2])
    shifted = _shifted(operands, shift)
    parts = integer_dot.Centered(row_product(*shifted)) if single else integer_dot.centered_product(*shifted)
    # Cut to its shape where it is rounded: cut before, it would be stored once more.
    accumulate = partial(integer_dot.centered, shape=shape)
    return requantize_by_multiplier(accumulate, parts, scales, zero_point, dtype)


def _shifted(operands: Operands, shift: Shift) -> Operands:
    a, za, b, zb = operands
    return (*shift(a, za), *integer_dot.as_int8(b, zb))


def _multiply(
    a: Quantized,
    b: Quantized,
    scales: Scales,
    zero_point: jax.Array | None,
    dtype: jnp.dtype,
    *,
    shift: Shift,
    everywhere: bool,
) -> jax.Array:
    """Multiply with ``shift(a)`` on CPUs, and with int8 elsewhere, if anywhere."""
    longest = integer_dot.longest_exact_sum(_greatest(*a), _greatest(*b))

    def elsewhere(branch: Callable[..., jax.Array]) -> dict[str, Callable[..., jax.Array]]:
        on_gpu, default = (partial(branch, multiply=multiply) for multiply in (_on_gpu, integer_dot.centered_product))
        return {"cuda": on_gpu, "rocm": on_gpu, "default": default} if everywhere else {}

    if a[0].shape[-1] > longest:
        on_cpu = partial(_exactly, multiply=integer_dot.centered_product)

        def product(*operands: jax.Array | None) -> jax.Array:
            return by_platform(operands, cpu=on_cpu, **elsewhere(_exactly))

        operands = _shifted((*a, *b), integer_dot.as_int8 if everywhere else shift)
        low, high = integer_dot.split_centered_product(*operands, product, longest)
        return requantize(low, high, *scales, zero_point, dtype)
    on_cpu = partial(_round_on_cpu, shift=shift, dtype=dtype)
    return by_platform((*a, *b), scales, zero_point, cpu=on_cpu, **elsewhere(partial(_round, dtype=dtype)))


METHODS: dict[str, Callable[..., jax.Array]] = {
    "integer_dot": partial(_multiply, shift=integer_dot.as_int8, everywhere=True),
    "mixed_dot": partial(_multiply, shift=integer_dot.as_uint8, everywhere=False),
}


def multiply(
    a: Quantized,
    b: Quantized,
    scales: Scales,
    output_zero_point: jax.Array | None,
    output_dtype: jnp.dtype,
    implementation: str | None,
) -> jax.Array:
    """Multiply and requantize; scales and zero points have the rank of the result."""
    wide = None if output_zero_point is None else output_zero_point.astype(jnp.int32)
    if implementation is not None:
        return METHODS[implementation](a, b, scales, wide, output_dtype)
    shift = integer_dot.as_uint8 if _MIXED_SIGNS & cpu_features() else integer_dot.as_int8
    return _multiply(a, b, scales, wide, output_dtype, shift=shift, everywhere=True)
