"""What the structs of convolutions have in common."""

from typing import Any

from jaxdml.directml._c import c_field
from jaxdml.directml._checks import sized
from jaxdml.directml._errors import Violation, Violations

COUNTED = "dilations", "start_padding", "end_padding"
"""The arrays that are as long as ``Strides``."""

THREE_OR_FOUR = range(3, 5)

_RANK = 4
"""The dimensions of ``{N, C, H, W}``. A tensor with fewer lacks leading dimensions, which are of size 1."""


def convolution_constraints(desc: Any) -> Violations:
    """Yield the broken constraints on the arrays, on the groups, and on the sizes of input, filter and output."""
    if desc.dimension_count != 2:
        yield Violation("DimensionCount", "must be 2, for the height and the width", desc.dimension_count)
    for name in ("strides", "dilations"):
        if 0 in getattr(desc, name):
            yield Violation(c_field(name), "must not contain a 0", getattr(desc, name))
    if desc.group_count == 0:
        yield Violation("GroupCount", "must be greater than 0", 0)
    if all(tensor.dimension_count in THREE_OR_FOUR for tensor in (desc.input_tensor, desc.filter_tensor)):
        yield from _of_groups(desc)
        yield from _of_output(desc)


def _of_groups(desc: Any) -> Violations:
    groups, (filters, _, *kernel) = desc.group_count, _filled(desc.filter_tensor.sizes)
    channels = _filled(desc.input_tensor.sizes)[1]
    if groups == 0:
        return
    for count, what in ((channels, "the channels of InputTensor"), (filters, "the filters of FilterTensor")):
        if count % groups:
            yield Violation("GroupCount", f"must divide {count}, {what}", groups)
    if channels % groups == 0:
        want = (filters, channels // groups, *kernel)[-desc.filter_tensor.dimension_count :]
        yield from sized(desc, "filter_tensor", "with the channels of InputTensor, divided by GroupCount", want)


def _of_output(desc: Any) -> Violations:
    batch, _, *image = _filled(desc.input_tensor.sizes)
    filters, _, *kernel = _filled(desc.filter_tensor.sizes)
    arrays = desc.strides, desc.dilations, desc.start_padding, desc.end_padding
    if any(len(array) != 2 for array in arrays) or 0 in (*kernel, *desc.strides, *desc.dilations):
        return
    strides, dilations, start, end = arrays
    padded = [sum(sizes) for sizes in zip(image, start, end, strict=True)]
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    if any(wide > whole for wide, whole in zip(reach, padded, strict=True)):
        rule = f"must reach over at most {padded}, the padded height and width of InputTensor, when dilated"
        yield Violation("FilterTensor.Sizes", rule, reach)
        return
    counts = [(whole - wide) // stride + 1 for whole, wide, stride in zip(padded, reach, strides, strict=True)]
    want = (batch, filters, *counts)[-desc.input_tensor.dimension_count :]
    yield from sized(desc, "output_tensor", "one for each filter and window", want)


def single(desc: Any, *names: str) -> Violations:
    """Require each of these tensors that there is to have one element."""
    for name in names:
        tensor = getattr(desc, name)
        if tensor is not None and tensor.sizes:
            yield from sized(desc, name, "one element", (1,) * tensor.dimension_count)


def by_channel(desc: Any, name: str, *, one: bool = True) -> Violations:
    """Require a tensor, if there is one, to have an element for each output channel, or with ``one`` a single one."""
    tensor, filters = getattr(desc, name), desc.filter_tensor.sizes
    if tensor is None or not tensor.sizes or len(filters) not in THREE_OR_FOUR:
        return
    count = tensor.dimension_count
    each = [1] * count
    # In a tensor of fewer dimensions the first one is that of the channels.
    each[max(-3, -count)] = _filled(filters)[0]
    if one:
        yield from sized(desc, name, "one element or one for each output channel", (1,) * count, tuple(each))
    else:
        yield from sized(desc, name, "one element for each output channel", tuple(each))


def _filled(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (_RANK - len(sizes)) + sizes


def arguments(desc: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """Return the inputs with four dimensions each, as the public functions take them."""
    names = [name for name, role in desc.roles().items() if not role.output]
    return [_with_rank_four(name, part) for name, part in zip(names, inputs, strict=True)]


def _with_rank_four(name: str, part: Any) -> Any:
    if part is None or part.ndim == _RANK:
        return part
    return part[None] if name in ("input_tensor", "filter_tensor") else part.reshape(1, -1, 1, 1)


def options(desc: Any) -> dict[str, Any]:
    """Return the options of the public functions."""
    names = "strides", *COUNTED, "group_count"
    return {name: getattr(desc, name) for name in names}


def of_rank(desc: Any, result: Any) -> Any:
    """Return a result of four dimensions with as many as the output has."""
    return result if desc.output_tensor.dimension_count == _RANK else result[0]
