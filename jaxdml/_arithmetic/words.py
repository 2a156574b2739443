"""Turn elements of any dtype into unsigned integers that devices can add up, and back."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._base.shapes import is_static

_WORD = 4
"""The narrowest integer, in bytes, that all devices can add up in a collective."""


def by_any_bits(function: Callable[..., jax.Array], *operands: jax.Array) -> jax.Array:
    """Call ``function`` on operands of one dtype as unsigned integers, and turn its result back.

    ``function`` gets the bits of the elements. It is called twice for complex ones, and elements of less than 8 bits
    are widened first.
    """
    dtype = operands[0].dtype
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return lax.complex(*(by_any_bits(function, *map(part, operands)) for part in (lax.real, lax.imag)))
    if dtype == jnp.bool:
        return by_any_bits(function, *(operand.astype(jnp.uint8) for operand in operands)).astype(dtype)
    if jnp.issubdtype(dtype, jnp.integer) and jnp.iinfo(dtype).bits < 8:
        return by_any_bits(function, *(operand.astype(jnp.int8) for operand in operands)).astype(dtype)
    if jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits < 8:
        return by_any_bits(function, *(operand.astype(jnp.float32) for operand in operands)).astype(dtype)
    return lax.bitcast_convert_type(function(*map(bits_of, operands)), dtype)


def words_of(bits: jax.Array) -> jax.Array:
    """Return unsigned integers of 32 bits or more that hold ``bits``: several elements each, or one.

    Adding up words adds up their elements, if of each element at most one term is not 0.
    """
    per_word = _per_word(bits)
    if per_word is None:
        return bits.astype(jnp.uint32) if bits.dtype.itemsize < _WORD else bits
    return lax.bitcast_convert_type(bits.reshape(*bits.shape[:-1], -1, per_word), jnp.uint32)


def of_words(words: jax.Array, bits: jax.Array) -> jax.Array:
    """Return what ``words_of`` makes such words of; ``bits`` has the shape and the dtype."""
    if _per_word(bits) is None:
        return words.astype(bits.dtype)
    return lax.bitcast_convert_type(words, bits.dtype).reshape(bits.shape)


def _per_word(bits: jax.Array) -> int | None:
    """Return how many elements share a word, or None if each has one of its own."""
    per_word = _WORD // bits.dtype.itemsize
    if per_word < 2 or bits.ndim == 0 or not is_static(*bits.shape) or bits.shape[-1] % per_word:
        return None
    return per_word
