"""Multiply 8-bit matrices with ``lax.dot_general``, summed in int32 and nothing wider."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._kernels.integer_product.operands import with_merged_rows
from jaxdml._kernels.integer_product.packed_matrix import Right, slice_along_k
from jaxdml._kernels.integer_sums import RawProduct, with_corrections

MIN_SIZE = 8
"""The fewest rows and columns that an int8 product is given: one tile of a vector unit."""


def dot_with_ones(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> RawProduct:
    """Multiply, and compute the sums of rows and columns as products with ones; a ``Product``."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    left, right = with_merged_rows(a, b)
    height = left.shape[-2]
    # A row of ones below a gives the sums of the columns of b in the same product. XLA's CPU backend has no routine for
    # a single row or column. So few rows are padded with more rows of ones, and few columns with columns of ones, which
    # give the sums of the rows of a.
    ones_below = max(0 if za is None else 1, MIN_SIZE - height)
    left = jnp.concatenate([left, jnp.ones((*left.shape[:-2], ones_below, k), left.dtype)], axis=-2)
    ones_beside = max(0, MIN_SIZE - n)
    right = jnp.concatenate([right, jnp.ones((*right.shape[:-2], k, ones_beside), jnp.int8)], axis=-1)
    product = dot(left, right)
    leading = product.shape[:-2] or tuple(batch)

    def row_sums() -> jax.Array:
        if ones_beside:
            return product[..., :height, n : n + 1].reshape(*leading, m, 1)
        return dot(a, jnp.ones((1,) * (a.ndim - 2) + (k, MIN_SIZE), jnp.int8))[..., :1]

    def column_sums() -> jax.Array:
        return product[..., height : height + 1, :n]

    return with_corrections(product, k, za, zb, row_sums, column_sums)


def with_min_size(x: jax.Array, axis: int) -> jax.Array:
    """Pad a dimension with zeros: XLA's CPU backend has no routine for an operand of a single row or column."""
    missing = max(0, MIN_SIZE - x.shape[axis])
    return lax.pad(x, x.dtype.type(0), [(0, missing if d == axis else 0, 0) for d in range(x.ndim)])


def dot(a: jax.Array, b: jax.Array, by_columns: bool = False) -> jax.Array:
    """Multiply int8 or uint8 ``[..., M, K]`` by int8 ``[..., K, N]``, or ``[..., N, K]`` if it is stored by columns.

    If an operand is transposed in the same program, XLA's CPU backend finds no 8-bit routine for the product, and
    widens both operands. So both get a batch dimension of size 1: for reshaped operands XLA finds a routine. Later it
    removes the dimension, and folds the transposition of ``b`` into the product. It must not fold that of ``a``, since
    no routine reads ``a`` by columns. The barrier prevents that.
    """
    if all(size == 1 for size in b.shape[:-2]):
        b = b.reshape(b.shape[-2:])
        batch: tuple[int, ...] = ()
    else:
        batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    leading = tuple(range(len(batch) + 1))
    contracted = (a.ndim,), (b.ndim if by_columns else b.ndim - 1,)
    # Without an algorithm JAX converts operands of different signs to int32 first.
    precision = None if a.dtype == b.dtype else lax.DotAlgorithmPreset.DEFAULT
    a = lax.optimization_barrier(a)  # type: ignore[no-untyped-call]
    product = lax.dot_general(
        a[None], b[None], (contracted, (leading, leading)), precision=precision, preferred_element_type=jnp.int32
    )
    return product[0]


def sum_of_slices(
    a: jax.Array,
    za: jax.Array | None,
    b: Right,
    zb: jax.Array | None,
    multiply: Callable[..., jax.Array],
    longest: int,
) -> tuple[jax.Array, jax.Array]:
    """Return the exact accumulator for any K as int32 ``(low, high)``: ``low + 2**16 * high``, ``0 <= low < 2**16``.

    K is cut into slices. The lower 16 bits of their accumulators are summed in ``low``, the upper ones in ``high``.

    Args:
      a: int8 or uint8 ``[..., M, K]``.
      za: the int32 zero point of ``a``, or None for 0.
      b: int8 ``[..., K, N]``, or packed.
      zb: the int32 zero point of ``b``, or None for 0.
      multiply: takes these four for one slice of K; returns its int32 accumulator ``[..., M, N]``.
      longest: the length of a slice along K, for which the accumulator always fits int32.
    """
    k = a.shape[-1]
    whole = k // longest

    def low_and_high(a_slice: jax.Array, b_slice: Right) -> tuple[jax.Array, jax.Array]:
        part = multiply(a_slice, za, b_slice, zb)
        return part & 0xFFFF, part >> 16

    def add(number: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        start = number * longest
        a_slice = lax.dynamic_slice_in_dim(a, start, longest, axis=-1)
        low, high = low_and_high(a_slice, slice_along_k(b, start, longest))
        low, high = sums[0] + low, sums[1] + high
        return low & 0xFFFF, high + (low >> 16)

    rest = low_and_high(a[..., whole * longest :], slice_along_k(b, whole * longest, k - whole * longest))
    return lax.fori_loop(0, whole, add, rest) if whole else rest
