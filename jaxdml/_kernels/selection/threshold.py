"""Select by the value of the k-th key: find it by bisection, mark the keys that reach it, and gather the marked.

The work does not depend on k until the k survivors are sorted. Every step compares and counts, which vector units do
well. Bisection takes at most as many steps as a key has bits. The marks are packed into words of 32 bits.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.exact_gather import over_batch
from jaxdml._arithmetic.order_keys import order_keys
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.selection.packed_keys import among_packed, by_sorting

_WORD = 32
"""The bits of a word of marks."""

_BLOCK = _WORD * 32
"""Sequences are padded to whole blocks, each of 32 rows and 32 columns; ``_reduced`` reduces the columns first."""


def by_threshold(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Keep the first ``k`` of every sequence by their threshold and sort those; keys have at most 32 bits."""
    keys = order_keys(x, direction)
    places = kept_by_threshold(keys, k)
    kept = jnp.take_along_axis(keys, places, axis=-1, mode="promise_in_bounds")
    return among_packed(by_sorting)(kept, places, k, x.shape[-1])


def kept_by_threshold(keys: jax.Array, k: int) -> jax.Array:
    """Return the places of the ``k`` greatest keys ``[..., m]``, ascending; of equal keys the first are kept.

    Args:
      keys: unsigned integers.
      k: how many to keep.
    """
    # Padding with zeros is safe. A zero reaches no threshold but 0, and then it comes after all the real keys.
    missing = [(0, 0, 0)] * (keys.ndim - 1) + [(0, -keys.shape[-1] % _BLOCK, 0)]
    padded = lax.pad(keys, keys.dtype.type(0), missing)
    threshold = _kth(padded, k, _lower_bound(keys, k))
    above, equal = _words(padded > threshold), _words(padded == threshold)
    wanted = k - lax.population_count(above).sum(axis=-1, keepdims=True, dtype=jnp.uint32)
    earlier = _exclusive_cumsum(lax.population_count(equal))
    room = jnp.where(wanted > earlier, wanted - earlier, jnp.uint32(0))
    return _places(above | _lowest_bits(equal, room), k)


def _lower_bound(keys: jax.Array, k: int) -> jax.Array:
    """Return a number ``[..., 1]`` that at least ``k`` keys reach, often close to the k-th: a minimum of k maxima."""
    *batch, m = keys.shape
    blocks = -(-k // _WORD)
    members = m // (blocks * _WORD)
    if not members:
        return jnp.zeros_like(keys, shape=(*batch, 1))
    grouped = lax.slice_in_dim(keys, 0, blocks * members * _WORD, axis=-1).reshape(*batch, blocks, members, _WORD)
    maxima = lax.optimization_barrier(grouped.max(axis=-2))  # type: ignore[no-untyped-call]
    return maxima.min(axis=(-2, -1))[..., None]


def _kth(padded: jax.Array, k: int, low: jax.Array) -> jax.Array:
    """Find the k-th greatest key ``[..., 1]``: the greatest number that ``k`` keys reach.

    It lies between ``low`` and the greatest key. Each count halves that range.
    """
    one = padded.dtype.type(1)

    def halve(bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = high - (high - low >> one)
        reached = _count(padded >= middle) >= k
        return jnp.where(reached, middle, low), jnp.where(reached, high, middle - one)

    greatest = _reduced(padded, jnp.max)
    return lax.while_loop(lambda bounds: (bounds[0] < bounds[1]).any(), halve, (low, greatest))[0]


def _count(marks: jax.Array) -> jax.Array:
    """Count the marks of every sequence, ``[..., 1]``."""
    return _reduced(marks, partial(jnp.sum, dtype=jnp.uint32))


def _reduced(values: jax.Array, reduce: Callable[..., jax.Array]) -> jax.Array:
    """Reduce the last axis to ``[..., 1]`` in two steps: XLA's CPU backend vectorizes the first, across columns.

    The barrier keeps XLA from merging the two steps.
    """
    *batch, m = values.shape
    columns = reduce(values.reshape(*batch, m // _BLOCK, _BLOCK // _WORD, _WORD), axis=-2)
    columns = lax.optimization_barrier(columns)  # type: ignore[no-untyped-call]
    return reduce(columns, axis=(-2, -1))[..., None]


def _words(marks: jax.Array) -> jax.Array:
    """Pack each 32 marks into the bits of a word, the first one lowest."""
    *batch, m = marks.shape
    bits = marks.reshape(*batch, m // _WORD, _WORD).astype(jnp.uint32)
    return (bits << lax.broadcasted_iota(jnp.uint32, bits.shape, bits.ndim - 1)).sum(axis=-1, dtype=jnp.uint32)


def _bit_place(words: jax.Array, number: jax.Array) -> jax.Array:
    """Return the place of the set bit with this number, counted from 0 at the lowest: a binary search by counting."""
    place = jnp.zeros_like(words)
    for half in (16, 8, 4, 2, 1):
        below = lax.population_count(words >> place & np.uint32((1 << half) - 1))
        beyond = number >= below
        number = jnp.where(beyond, number - below, number)
        place = jnp.where(beyond, place + np.uint32(half), place)
    return place


def _lowest_bits(words: jax.Array, count: jax.Array) -> jax.Array:
    """Keep the ``count`` lowest set bits of every word."""
    lower = (jnp.uint32(1) << _bit_place(words, count)) - jnp.uint32(1)
    return jnp.where(count >= lax.population_count(words), words, words & lower)


def _exclusive_cumsum(counts: jax.Array) -> jax.Array:
    return jnp.cumsum(counts, axis=-1) - counts


def _places(words: jax.Array, k: int) -> jax.Array:
    """List the places of the ``k`` bits that are set in each sequence of words."""
    first = _exclusive_cumsum(lax.population_count(words))
    # Mark for each word where its bits begin in the list. The number of marks up to an entry then gives its word.
    mark = over_batch(lambda row: jnp.zeros(k, jnp.uint32).at[row].add(jnp.uint32(1), mode="drop"), words.ndim - 1)
    word = jnp.cumsum(mark(first), axis=-1) - jnp.uint32(1)
    of_word, first_of_word = (
        jnp.take_along_axis(part, word, axis=-1, mode="promise_in_bounds") for part in (words, first)
    )
    number = lax.broadcasted_iota(jnp.uint32, (1,) * (words.ndim - 1) + (k,), words.ndim - 1) - first_of_word
    return word * jnp.uint32(_WORD) + _bit_place(of_word, number)
