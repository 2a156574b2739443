"""Random bits by Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, 2011."""

from typing import Any

import jax.numpy as jnp
import numpy as np

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85


def philox(state: Any, size: int) -> tuple[Any, Any]:
    """Return ``size`` random words, and the state whose words follow them.

    Args:
      state: six words of uint32: a counter, the lowest word first, and a key. Each count gives four words.
      size: how many.
    """
    blocks = -(-size // 4)
    counters = _plus(state[:4, None], jnp.arange(blocks, dtype=jnp.uint32))
    words = _encrypted(counters, state[4], state[5])
    following = _plus(state[:4, None], jnp.full((1,), blocks, jnp.uint32))
    return jnp.stack(words, axis=1).reshape(-1)[:size], jnp.concatenate([jnp.concatenate(following), state[4:]])


def _plus(counter: Any, number: Any) -> list[Any]:
    """Add a word to a number of four words, from the lowest on."""
    words, carry = [], number
    for word in counter:
        words.append(word + carry)
        carry = (words[-1] < carry).astype(jnp.uint32)
    return words


def _encrypted(words: list[Any], low: Any, high: Any) -> list[Any]:
    a, b, c, d = words
    for _ in range(10):
        (top, bottom), (over, under) = _product(_MULTIPLIERS[0], a), _product(_MULTIPLIERS[1], c)
        a, b, c, d = over ^ b ^ low, under, top ^ d ^ high, bottom
        low, high = low + np.uint32(_WEYL[0]), high + np.uint32(_WEYL[1])
    return [a, b, c, d]


def _product(factor: int, word: Any) -> tuple[Any, Any]:
    """Return the high and the low word of a product of two words, from products of their halves."""
    mask = np.uint32(0xFFFF)
    f1, f0 = np.uint32(factor >> 16), np.uint32(factor & 0xFFFF)
    w1, w0 = word >> 16, word & mask
    middle = f1 * w0 + (f0 * w0 >> 16)
    other = f0 * w1 + (middle & mask)
    return f1 * w1 + (middle >> 16) + (other >> 16), np.uint32(factor) * word
