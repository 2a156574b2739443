"""Multiply one row by a matrix exactly, reading the matrix once and as it is stored.

XLA's CPU backend has no int8 routine for that. So row k of the matrix is multiplied by element k of the row, and the
products are added.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._kernels.integer_product.integer_dot import dot_with_ones
from jaxdml._kernels.integer_product.operands import product_shape
from jaxdml._kernels.integer_sums import accumulator

_FIRST_SUMMAND_COUNT, _SUMMAND_COUNT = 8, 4
"""How many rows are added at once, first and later. With more, rows 4 KiB apart compete for the same cache lines."""


@jax.custom_batching.custom_vmap
def row_product(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> jax.Array:
    """Return the int32 ``(a - za) @ (b - zb)`` modulo 2**32 of a single row ``a``; operands as for a ``Product``.

    The zero point is subtracted from the row itself, so no column sums are needed. Many rows that share ``b`` are
    better multiplied by ``dot_with_ones``, and under ``jax.vmap`` they are.
    """
    wide = a.astype(jnp.int32)
    row = jnp.swapaxes(wide if za is None else wide - za, -1, -2)
    total = _sum_of_rows(b, row)
    return total if zb is None else total - zb * jnp.sum(row, axis=-2, keepdims=True, dtype=jnp.int32)


@row_product.def_vmap
def _(size: int, batched: Any, *operands: Any) -> tuple[jax.Array, bool]:
    axes = [None if x is None or not is_batched else 0 for x, is_batched in zip(operands, batched, strict=True)]

    def product(*x: Any) -> jax.Array:
        return accumulator(dot_with_ones(*x), product_shape(x[0], x[2]))

    return jax.vmap(product, axes, axis_size=size)(*operands), True


def _sum_of_rows(matrix: jax.Array, weights: jax.Array) -> jax.Array:
    """Sum the rows of int8 ``[..., K, N]``, each times its int32 weight ``[..., K, 1]``, as int32 ``[..., 1, N]``.

    A few rows are added at a time, as vectors: XLA's CPU backend does not vectorize a sum along columns.
    """
    total, sums = _add_groups(_FIRST_SUMMAND_COUNT, lambda x, weight: x.astype(jnp.int32) * weight, matrix, weights)
    while total.shape[-2] > 1:
        total, left = _add_groups(_SUMMAND_COUNT, lambda x: x, total)
        sums += left
    sums += [total] if total.shape[-2] else []
    return sum(sums[1:], sums[0])


def _add_groups(count: int, term: Callable[..., jax.Array], *xs: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
    """Add the rows of ``term(*xs)`` in groups of ``count`` neighbours; return the sums and the rows left over."""
    rows = xs[0].shape[-2]
    whole = rows // count * count
    rest = [term(*(x[..., i : i + 1, :] for x in xs)) for i in range(whole, rows)]
    groups = [x[..., :whole, :].reshape(*x.shape[:-2], whole // count, count, x.shape[-1]) for x in xs]
    terms = [term(*(x[..., i, :] for x in groups)) for i in range(count)]
    # Without the barrier XLA would fuse each sum into the operations that use it, and compute it again in each.
    return lax.optimization_barrier(sum(terms[1:], terms[0])), rest  # type: ignore[no-untyped-call]
