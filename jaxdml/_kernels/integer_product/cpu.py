"""Multiply 8-bit matrices on a CPU."""

import math
from collections.abc import Collection
from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.signedness import as_int8, as_uint8
from jaxdml._kernels.integer_product.integer_dot import dot_with_ones
from jaxdml._kernels.integer_product.operands import product_shape, row_count
from jaxdml._kernels.integer_product.packed_columns import columns_on_the_left, columns_on_the_right
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, stored_as
from jaxdml._kernels.integer_product.row_product import row_product
from jaxdml._kernels.integer_sums import RawProduct, accumulator
from jaxdml._placement.processor import cpu_features

MAX_ROWS_RIGHT_OF_INT8, MAX_ROWS_RIGHT_OF_UINT8 = 32, 128
"""Up to so many rows of ``a`` are the right operand of a product with a packed matrix that is stored as int8
or as uint8. With more, transposing the product costs more than reading the matrix once saves. ``python -m
benchmarks constants`` times the first on a CPU with AMX, and the second on one with AVX-512 VNNI alone."""


def storage(on_cpu: bool) -> Any:
    """Return the dtype of a packed matrix: on a CPU that of the left operand of its fastest product, else int8."""
    return jnp.uint8 if on_cpu and methods_on_cpu() == ("mixed_dot",) else jnp.int8


def methods_on_cpu() -> tuple[str, ...]:
    """Return the methods for which XLA has a fast routine on this CPU."""
    if "amx_int8" in cpu_features():
        return "integer_dot", "mixed_dot"
    return ("mixed_dot",) if "avx512_vnni" in cpu_features() else ("integer_dot",)


def packed_on_cpu(
    methods: Collection[str], a: jax.Array, za: jax.Array | None, b: PackedMatrix, zb: jax.Array | None
) -> RawProduct:
    """Multiply with one of ``methods``. A packed matrix is the left operand if ``a`` has few rows.

    For that it must be stored as int8 if ``methods`` has the int8 product, or as uint8 if it has the mixed one.
    ``jax.vmap`` over ``a`` alone adds rows to ``a``, so the choice is made again.
    """
    method, most = "integer_dot", MAX_ROWS_RIGHT_OF_INT8
    if b.matrix.dtype == jnp.uint8:
        method, most = "mixed_dot", MAX_ROWS_RIGHT_OF_UINT8
    if method not in methods or row_count(a, b.matrix) > most:
        shifted = (as_uint8 if "mixed_dot" in methods else as_int8)(a, za)
        return columns_on_the_right(*shifted, *stored_as(jnp.int8, b, zb))

    @jax.custom_batching.custom_vmap
    def few_rows(*operands: Any) -> jax.Array:
        a, za, b, zb = operands
        raw = columns_on_the_left(*as_int8(a, za), *stored_as(b.matrix.dtype, b, zb))
        return accumulator(raw, product_shape(a, b))

    @few_rows.def_vmap
    def _(size: int, batched: Any, *operands: Any) -> tuple[jax.Array, bool]:
        a, za, b, zb = jax.tree.map(lambda x, is_batched: x if is_batched else x[None], operands, tuple(batched))
        if not batched[0] and not batched[2].matrix:  # Only a zero point is.
            a = jnp.broadcast_to(a, (size, *a.shape[1:]))
        total = accumulator(packed_on_cpu(methods, a, za, b, zb), product_shape(a, b))
        return jnp.broadcast_to(total, (size, *total.shape[1:])), True

    return RawProduct(few_rows(a, za, b, zb))


def on_cpu(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> RawProduct:
    """Multiply one row by a matrix with ``row_product``, because XLA's CPU backend has no routine for that."""
    one_row_each = a.shape[-2] == 1 and math.prod(product_shape(a, b)[:-2]) == math.prod(b.shape[:-2])
    if one_row_each and a.shape[-1] > 0:
        return RawProduct(row_product(a, za, b, zb))
    return dot_with_ones(a, za, b, zb)
