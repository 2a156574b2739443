"""Find an extreme in the one chunk of a sequence that holds it, so that most elements are read once."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.exact_gather import along
from jaxdml._arithmetic.sizes import at_most
from jaxdml._kernels.extremes.reductions import Axes, Rule, extreme_keys, first_or_last


class Lengths(NamedTuple):
    """Hold the lengths of chunks.

    An axis is one of columns if the dimensions after it have at least ``lanes`` elements, and otherwise one of rows.
    """

    lanes: int
    """How many neighbouring elements are compared at once. Rows are split into so many lanes."""

    chunks_of_rows: tuple[int, int]
    """How many elements of a row make a chunk, at least and at most: powers of two. Between them, about ``sqrt(n)``."""

    chunk_of_columns: int
    """How many elements of a column make a chunk."""

    short_row: int
    """Up to so many elements, at least the shortest chunk, a row is searched as a whole."""

    short_column: int
    """Up to so many elements, at least a chunk and at least ``lanes``, compare one after another."""


_GREATEST = {last: Rule(least=False, last=last) for last in (False, True)}
"""By whether the last one is chosen: the rule for keys."""


def by_greatest_chunk(
    x: jax.Array, axes: Axes, rule: Rule, dtype: np.dtype[np.integer], *, lengths: Lengths
) -> tuple[jax.Array, jax.Array]:
    """Find the greatest key of each chunk, the chunk whose key is the greatest, and the position in that chunk.

    Exact, with its ties. The first chunk whose greatest key is that of the whole sequence holds the first such element,
    and the last chunk the last one. That holds too where the chunk at the end overlaps the one before it.
    """
    return _find(*_merged(x, axes), rule, dtype, lengths)


def _merged(x: jax.Array, axes: Axes) -> tuple[jax.Array, int]:
    """Merge the axes into one. If other dimensions are between them, the merged one becomes the last."""
    first, end = axes[0], axes[-1] + 1
    if axes != tuple(range(first, end)):
        x = jnp.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
        first, end = x.ndim - len(axes), x.ndim
    n = math.prod(x.shape[first:end])
    return x.reshape(*x.shape[:first], n, *x.shape[end:]), first


def _find(
    x: jax.Array, axis: int, rule: Rule, dtype: np.dtype[np.integer], lengths: Lengths
) -> tuple[jax.Array, jax.Array]:
    """Return the greatest key along one axis, and its position."""
    n = x.shape[axis]
    # Sizes of other dimensions may be symbolic. Then they count as long.
    in_rows = bool(at_most(math.prod(x.shape[axis + 1 :]), lengths.lanes - 1))
    if n <= lengths.short_column:
        return _one_by_one(x, axis, rule, dtype)
    if in_rows and n <= lengths.short_row:
        return _by_lanes(x, axis, rule, dtype, lengths.lanes)
    chunk, lanes = lengths.chunk_of_columns, 1
    if in_rows:
        shortest, longest = lengths.chunks_of_rows
        chunk, lanes = max(shortest, min(longest, 1 << math.isqrt(n).bit_length())), lengths.lanes
    parts = [_greatest_key(part, axis + 1, rule, lanes) for part in _in_parts(x, axis, chunk)]
    greatest, number = _find(_barrier(jnp.concatenate(parts, axis)), axis, _GREATEST[rule.last], dtype, lengths)
    start = jnp.minimum(number * dtype.type(chunk), dtype.type(n - chunk))
    start = jnp.expand_dims(start, axis)
    places = start + lax.broadcasted_iota(dtype, (*x.shape[:axis], chunk, *x.shape[axis + 1 :]), axis)
    inside = _taken(x, places, axis)
    equal = extreme_keys(_barrier(inside), rule) == jnp.expand_dims(greatest, axis)
    return greatest, first_or_last(equal, places, (axis,), rule)


def _taken(x: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    """Take the elements at ``places`` along an axis, which may have more elements than int32 counts."""
    return lax.gather(x, places[..., None], along(axis, x.ndim), (1,) * x.ndim, mode="promise_in_bounds")


def _greatest_key(x: jax.Array, axis: int, rule: Rule, lanes: int) -> jax.Array:
    """Return the greatest key along an axis, which may be split into lanes."""
    if x.dtype.itemsize == 1:
        # XLA's CPU backend has a fast maximum of bytes.
        return extreme_keys(x.min(axis) if rule.least else x.max(axis), rule)
    keys = extreme_keys(x, rule)
    if lanes > 1:
        keys = _barrier(_split(keys, axis, lanes).max(axis))
    return keys.max(axis)


_traced_once = jax.jit(extreme_keys, static_argnums=1, inline=True)
"""``extreme_keys``, traced once for all elements: up to 32 of one shape are compared."""


def _one_by_one(x: jax.Array, axis: int, rule: Rule, dtype: np.dtype[np.integer]) -> tuple[jax.Array, jax.Array]:
    """Compare the elements along an axis one after another, in operations that XLA makes one vectorized loop of."""
    elements = [lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis])]
    greatest = _traced_once(elements[0], rule)
    position = jnp.zeros_like(greatest, dtype)
    for i, element in enumerate(elements[1:], 1):
        keys = _traced_once(element, rule)
        better = keys >= greatest if rule.last else keys > greatest
        greatest, position = jnp.maximum(keys, greatest), jnp.where(better, dtype.type(i), position)
    return greatest, position


def _by_lanes(
    x: jax.Array, axis: int, rule: Rule, dtype: np.dtype[np.integer], lanes: int
) -> tuple[jax.Array, jax.Array]:
    """Find the greatest key, then the first or last position that has it, each in two steps.

    XLA's CPU backend vectorizes the first step, to one result for each lane. The barriers keep XLA from merging the two
    steps into one loop that it does not vectorize.
    """
    parts = [extreme_keys(part, rule) for part in _in_parts(x, axis, lanes)]
    by_lane = functools.reduce(jnp.maximum, [part.max(axis) for part in parts])
    greatest = _barrier(_barrier(by_lane).max(axis, keepdims=True))
    found = []
    for number, part in enumerate(parts):
        row, lane = (lax.broadcasted_iota(dtype, part.shape, axis + more) for more in (0, 1))
        start = dtype.type(number * (x.shape[axis] - lanes))
        equal = part == jnp.expand_dims(greatest, axis)
        found.append(first_or_last(equal, start + row * dtype.type(lanes) + lane, (axis,), rule))
    better = jnp.maximum if rule.last else jnp.minimum
    positions = _barrier(functools.reduce(better, found))
    return greatest.squeeze(axis), positions.max(axis) if rule.last else positions.min(axis)


def _in_parts(x: jax.Array, axis: int, length: int) -> list[jax.Array]:
    """Split an axis into chunks of that length. If some elements are left over, the second part has the last chunk.

    Each part is ``[..., chunks, length, ...]``.
    """
    n = x.shape[axis]
    whole = n // length * length
    parts = [(0, whole)] if whole == n else [(0, whole), (n - length, n)]
    return [_split(lax.slice_in_dim(x, *part, axis=axis), axis, length) for part in parts]


def _split(x: jax.Array, axis: int, length: int) -> jax.Array:
    """Split an axis into chunks of that length."""
    return x.reshape(*x.shape[:axis], x.shape[axis] // length, length, *x.shape[axis + 1 :])


def _barrier(x: jax.Array) -> jax.Array:
    barred: jax.Array = lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
    return barred
