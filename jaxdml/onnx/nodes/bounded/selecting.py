"""Operators that say by values how many elements there are: as many as fit a bound, and their number."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx._errors import NotKnownError
from jaxdml.onnx.nodes._sizes import axis_of, not_empty
from jaxdml.onnx.nodes.bounded._fitting import fitted
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.nodes.bounded.movement import merged
from jaxdml.onnx.values.bounded import Bounded, Identical, bounded, counts, filled, length_of, needs_bound, sizes_of
from jaxdml.onnx.values.kinds import Value, is_host
from jaxdml.onnx.values.lengths import bounds, product
from jaxdml.onnx.values.promises import at_most, equal


def _bound(task: Task, position: int, most: int) -> int:
    node = task.call.node
    found = task.call.bounds.of(node)
    if found is None:
        rule = f"input {position} of {node} is '{node.inputs[position]}', which depends on values that are traced."
        raise NotKnownError(rule, *needs_bound(node, most))
    return found


def non_zero(task: Task, x: Value) -> tuple[Value, ...]:
    """Return the indices of the elements that are not 0, in their order."""
    found = jnp.atleast_1d(filled(array(x), sizes_of(x), 0)) != 0
    length = length_of(task.call.node, ("NonZero", Identical(x)), found.sum(), _bound(task, 0, found.size))
    places = jnp.stack(jnp.nonzero(found, size=length.bound, fill_value=0))[: x.ndim]
    return (Bounded(places.astype(jax.dtypes.canonicalize_dtype(np.int64)), (x.ndim, length)),)


def compress(task: Task, x: Value, condition: Value) -> tuple[Value, ...]:
    """Return the slices along an axis for which a condition is true."""
    axis = task.attribute("axis")
    if axis is None and x.ndim != 1:
        x = merged(x)
    sizes = sizes_of(x)
    found = filled(array(condition), sizes_of(condition), False)
    bound = _bound(task, 1, found.size)
    axis = 0 if axis is None else axis_of(axis, len(sizes))
    at_most(task.call.node, product(sizes_of(condition)), sizes[axis])
    length = length_of(task.call.node, ("Compress", Identical(condition)), found.sum(), bound)
    (places,) = jnp.nonzero(found.reshape(-1), size=bound, fill_value=0)
    result = jnp.take(not_empty(array(x), (axis,)), places, axis=axis, mode="clip")
    return (bounded(result, (*sizes[:axis], length, *sizes[axis + 1 :])),)


def non_max_suppression(
    task: Task,
    boxes: Value,
    scores: Value,
    most: Value = None,
    overlap: Value = None,
    least: Value = None,
) -> tuple[Value, ...]:
    """Return the boxes that no better one of their class overlaps too much, as the function on the host does."""
    batch, places = (equal(task.call.node, sizes_of(boxes)[a], sizes_of(scores)[b]) for a, b in ((0, 0), (1, 2)))
    boxes = fitted(boxes, (batch, places, 4))
    scores = fitted(scores, (batch, sizes_of(scores)[1], places))
    valid = counts(sizes_of(scores)) & jnp.ones(bounds(sizes_of(scores)), bool)
    pairs = valid.shape[0] * valid.shape[1]
    places = valid.shape[2]
    known = 0 if most is None else int(most.reshape(())) if is_host(most) else places
    turns = max(min(known, places), 0)
    bound = _bound(task, 1, pairs * turns)
    limit = turns if most is None or is_host(most) else jnp.minimum(array(most).reshape(()), turns)
    corners, values = array(boxes), array(scores)
    first, second = corners[..., :2], corners[..., 2:]
    if task.attribute("center_point_box"):
        first, second = first - second / 2, first + second / 2
    low, high = jnp.minimum(first, second), jnp.maximum(first, second)
    if least is not None:
        valid = valid & (values > array(least).reshape(()))
    overlap = jnp.float32(0) if overlap is None else array(overlap).reshape(())
    kept, number = _kept(low, high, values, valid, turns, overlap, limit)
    batch, kind = (lax.broadcasted_iota(kept.dtype, kept.shape, d) for d in (0, 1))
    turn = lax.broadcasted_iota(kept.dtype, kept.shape, 2)
    starts = (jnp.cumsum(number.reshape(-1)) - number.reshape(-1)).reshape(number.shape)
    to = jnp.where(turn < number[..., None], starts[..., None] + turn, bound)
    rows = jnp.stack([batch, kind, kept], -1).reshape(-1, 3)
    dtype = jax.dtypes.canonicalize_dtype(np.int64)
    result = jnp.zeros((bound, 3), dtype).at[to.reshape(-1)].set(rows.astype(dtype), mode="drop")
    return (Bounded(result, (length_of(task.call.node, Identical(result), number.sum(), bound), 3)),)


def _kept(low: Any, high: Any, scores: Any, valid: Any, turns: int, overlap: Any, limit: Any) -> tuple[Any, Any]:
    """Return for each batch and class the boxes, the best first, and their number.

    All classes take turns together: ``checkify`` cannot look into a loop that ``jax.vmap`` makes of one class.
    """
    shape, size = scores.shape[:2], scores.shape[2]
    order = jnp.argsort(-scores, axis=-1, stable=True)
    rank = jnp.argsort(order, axis=-1).astype(jnp.int32)
    areas = jnp.prod(high - low, axis=-1)[:, None]
    # XLA's CPU backend would round the shared area and its difference once; a number that it does not know is between.
    zero = jnp.minimum(valid.sum(dtype=jnp.int32), 0)
    places = jnp.arange(size, dtype=jnp.int32)
    every = tuple(jnp.indices(shape))

    def goes_on(state: tuple[Any, Any, Any]) -> Any:
        left, _, number = state
        return (left.any(-1) & (number < limit)).any()

    def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        left, kept, number = state
        goes = left.any(-1) & (number < limit)
        best = jnp.argmin(jnp.where(left, rank, size), axis=-1).astype(jnp.int32)
        of_best = best[..., None, None]
        tops = jnp.take_along_axis(high[:, None], of_best, axis=2)
        bottoms = jnp.take_along_axis(low[:, None], of_best, axis=2)
        area = jnp.take_along_axis(areas, best[..., None], axis=2)
        sides = jnp.minimum(tops, high[:, None]) - jnp.maximum(bottoms, low[:, None])
        shared = jnp.prod(jnp.maximum(sides, 0), axis=-1)
        shared = lax.bitcast_convert_type(lax.bitcast_convert_type(shared, jnp.int32) + zero, jnp.float32)
        either = area + areas - shared
        # A box without an area overlaps none.
        covered = (area > 0) & (areas > 0) & (shared / either > overlap)
        kept = kept.at[(*every, jnp.where(goes, number, turns))].set(best, mode="drop")
        return left & ~covered & (places != best[..., None]), kept, number + goes

    start = valid, jnp.zeros((*shape, turns), jnp.int32), jnp.zeros(shape, jnp.int32)
    _, kept, number = lax.while_loop(goes_on, step, start)
    return kept, number


RULES: Rules = {
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": non_zero,
}
