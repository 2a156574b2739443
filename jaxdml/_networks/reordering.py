"""Reorder dimensions so that what reads the result reads it fast."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._placement.layout import on_explicit_axes
from jaxdml._placement.lowering import Form, Target, at_lowering


def reordered(x: jax.Array, order: Sequence[int]) -> jax.Array:
    """Return ``x`` with its dimensions in this order.

    On a GPU integers of 8 bits are stored in the new order, before XLA makes wider numbers of them. Rows move whole. If
    the last two dimensions of the result must be swapped for that, XLA takes the swap into a product that reads it.
    """
    if x.dtype not in (jnp.int8, jnp.uint8) or x.ndim < 3 or on_explicit_axes(x):
        return jnp.transpose(x, order)
    result: jax.Array = at_lowering(form, x, order=tuple(order))
    return result


def form(target: Target) -> Form:
    """Say who reorders where a program is lowered for ``target``."""
    return _in_rows if target.alone and target.is_gpu else _at_once


def _at_once(x: jax.Array, *, order: tuple[int, ...]) -> jax.Array:
    return jnp.transpose(x, order)


def _in_rows(x: jax.Array, *, order: tuple[int, ...]) -> jax.Array:
    if x.dtype == jnp.uint8:
        # As int8, which operators store between them.
        return with_flipped_sign(_in_rows(with_flipped_sign(x, jnp.int8), order=order), jnp.uint8)
    *front, second, last = order
    rows = (*front, second, last) if last == x.ndim - 1 else (*front, last, second)
    if rows[-1] != x.ndim - 1 or rows == tuple(range(x.ndim)):
        return jnp.transpose(x, order)
    moved = jnp.transpose(x, rows)
    # An array of one dimension has only one layout.
    stored = lax.optimization_barrier(moved.reshape(-1)).reshape(moved.shape)  # type: ignore[no-untyped-call]
    return stored if rows == order else jnp.swapaxes(stored, -1, -2)
