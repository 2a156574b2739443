"""Operators that move elements by their places."""

import math
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxdml._base.shapes import broadcast, is_static
from jaxdml._networks.along_axes import reverse_sequence
from jaxdml._networks.blocks import depth_to_space, space_to_depth
from jaxdml._networks.reordering import reordered
from jaxdml.onnx.nodes._checks import lengths_within
from jaxdml.onnx.nodes._handler import EVERY, FIRST, Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axes_of, axis_of, different_axes, namespace, numbers, placed, refusal

_FAR = 10**9
"""What files write for "to the edge", or more: tf2onnx this number, others the greatest of 32 or 64 bits."""


def _reshape(call: NodeCall, x: Any, shape: np.ndarray, *, allowzero: int = 0) -> Any:
    sizes = numbers(shape)
    if allowzero and 0 in sizes and -1 in sizes:
        raise refusal(f"shape {list(sizes)} has both 0 and -1, and allowzero is 1.")
    if any(is_static(size) and size < -1 for size in sizes):
        raise refusal(f"shape {list(sizes)} has a size below -1.")
    return x.reshape([x.shape[d] if size == 0 and not allowzero else size for d, size in enumerate(sizes)])


def _flatten(call: NodeCall, x: Any, *, axis: int = 1) -> Any:
    if axis != x.ndim:
        axis = axis_of(axis, x.ndim)
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def _squeeze(call: NodeCall, x: Any, axes: np.ndarray | None = None) -> Any:
    return call.xp.squeeze(x, None if axes is None or axes.size == 0 else axes_of(numbers(axes), x.ndim))


def _squeeze_1(call: NodeCall, x: Any, *, axes: tuple[int, ...] | None = None) -> Any:
    return call.xp.squeeze(x, axes_of(axes, x.ndim) if axes else None)


def _unsqueeze(call: NodeCall, x: Any, axes: np.ndarray) -> Any:
    return _unsqueeze_1(call, x, axes=numbers(axes))


def _unsqueeze_1(call: NodeCall, x: Any, *, axes: tuple[int, ...]) -> Any:
    return call.xp.expand_dims(x, different_axes(axes, x.ndim + len(axes)))


def _transpose(call: NodeCall, x: Any, *, perm: tuple[int, ...] | None = None) -> Any:
    if perm is not None and sorted(perm) != list(range(x.ndim)):
        raise refusal(f"perm {list(perm)} is no order of {x.ndim} axes.")
    return reordered(x, perm or range(x.ndim)[::-1]) if isinstance(x, jax.Array) else np.transpose(x, perm)


def _expand(call: NodeCall, x: Any, shape: np.ndarray) -> Any:
    sizes = broadcast(x.shape, numbers(shape))
    if sizes is None or any(is_static(size) and size < 0 for size in sizes):
        raise refusal(f"shapes {list(x.shape)} and {list(numbers(shape))} do not broadcast.")
    xp = namespace(call.xp, sizes, x.dtype)
    return xp.broadcast_to(placed(xp, x), sizes)


def _tile(call: NodeCall, x: Any, repeats: np.ndarray) -> Any:
    times = numbers(repeats)
    if len(times) != x.ndim:
        raise refusal(f"{len(times)} repeats are given for rank {x.ndim}.")
    if any(is_static(n) and n < 0 for n in times):
        raise refusal(f"repeats {list(times)} has a negative number.")
    xp = namespace(call.xp, [size * n for size, n in zip(x.shape, times, strict=True)], x.dtype)
    return xp.tile(placed(xp, x), times)


def _concat(call: NodeCall, first: Any, *others: Any, axis: int) -> Any:
    operands = [first, *others]
    shape = list(first.shape)
    axis = axis_of(axis, len(shape))
    shape[axis] = sum(operand.shape[axis] for operand in operands)
    xp = namespace(call.xp, shape, first.dtype)
    return xp.concatenate([placed(xp, operand) for operand in operands], axis)


