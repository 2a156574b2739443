"""What reads and writes at indices: those that do not count read anything, and write nothing."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.nodes._checks import within
from jaxdml.onnx.nodes._sizes import axis_of, not_empty, resized
from jaxdml.onnx.nodes.bounded._fitting import fitted
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import Bounded, bounded, counts, filled, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, bounds, least, limits, true
from jaxdml.onnx.values.promises import at_most, equal, equal_shapes


def gather(task: Task, x: Value, indices: Value) -> tuple[Value, ...]:
    """Read slices along an axis."""
    sizes, places = sizes_of(x), sizes_of(indices)
    axis = task.axis(len(sizes))
    x, at = _readable(task, x, indices, (axis,))
    return tuple(bounded(y, (*sizes[:axis], *places, *sizes[axis + 1 :])) for y in task.compute(inner(x), at))


def gather_elements(task: Task, x: Value, indices: Value) -> tuple[Value, ...]:
    """Read elements along an axis; along others there may be fewer indices than elements."""
    places = sizes_of(indices)
    axis = task.axis(x.ndim)
    x, at = _readable(task, x, indices, (axis,))
    at = resized(at, _off_axis(task, places, sizes_of(x), axis))
    return tuple(bounded(resized(y, bounds(places)), places) for y in task.compute(inner(x), at))


def gather_nd(task: Task, x: Value, indices: Value) -> tuple[Value, ...]:
    """Read at tuples of indices."""
    batch, depth = task.attribute("batch_dims"), _depth(indices)
    pairs = zip(sizes_of(x)[:batch], sizes_of(indices)[:batch], strict=True)
    common = [equal(task.call.node, *pair) for pair in pairs]
    x = fitted(x, (*common, *sizes_of(x)[batch:]))
    indices = fitted(indices, (*common, *sizes_of(indices)[batch:]))
    sizes = (*sizes_of(indices)[:-1], *sizes_of(x)[batch + depth :])
    x, at = _readable(task, x, indices, range(batch, batch + depth))
    return tuple(bounded(y, sizes) for y in task.compute(inner(x), at))


def _depth(indices: Value) -> int:
    """Return how many indices a tuple has."""
    depth = sizes_of(indices)[-1]
    if isinstance(depth, Length):
        raise LengthError(f"tuples of {depth} indices")
    return int(depth)


def _off_axis(task: Task, places: Sequence[Any], sizes: Sequence[Any], axis: int) -> list[int]:
    """Return the capacity for indices: off the axis that they address no more than the array has."""
    for d, (place, size) in enumerate(zip(places, sizes, strict=True)):
        if d != axis:
            at_most(task.call.node, place, size)
    pairs = zip(bounds(places), bounds(sizes), strict=True)
    return [place if d == axis else min(place, size) for d, (place, size) in enumerate(pairs)]


def _readable(task: Task, x: Value, indices: Value, dimensions: Sequence[int]) -> tuple[Value, Any]:
    """Return an array and indices into some of its dimensions: those that do not count can be read, too."""
    at = _from_front(task, indices, [sizes_of(x)[d] for d in dimensions])
    if isinstance(indices, Bounded) and not all(x.shape[d] for d in dimensions):
        x = bounded(not_empty(array(x), dimensions), sizes_of(x))
    return x, at


def _from_front(task: Task, indices: Value, sizes: Sequence[Any]) -> Any:
    """Return indices into dimensions of such sizes, counted from the front, and 0 where none counts."""
    of_indices = sizes_of(indices)
    at = filled(array(indices), of_indices, 0)
    if any(isinstance(size, Length) or size == 0 for size in sizes):
        limit = jnp.stack([jnp.asarray(true(size), at.dtype) for size in sizes])
        limit = limit if len(sizes) > 1 or _is_tuple(task) else limit[0]
        within(task.call.node, at, limit, counts(of_indices))
        at = jnp.where(at < 0, at + limit, at)
        if "Gather" in task.call.node.op_type:  # Nothing that does not count is read; a scatter may write it.
            at = jnp.clip(at, 0, jnp.maximum(limit - 1, 0))
    return at


def _is_tuple(task: Task) -> bool:
    return task.call.node.op_type.endswith("ND")


def scatter_elements(task: Task, x: Value, indices: Value, updates: Value) -> tuple[Value, ...]:
    """Write along an axis; what does not count goes to an element that is dropped."""
    sizes = sizes_of(x)
    axis = task.axis(len(sizes))
    places = equal_shapes(task.call.node, sizes_of(indices), sizes_of(updates))
    capacity = _off_axis(task, places, sizes, axis)
    at = _from_front(task, fitted(indices, places), (sizes[axis],))
    size = limits(sizes[axis]).bound
    at = jnp.where(counts(places), jnp.where(at < 0, at + size, at), size)
    return _dropping(task, x, resized(at, capacity), resized(array(updates), capacity), (axis,))


def scatter_nd(task: Task, x: Value, indices: Value, updates: Value) -> tuple[Value, ...]:
    """Write at tuples of indices; what does not count goes to a slice that is dropped."""
    sizes, depth = sizes_of(x), _depth(indices)
    wanted = (*sizes_of(indices)[:-1], *sizes[depth:])
    places = equal_shapes(task.call.node, wanted, sizes_of(updates))[: indices.ndim - 1]
    at = _from_front(task, fitted(indices, (*places, depth)), sizes[:depth])
    limit = np.array([limits(size).bound for size in sizes[:depth]])
    beyond = np.array([limit[0], *(0,) * (depth - 1)], np.int32).astype(at.dtype)
    valid = counts((*places, depth))
    at = jnp.where(valid, jnp.where(at < 0, at + limit.astype(at.dtype), at), beyond)
    updates = fitted(updates, (*places, *sizes[depth:]))
    return _dropping(task, x, at, array(updates), range(depth))


def _dropping(task: Task, x: Value, at: Any, updates: Any, dimensions: Sequence[int]) -> tuple[Value, ...]:
    """Write into an array that has an element more along the first of the dimensions that indices address."""
    shape = [n + 1 if d == dimensions[0] else n for d, n in enumerate(x.shape)]
    (result,) = task.compute(not_empty(resized(array(x), shape), dimensions), at, updates)
    return (bounded(resized(result, x.shape), sizes_of(x)),)


def top_k(task: Task, x: Value, k: Value = None) -> tuple[Value, ...]:
    """Take the greatest elements, or the least; those that do not count come last."""
    sizes = list(sizes_of(x))
    axis = axis_of(task.attribute("axis"), len(sizes))
    takes_first = not task.takes("largest") or bool(task.attribute("largest"))
    (count,) = (task.attribute("k"),) if k is None else k.reshape(-1).tolist()
    at_most(task.call.node, count, sizes[axis])
    most = min(limits(count).bound, limits(sizes[axis]).bound)
    kept = filled(array(x), sizes, last(x.dtype, takes_first), (axis,))
    operands = [] if k is None else [np.array([most])]
    results = task.compute(kept, *operands)
    sizes[axis] = least(count, most)
    return tuple(bounded(y, sizes) for y in results)


def last(dtype: Any, takes_greatest: bool) -> Any:
    """Return what comes last, or beside others like it, in an order."""
    if dtype == np.bool_:
        return not takes_greatest
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.iinfo(dtype).min if takes_greatest else jnp.iinfo(dtype).max
    return -np.inf if takes_greatest else np.nan


def one_hot(task: Task, indices: Value, depth: np.ndarray, values: Value) -> tuple[Value, ...]:
    """Set one of the elements along a new axis."""
    sizes = list(sizes_of(indices))
    (size,) = depth.reshape(-1).tolist()
    places = inner(indices)
    if isinstance(size, Length):
        at = array(indices)
        places, depth = jnp.where(at < 0, at + jnp.asarray(true(size), at.dtype), at), np.asarray(limits(size).bound)
        places = jnp.where(places < 0, depth, places)  # What is out of range is not one.
    (y,) = task.compute(places, depth, values)
    axis = axis_of(task.attribute("axis"), y.ndim)
    return (bounded(y, [*sizes[:axis], size if isinstance(size, Length) else y.shape[axis], *sizes[axis:]]),)


def reverse_sequence(task: Task, x: Value, lengths: Value) -> tuple[Value, ...]:
    """Reverse the beginning of each sequence of a batch."""
    sizes = list(sizes_of(x))
    batch = axis_of(task.attribute("batch_axis"), len(sizes))
    (sizes[batch],) = equal_shapes(task.call.node, [sizes[batch]], sizes_of(lengths))
    kept = fitted(lengths, [sizes[batch]])
    results = task.compute(inner(fitted(x, sizes)), filled(array(kept), sizes_of(kept), 0))
    return tuple(bounded(y, sizes) for y in results)


def regions(task: Task, x: Value, rois: Value, batch_indices: Value = None) -> tuple[Value, ...]:
    """Pool regions of an image that has no lengths."""
    if isinstance(x, Bounded):
        raise LengthError(f"the result for sizes {list(sizes_of(x))}")
    given = [rois] if batch_indices is None else [rois, batch_indices]
    count = equal(task.call.node, *(sizes_of(each)[0] for each in given))
    each = [fitted(value, (count, *sizes_of(value)[1:])) for value in given]
    kept = [filled(array(value), sizes_of(value), 0) for value in each]
    return tuple(bounded(y, (count, *y.shape[1:])) for y in task.compute(x, *kept))


RULES: Rules = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "MaxRoiPool": regions,
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "RoiAlign": regions,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
}
