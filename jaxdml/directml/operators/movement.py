"""Operators that move elements by their places: slices, parts, tiles, padding, blocks, reversed sequences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxdml._networks.along_axes import reverse_sequence
from jaxdml._networks.blocks import depth_to_space, space_to_depth
from jaxdml._networks.transposes import transposed
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import in_range, sized, sized_except_along, without_zeros
from jaxdml.directml._enums import DepthSpaceOrder, PaddingMode
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing
from jaxdml.directml.operators._pointwise import alike_in_groups, number_of, typed

_SAME = "input_tensor output_tensor"
_ALL = "1_0 F, 2_1 F+I, 5_0 A"
_MOVED = "1_0 F+INT32+INT16+UINT32+UINT16, 2_1 F+I, 4_1 A"


def _for_each_dimension(desc: Any, count: str, tensor: str) -> Iterator[Violation]:
    """Require a count, of the numbers for dimensions, to be that of a tensor's dimensions."""
    want, got = desc.tensors[tensor].dimension_count, getattr(desc, count)
    if got != want:
        yield Violation(c_field(count), f"must be {want}, {c_field(tensor)}.DimensionCount", got)


def _sliced(
    x: Any, *, offsets: Sequence[int], windows: Sequence[int], strides: Sequence[int], sizes: Sequence[int]
) -> Any:
    """Take elements of a window with strides; where one is negative, from the window's end on."""
    window = lax.slice(x, offsets, [offset + size for offset, size in zip(offsets, windows, strict=True)])
    turned = lax.rev(window, [d for d, stride in enumerate(strides) if stride < 0])
    steps = [abs(stride) for stride in strides]
    ends = [1 + (size - 1) * step for size, step in zip(sizes, steps, strict=True)]
    return lax.slice(turned, [0] * len(ends), ends, steps)


def _slice(desc: Any, x: Any) -> Any:
    windows = [1 + (size - 1) * stride for size, stride in zip(desc.sizes, desc.strides, strict=True)]
    return _sliced(x, offsets=desc.offsets, windows=windows, strides=desc.strides, sizes=desc.sizes)


def _slice_constraints(desc: Any) -> Violations:
    yield from _for_each_dimension(desc, "dimension_count", "input_tensor")
    yield from without_zeros(desc, "strides")
    for d, (offset, size, stride, of) in enumerate(
        zip(desc.offsets, desc.sizes, desc.strides, desc.input_tensor.sizes, strict=False)
    ):
        if stride and (last := offset + (size - 1) * stride) >= of:
            rule = f"must keep the last element, {last}, below {of}, InputTensor.Sizes[{d}]"
            yield Violation(f"Offsets[{d}]", rule, offset)
    yield from sized(desc, "output_tensor", "the field Sizes", desc.sizes)


def _window(desc: Any, sizes: Sequence[int]) -> Mapping[str, Sequence[int]]:
    return {
        "offsets": desc.input_window_offsets,
        "windows": desc.input_window_sizes,
        "strides": desc.input_window_strides,
        "sizes": sizes,
    }


def _slice_grad(desc: Any, gradient: Any) -> Any:
    sliced = partial(_sliced, **_window(desc, gradient.shape))
    return transposed(sliced, desc.output_gradient_tensor.sizes, gradient)


