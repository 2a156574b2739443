"""Convolutions of quantized images: to integers, and to quantized values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jaxdml import convolution_integer, prepack_filters, quantized_linear_convolution
from jaxdml.directml._checks import alike, sized, varying, without_zeros
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing
from jaxdml.directml.operators._weights import known_parameters
from jaxdml.directml.operators._windows import fits

_THREE_OR_FOUR = range(3, 5)

_RANK = 4
"""The dimensions of ``{N, C, H, W}``. A tensor with fewer lacks leading dimensions, which are of size 1."""


def _convolution_constraints(desc: Any) -> Violations:
    """Yield the broken constraints on the arrays, on the groups, and on the sizes of input, filter and output."""
    if desc.dimension_count != 2:
        yield Violation("DimensionCount", "must be 2, for the height and the width", desc.dimension_count)
    yield from without_zeros(desc, "strides", "dilations")
    if desc.group_count == 0:
        yield Violation("GroupCount", "must be greater than 0", 0)
    if all(tensor.dimension_count in _THREE_OR_FOUR for tensor in (desc.input_tensor, desc.filter_tensor)):
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
    reach, padded, counts = zip(*fits(image, window, *arrays), strict=True)
    if any(wide > whole for wide, whole in zip(reach, padded, strict=True)):
        rule = f"must reach over at most {list(padded)}, the padded height and width of InputTensor, when dilated"
        yield Violation("FilterTensor.Sizes", rule, reach)
        return
    want = (batch, filters, *counts)[-desc.input_tensor.dimension_count :]
    yield from sized(desc, "output_tensor", "one for each filter and window", want)


def _single(desc: Any, *names: str) -> Violations:
    """Require each of these tensors that there is to have one element."""
    for name in names:
        tensor = getattr(desc, name)
        if tensor is not None and tensor.sizes:
            yield from sized(desc, name, "one element", (1,) * tensor.dimension_count)


def _by_channel(desc: Any, name: str, *, one: bool = True) -> Violations:
    """Require a tensor, if there is one, to have an element for each output channel, or with ``one`` a single one."""
    tensor, filters = getattr(desc, name), desc.filter_tensor.sizes
    if tensor is None or not tensor.sizes or len(filters) not in _THREE_OR_FOUR:
        return
    count = tensor.dimension_count
    # In a tensor of fewer dimensions the first one is that of the channels.
    each = varying(count, -3, _of_rank_four(filters)[0])
    if one:
        yield from sized(desc, name, "one element or one for each output channel", (1,) * count, each)
    else:
        yield from sized(desc, name, "one element for each output channel", each)


_ARRAYS = "strides", "dilations", "start_padding", "end_padding", "group_count"


def _of_rank_four(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (_RANK - len(sizes)) + sizes


def _convolve(function: Callable[..., Any], desc: Any, inputs: tuple[Any, ...], **options: Any) -> Any:
    """Call a public function, which takes and returns four dimensions, with the options that a description gives.

    Args:
      function: the operator.
      desc: the description.
      inputs: what the call of the description is given.
      options: further options.
    """
    given = (_with_rank_four(name, part) for name, part in _named(desc, inputs))
    options |= {name: getattr(desc, name) for name in _ARRAYS}
    result = function(*given, **options)
    return result if desc.output_tensor.dimension_count == _RANK else result[0]


def _named(desc: Any, inputs: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    names = (name for name, role in desc.roles().items() if not role.output)
    return zip(names, inputs, strict=True)


_IMAGES = "input_tensor", "filter_tensor"


def _with_rank_four(name: str, part: Any) -> Any:
    if part is None or part.ndim == _RANK:
        return part
    return part[None] if name in _IMAGES else part.reshape(1, -1, 1, 1)


def _convolve_last(function: Callable[..., Any], desc: Any, inputs: tuple[Any, ...], **options: Any) -> Any:
    """Call a public function with the channels of images last; scales and zero points have one dimension then."""
    flat = (part if part is None or name in _IMAGES else part.reshape(-1) for name, part in _named(desc, inputs))
    options |= {name: getattr(desc, name) for name in _ARRAYS}
    return function(*flat, dimension_numbers=("NHWC", "OIHW", "NHWC"), **options)


def _packed_filters(desc: Any, name: str, tensor: Any, known: Mapping[str, Any]) -> Any:
    """Pack filters, for the parameters of the calls if all are known; none that lack a dimension, which a call adds."""
    if name != "filter_tensor" or tensor.ndim != _RANK:
        return tensor
    parameters = known_parameters(desc, known, {"input": "x", "filter": "w"})
    if parameters and desc.group_count == 1:
        parameters |= {"strides": desc.strides}
    packed = prepack_filters(tensor, parameters=parameters)
    # Nothing limits here what longer runs would take, which are for many images.
    return replace(packed, runs=packed.runs[:1])


def _of_integers(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "input_tensor", "filter_tensor", "output_tensor")
    if desc.input_zero_point_tensor is not None:
        yield from alike(desc, "dimension_count", "input_zero_point_tensor", "filter_zero_point_tensor")
    yield from alike(desc, "data_type", "input_tensor", "input_zero_point_tensor")
    yield from alike(desc, "data_type", "filter_tensor", "filter_zero_point_tensor")
    yield from _convolution_constraints(desc)
    yield from _single(desc, "input_zero_point_tensor")
    yield from _by_channel(desc, "filter_zero_point_tensor")


def _to_integers(desc: Any, *inputs: Any) -> Any:
    return _convolve(convolution_integer, desc, inputs)


def _to_integers_last(desc: Any, *inputs: Any) -> Any:
    return _convolve_last(convolution_integer, desc, inputs)


def _of_quantized(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "input_tensor", "filter_tensor", "bias_tensor", "output_tensor")
    for of in ("input", "filter", "output"):
        yield from alike(desc, "data_type", f"{of}_tensor", f"{of}_zero_point_tensor")
    yield from _convolution_constraints(desc)
    for kind in ("scale", "zero_point"):
        yield from _single(desc, f"input_{kind}_tensor", f"output_{kind}_tensor")
        yield from _by_channel(desc, f"filter_{kind}_tensor")
    yield from _by_channel(desc, "bias_tensor", one=False)


def _to_quantized(desc: Any, *inputs: Any) -> Any:
    dtype = desc.output_tensor.data_type.dtype
    return _convolve(quantized_linear_convolution, desc, inputs, output_dtype=dtype)


def _to_quantized_last(desc: Any, *inputs: Any) -> Any:
    dtype = desc.output_tensor.data_type.dtype
    return _convolve_last(quantized_linear_convolution, desc, inputs, output_dtype=dtype)


_LACKING = (
    "A tensor of three dimensions lacks the first one, which has size 1: N in the input, M in the filter, N in the "
    "output."
)

_FIELDS = {
    "input_tensor": "``{N, C, H, W}``.",
    "input_scale_tensor": "one element.",
    "input_zero_point_tensor": "the data type of ``input_tensor``, one element; None means 0.",
    "filter_tensor": "``{M, C / group_count, height, width}``, of a data type independent of that of ``input_tensor``.",
    "filter_scale_tensor": "one element or ``{1, M, 1, 1}``.",
    "filter_zero_point_tensor": "the data type of ``filter_tensor``, one element or ``{1, M, 1, 1}``; None means 0.",
    "bias_tensor": "``{1, M, 1, 1}``, in units of the input's scale times the filter's; None means 0.",
    "output_scale_tensor": "one element.",
    "output_zero_point_tensor": "the data type of ``output_tensor``, one element; None means 0.",
    "output_tensor": "``{N, M, height, width}``.",
    "strides": "the distance of neighbouring windows, by height and width.",
    "dilations": "the distance of neighbouring elements of a window.",
    "start_padding": "how many zero points to add at the top and on the left.",
    "end_padding": "how many zero points to add at the bottom and on the right.",
    "group_count": "into how many groups the channels fall; C for a depthwise convolution.",
}

OPERATORS: Mapping[str, Operator] = {
    "CONVOLUTION_INTEGER": Operator(
        119,
        growing(
            "2_1 4, 4_0 3-4",
            ("input_tensor filter_tensor", "2_1 B"),
            ("input_zero_point_tensor filter_zero_point_tensor", "2_1 B", "2_1 4, 4_0 1-4"),
            ("output_tensor", "2_1 INT32"),
        ),
        _to_integers,
        _of_integers,
        doc=f"Convolve 8-bit integers, and return the sums as they are. {_LACKING} The two zero points have one "
        "dimension count, which may be another.",
        fields=_FIELDS,
        prepared=_packed_filters,
        channels_last=_to_integers_last,
        images=("input_tensor",),
    ),
    "QUANTIZED_LINEAR_CONVOLUTION": Operator(
        120,
        growing(
            "2_1 4, 4_0 3-4",
            ("input_tensor filter_tensor output_tensor", "2_1 B"),
            ("bias_tensor", "2_1 INT32"),
            ("filter_scale_tensor", "2_1 FLOAT32", "2_1 4, 4_0 3-4, 5_2 1-4"),
            ("input_scale_tensor output_scale_tensor", "2_1 FLOAT32", "2_1 4, 4_0 1-4"),
            ("input_zero_point_tensor filter_zero_point_tensor output_zero_point_tensor", "2_1 B", "2_1 4, 4_0 1-4"),
        ),
        _to_quantized,
        _of_quantized,
        doc=f"Convolve quantized tensors and quantize the result. {_LACKING} Scales and zero points may each have "
        "another dimension count.",
        fields=_FIELDS,
        prepared=_packed_filters,
        channels_last=_to_quantized_last,
        images=("input_tensor",),
    ),
}
