"""The functions of PyDirectML, which add an operator to a graph, with its names, defaults and order of arguments."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from jaxdml.directml._enums import (
    ConvolutionDirection,
    ConvolutionMode,
    InterpolationMode,
    MatrixTransform,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
)
from jaxdml.directml._fields import Size2D
from jaxdml.directml._structs import struct_of
from jaxdml.directml._tables import OperatorType
from jaxdml.directml.operators._windows import fits
from jaxdml.directml.pydirectml._enums import OutputOptions
from jaxdml.directml.pydirectml._expressions import Expression, operator, pointwise
from jaxdml.directml.pydirectml._tensors import packed

Numbers = Sequence[int]


class FusedActivation(NamedTuple):
    """An activation that another operator computes at its end.

    Attributes:
      activation: an ``OperatorType``.
      param_1: its first number, such as ``Alpha``.
      param_2: its second one, such as ``Beta``.
    """

    activation: Any
    param_1: float = 0.0
    param_2: float = 0.0


@dataclass
class MaxPoolingOutputs:
    """What ``max_pooling`` returns; ``indices`` is None unless asked for."""

    values: Expression | None
    indices: Expression | None


@dataclass
class GRUOutputs:
    """What ``gru`` returns: the states of all steps and the last one; None for what is not asked for."""

    sequence: Expression | None
    single: Expression | None


def _fused(activation: FusedActivation | None) -> dict[str, Any]:
    return {"fused_activation": None if activation is None else _activation(activation)}


def _activation(one: FusedActivation) -> Any:
    struct = struct_of(OperatorType[one.activation.name])
    tensors = dict.fromkeys(struct.roles())
    numbers = [one.name for one in fields(struct) if one.name not in tensors]
    return struct(**tensors, **dict(zip(numbers, one[1:], strict=False)))


def _each(given: Numbers, count: int, default: int) -> tuple[int, ...]:
    """Return a number for each spatial dimension; an empty list stands for the default."""
    return tuple(given) or (default,) * count


def _one(outputs: list[Expression | None]) -> Expression:
    (result,) = outputs
    assert result is not None
    return result


def convolution(
    input: Expression,
    filter: Expression,
    bias: Expression | None = None,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Numbers = (),
    dilations: Numbers = (),
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    output_padding: Numbers = (),
    group_count: int = 1,
    fused_activation: FusedActivation | None = None,
    output_sizes: Numbers = (),
) -> Expression:
    """Convolve; ``BACKWARD`` needs all of ``output_sizes``."""
    (batch, _, *image), (features, _, *window) = input._desc.sizes, filter._desc.sizes
    rank = len(image)
    steps, gaps = _each(strides, rank, 1), _each(dilations, rank, 1)
    start, end, more = (_each(given, rank, 0) for given in (start_padding, end_padding, output_padding))
    if not output_sizes:
        if direction == ConvolutionDirection.BACKWARD:
            raise RuntimeError("a convolution with direction BACKWARD needs output_sizes")
        counts = _windows(image, window, steps, gaps, start, end)
        output_sizes = (batch, features, *(n + extra for n, extra in zip(counts, more, strict=True)))
    given = {"mode": mode, "direction": direction, "strides": steps, "dilations": gaps, "start_padding": start}
    given |= {"end_padding": end, "output_padding": more, "group_count": group_count}
    result = [packed(input._desc, output_sizes)]
    return _one(operator("CONVOLUTION", [input, filter, bias], result, **given, **_fused(fused_activation)))


def _windows(image: Numbers, window: Numbers, steps: Numbers, gaps: Numbers, start: Numbers, end: Numbers) -> Numbers:
    return [fit.number for fit in fits(image, window, steps, gaps, start, end)]


def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None = None,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: FusedActivation | None = None,
) -> Expression:
    """Compute ``alpha * a @ b + beta * c``."""
    *batch, rows, columns = a._desc.sizes
    m = columns if trans_a == MatrixTransform.TRANSPOSE else rows
    n = b._desc.sizes[-2 if trans_b == MatrixTransform.TRANSPOSE else -1]
    given = {"trans_a": trans_a, "trans_b": trans_b, "alpha": alpha, "beta": beta, **_fused(fused_activation)}
    return _one(operator("GEMM", [a, b, c], [packed(a._desc, (*batch, m, n))], **given))


def add(a: Expression, b: Expression, fused_activation: FusedActivation | None = None) -> Expression:
    """Add."""
    return pointwise("ELEMENT_WISE_ADD1", a, b, **_fused(fused_activation))


def subtract(a: Expression, b: Expression) -> Expression:
    """Subtract."""
    return pointwise("ELEMENT_WISE_SUBTRACT", a, b)


def multiply(a: Expression, b: Expression) -> Expression:
    """Multiply each element of one by that of the other."""
    return pointwise("ELEMENT_WISE_MULTIPLY", a, b)


def divide(a: Expression, b: Expression) -> Expression:
    """Divide."""
    return pointwise("ELEMENT_WISE_DIVIDE", a, b)


def activation_relu(input: Expression) -> Expression:
    """Compute ``max(0, x)``."""
    return pointwise("ACTIVATION_RELU", input)


def activation_sigmoid(input: Expression) -> Expression:
    """Compute ``1 / (1 + exp(-x))``."""
    return pointwise("ACTIVATION_SIGMOID", input)


def activation_identity(input: Expression) -> Expression:
    """Return the input as an output of the graph may be."""
    return pointwise("ACTIVATION_IDENTITY", input)


def activation_tanh(input: Expression) -> Expression:
    """Compute the hyperbolic tangent."""
    return pointwise("ACTIVATION_TANH", input)


def activation_soft_max(input: Expression) -> Expression:
    """Compute the softmax along the last dimension."""
    return pointwise("ACTIVATION_SOFTMAX", input)


def activation_linear(input: Expression, alpha: float, beta: float) -> Expression:
    """Compute ``alpha * x + beta``."""
    return pointwise("ACTIVATION_LINEAR", input, alpha=alpha, beta=beta)


def max_pooling(
    input: Expression,
    window_sizes: Numbers,
    strides: Numbers = (),
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    dilations: Numbers = (),
    output_indices: bool = False,
) -> MaxPoolingOutputs:
    """Take the greatest element of each window."""
    rank = len(window_sizes)
    leading, image = input._desc.sizes[:-rank], input._desc.sizes[-rank:]
    steps, gaps = _each(strides, rank, 1), _each(dilations, rank, 1)
    start, end = _each(start_padding, rank, 0), _each(end_padding, rank, 0)
    values = packed(input._desc, (*leading, *_windows(image, window_sizes, steps, gaps, start, end)))
    indices = replace(values, data_type=TensorDataType.UINT32) if output_indices else None
    given = {"strides": steps, "window_size": tuple(window_sizes), "start_padding": start, "end_padding": end}
    return MaxPoolingOutputs(*operator("MAX_POOLING2", [input], [values, indices], **given, dilations=gaps))


def average_pooling(
    input: Expression,
    strides: Numbers,
    window_sizes: Numbers,
    start_padding: Numbers,
    end_padding: Numbers,
    include_padding: bool,
) -> Expression:
    """Average each window; the strides come before the window."""
    rank = len(window_sizes)
    image, ones = input._desc.sizes[-rank:], (1,) * rank
    steps, start, end = _each(strides, rank, 1), _each(start_padding, rank, 0), _each(end_padding, rank, 0)
    sizes = (*input._desc.sizes[:-rank], *_windows(image, window_sizes, steps, ones, start, end))
    given = {"strides": steps, "window_size": tuple(window_sizes), "start_padding": start, "end_padding": end}
    result = [packed(input._desc, sizes)]
    return _one(operator("AVERAGE_POOLING", [input], result, **given, include_padding=include_padding))


def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    spatial: bool,
    epsilon: float,
    fused_activation: FusedActivation | None = None,
) -> Expression:
    """Normalize by given statistics."""
    given = {"spatial": spatial, "epsilon": epsilon, **_fused(fused_activation)}
    return pointwise("BATCH_NORMALIZATION", input, mean, variance, scale, bias, **given)


def mean_variance_normalization(
    input: Expression,
    scale: Expression | None = None,
    bias: Expression | None = None,
    axes: Numbers = (),
    normalize_variance: bool = True,
    *further: Any,
    normalize_mean: bool = True,
    epsilon: float | None = None,
    fused_activation: FusedActivation | None = None,
) -> Expression:
    """Normalize over axes.

    After ``normalize_variance`` come ``epsilon`` and ``fused_activation``; newer programs pass ``normalize_mean``
    before them.
    """
    rest = list(further)
    if rest and isinstance(rest[0], bool):
        normalize_mean = rest.pop(0)
    epsilon = rest.pop(0) if rest else epsilon
    fused_activation = rest.pop(0) if rest else fused_activation
    sizes = packed(input._desc, input._desc.sizes)
    given = {"axes": tuple(axes), "epsilon": epsilon, **_fused(fused_activation)}
    if normalize_mean:
        kind, given["normalize_variance"] = "MEAN_VARIANCE_NORMALIZATION1", normalize_variance
    else:
        kind, given["use_mean"], given["use_variance"] = "MEAN_VARIANCE_NORMALIZATION2", False, normalize_variance
    return _one(operator(kind, [input, scale, bias], [sizes], **given))


def local_response_normalization(
    input: Expression, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """Divide by a power of the sum of squares nearby."""
    given = {"cross_channel": cross_channel, "local_size": local_size, "alpha": alpha, "beta": beta, "bias": bias}
    return pointwise("LOCAL_RESPONSE_NORMALIZATION", input, **given)


def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Expression | None = None,
    hidden_init: Expression | None = None,
    sequence_lengths: Expression | None = None,
    activation_descs: Sequence[FusedActivation] = (),
    direction: RecurrentNetworkDirection = RecurrentNetworkDirection.FORWARD,
    linear_before_reset: bool = True,
    output_options: OutputOptions = OutputOptions.Both,
) -> GRUOutputs:
    """Run a layer of gated recurrent units."""
    (_, steps, batch, _), (_, directions, _, hidden) = input._desc.sizes, recurrence._desc.sizes
    sequence, single = (packed(input._desc, (size, directions, batch, hidden)) for size in (steps, 1))
    outputs = [
        None if output_options == OutputOptions.Single else sequence,
        None if output_options == OutputOptions.Sequence else single,
    ]
    operands = [input, weight, recurrence, bias, hidden_init, sequence_lengths]
    given = {"activation_descs": tuple(map(_activation, activation_descs)), "direction": direction}
    return GRUOutputs(*operator("GRU", operands, outputs, **given, linear_before_reset=linear_before_reset))


def padding(
    input: Expression, padding_mode: PaddingMode, padding_value: float, start_padding: Numbers, end_padding: Numbers
) -> Expression:
    """Pad."""
    sizes = [n + s + e for n, s, e in zip(input._desc.sizes, start_padding, end_padding, strict=True)]
    given: dict[str, Any] = {"padding_mode": padding_mode, "padding_value": padding_value}
    given |= {"start_padding": tuple(start_padding), "end_padding": tuple(end_padding)}
    return _one(operator("PADDING", [input], [packed(input._desc, sizes)], **given))


def slice(
    input: Expression, input_window_offsets: Numbers, input_window_sizes: Numbers, input_window_strides: Numbers
) -> Expression:
    """Take every so many elements of a window."""
    each = zip(input_window_sizes, input_window_strides, strict=True)
    sizes = [(size - 1) // abs(stride) + 1 for size, stride in each]
    given = {"input_window_offsets": tuple(input_window_offsets), "input_window_sizes": tuple(input_window_sizes)}
    given |= {"input_window_strides": tuple(input_window_strides)}
    return _one(operator("SLICE1", [input], [packed(input._desc, sizes)], **given))


def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """Compute ``scale * x`` plus a number for each channel."""
    return pointwise("VALUE_SCALE_2D", input, scale=scale, bias=tuple(bias))


def up_sample_2d(input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode) -> Expression:
    """Enlarge an image a whole number of times."""
    *leading, height, width = input._desc.sizes
    size = Size2D(scale_size.width, scale_size.height)
    result = packed(input._desc, (*leading, height * size.height, width * size.width))
    return _one(operator("UPSAMPLE_2D", [input], [result], scale_size=size, interpolation_mode=interpolation_mode))


def join(input: Sequence[Expression], axis: int) -> Expression:
    """Put tensors one after another."""
    sizes = list(input[0]._desc.sizes)
    sizes[axis] = sum(one._desc.sizes[axis] for one in input)
    return _one(operator("JOIN", [list(input)], [packed(input[0]._desc, sizes)], axis=axis))


def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """Read along an axis."""
    own, places = input._desc.sizes, indices._desc.sizes
    found = (*own[:axis], *places[len(places) - index_dimensions :], *own[axis + 1 :])
    sizes = ((1,) * len(own) + found)[-len(own) :]
    given = {"axis": axis, "index_dimensions": index_dimensions}
    return _one(operator("GATHER", [input, indices], [packed(input._desc, sizes)], **given))


def reinterpret(
    input: Expression, new_type: TensorDataType, new_size: Numbers, new_strides: Numbers | None
) -> Expression:
    """Describe the same bytes in another way."""
    desc = input._desc
    strides = None if new_strides is None else tuple(new_strides)
    new = replace(desc, data_type=new_type, sizes=tuple(new_size), strides=strides)
    new = replace(new, total_tensor_size_in_bytes=desc.size_in_bytes)
    return Expression._made(input._scope, input._end, new)
