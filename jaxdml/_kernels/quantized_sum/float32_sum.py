"""Add in float32, with two numbers that are proved to round every sum correctly."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.bits import bits_of, with_flipped_sign
from jaxdml._arithmetic.nearest import nearest, nearest_without_ties
from jaxdml._arithmetic.signedness import WORD, as_int8, as_int8_words, int8_of_words
from jaxdml._base.shapes import is_static
from jaxdml._kernels.requantization import Addends, pair_sum

MIN_OUTPUTS_IN_WORDS = {1: 2**22, 2: 2**22, 4: 2**20, 5: 2**20}
"""From so many on, by rank, a GPU reads and writes words, four numbers at once. With fewer that costs more
than it saves: XLA joins less to a sum of words.

On an H100 100352 x 256 took 28.3 us so and 36.3 as bytes, 25088 x 512 15.6 and 19.3, 4096 x 768 5.8 and 6.0. A sum of
images is mostly read by a convolution, to which XLA joins nothing. One of rank 3, mostly texts, is mostly normalized:
in the same kernel if it is of bytes, but not if it is of words. BERT-base with 32 texts took 1,942 us on an H200 with
words, and 1,774 with bytes in another run."""


def serves_words(a: jax.Array, b: jax.Array) -> bool:
    """Tell whether to add words if both arrays are int8: they are large, of one shape, and have rows of whole words.

    uint8 is read by bytes. It would be made int8 in kernels of their own, since XLA takes nothing before a bitcast into
    the kernel after it.
    """
    least = MIN_OUTPUTS_IN_WORDS.get(a.ndim, math.inf)
    if a.shape != b.shape or not is_static(*a.shape) or math.prod(a.shape) < least:
        return False
    return a.shape[-1] % WORD == 0


def add(by: Addends, a: Any, b: Any, scales: Any, za: Any, zb: Any, zero: Any, *, dtype: jnp.dtype) -> jax.Array:
    """Add numbers. A form of ``quantized_sum``."""
    del scales, za, zb
    # As int8, which two operators store between them.
    return _rounded(by, as_int8(a, None)[0], as_int8(b, None)[0], zero, dtype)


def add_words(by: Addends, a: Any, b: Any, scales: Any, za: Any, zb: Any, zero: Any, *, dtype: jnp.dtype) -> jax.Array:
    """Add words of four int8 numbers. A form of ``quantized_sum``; all zero points are single numbers."""
    del scales, za, zb
    words = [as_int8_words(x, None)[0] for x in (a, b)]
    joined = jnp.zeros((), jnp.int32)
    for place in range(0, 8 * WORD, 8):
        p, q = (x << (24 - place) >> 24 for x in words)
        stored, _ = as_int8(_rounded(by, p, q, zero, dtype), None)
        joined = joined | bits_of(stored).astype(jnp.int32) << place
    stored = int8_of_words(joined)
    return stored if dtype == jnp.int8 else with_flipped_sign(stored, dtype)


def _rounded(by: Addends, p: jax.Array, q: jax.Array, zero: jax.Array | None, dtype: jnp.dtype) -> jax.Array:
    assert by.pair is not None
    round_sums = nearest_without_ties if by.pair.without_ties else nearest
    return round_sums(pair_sum(p, q, by.pair), zero, dtype)
