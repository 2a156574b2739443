"""Multiply zero-pointed 8-bit matrices exactly, as int8 x int8 -> int32 and nothing wider.

With ``A @ B`` in int8, ``sum((a - za)(b - zb)) = A @ B - zb * (rowsum(A) - K * za) - za * colsum(B)``.
int32 wraps around modulo 2**32, so single terms may overflow as long as the whole sum fits.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

Dot = Callable[[jax.Array, jax.Array], jax.Array]
"""The product of two int8 matrices, ``[..., M, K]`` and ``[..., K, N]``, in int32."""

_INT32_MAX = 2**31 - 1
_SUM_COLUMNS = 8
"""Sums are products with this many columns of ones: with a single one, XLA's CPU backend has no int8 kernel."""


ALIGNMENT = 16
"""What ``aligned_dot`` rounds every size up to, in bytes: one load of a tensor core's operand."""


def dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply as it is."""
    return jnp.matmul(a, b, preferred_element_type=jnp.int32)


def is_aligned(a: jax.Array, b: jax.Array) -> bool:
    """Tell whether M, K and N are multiples of the alignment."""
    return all(size % ALIGNMENT == 0 for size in (*a.shape[-2:], b.shape[-1]))


def aligned_dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply with M, K and N filled up with zeros to multiples of the alignment.

    Not for speed: with ragged sizes, XLA's GPU backend has been seen to give wrong sums for int8, 2 x 2 by 2 x 2
    among them (docs/platforms.md). The barrier keeps the filling out of the product's own kernel.
    """
    rows, columns = a.shape[-2], b.shape[-1]
    filled = lax.optimization_barrier((_fill(a), _fill(b)))  # type: ignore[no-untyped-call]
    return dot(*filled)[..., :rows, :columns]


def _fill(x: jax.Array) -> jax.Array:
    missing = [(0, -size % ALIGNMENT, 0) for size in x.shape[-2:]]
    return lax.pad(x, jnp.int8(0), [(0, 0, 0)] * (x.ndim - 2) + missing)


def as_int8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Shift uint8 down by 128, the zero point with it; return int8 and the int32 zero point, None if it is 0."""
    wide = None if zero_point is None else zero_point.astype(jnp.int32)
    if x.dtype == jnp.int8:
        return x, wide
    shifted = jnp.int32(-128) if wide is None else wide - 128
    return lax.bitcast_convert_type(x ^ jnp.uint8(0x80), jnp.int8), shifted


def longest_exact_sum(greatest_a: int, greatest_b: int) -> int:
    """Return how many products of such magnitudes an int32 always holds."""
    return _INT32_MAX // (greatest_a * greatest_b)


def centered_product(
    a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None, multiply: Dot
) -> jax.Array:
    """Return ``(a - za) @ (b - zb)`` modulo 2**32.

    Args:
      a: int8, ``[..., M, K]``.
      za: int32 that broadcasts against ``[..., M, 1]``, or None for 0.
      b: int8, ``[..., K, N]``.
      zb: int32 that broadcasts against ``[..., 1, N]``, or None for 0.
      multiply: the product of two int8 matrices in int32.
    """
    depth = a.shape[-1]
    total = multiply(a, b)
    if zb is not None:
        row_sums = multiply(a, _ones(a.ndim, depth, _SUM_COLUMNS))[..., :1]
        total -= zb * (row_sums if za is None else row_sums - depth * za)
    if za is not None:
        column_sums = multiply(_ones(b.ndim, _SUM_COLUMNS, depth), b)[..., :1, :]
        total -= za * column_sums
    return total


def _ones(rank: int, rows: int, columns: int) -> jax.Array:
    return jnp.ones((1,) * (rank - 2) + (rows, columns), jnp.int8)


def split_centered_product(
    a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None, multiply: Dot, longest: int
) -> tuple[jax.Array, jax.Array]:
    """Return the exact product for any depth, as ``(low, high)`` with the value ``low + 2**16 * high``.

    Each slice of ``longest`` steps fits int32; the slices are summed with their lower and upper halves apart.
    ``0 <= low < 2**16``.
    """
    depth = a.shape[-1]
    full = depth // longest

    def halves(a_part: jax.Array, b_part: jax.Array) -> tuple[jax.Array, jax.Array]:
        part = centered_product(a_part, za, b_part, zb, multiply)
        return part & 0xFFFF, part >> 16

    def add(step: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        start = step * longest
        a_part = lax.dynamic_slice_in_dim(a, start, longest, axis=-1)
        b_part = lax.dynamic_slice_in_dim(b, start, longest, axis=-2)
        low, high = halves(a_part, b_part)
        low, high = sums[0] + low, sums[1] + high
        return low & 0xFFFF, high + (low >> 16)

    rest = halves(a[..., full * longest :], b[..., full * longest :, :])
    return lax.fori_loop(0, full, add, rest)
