"""What reads and writes at indices: those that do not count read anything, and write nothing."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx._bounded import Bounded, bounded, broadcast, counts, filled, inner, sizes_of
from jaxdml.onnx._lengths import Length, least, limits, true
from jaxdml.onnx._values import Value
from jaxdml.onnx.nodes._checks import within
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes.bounded._task import Rules, Task, agreed, array


def gather(task: Task, x: Value, indices: Value) -> tuple[Value, ...]:
    """Read slices along an axis."""
    sizes, places = sizes_of(x), sizes_of(indices)
    axis = task.axis(len(sizes))
    at = _from_front(task, indices, (sizes[axis],))
    return tuple(bounded(y, (*sizes[:axis], *places, *sizes[axis + 1 :])) for y in task.compute(inner(x), at))


def gather_elements(task: Task, x: Value, indices: Value) -> tuple[Value, ...]:
    """Read elements along an axis."""
    at = _from_front(task, indices, (sizes_of(x)[task.axis(x.ndim)],))
    return tuple(bounded(y, sizes_of(indices)) for y in task.compute(inner(x), at))


def gather_nd(task: Task, x: Value, indices: Value) -> tuple[Value, ...]:
    """Read at tuples of indices."""
    sizes, (*places, depth) = sizes_of(x), sizes_of(indices)
    batch = task.attribute("batch_dims")
    agreed(broadcast(sizes[:batch], places[:batch]), f"sizes {list(sizes)} and {[*places, depth]}")
    at = _from_front(task, indices, sizes[batch : batch + limits(depth).bound])
    return tuple(bounded(y, (*places, *sizes[batch + limits(depth).bound :])) for y in task.compute(inner(x), at))


def _from_front(task: Task, indices: Value, sizes: tuple[Any, ...]) -> Any:
    """Return indices into dimensions of such sizes, counted from the front, and 0 where none counts."""
    of_indices = sizes_of(indices)
    at = filled(array(indices), of_indices, 0)
    lengths = [true(size) for size in sizes]
    if any(isinstance(size, Length) for size in sizes):
        limit = jnp.stack([jnp.asarray(size, at.dtype) for size in lengths])
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
    at = _from_front(task, indices, (sizes[axis],))
    size = limits(sizes[axis]).bound
    at = jnp.where(counts(sizes_of(indices)), jnp.where(at < 0, at + size, at), size)
    return _dropping(task, x, at, updates, axis)


def scatter_nd(task: Task, x: Value, indices: Value, updates: Value) -> tuple[Value, ...]:
    """Write at tuples of indices; what does not count goes to a slice that is dropped."""
    sizes, places = sizes_of(x), sizes_of(indices)
    depth = limits(places[-1]).bound
    at = _from_front(task, indices, sizes[:depth])
    limit = np.array([limits(size).bound for size in sizes[:depth]])
    beyond = np.array([limit[0], *(0,) * (depth - 1)], np.int32).astype(at.dtype)
    at = jnp.where(counts(places), jnp.where(at < 0, at + limit.astype(at.dtype), at), beyond)
    return _dropping(task, x, at, updates, 0)


def _dropping(task: Task, x: Value, at: Any, updates: Value, axis: int) -> tuple[Value, ...]:
    array_of_x = array(x)
    spare = [(0, 1) if d == axis else (0, 0) for d in range(array_of_x.ndim)]
    (result,) = task.compute(jnp.pad(array_of_x, spare), at, array(updates))
    result = jnp.take(result, np.arange(array_of_x.shape[axis]), axis=axis)
    return (bounded(result, sizes_of(x)),)


def top_k(task: Task, x: Value, k: Value = None) -> tuple[Value, ...]:
    """Take the greatest elements, or the least; those that do not count come last."""
    sizes = list(sizes_of(x))
    axis = axis_of(task.attribute("axis"), len(sizes))
    takes_first = not task.handler.takes("largest") or bool(task.attribute("largest"))
    (count,) = (task.attribute("k"),) if k is None else k.reshape(-1).tolist()
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
    sizes.insert(axis_of(task.attribute("axis"), len(sizes) + 1), None)
    results = task.compute(inner(indices), depth, values)
    return tuple(
        bounded(y, [n if size is None else size for n, size in zip(y.shape, sizes, strict=True)]) for y in results
    )


def regions(task: Task, x: Value, rois: Value, batch_indices: Value = None) -> tuple[Value, ...]:
    """Pool regions of an image that has no lengths."""
    if isinstance(x, Bounded):
        agreed(None, f"sizes {list(sizes_of(x))}")
    others = [] if batch_indices is None else [filled(array(batch_indices), sizes_of(batch_indices), 0)]
    kept = filled(array(rois), sizes_of(rois), 0)
    return tuple(bounded(y, (sizes_of(rois)[0], *y.shape[1:])) for y in task.compute(x, kept, *others))


RULES: Rules = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "MaxRoiPool": regions,
    "OneHot": one_hot,
    "RoiAlign": regions,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
}
