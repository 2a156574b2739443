"""What takes parts of arrays, or repeats them."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx.nodes._sizes import different_axes, not_empty, numbers
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import (
    Length,
    atom,
    greatest,
    has_lengths,
    is_number,
    least,
    limits,
    same,
    true,
)
from jaxdml.onnx.values.promises import equal

_FAR = 2**31 - 1


def sliced(
    task: Task,
    x: Value,
    starts: np.ndarray | None = None,
    ends: np.ndarray | None = None,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> tuple[Value, ...]:
    """Slice: along a dimension with a length, or up to a length, elements are read one by one."""
    firsts, lasts = (
        task.attribute(name) if given is None else numbers(given)
        for name, given in (("starts", starts), ("ends", ends))
    )
    chosen = task.attribute("axes") if task.takes("axes") else None if axes is None else numbers(axes)
    strides = (1,) * len(firsts) if steps is None else numbers(steps)
    result, sizes = array(x), list(sizes_of(x))
    places_of = different_axes(chosen or range(len(firsts)), len(sizes))
    for d, first, end, step in zip(places_of, firsts, lasts, strides, strict=True):
        most = limits(sizes[d]).bound + 1
        stride = min(max(step, -most), most)  # Places are computed in 32 bits.
        start, count = _run(sizes[d], first, end, stride)
        places = true(start) + stride * lax.iota(jnp.int32, limits(count).bound)
        if not (same(start, 0) and stride == 1 and same(count, sizes[d])):
            result = jnp.take(result, places, axis=d, mode="clip")
        sizes[d] = count
    return (bounded(result, sizes),)


def _run(size: Any, first: Any, end: Any, step: int) -> tuple[Any, Any]:
    """Return where a slice begins, and how many elements it has."""
    high = size if step > 0 else size - 1

    def placed(place: Any, low: int) -> Any:
        if is_number(place) and abs(place) >= _FAR:
            return high if place > 0 else least(low, high)
        if limits(place).low < 0:
            place = size + place if limits(place).bound < 0 else _from_either_end(size, place)
        return least(greatest(place, low), high)

    # A step back begins at the first element at least, and ends before it.
    start, stop = placed(first, 0), placed(end, 0 if step > 0 else -1)
    distance = stop - start if step > 0 else start - stop
    return start, greatest((distance + (abs(step) - 1)) // abs(step) if abs(step) > 1 else distance, 0)


def _from_either_end(size: Any, place: Length) -> Length:
    """Return a place counted from the front, where it may be negative for some lengths and not for others."""
    found = jnp.where(true(place) < 0, true(size) + true(place), true(place))
    key = "place", place.key, size.key if isinstance(size, Length) else size
    low, bound = min(limits(size).low + place.low, 0), max(limits(size).bound - 1, place.bound)
    return atom(key, f"place({place}, {size})", found, bound, low)


def split(task: Task, x: Value, parts: np.ndarray | None = None) -> tuple[Value, ...]:
    """Split, into parts of any sizes; each begins where those before it truly end."""
    sizes = list(sizes_of(x))
    axis = task.axis(len(sizes))
    count = len(task.call.outputs)
    if not isinstance(sizes[axis], Length) and (parts is None or not has_lengths(parts)):
        results = task.compute(inner(x), *([] if parts is None else [parts]))
        return tuple(bounded(y, [*sizes[:axis], y.shape[axis], *sizes[axis + 1 :]]) for y in results)
    given = _parts(task, sizes[axis], count) if parts is None else numbers(parts)
    equal(task.call.node, sum(given), sizes[axis])
    starts = [sum(given[:place]) for place in range(count)]
    return tuple(
        bounded(_read(array(x), axis, start, size), [*sizes[:axis], size, *sizes[axis + 1 :]])
        for start, size in zip(starts, given, strict=True)
    )


def _parts(task: Task, size: Any, count: int) -> Sequence[Any]:
    """Return the sizes of parts that are as large as one another, but for the last one from version 18 on."""
    if not task.takes("num_outputs") or task.attribute("num_outputs") is None:
        return task.attribute("split") if task.takes("split") and task.attribute("split") else [size // count] * count
    part = (size + (count - 1)) // count
    return [*[part] * (count - 1), size - part * (count - 1)]


def _read(x: Any, axis: int, start: Any, size: Any) -> Any:
    """Return elements from a start on."""
    places = true(start) + lax.iota(jnp.int32, limits(size).bound)
    return jnp.take(not_empty(x, (axis,)), places, axis=axis, mode="clip")


def tile(task: Task, x: Value, repeats: np.ndarray) -> tuple[Value, ...]:
    """Repeat what counts."""
    result, sizes = inner(x), list(sizes_of(x))
    known = [
        1 if isinstance(n, Length) else int(times) if is_number(times) else limits(times).bound
        for n, times in zip(sizes, numbers(repeats), strict=True)
    ]
    (result,) = task.compute(result, np.asarray(known))
    for d, times in enumerate(numbers(repeats)):
        before, sizes[d] = sizes[d], sizes[d] * times
        if isinstance(before, Length) and not same(before, sizes[d]):
            places = lax.iota(jnp.int32, limits(sizes[d]).bound) % jnp.maximum(true(before), 1)
            result = jnp.take(not_empty(array(result), (d,)), places, axis=d, mode="clip")
    return (bounded(result, sizes),)


RULES: Rules = {
    "Slice": sliced,
    "Split": split,
    "Tile": tile,
}
