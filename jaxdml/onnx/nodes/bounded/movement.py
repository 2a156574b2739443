"""What moves elements: shapes, slices, concatenations."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx.nodes._sizes import axis_of, not_empty, numbers
from jaxdml.onnx.nodes.bounded._fitting import stretched
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import bounded, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value, known
from jaxdml.onnx.values.lengths import (
    Length,
    LengthError,
    bounds,
    greatest,
    is_number,
    limits,
    product,
    quotient,
    same,
    true,
)
from jaxdml.onnx.values.promises import broadcast, equal
from jaxdml.onnx.values.tabled import Tabled, computed


def shape(task: Task, x: Value) -> tuple[Value, ...]:
    """Return sizes, lengths among them."""
    sizes = sizes_of(x)[task.attribute("start") : task.attribute("end")] if task.takes("start") else sizes_of(x)
    return (known(np.fromiter(sizes, object, len(sizes))),)


def size(task: Task, x: Value) -> tuple[Value, ...]:
    """Return the number of elements that count."""
    return (known(np.asarray(product(sizes_of(x)), object)),)


def reshape(task: Task, x: Value, shape: np.ndarray) -> tuple[Value, ...]:
    """Give an array other sizes."""
    old, new = sizes_of(x), list(numbers(shape))
    keeps = not task.attribute("allowzero") if task.takes("allowzero") else True
    new = [old[d] if keeps and is_number(size) and size == 0 else size for d, size in enumerate(new)]
    if -1 in [size for size in new if is_number(size)]:
        place = next(d for d, size in enumerate(new) if is_number(size) and size == -1)
        rest = product([*new[:place], *new[place + 1 :]])
        found = quotient(product(old), rest)
        if found is None:
            raise LengthError(f"{product(old)} / {rest}")
        new[place] = found
    equal(task.call.node, product(sizes_of(x)), product(new))
    return reshaped(x, new, lambda x: task.compute(x, np.asarray(bounds(new), np.int64)))


def flatten(task: Task, x: Value) -> tuple[Value, ...]:
    """Merge the dimensions before an axis, and those from it on."""
    old = sizes_of(x)
    axis = task.attribute("axis")
    axis = axis if axis == len(old) else axis_of(axis, len(old))
    return reshaped(x, [product(old[:axis]), product(old[axis:])], task.compute)


def merged(x: Value) -> Value:
    """Return an array of one dimension."""
    (result,) = reshaped(x, [product(sizes_of(x))], lambda x: (array(x).reshape(-1),))
    return result


def reshaped(x: Value, new: Sequence[Any], reshape: Callable[[Value], tuple[Value, ...]]) -> tuple[Value, ...]:
    """Return an array with other sizes, of as many elements; ``reshape`` serves where none has to move."""
    old = sizes_of(x)
    a, b = list(old), list(new)
    for end in (0, -1):
        while a and b and same(a[end], b[end]):
            del a[end], b[end]
    in_order = not is_bounded_in(a, range(1, len(a))) and not is_bounded_in(b, range(1, len(b)))
    if not in_order or not same(product(old), product(new)):
        return (bounded(_compacted(array(x), old, new), new),)
    return tuple(bounded(result, new) for result in reshape(inner(x)))


def _compacted(x: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
    """Read each element from where it is in an array whose inner dimensions are longer than what counts."""
    places = lax.iota(jnp.int32, product(bounds(new)))
    flat: Any = 0
    stride: Any = 1
    for size in reversed(new):
        most = limits(size).bound
        flat, places, stride = flat + places % most * stride, places // most, stride * true(size)
    at: Any = 0
    step = 1
    for size in reversed(old):
        length = jnp.maximum(true(size), 1)
        at, flat, step = at + flat % length * step, flat // length, step * limits(size).bound
    return jnp.take(not_empty(x.reshape(-1), (0,)), at, mode="clip").reshape(bounds(new))


def expand(task: Task, x: Value, shape: np.ndarray) -> tuple[Value, ...]:
    """Broadcast to sizes."""
    wanted = numbers(shape)
    sizes = broadcast(task.call.node, sizes_of(x), wanted)
    x = inner(stretched(x, sizes))
    return tuple(bounded(y, sizes) for y in task.compute(x, np.asarray(bounds(sizes), np.int64)))


def constant_of_shape(task: Task, shape: np.ndarray) -> tuple[Value, ...]:
    """Return an array of one number."""
    return tuple(bounded(y, numbers(shape)) for y in task.compute(np.asarray(bounds(numbers(shape)), np.int64)))


def numbered(task: Task, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> tuple[Value, ...]:
    """Return numbers from one size to another."""
    (first,), (end,), (step,) = map(numbers, (start, limit, delta))
    if isinstance(end, Tabled) and all(isinstance(n, int | float) for n in (first, step)) and step:
        return _numbered_to(task, start, end, delta)
    if not is_number(step) or step == 0 or not all(is_number(n) or isinstance(n, Length) for n in (first, end)):
        raise LengthError(f"the numbers from {first} to {end} in steps of {step}")
    distance = end - first if step > 0 else first - end
    count = greatest((distance + (abs(step) - 1)) // abs(step), 0)
    places = jnp.arange(limits(count).bound, dtype=jax.dtypes.canonicalize_dtype(np.int64))
    return (bounded(jnp.asarray(true(first), places.dtype) + places * step, (count,)),)


def _numbered_to(task: Task, start: np.ndarray, end: Tabled, delta: np.ndarray) -> tuple[Value, ...]:
    """Return floats from a number to one that follows from a length."""
    (first,), (step,) = map(numbers, (start, delta))

    def count(ends: np.ndarray) -> np.ndarray:
        return np.maximum(np.ceil((ends.astype(np.float64) - first) / step), 0).astype(np.int64)

    farthest = end.values[np.argmax(count(end.values))]
    of_all = task.compute(start, np.asarray(farthest), delta)
    return tuple(bounded(y, numbers(computed(count, [np.array([end], object)]))) for y in of_all)


def transpose(task: Task, x: Value) -> tuple[Value, ...]:
    """Permute dimensions."""
    sizes = sizes_of(x)
    order = task.attribute("perm") or range(len(sizes))[::-1]
    return tuple(bounded(y, [sizes[d] for d in order]) for y in task.compute(inner(x)))


def unsqueeze(task: Task, x: Value, axes: np.ndarray | None = None) -> tuple[Value, ...]:
    """Insert dimensions of size 1."""
    given = task.attribute("axes") if axes is None else numbers(axes)
    rank = x.ndim + len(given)
    places = {axis_of(axis, rank) for axis in given}
    rest = iter(sizes_of(x))
    sizes = [1 if d in places else next(rest) for d in range(rank)]
    return tuple(bounded(y, sizes) for y in task.compute(inner(x), *([] if axes is None else [axes])))


def squeeze(task: Task, x: Value, axes: np.ndarray | None = None) -> tuple[Value, ...]:
    """Drop dimensions of size 1."""
    sizes = sizes_of(x)
    given = task.attribute("axes") if task.takes("axes") else None if axes is None else numbers(axes)
    places = {axis_of(axis, len(sizes)) for axis in given} if given else {d for d, n in enumerate(sizes) if n == 1}
    if is_bounded_in(sizes, tuple(places)):
        raise LengthError(f"whether sizes {list(sizes)} are 1")
    kept = [size for d, size in enumerate(sizes) if d not in places]
    return tuple(bounded(y, kept) for y in task.compute(inner(x), *([] if axes is None else [axes])))


RULES: Rules = {
    "ConstantOfShape": constant_of_shape,
    "Expand": expand,
    "Flatten": flatten,
    "Range": numbered,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
