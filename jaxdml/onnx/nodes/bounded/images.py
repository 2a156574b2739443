"""What moves elements of images whose spatial dimensions have lengths: padding, and blocks that become channels."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx.nodes._sizes import different_axes, not_empty, numbers
from jaxdml.onnx.nodes.bounded._fitting import fitted, must_not_have_lengths
from jaxdml.onnx.nodes.bounded._masking import changed, extended, masked
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, is_number, limits, true
from jaxdml.onnx.values.promises import at_most, equal


def pad(
    task: Task, x: Value, pads: np.ndarray | None = None, value: Value = None, axes: np.ndarray | None = None
) -> tuple[Value, ...]:
    """Pad: what comes after a dimension with a length begins where that ends."""
    sizes = list(sizes_of(x))
    chosen = different_axes(range(len(sizes)) if axes is None else numbers(axes), len(sizes))
    amounts = task.attribute("pads") if pads is None else numbers(pads)
    edges = dict(zip(chosen, zip(amounts[: len(chosen)], amounts[len(chosen) :], strict=True), strict=True))
    moved = [d for d, (before, _) in edges.items() if not is_number(before)]
    mode = task.attribute("mode")
    if moved and mode != "constant":
        raise LengthError(f"how much is padded before the first element: {list(amounts)}")
    new = [n + before + after for n, (before, after) in ((n, edges.get(d, (0, 0))) for d, n in enumerate(sizes))]
    behind = [d for d, (_, after) in edges.items() if limits(after).bound > 0 or d in moved]
    if mode in _FOLDED:
        result = array(x)
        for d, edge in edges.items():
            if limits(edge[0]).low < 0 or limits(edge[1]).bound < 0:
                raise LengthError(f"the elements that pads of {list(amounts)} leave")
            at_most(task.call.node, 0, edge[1])
            result = _folded(result, d, sizes[d], edge, _FOLDED[mode])
        return (fitted(result, new),)
    if mode == "edge":
        image = extended(x, sizes, behind)
    else:
        filling = task.attribute("value") if task.takes("value") else 0.0 if value is None else value.reshape(())
        image = masked(x, sizes, filling, behind)
        for d in moved:
            image = _moved(image, filling, d, edges[d][0], limits(new[d]).bound)
    given = [0 if d in moved else before for d, (before, _) in edges.items()]
    more = zip(chosen, given, strict=True)
    given += [0 if d in moved else limits(new[d]).bound - limits(sizes[d]).bound - before for d, before in more]
    if pads is None:
        return tuple(bounded(y, new) for y in task.compute(image, pads=given))
    others = [np.asarray(given, np.int64), value, *([] if axes is None else [axes])]
    return tuple(bounded(y, new) for y in task.compute(image, *others))


def _moved(image: Value, filling: Any, d: int, before: Length, size: int) -> Value:
    """Return so many elements along a dimension, the first of which are as many as a length says, or are left out."""
    room = max(before.bound, 0)

    def move(x: Any, number: Any, axis_of: Callable[[int], int]) -> Any:
        axis = axis_of(d)
        behind = max(size - x.shape[axis] - before.low, 0)
        edges = [(room, behind, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)]
        return lax.dynamic_slice_in_dim(lax.pad(x, number, edges), room - before.true, size, axis)

    return changed(image, filling, move)


def _reflected(at: Any, size: Any) -> Any:
    period = jnp.maximum(2 * (size - 1), 1)
    inside = jnp.mod(at, period)
    return jnp.minimum(inside, period - inside)


_FOLDED: Mapping[str, Callable[[Any, Any], Any]] = {"reflect": _reflected, "wrap": jnp.mod}
"""Which element of so many stands for a place outside, by mode."""


def _folded(x: Any, axis: int, size: Any, edge: tuple[Any, Any], fold: Callable[[Any, Any], Any]) -> Any:
    """Pad one dimension with elements of the array: read those that are outside alone."""
    before, most = edge[0], limits(edge[1]).bound
    if before == most == 0:
        return x
    outside = jnp.concatenate([jnp.arange(-before, 0), true(size) + jnp.arange(most)])
    read = jnp.take(not_empty(x, (axis,)), fold(outside, jnp.maximum(true(size), 1)), axis=axis, mode="clip")
    start, end = jnp.split(read, [before], axis)
    whole = jnp.concatenate([start, x, jnp.zeros_like(end)], axis)
    return lax.dynamic_update_slice_in_dim(whole, end, before + true(size), axis)


def depth_to_space(task: Task, x: Value) -> tuple[Value, ...]:
    """Make blocks of channels."""
    must_not_have_lengths([x], [1])
    batch, _, *spatial = sizes_of(x)
    times = task.attribute("blocksize")
    return tuple(bounded(y, (batch, y.shape[1], *(n * times for n in spatial))) for y in task.compute(inner(x)))


def space_to_depth(task: Task, x: Value) -> tuple[Value, ...]:
    """Make channels of blocks, of which there must be whole ones."""
    must_not_have_lengths([x], [1])
    batch, channels, *spatial = sizes_of(x)
    size = task.attribute("blocksize")
    counts = [n // size for n in spatial]
    for n, count in zip(spatial, counts, strict=True):
        equal(task.call.node, n, count * size)
    image = fitted(x, (batch, channels, *(count * size for count in counts)))
    return tuple(bounded(y, (batch, y.shape[1], *counts)) for y in task.compute(inner(image)))


RULES: Rules = {"DepthToSpace": depth_to_space, "Pad": pad, "SpaceToDepth": space_to_depth}
