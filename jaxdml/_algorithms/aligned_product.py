"""Multiply as ``integer_dot.centered_product`` does, with operands in a form and place that tensor cores take.

They take both by their depth, in rows that begin at aligned addresses. XLA's GPU backend brings operands there by
itself, but with kernels that take longer than the product, or puts one in another order and takes a slow product.
"""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.integer_dot import Centered, as_matrices, center
from jaxdml._algorithms.order_keys import bits_of

DEEPEST_FLOAT_SUM = 2**24 // 128**2
"""So many products of two int8 numbers stay within 2**24, where float32 holds every integer."""

_ALIGNMENT = 16
"""What every size is rounded up to, in bytes: one load of a tensor core's operand."""


def float_product(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> Centered:
    """Multiply as bfloat16, which holds every int8 number, summed in float32, which holds every sum: no step rounds.

    At most ``DEEPEST_FLOAT_SUM`` deep.
    """
    left, right = as_matrices(a, b)
    product = jnp.matmul(left.astype(jnp.bfloat16), right.astype(jnp.bfloat16), preferred_element_type=jnp.float32)
    total = product.astype(jnp.int32)

    def column_sums() -> jax.Array:
        return jnp.sum(right, axis=-2, keepdims=True, dtype=jnp.int32)

    return center(total, a.shape[-1], za, zb, lambda: _row_sums(a), column_sums)


def turned_product(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> Centered:
    """Turn ``b`` first, in a kernel of its own, which makes sums of rows of the sums of columns."""
    left, right = as_matrices(a, b)
    stored, turned = _stored(left), _turned(right)
    total = jnp.einsum("...mk,...nk->...mn", stored, turned, preferred_element_type=jnp.int32)

    def row_sums() -> jax.Array:
        if a.shape[-1] % _ALIGNMENT == 0:
            return _row_sums(a)
        # Rows that begin at any address would be read byte by byte. What fills the stored ones up adds 0.
        return _row_sums(stored)[..., : left.shape[-2], :].reshape(*a.shape[:-1], 1)

    def column_sums() -> jax.Array:
        return jnp.swapaxes(_row_sums(turned), -1, -2)[..., : b.shape[-1]]

    return center(total, a.shape[-1], za, zb, row_sums, column_sums)


def unturned_product(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None) -> Centered:
    """Multiply ``b`` as it is, for few rows, and with them a row of ones, which gives the sums of columns."""
    left, right = as_matrices(a, b)
    *batch, rows, depth = left.shape
    ones = jnp.ones((*batch, 0 if za is None else 1, depth), jnp.int8)
    left = _filled(jnp.concatenate([left, ones], axis=-2))
    total = jnp.einsum("...mk,...kn->...mn", left, _filled(right), preferred_element_type=jnp.int32)

    def column_sums() -> jax.Array:
        return total[..., rows : rows + 1, : b.shape[-1]]

    return center(total, depth, za, zb, lambda: _row_sums(a), column_sums)


def _row_sums(x: jax.Array) -> jax.Array:
    return jnp.sum(x, axis=-1, keepdims=True, dtype=jnp.int32)


def _filled(x: jax.Array) -> jax.Array:
    missing = [(0, -size % _ALIGNMENT, 0) for size in x.shape[-2:]]
    return lax.pad(x, jnp.int8(0), [(0, 0, 0)] * (x.ndim - 2) + missing)


def _stored(x: jax.Array) -> jax.Array:
    """Fill ``x`` up to aligned sizes, and store it row by row."""
    filled = _filled(x)
    if filled.shape == x.shape:
        return _in_order(x)
    return _unpaired(_paired(filled[..., ::2], filled[..., 1::2]))


def _turned(x: jax.Array) -> jax.Array:
    """Fill ``x`` up to aligned sizes, and store it column by column."""
    filled = _filled(x)
    return _unpaired(jnp.swapaxes(_paired(filled[..., ::2, :], filled[..., 1::2, :]), -1, -2))


def _paired(first: jax.Array, second: jax.Array) -> jax.Array:
    """Join bytes to words of two, the first lower: mostly XLA's GPU backend moves those faster than bytes."""
    return bits_of(first).astype(jnp.uint16) | bits_of(second).astype(jnp.uint16) << 8


def _unpaired(words: jax.Array) -> jax.Array:
    *rows, count = words.shape
    return lax.bitcast_convert_type(_in_order(words), jnp.int8).reshape(*rows, 2 * count)


def _in_order(x: jax.Array) -> jax.Array:
    """Store ``x`` row by row: in one dimension there is no other order."""
    return lax.optimization_barrier(x.reshape(-1)).reshape(x.shape)  # type: ignore[no-untyped-call]
