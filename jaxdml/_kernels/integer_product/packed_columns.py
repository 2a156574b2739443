"""Multiply by a packed matrix with ``lax.dot_general``, as its left or as its right operand."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Zero
from jaxdml._kernels.integer_product.integer_dot import MIN_SIZE, dot
from jaxdml._kernels.integer_product.operands import with_merged_rows
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, column_sums
from jaxdml._kernels.integer_sums import RawProduct, with_corrections


def columns_on_the_right(a: jax.Array, za: Zero, b: PackedMatrix, zb: Zero) -> RawProduct:
    """Multiply ``a`` by the packed columns; a ``Product``."""
    return _product(partial(dot, by_columns=True), a, za, b, zb)


def columns_on_the_left(a: jax.Array, za: Zero, b: PackedMatrix, zb: Zero) -> RawProduct:
    """Multiply the packed columns by the rows of int8 ``a``, and transpose the product; a ``Product``.

    XLA's CPU backend copies the right operand of a product into another layout, and reads the left one as it is. So
    the columns, which are many more than the rows, are read only once. They may be int8 or uint8.
    """

    def exchanged(rows: jax.Array, columns: jax.Array) -> jax.Array:
        # Without the barrier XLA would exchange the operands to save the transposition.
        transposed = lax.optimization_barrier(dot(columns, rows, by_columns=True))  # type: ignore[no-untyped-call]
        return jnp.swapaxes(transposed, -1, -2)

    return _product(exchanged, a, za, b, zb)


def _product(
    multiply: Callable[[jax.Array, jax.Array], jax.Array], a: jax.Array, za: Zero, b: PackedMatrix, zb: Zero
) -> RawProduct:
    rows, columns = (_with_enough_rows(x) for x in with_merged_rows(a, b.matrix))
    product = multiply(rows, columns)
    return with_corrections(product, a.shape[-1], za, zb, lambda: _row_sums(a, rows), lambda: column_sums(b))


def _row_sums(a: jax.Array, padded: jax.Array) -> jax.Array:
    """Sum the rows of ``a`` as a product with ones, which is faster than a sum on CPUs."""
    ones = jnp.ones((*[1] * (padded.ndim - 2), padded.shape[-1], MIN_SIZE), jnp.int8)
    sums = dot(padded, ones)[..., :1]
    if padded.ndim > 2:
        return sums[..., : a.shape[-2], :]
    return sums[: math.prod(a.shape[:-1])].reshape(*a.shape[:-1], 1)


def _with_enough_rows(x: jax.Array) -> jax.Array:
    """Pad ``[..., rows, K]`` with zeros: XLA's CPU backend has no routine for an operand of a single row."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, max(0, MIN_SIZE - x.shape[-2])), (0, 0)])
