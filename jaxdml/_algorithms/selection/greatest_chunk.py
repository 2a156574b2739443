"""Find an extreme in the one chunk of a sequence that holds it, so that most elements are read once."""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.selection.extremes import Axes, Rule, by_two_reductions, extreme_keys, first_or_last
from jaxdml._algorithms.selection.whole_axis import index_dtype

LANES = 16
"""How many neighbouring elements a CPU compares at once. If the dimensions after an axis have fewer, split the axis."""

CHUNK_OF_ROWS = 128
"""The length of a chunk along an axis that is split."""

CHUNK_OF_COLUMNS = 16
"""The length of a chunk along another axis."""

SHORT_ROWS = 512
"""Up to this length an axis that is split is not cut into chunks."""

SHORT_COLUMNS = 32
"""Up to this length another axis is not cut into chunks."""

_GREATEST = {last: Rule(least=False, last=last) for last in (False, True)}
"""By whether the last one is chosen: the rule for keys."""


def by_greatest_chunk(x: jax.Array, axes: Axes, rule: Rule) -> tuple[jax.Array, jax.Array]:
    """Find the greatest key of each chunk, the chunk whose key is the greatest, and the position in that chunk.

    Exact, with its ties. The first chunk whose greatest key is that of the whole sequence holds the first such element,
    and the last chunk the last one. The chunk at the end may overlap the one before it: an element of both is first, or
    last, in whichever is read.
    """
    return _find(*_merged(x, axes), rule)


def _merged(x: jax.Array, axes: Axes) -> tuple[jax.Array, int]:
    """Merge the axes into one. If other dimensions are between them, the merged one becomes the last."""
    first, end = axes[0], axes[-1] + 1
    if axes != tuple(range(first, end)):
        x = jnp.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
        first, end = x.ndim - len(axes), x.ndim
    n = math.prod(x.shape[first:end])
    return x.reshape(*x.shape[:first], n, *x.shape[end:]), first


def _find(x: jax.Array, axis: int, rule: Rule) -> tuple[jax.Array, jax.Array]:
    """Return the greatest key along one axis, and its position."""
    n = x.shape[axis]
    by_lanes = math.prod(x.shape[axis + 1 :]) < LANES
    if n <= (SHORT_ROWS if by_lanes else SHORT_COLUMNS):
        return (_by_lanes if by_lanes and n >= LANES else _by_two_reductions)(x, axis, rule)
    chunk = CHUNK_OF_ROWS if by_lanes else CHUNK_OF_COLUMNS
    parts = [extreme_keys(part, rule) for part in _in_parts(x, axis, chunk)]
    if by_lanes:
        parts = [_barrier(_split(part, axis + 1, LANES).max(axis + 1)) for part in parts]
    maxima = _barrier(jnp.concatenate([part.max(axis + 1) for part in parts], axis))
    greatest, number = _find(maxima, axis, _GREATEST[rule.last])
    dtype = index_dtype(n)
    start = jnp.minimum(number.astype(dtype) * dtype.type(chunk), dtype.type(n - chunk))
    start = jnp.expand_dims(start, axis)
    places = start + lax.broadcasted_iota(dtype, (*x.shape[:axis], chunk, *x.shape[axis + 1 :]), axis)
    inside = jnp.take_along_axis(x, places, axis, mode="promise_in_bounds")
    equal = extreme_keys(_barrier(inside), rule) == jnp.expand_dims(greatest, axis)
    return greatest, first_or_last(equal, places, (axis,), rule)


def _by_two_reductions(x: jax.Array, axis: int, rule: Rule) -> tuple[jax.Array, jax.Array]:
    return by_two_reductions(x, (axis,), rule)


def _by_lanes(x: jax.Array, axis: int, rule: Rule) -> tuple[jax.Array, jax.Array]:
    """Do what ``by_two_reductions`` does, each reduction in two steps.

    XLA's CPU backend vectorizes the first step, to one result for each lane. The barriers keep XLA from merging the two
    steps into one loop that it does not vectorize.
    """
    parts = [extreme_keys(part, rule) for part in _in_parts(x, axis, LANES)]
    by_lane = functools.reduce(jnp.maximum, [part.max(axis) for part in parts])
    greatest = _barrier(_barrier(by_lane).max(axis, keepdims=True))
    dtype = index_dtype(x.shape[axis])
    found = []
    for number, part in enumerate(parts):
        row, lane = (lax.broadcasted_iota(dtype, part.shape, axis + more) for more in (0, 1))
        start = dtype.type(number * (x.shape[axis] - LANES))
        equal = part == jnp.expand_dims(greatest, axis)
        found.append(first_or_last(equal, start + row * dtype.type(LANES) + lane, (axis,), rule))
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
