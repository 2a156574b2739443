"""Multiply one row by a matrix exactly, reading the matrix once and as it is.

No int8 kernel of XLA's CPU backend does. So the rows of the matrix are added up, each times its element of the row.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.integer_dot import centered, centered_product, product_shape

_FIRST_FOLD, _FOLD = 8, 4
"""Rows added at once: with more, those of a matrix whose rows are 4 KiB apart compete for the same cache lines."""


@jax.custom_batching.custom_vmap
def row_product(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> jax.Array:
    """Return ``(a - za) @ (b - zb)`` modulo 2**32 of a single row ``a``, int32; operands as for ``centered_product``.

    The zero point is taken from the row, so no column is summed. Many rows that share ``b`` are better off with
    ``centered_product``, to which ``jax.vmap`` goes back.
    """
    wide = a.astype(jnp.int32)
    row = jnp.swapaxes(wide if za is None else wide - za, -1, -2)
    total = _sum_of_rows(b, row)
    return total if zb is None else total - zb * jnp.sum(row, axis=-2, keepdims=True, dtype=jnp.int32)


@row_product.def_vmap
def _(size: int, batched: Any, *operands: Any) -> tuple[jax.Array, bool]:
    axes = [None if x is None or not is_batched else 0 for x, is_batched in zip(operands, batched, strict=True)]

    def product(*x: Any) -> jax.Array:
        return centered(centered_product(*x), product_shape(x[0], x[2]))

    return jax.vmap(product, axes, axis_size=size)(*operands), True


def _sum_of_rows(matrix: jax.Array, weights: jax.Array) -> jax.Array:
    """Sum the rows of int8 ``[..., K, N]``, each times its int32 weight ``[..., K, 1]``, as int32 ``[..., 1, N]``.

    A few rows are added at a time, as vectors. XLA's CPU backend has no such kernel for a sum along columns.
    """
    total, sums = _fold(_FIRST_FOLD, lambda x, weight: x.astype(jnp.int32) * weight, matrix, weights)
    while total.shape[-2] > 1:
        total, left = _fold(_FOLD, lambda x: x, total)
        sums += left
    sums += [total] if total.shape[-2] else []
    return sum(sums[1:], sums[0])


def _fold(count: int, term: Callable[..., jax.Array], *xs: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
    """Add ``count`` neighbouring rows of what ``term`` gives; return the sums, and the rows left over."""
    rows = xs[0].shape[-2]
    whole = rows // count * count
    rest = [term(*(x[..., i : i + 1, :] for x in xs)) for i in range(whole, rows)]
    groups = [x[..., :whole, :].reshape(*x.shape[:-2], whole // count, count, x.shape[-1]) for x in xs]
    terms = [term(*(x[..., i, :] for x in groups)) for i in range(count)]
    # Fused with what uses it, each sum would be computed there again and again.
    return lax.optimization_barrier(sum(terms[1:], terms[0])), rest  # type: ignore[no-untyped-call]
