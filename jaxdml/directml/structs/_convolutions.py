"""What the structs of convolutions have in common."""

from collections.abc import Callable
from typing import Any

from jaxdml.directml._checks import sized, varying, without_zeros
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
    yield from without_zeros(desc, "strides", "dilations")
    if desc.group_count == 0:
        yield Violation("GroupCount", "must be greater than 0", 0)
    if all(tensor.dimension_count in THREE_OR_FOUR for tensor in (desc.input_tensor, desc.filter_tensor)):
        yield from _of_groups(desc)
        yield from _of_output(desc)


def _of_groups(desc: Any) -> Violations:
    groups, (filters, _, *window) = desc.group_count, _of_rank_four(desc.filter_tensor.sizes)
    channels = _of_rank_four(desc.input_tensor.sizes)[1]
    if groups == 0:
        return
    for count, what in ((channels, "the channels of InputTensor"), (filters, "the filters of FilterTensor")):
        if count % groups:
            yield Violation("GroupCount", f"must divide {count}, {what}", groups)
    if channels % groups == 0:
        want = (filters, channels // groups, *window)[-desc.filter_tensor.dimension_count :]
        yield from sized(desc, "filter_tensor", "with the channels of InputTensor, divided by GroupCount", want)


def _of_output(desc: Any) -> Violations:
    batch, _, *image = _of_rank_four(desc.input_tensor.sizes)
    filters, _, *window = _of_rank_four(desc.filter_tensor.sizes)
    arrays = desc.strides, desc.dilations, desc.start_padding, desc.end_padding
    if any(len(array) != 2 for array in arrays) or 0 in (*window, *desc.strides, *desc.dilations):
        return
    strides, dilations, start, end = arrays
    padded = [sum(sizes) for sizes in zip(image, start, end, strict=True)]
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(window, dilations, strict=True)]
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
    # In a tensor of fewer dimensions the first one is that of the channels.
    each = varying(count, -3, _of_rank_four(filters)[0])
    if one:
        yield from sized(desc, name, "one element or one for each output channel", (1,) * count, each)
    else:
        yield from sized(desc, name, "one element for each output channel", each)


def _of_rank_four(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (_RANK - len(sizes)) + sizes


def convolve(function: Callable[..., Any], desc: Any, inputs: tuple[Any, ...], **options: Any) -> Any:
    """Call a public function, which takes and returns four dimensions, with the options that a description gives.

    Args:
      function: the operator.
      desc: the description.
      inputs: what the call of the description is given.
      options: further options.
    """
    names = [name for name, role in desc.roles().items() if not role.output]
    given = (_with_rank_four(name, part) for name, part in zip(names, inputs, strict=True))
    options |= {name: getattr(desc, name) for name in ("strides", *COUNTED, "group_count")}
    result = function(*given, **options)
    return result if desc.output_tensor.dimension_count == _RANK else result[0]


def _with_rank_four(name: str, part: Any) -> Any:
    if part is None or part.ndim == _RANK:
        return part
    return part[None] if name in ("input_tensor", "filter_tensor") else part.reshape(1, -1, 1, 1)
