"""Multiply zero-pointed 8-bit matrices exactly, as 8-bit products summed in int32 and nothing wider.

With ``A @ B`` in int8, ``sum((a - za)(b - zb)) = A @ B - zb * (rowsum(A) - K * za) - za * colsum(B)``.
int32 wraps around modulo 2**32, so single terms may overflow as long as the whole sum fits.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.order_keys import bits_of


class Centered(NamedTuple):
    """A product and what its zero points take from it, as ``centered`` does: the arrays are small but ``total``."""

    total: jax.Array
    """int32, like all of them modulo 2**32: ``[..., M, N]`` in the corner of what may be larger, or flatter."""
    zb: jax.Array | None = None
    rows: jax.Array | None = None
    """What ``zb`` multiplies, ``[..., M, 1]``."""
    za: jax.Array | None = None
    columns: jax.Array | None = None
    """What ``za`` multiplies, ``[..., 1, N]`` or ``[1, N]``."""


Product = Callable[[jax.Array, jax.Array | None, jax.Array, jax.Array | None], Centered]
"""``centered_product`` and what stands in for it here and there."""

_INT32_MAX = 2**31 - 1
_LEAST = 8
"""The fewest rows and columns that an int8 product is given: one tile of a vector unit."""


def as_int8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Shift uint8 down by 128, the zero point with it; return int8 and the int32 zero point, None if it is 0."""
    return _shift(x, zero_point, jnp.int8, -128)


def as_uint8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Shift int8 up by 128, the zero point with it; return uint8 and the int32 zero point, None if it is 0."""
    return _shift(x, zero_point, jnp.uint8, 128)


def _shift(x: jax.Array, zero_point: jax.Array | None, dtype: Any, by: int) -> tuple[jax.Array, jax.Array | None]:
    wide = None if zero_point is None else zero_point.astype(jnp.int32)
    if x.dtype == dtype:
        return x, wide
    shifted = jnp.int32(by) if wide is None else wide + by
    return lax.bitcast_convert_type(bits_of(x) ^ jnp.uint8(0x80), dtype), shifted


def longest_exact_sum(greatest_a: int, greatest_b: int) -> int:
    """Return how many products of such magnitudes an int32 always holds."""
    return _INT32_MAX // (greatest_a * greatest_b)


def product_shape(a: jax.Array, b: jax.Array) -> tuple[int, ...]:
    """Return the shape ``[..., M, N]`` of ``a @ b``."""
    return (*jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


def centered(parts: Centered, shape: tuple[int, ...]) -> jax.Array:
    """Return ``(a - za) @ (b - zb)`` modulo 2**32, in its shape, of what the products below give."""
    height = math.prod(shape[:-1]) if parts.total.ndim == 2 else shape[-2]
    total = parts.total[..., :height, : shape[-1]].reshape(shape)
    if parts.zb is not None and parts.rows is not None:
        total -= parts.zb * parts.rows
    if parts.za is not None and parts.columns is not None:
        total -= parts.za * parts.columns.reshape((1,) * (len(shape) - parts.columns.ndim) + parts.columns.shape)
    return total


def as_matrices(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return what to multiply: where ``b`` is one matrix for all, the leading dimensions of ``a`` are more rows."""
    if math.prod(b.shape[:-2]) == 1:
        return a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b.reshape(b.shape[-2:])
    return a, b


def centered_product(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> Centered:
    """Multiply ``a - za`` by ``b - zb``, the sums of rows as a product with ones.

    Args:
      a: int8 or uint8, ``[..., M, K]``.
      za: int32 that broadcasts against ``[..., M, 1]``, or None for 0.
      b: int8, ``[..., K, N]``.
      zb: int32 that broadcasts against ``[..., 1, N]``, or None for 0.
    """
    *batch, rows, depth = a.shape
    columns = b.shape[-1]
    left, right = as_matrices(a, b)
    height = left.shape[-2]
    # A row of ones gives the sums of columns in the same pass. XLA's CPU backend has no kernel for a single row or
    # column, so a few get more of them, and a few columns the sums of rows.
    ones_below = max(0 if za is None else 1, _LEAST - height)
    left = jnp.concatenate([left, jnp.ones((*left.shape[:-2], ones_below, depth), left.dtype)], axis=-2)
    ones_beside = max(0, _LEAST - columns)
    right = jnp.concatenate([right, jnp.ones((*right.shape[:-2], depth, ones_beside), jnp.int8)], axis=-1)
    product = _dot(left, right)
    leading = product.shape[:-2] or tuple(batch)

    def row_sums() -> jax.Array:
        if ones_beside:
            return product[..., :height, columns : columns + 1].reshape(*leading, rows, 1)
        return _dot(a, _ones(a.ndim, depth, _LEAST))[..., :1]

    def column_sums() -> jax.Array:
        return product[..., height : height + 1, :columns]

    return center(product, depth, za, zb, row_sums, column_sums)


def center(
    total: jax.Array,
    depth: int,
    za: jax.Array | None,
    zb: jax.Array | None,
    row_sums: Callable[[], jax.Array],
    column_sums: Callable[[], jax.Array],
) -> Centered:
    """Collect what corrects ``a @ b``; a sum that a zero point of 0 makes needless is never asked for."""
    rows = columns = None
    if zb is not None:
        rows = row_sums() if za is None else row_sums() - depth * za
    if za is not None:
        columns = column_sums()
    return Centered(total, zb, rows, za, columns)


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    if a.dtype == b.dtype:
        return jnp.matmul(a, b, preferred_element_type=jnp.int32)
    return _mixed_dot(a, b)


def _mixed_dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply uint8 by int8. Unless told by what algorithm, JAX would convert mixed signs to int32 first."""
    algorithm = {"precision": lax.DotAlgorithmPreset.DEFAULT, "preferred_element_type": jnp.int32}
    if math.prod(b.shape[:-2]) == 1:
        shared = b.reshape(b.shape[-2:])
        return lax.dot_general(a, shared, (((a.ndim - 1,), (0,)), ((), ())), **algorithm)
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    leading = tuple(range(len(batch)))
    return lax.dot_general(a, b, (((a.ndim - 1,), (b.ndim - 2,)), (leading, leading)), **algorithm)


def _ones(rank: int, rows: int, columns: int) -> jax.Array:
    return jnp.ones((1,) * (rank - 2) + (rows, columns), jnp.int8)


def split_centered_product(
    a: jax.Array,
    za: jax.Array | None,
    b: jax.Array,
    zb: jax.Array | None,
    multiply: Callable[..., jax.Array],
    longest: int,
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