def _window_constraints(whole: str, part: str, desc: Any) -> Violations:
    yield from _for_each_dimension(desc, "dimension_count", whole)
    yield from without_zeros(desc, "input_window_sizes", "input_window_strides")
    for d, (offset, size, stride, of, taken) in enumerate(
        zip(*_window(desc, desc.tensors[whole].sizes).values(), desc.tensors[part].sizes, strict=False)
    ):
        if offset + size > of:
            rule = f"must end the window within {of}, {c_field(whole)}.Sizes[{d}]"
            yield Violation(f"InputWindowOffsets[{d}]", rule, offset)
        if size and stride and taken > (most := 1 + (size - 1) // abs(stride)):
            rule = f"must be at most {most}, what the window has at this stride"
            yield Violation(f"{c_field(part)}.Sizes[{d}]", rule, taken)


def _parts_constraints(whole: str, parts: str, desc: Any) -> Violations:
    names = [name for name in desc.tensors if name != whole]
    if not names:
        yield Violation(c_field(parts), "must contain a tensor", ())
    yield from in_range(desc, "axis", whole)
    for name in names:
        yield from sized_except_along(desc, "axis", whole, name)
    if names and desc.axis < min(tensor.dimension_count for tensor in desc.tensors.values()):
        size, *each = (desc.tensors[name].sizes[desc.axis] for name in (whole, *names))
        if size != sum(each):
            rule = f"must be {sum(each)}, the sum of those of {c_field(parts)}"
            yield Violation(f"{c_field(whole)}.Sizes[{desc.axis}]", rule, size)


def _tile_constraints(desc: Any) -> Violations:
    yield from _for_each_dimension(desc, "repeats_count", "input_tensor")
    yield from without_zeros(desc, "repeats")
    want = tuple(size * times for size, times in zip(desc.input_tensor.sizes, desc.repeats, strict=False))
    yield from sized(desc, "output_tensor", "those of InputTensor, times Repeats", want)


def _padding(desc: Any, x: Any) -> Any:
    widths = list(zip(desc.start_padding, desc.end_padding, strict=True))
    if desc.padding_mode == PaddingMode.CONSTANT:
        return jnp.pad(x, widths, constant_values=number_of(desc.padding_value, x.dtype))
    return jnp.pad(
        x, widths, "reflect" if desc.padding_mode == PaddingMode.REFLECTION else desc.padding_mode.name.lower()
    )


def _padding_constraints(desc: Any) -> Violations:
    yield from _for_each_dimension(desc, "dimension_count", "input_tensor")
    want = tuple(map(sum, zip(desc.input_tensor.sizes, desc.start_padding, desc.end_padding, strict=False)))
    yield from sized(desc, "output_tensor", "those of InputTensor, with StartPadding and EndPadding", want)
    if hasattr(desc, "padding_value_data_type"):
        yield from typed("padding_value_data_type")(desc)


def _exchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(desc: Any, x: Any) -> Any:
        first = getattr(desc, "order", DepthSpaceOrder.DEPTH_COLUMN_ROW) == DepthSpaceOrder.DEPTH_COLUMN_ROW
        return function(x, desc.block_size, blocks_first=first)

    return run


def _blocks_constraints(channels: str, image: str, desc: Any) -> Violations:
    """Require one tensor to have the channels that the other has as blocks."""
    if not desc.block_size:
        yield Violation("BlockSize", "must be greater than 0", 0)
    deep, block = desc.tensors[channels].sizes, desc.block_size
    if len(deep) == 4 and block:
        n, c, height, width = deep
        if c % block**2:
            rule = f"must be divisible by {block**2}, the square of BlockSize"
            yield Violation(f"{c_field(channels)}.Sizes[1]", rule, c)
        want = (n, c // block**2, height * block, width * block)
        yield from sized(desc, image, f"those of {c_field(channels)} with blocks for channels", want)


def _reverse_constraints(desc: Any) -> Violations:
    yield from in_range(desc, "axis", "input_tensor")
    sizes = desc.input_tensor.sizes
    yield from sized(desc, "output_tensor", "those of InputTensor", sizes)
    want = (*sizes[: desc.axis], 1, *sizes[desc.axis + 1 :])
    yield from sized(desc, "sequence_lengths_tensor", "those of InputTensor with 1 at Axis", want)


def _moving(number: int, doc: str, compute: Any, constraints: Any, counts: str, *groups: tuple[str, str]) -> Operator:
    """Return the facts of an operator that has these constraints beside types and dimension counts that are alike."""

    def every(desc: Any) -> Violations:
        yield from alike_in_groups(desc, groups)
        yield from constraints(desc)

    return Operator(number, growing(counts, *groups), compute, every, doc=doc)


def _to_blocks(number: int, types: str) -> Operator:
    constraints = partial(_blocks_constraints, "input_tensor", "output_tensor")
    doc = "Make blocks of BlockSize x BlockSize elements of channels."
    return _moving(number, doc, _exchanged(depth_to_space), constraints, "1_0 4", (_SAME, types))


def _of_blocks(number: int, types: str) -> Operator:
    constraints = partial(_blocks_constraints, "output_tensor", "input_tensor")
    doc = "Make channels of the places in blocks of BlockSize x BlockSize elements."
    return _moving(number, doc, _exchanged(space_to_depth), constraints, "1_0 4", (_SAME, types))


_WINDOW = "Take elements of a window with strides; where one is negative, from the window's end on."

OPERATORS: Mapping[str, Operator] = {
    "SLICE": _moving(
        60,
        "Take Sizes elements from Offsets on, with Strides.",
        _slice,
        _slice_constraints,
        "1_0 4-5, 3_0 1-8",
        (_SAME, _MOVED),
    ),
    "SLICE1": _moving(
        111,
        _WINDOW,
        lambda desc, x: _sliced(x, **_window(desc, desc.output_tensor.sizes)),
        partial(_window_constraints, "input_tensor", "output_tensor"),
        "2_1 4-5, 3_0 1-8",
        (_SAME, "2_1 F+I, 4_1 A"),
    ),
    "SLICE_GRAD": _moving(
        135,
        "Put a gradient where SLICE1 took elements, and 0 elsewhere.",
        _slice_grad,
        partial(_window_constraints, "output_gradient_tensor", "input_gradient_tensor"),
        "3_0 4-5, 3_1 1-8",
        ("input_gradient_tensor output_gradient_tensor", "3_0 F+I, 4_1 A"),
    ),
    "SPLIT": _moving(
        62,
        "Split along an axis.",
        lambda desc, x: tuple(lax.split(x, [one.sizes[desc.axis] for one in desc.output_tensors], desc.axis)),
        partial(_parts_constraints, "input_tensor", "output_tensors"),
        "1_0 4, 3_0 1-8",
        ("input_tensor output_tensors", _MOVED),
    ),
    "JOIN": _moving(
        63,
        "Concatenate along an axis.",
        lambda desc, arrays: lax.concatenate(arrays, desc.axis),
        partial(_parts_constraints, "output_tensor", "input_tensors"),
        "1_0 4, 3_0 4-5, 3_1 1-8",
        ("input_tensors output_tensor", _MOVED),
    ),
    "TILE": _moving(
        70,
        "Repeat the whole tensor along each axis.",
        lambda desc, x: jnp.tile(x, desc.repeats),
        _tile_constraints,
        "1_0 4, 3_1 1-8",
        (_SAME, "1_0 F, 2_1 F+I, 4_1 F+I+L"),
    ),
    "PADDING": _moving(64, "Pad by PaddingMode.", _padding, _padding_constraints, "1_0 4-5, 3_1 1-8", (_SAME, _ALL)),
    "PADDING1": _moving(155, "Pad by PaddingMode.", _padding, _padding_constraints, "5_0 1-8", (_SAME, "5_0 A")),
    "SPACE_TO_DEPTH": _of_blocks(68, _ALL),
    "SPACE_TO_DEPTH1": _of_blocks(114, "2_1 F+I, 5_0 A"),
    "DEPTH_TO_SPACE": _to_blocks(69, _ALL),
    "DEPTH_TO_SPACE1": _to_blocks(113, "2_1 F+I, 5_0 A"),
    "REVERSE_SUBSEQUENCES": _moving(
        106,
        "Reverse the first elements along an axis, as many as the lengths say, and copy the others.",
        lambda desc, x, lengths: reverse_sequence(jnp, x, lengths, desc.axis),
        _reverse_constraints,
        "2_1 4, 3_0 4-5, 4_0 1-8",
        (_SAME, "2_1 F+I, 5_0 A"),
        ("sequence_lengths_tensor", "2_1 UINT32, 5_0 UINT64+UINT32"),
    ),
}
