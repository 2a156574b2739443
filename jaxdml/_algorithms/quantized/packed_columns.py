"""Multiply by a packed matrix with ``lax.dot_general``, as its left or as its right operand."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.quantized.integer_dot import MIN_SIZE, dot
from jaxdml._algorithms.quantized.packed_matrix import PackedMatrix, column_sums
from jaxdml._algorithms.quantized.raw_product import RawProduct, with_corrections, with_merged_rows

Zero = jax.Array | None
"""An int32 zero point that broadcasts against its tensor, or None for 0."""


def columns_on_the_right(a: jax.Array, za: Zero, b: PackedMatrix, zb: Zero) -> RawProduct:
    """Multiply ``a`` by the packed columns; a ``Product``."""
    left, right = (_with_enough_rows(x) for x in with_merged_rows(a, b.matrix))
    product = dot(left, right, by_columns=True)
    return with_corrections(product, a.shape[-1], za, zb, lambda: _row_sums(a, left), lambda: column_sums(b))


def columns_on_the_left(a: jax.Array, za: Zero, b: PackedMatrix, zb: Zero) -> RawProduct:
    """Multiply the packed columns by the rows of int8 ``a``, and transpose the product; a ``Product``.

    XLA's CPU backend copies the right operand of a product into another layout, and reads the left one as it is. So
    the columns, which are many more than the rows, are read only once. They may be int8 or uint8.
    """
    rows, columns = (_with_enough_rows(x) for x in with_merged_rows(a, b.matrix))
    # Without the barrier XLA would exchange the operands to save the transposition.
    transposed = lax.optimization_barrier(dot(columns, rows, by_columns=True))  # type: ignore[no-untyped-call]
    product = jnp.swapaxes(transposed, -1, -2)
    return with_corrections(product, a.shape[-1], za, zb, lambda: _row_sums(a, rows), lambda: column_sums(b))


def _row_sums(a: jax.Array, padded: jax.Array) -> jax.Array:
    """Sum the rows of ``a`` as a product with ones, which is faster than a sum on CPUs."""
    ones = jnp.ones((*[1] * (padded.ndim - 2), padded.shape[-1], MIN_SIZE), jnp.int8)
    sums = dot(padded, ones)[..., :1]
    if padded.ndim > 2:
        return sums[..., : a.shape[-2], :]
    return sums[: math.prod(a.shape[:-1])].reshape(*a.shape[:-1], 1)


def _with_enough_rows(x: jax.Array) -> jax.Array:
    """Pad ``[..., rows, K]`` with zeros: XLA's CPU backend has no kernel for an operand of a single row."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, max(0, MIN_SIZE - x.shape[-2])), (0, 0)])
