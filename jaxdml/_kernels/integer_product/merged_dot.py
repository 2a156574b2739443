"""Multiply 8-bit matrices on a TPU: one product of 8-bit integers, and nothing beside it that would be stored."""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Zero
from jaxdml._kernels.integer_product.operands import with_merged_rows
from jaxdml._kernels.integer_product.packed_matrix import Right
from jaxdml._kernels.integer_product.unmerged_dot import unmerged_dot
from jaxdml._kernels.integer_sums import RawProduct


def merged_dot(a: jax.Array, za: Zero, b: Right, zb: Zero) -> RawProduct:
    """Multiply int8 by int8, or uint8 by uint8, and sum in int32; a ``Product``.

    It is exact, because a TPU has units for these types, and its compiler uses them. A row of ones below ``a`` would
    give the sums of the columns in the same product. But ``a`` would be copied for it, and a product of one row would
    become one of two, for which the whole of ``b`` is stored again in another order. Rows are merged if ``b`` is one
    matrix for all.
    """
    return unmerged_dot(a, za, b, zb, _dot)


def _dot(a: jax.Array, b: jax.Array, by_columns: bool = False) -> jax.Array:
    rows, matrix = with_merged_rows(a, b)
    batch = tuple(range(matrix.ndim - 2))
    if batch:
        leading = jnp.broadcast_shapes(rows.shape[:-2], matrix.shape[:-2])
        rows, matrix = (jnp.broadcast_to(x, (*leading, *x.shape[-2:])) for x in (rows, matrix))
    contracted = (rows.ndim - 1,), (matrix.ndim - (1 if by_columns else 2),)
    return lax.dot_general(rows, matrix, (contracted, (batch, batch)), preferred_element_type=jnp.int32)