def _split(
    call: NodeCall, x: Any, sizes: np.ndarray | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Any, ...]:
    axis = axis_of(axis, x.ndim)
    size, count = x.shape[axis], len(call.outputs)
    if sizes is not None:
        parts = numbers(sizes)
    elif num_outputs is None:
        parts = (size // count,) * count
    else:
        part = -(-size // num_outputs)
        parts = (*(part,) * (num_outputs - 1), size - part * (num_outputs - 1))
    if len(parts) != count or sum(parts) != size or any(part < 0 for part in parts):
        raise refusal(f"axis {axis} of {size} elements does not split into {count} parts of {list(parts)}.")
    return tuple(call.xp.split(x, np.cumsum(parts[:-1], dtype=int), axis))


def _split_2(call: NodeCall, x: Any, *, axis: int = 0, split: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    return _split(call, x, None if split is None else np.asarray(split), axis=axis)


def _slice(
    call: NodeCall,
    x: Any,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> Any:
    firsts = numbers(starts)
    chosen = different_axes(range(len(firsts)) if axes is None else numbers(axes), x.ndim)
    strides = (1,) * len(firsts) if steps is None else numbers(steps)
    places = [slice(None)] * x.ndim
    for axis, first, end, step in zip(chosen, firsts, numbers(ends), strides, strict=True):
        places[axis] = _places(x.shape[axis], first, end, step)
    return x[tuple(places)]


def _places(size: Any, first: Any, end: Any, step: int) -> slice:
    if step < 0 and is_static(first) and first < -1:
        # It is clamped to the first element; to Python nothing would be left.
        first = max(first, -size)
    if is_static(size, first, end):
        # XLA computes with the numbers of a slice, and takes none of more than 64 bits.
        start, stop, step = slice(first, end, step).indices(size)
        return slice(start, None if stop < 0 else stop, min(max(step, -size - 1), size + 1))
    if not is_static(size):
        # JAX takes no 64-bit number for a symbolic size.
        first = None if _is_far(first, -step) else first
        end = None if _is_far(end, step) else end
    return slice(first, end, min(max(step, -_FAR), _FAR))


def _is_far(place: Any, direction: int) -> bool:
    """Whether a place means the edge in this direction."""
    return is_static(place) and abs(place) >= _FAR and (place > 0) == (direction > 0)


def _slice_1(
    call: NodeCall, x: Any, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Any:
    return _slice(call, x, np.asarray(starts), np.asarray(ends), None if axes is None else np.asarray(axes))


def _pad(
    call: NodeCall,
    x: Any,
    pads: np.ndarray,
    value: Any = None,
    axes: np.ndarray | None = None,
    *,
    mode: str = "constant",
) -> Any:
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise refusal(f"the mode of a Pad is {mode!r}.")
    chosen = different_axes(range(x.ndim) if axes is None else numbers(axes), x.ndim)
    amounts = numbers(pads)
    if len(amounts) != 2 * len(chosen):
        raise refusal(f"{len(amounts)} pads are given for {len(chosen)} axes.")
    widths = [(0, 0)] * x.ndim
    for axis, before, after in zip(chosen, amounts[: len(chosen)], amounts[len(chosen) :], strict=True):
        widths[axis] = before, after
    shape = [size + before + after for size, (before, after) in zip(x.shape, widths, strict=True)]
    if any(is_static(size) and size < 0 for size in shape):
        raise refusal(f"pads {list(amounts)} take away more than there is of {list(x.shape)}.")
    xp = namespace(call.xp, shape, x.dtype)
    x = placed(xp, x)
    grown = [(max(before, 0), max(after, 0)) for before, after in widths]
    kept = tuple(slice(-before if before < 0 else None, after if after < 0 else None) for before, after in widths)
    if mode != "constant":
        return xp.pad(x[kept], grown, mode)
    value = np.zeros((), x.dtype) if value is None else value.reshape(())
    return xp.pad(x, grown, constant_values=placed(xp, value))[kept]


def _pad_2(call: NodeCall, x: Any, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Any:
    return _pad(call, x, np.asarray(pads), np.asarray(value, x.dtype), mode=mode)


def _depth_to_space(call: NodeCall, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    return depth_to_space(x, blocksize, blocks_first=_in_rows(mode))


def _space_to_depth(call: NodeCall, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    return space_to_depth(x, blocksize, blocks_first=_in_rows(mode))


def _in_rows(mode: str) -> bool:
    if mode not in ("DCR", "CRD"):
        raise refusal(f"mode {mode!r} is neither 'DCR' nor 'CRD'.")
    return mode == "DCR"


def _reverse_sequence(call: NodeCall, x: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    lengths_within(call.node, lengths, x.shape[time_axis])
    over = [1] * x.ndim
    over[batch_axis] = x.shape[batch_axis]
    return reverse_sequence(call.xp, x, lengths.reshape(over), time_axis)


_moving = partial(Handler, host=True, moves=FIRST)

TABLE: Table = {
    "Reshape": (_moving(5, _reshape, static="shape"),),
    "Flatten": (_moving(1, _flatten),),
    "Squeeze": (
        _moving(1, _squeeze_1),
        _moving(13, _squeeze, static="axes"),
    ),
    "Unsqueeze": (
        _moving(1, _unsqueeze_1),
        _moving(13, _unsqueeze, static="axes"),
    ),
    "Transpose": (_moving(1, _transpose),),
    "Expand": (_moving(8, _expand, static="shape"),),
    "Tile": (_moving(6, _tile, static="repeats"),),
    "Concat": (Handler(4, _concat, host=True),),
    "Split": (
        Handler(2, _split_2, host=True, moves=EVERY),
        Handler(13, _split, static="sizes", host=True, moves=EVERY),
    ),
    "Slice": (
        _moving(1, _slice_1),
        _moving(10, _slice, static="starts ends axes steps"),
    ),
    "Pad": (Handler(2, _pad_2, host=True), Handler(11, _pad, static="pads axes", host=True)),
    "DepthToSpace": (_moving(1, _depth_to_space),),
    "SpaceToDepth": (_moving(1, _space_to_depth),),
    "ReverseSequence": (_moving(10, _reverse_sequence),),
}
