"""Multiply zero-pointed 8-bit matrices exactly, as int8 x int8 -> int32 and nothing wider.

With ``A @ B`` in int8, ``sum((a - za)(b - zb)) = A @ B - zb * (rowsum(A) - K * za) - za * colsum(B)``.
int32 wraps around modulo 2**32, so single terms may overflow as long as the whole sum fits.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

Product = Callable[[jax.Array, jax.Array | None, jax.Array, jax.Array | None], jax.Array]
"""``centered_product`` or ``centered_product_for_gpus``."""

_INT32_MAX = 2**31 - 1
_LEAST = 8
"""The fewest rows and columns that an int8 product is given: one tile of a vector unit."""

_ALIGNMENT = 16
"""What ``_filled_dot`` rounds every size up to, in bytes: one load of a tensor core's operand."""

_DEEPEST_FLOAT_SUM = 2**24 // 128**2
"""So many products of two int8 numbers stay within 2**24, where float32 holds every integer."""


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


def centered_product(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> jax.Array:
    """Return ``(a - za) @ (b - zb)`` modulo 2**32, the sums as products with ones.

    Args:
      a: int8, ``[..., M, K]``.
      za: int32 that broadcasts against ``[..., M, 1]``, or None for 0.
      b: int8, ``[..., K, N]``.
      zb: int32 that broadcasts against ``[..., 1, N]``, or None for 0.
    """
    depth, rows, columns = a.shape[-1], a.shape[-2], b.shape[-1]
    # A few rows or columns are filled up with ones: XLA's CPU backend has no int8 kernel for a single one, and the
    # filling gives the sums in the same pass.
    left = jnp.concatenate([a, jnp.ones((*a.shape[:-2], max(0, _LEAST - rows), depth), jnp.int8)], axis=-2)
    right = jnp.concatenate([b, jnp.ones((*b.shape[:-2], depth, max(0, _LEAST - columns)), jnp.int8)], axis=-1)
    product = _dot(left, right)

    def row_sums() -> jax.Array:
        if columns < _LEAST:
            return product[..., :rows, columns : columns + 1]
        return _dot(a, _ones(a.ndim, depth, _LEAST))[..., :1]

    def column_sums() -> jax.Array:
        if rows < _LEAST:
            return product[..., rows : rows + 1, :columns]
        return _dot(_ones(b.ndim, _LEAST, depth), b)[..., :1, :]

    return _center(product[..., :rows, :columns], depth, za, zb, row_sums, column_sums)


def centered_product_for_gpus(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> jax.Array:
    """Return what ``centered_product`` does, around what XLA's GPU backend gets wrong.

    For shallow int8 products it can choose a generated kernel with a depth tile of 16, whose sums are wrong
    (docs/platforms.md). So those run as bfloat16, which holds every int8 number, summed in float32, which holds
    every sum there can be: no step rounds. Deeper ones are filled up to aligned sizes. The sums are reductions.
    """
    depth = a.shape[-1]

    def row_sums() -> jax.Array:
        return jnp.sum(a, axis=-1, keepdims=True, dtype=jnp.int32)

    def column_sums() -> jax.Array:
        return jnp.sum(b, axis=-2, keepdims=True, dtype=jnp.int32)

    total = _float_dot(a, b) if depth <= _DEEPEST_FLOAT_SUM else _filled_dot(a, b)
    return _center(total, depth, za, zb, row_sums, column_sums)


def _center(
    total: jax.Array,
    depth: int,
    za: jax.Array | None,
    zb: jax.Array | None,
    row_sums: Callable[[], jax.Array],
    column_sums: Callable[[], jax.Array],
) -> jax.Array:
    """Correct ``a @ b`` for the zero points; a sum that a zero point of 0 makes needless is never asked for."""
    if zb is not None:
        total -= zb * (row_sums() if za is None else row_sums() - depth * za)
    if za is not None:
        total -= za * column_sums()
    return total


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.int32)


def _float_dot(a: jax.Array, b: jax.Array) -> jax.Array:
    left, right = (x.astype(jnp.bfloat16) for x in (a, b))
    return jnp.matmul(left, right, preferred_element_type=jnp.float32).astype(jnp.int32)


def _filled_dot(a: jax.Array, b: jax.Array) -> jax.Array:
    rows, columns = a.shape[-2], b.shape[-1]
    return _dot(_fill(a), _fill(b))[..., :rows, :columns]


def _fill(x: jax.Array) -> jax.Array:
    missing = [(0, -size % _ALIGNMENT, 0) for size in x.shape[-2:]]
    return lax.pad(x, jnp.int8(0), [(0, 0, 0)] * (x.ndim - 2) + missing)


def _ones(rank: int, rows: int, columns: int) -> jax.Array:
    return jnp.ones((1,) * (rank - 2) + (rows, columns), jnp.int8)


def split_centered_product(
    a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None, multiply: Product, longest: int
) -> tuple[jax.Array, jax.Array]:
    """Return the exact product for any depth, as ``(low, high)`` with the value ``low + 2**16 * high``.

    Each slice of ``longest`` steps fits int32; the slices are summed with their lower and upper halves apart.
    ``0 <= low < 2**16``.
    """
    depth = a.shape[-1]
    full = depth // longest

    def halves(a_part: jax.Array, b_part: jax.Array) -> tuple[jax.Array, jax.Array]:
        part = multiply(a_part, za, b_part, zb)
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
