"""Add quantized arrays in fixed point: with four limbs, or on a CPU with two if the scales allow it."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.quantized.fixed_point_sum import Addends, addends, rounded_sum
from jaxdml._algorithms.quantized.residuals import Scales, clamp
from jaxdml._lowerings._partitioning import by_partitioning
from jaxdml._lowerings._platform import Kernel, run

FEW_OUTPUTS = 2**14
"""Up to this size a CPU uses four limbs at once: asking for two, in a branch, takes as long as they save."""


def add(
    a: jax.Array,
    b: jax.Array,
    scales: Scales,
    za: jax.Array | None,
    zb: jax.Array | None,
    zero_point: jax.Array | None,
    dtype: jnp.dtype,
) -> jax.Array:
    """Return ``clamp(round(((a - za) * a_scale + (b - zb) * b_scale) / output_scale) + zero_point)``.

    It is rounded once and correctly. All arrays broadcast against each other.

    Args:
      a: int8 or uint8; ``b`` alike.
      b: int8 or uint8.
      scales: of ``a``, of ``b`` and of the output, float32.
      za: int32, or None for 0; ``zb`` and ``zero_point`` alike.
      zb: int32 or None.
      zero_point: int32 or None.
      dtype: int8 or uint8.
    """
    four = partial(_by_limbs, dtype=dtype)
    kernel = Kernel(four, cpu=partial(_by_two_or_four_limbs, dtype=dtype))
    return by_partitioning(
        lambda *operands: run(kernel, *operands),
        lambda devices, *operands: four(*operands),
        *(a, b, scales, za, zb, zero_point),
    )


def _by_limbs(
    a: jax.Array,
    b: jax.Array,
    scales: Scales,
    za: jax.Array | None,
    zb: jax.Array | None,
    zero_point: jax.Array | None,
    *,
    dtype: jnp.dtype,
) -> jax.Array:
    return clamp(rounded_sum(a, b, _addends(scales, za, zb)), zero_point, dtype)


def _by_two_or_four_limbs(
    a: jax.Array,
    b: jax.Array,
    scales: Scales,
    za: jax.Array | None,
    zb: jax.Array | None,
    zero_point: jax.Array | None,
    *,
    dtype: jnp.dtype,
) -> jax.Array:
    """Add with two limbs if they suffice for all scales, else with four."""
    by = _addends(scales, za, zb)
    if math.prod(jnp.broadcast_shapes(a.shape, b.shape)) <= FEW_OUTPUTS:
        return clamp(rounded_sum(a, b, by), zero_point, dtype)

    def of(limbs: int) -> jax.Array:
        return clamp(rounded_sum(a, b, by, limbs), zero_point, dtype)

    return lax.cond(jnp.all(by.two_suffice), partial(of, 2), partial(of, 4))


def _addends(scales: Scales, za: jax.Array | None, zb: jax.Array | None) -> Addends:
    """Return the limbs of the scales, from a kernel of their own: otherwise every thread of a GPU would divide."""
    return lax.optimization_barrier(addends(scales, za, zb))  # type: ignore[no-untyped-call]
