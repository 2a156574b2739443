"""Multiply 8-bit matrices on a TPU: one product of int8, and nothing beside it that would be stored."""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, Right, column_sums, matrix_of
from jaxdml._kernels.integer_product.raw_product import RawProduct, Zero, with_corrections, with_merged_rows


def merged_dot(a: jax.Array, za: Zero, b: Right, zb: Zero) -> RawProduct:
    """Multiply int8 by int8 and sum in int32; a ``Product``.

    It is exact, because the TPU's compiler keeps these types. A row of ones below ``a`` would give the sums of the
    columns in the same product. But ``a`` would be copied for it, and a product of one row would become one of two,
    for which the whole of ``b`` is stored again in another order.
    """
    rows, matrix = with_merged_rows(a, matrix_of(b))
    batch = tuple(range(matrix.ndim - 2))
    depth = matrix.ndim - (1 if isinstance(b, PackedMatrix) else 2)
    if batch:
        leading = jnp.broadcast_shapes(rows.shape[:-2], matrix.shape[:-2])
        rows = jnp.broadcast_to(rows, (*leading, *rows.shape[-2:]))
        matrix = jnp.broadcast_to(matrix, (*leading, *matrix.shape[-2:]))
    product = lax.dot_general(
        rows, matrix, (((rows.ndim - 1,), (depth,)), (batch, batch)), preferred_element_type=jnp.int32
    )
    return with_corrections(
        product,
        a.shape[-1],
        za,
        zb,
        lambda: jnp.sum(a, axis=-1, keepdims=True, dtype=jnp.int32),
        lambda: column_sums(b),
    )
