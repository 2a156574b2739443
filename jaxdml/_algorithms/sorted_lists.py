"""Select by merging short sorted lists, a few elements wide, in one reduction over the row.

Key and position of an element make one integer, the key in the high bits and the position, counted backwards, in
the low ones. Those integers are all different, so a larger one simply comes first, and a list of them is sorted by
``max`` and ``min`` alone, in a fixed network of exchanges with nothing to branch on. What a row is reduced with,
``merge the lists and keep the front``, is associative and commutative, and an empty list, of zeros, is neutral.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.order_keys import order_keys
from jaxdml._base.axis_direction import AxisDirection

List = tuple[jax.Array, ...]
"""Arrays of one shape; at every place their elements make a list, in decreasing order once it is sorted."""


def _packed_dtype(itemsize: int, n: int) -> np.dtype[Any]:
    """Choose the integer that holds a key of this size beside a position below ``n``."""
    return np.dtype(np.uint32 if 8 * itemsize + (n - 1).bit_length() <= 32 else np.uint64)


def by_sorted_lists(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Reduce each row to the sorted list of its first ``k``; keys are of at most 32 bits."""
    n = x.shape[1]
    packed = _packed_dtype(x.dtype.itemsize, n)
    width = 1 << (k - 1).bit_length()
    # 64-bit integers exist only within: what comes out has 32 bits again.
    with jax.enable_x64(True):
        lists = _sort(_lists(x, width, direction, packed))
        fronts = lax.reduce(lists, (packed.type(0),) * width, _merge, (1,))
        reversed_positions = jnp.stack(fronts[:k], axis=1) & packed.type((1 << (n - 1).bit_length()) - 1)
        return (
            packed.type(n - 1) - reversed_positions
            if packed == np.uint32
            else (jnp.uint32(n - 1) - reversed_positions.astype(jnp.uint32))
        )


def _lists(x: jax.Array, width: int, direction: AxisDirection, packed: np.dtype[Any]) -> List:
    """Cut each row into ``width`` pieces and pack their elements; the i-th ones of the pieces make a list."""
    n = x.shape[1]
    length = -(-n // width)
    bits = (n - 1).bit_length()

    def piece(number: int) -> jax.Array:
        # The last pieces would reach beyond the end. They start earlier, and give up what others have already.
        start = min(number * length, n - length)
        positions = np.uint32(start) + lax.broadcasted_iota(jnp.uint32, (1, length), 1)
        keys = order_keys(lax.slice_in_dim(x, start, start + length, axis=1), direction)
        values = keys.astype(packed) << packed.type(bits) | (np.uint32(n - 1) - positions).astype(packed)
        return values if start == number * length else jnp.where(positions >= number * length, values, packed.type(0))

    return tuple(map(piece, range(width)))


def _sort(values: List) -> List:
    """Sort the list at every place: Batcher's odd-even merge sort."""
    exchanged = list(values)
    for upper, lower in odd_even_merge_sort(len(values)):
        _exchange(exchanged, upper, lower)
    return tuple(exchanged)


def _merge(a: List, b: List) -> List:
    """Merge two sorted lists and keep the front: the larger ones of a and b reversed, then a bitonic merge."""
    merged = [lax.max(x, y) for x, y in zip(a, reversed(b), strict=True)]
    distance = len(merged) // 2
    while distance:
        for place in range(len(merged)):
            if not place & distance:
                _exchange(merged, place, place + distance)
        distance //= 2
    return tuple(merged)


def _exchange(values: list[jax.Array], upper: int, lower: int) -> None:
    values[upper], values[lower] = lax.max(values[upper], values[lower]), lax.min(values[upper], values[lower])


def odd_even_merge_sort(width: int) -> Iterator[tuple[int, int]]:
    """List the exchanges that sort ``width`` elements, a power of two: Batcher's network."""
    sorted_length = 1
    while sorted_length < width:
        distance = sorted_length
        while distance:
            for start in range(distance % sorted_length, width - distance, 2 * distance):
                for place in range(start, min(start + distance, width - distance)):
                    if place // (2 * sorted_length) == (place + distance) // (2 * sorted_length):
                        yield place, place + distance
            distance //= 2
        sorted_length *= 2
