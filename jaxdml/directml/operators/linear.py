"""Convolutions and matrix products of floats."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxdml.directml._checks import alike_in_kind, sized, varying, without_zeros
from jaxdml.directml._enums import ConvolutionDirection, ConvolutionMode, MatrixTransform
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator, activated
from jaxdml.directml._support import growing
from jaxdml.directml.operators._windows import fits

_EXACT = {"precision": lax.Precision.HIGHEST, "preferred_element_type": jnp.float32}


def _convolve(desc: Any, x: Any, w: Any, bias: Any) -> Any:
    """Convolve in float32, then add the bias and activate, then round to the output's data type."""
    spatial = range(2, x.ndim)
    backward = desc.direction == ConvolutionDirection.BACKWARD
    # A correlation with mirrored filters is a convolution; the transpose of a correlation mirrors them, too.
    if backward != (desc.mode == ConvolutionMode.CONVOLUTION):
        w = jnp.flip(w, tuple(spatial))
    arrays = x.shape[2:], w.shape[2:], desc.strides, desc.dilations, desc.start_padding, desc.end_padding
    added = tuple(desc.output_padding)
    counts = [n - more for n, more in zip(desc.output_tensor.sizes[2:], added, strict=True)]
    if backward:
        groups = w.reshape(desc.group_count, -1, *w.shape[1:])
        w = jnp.swapaxes(groups, 1, 2).reshape(-1, groups.shape[1], *w.shape[2:])
        padding = [
            ((size - 1) * dilation - start, count - (length - 1) * stride - 1 + start)
            for (length, size, stride, dilation, start, _), count in zip(zip(*arrays, strict=True), counts, strict=True)
        ]
        places = {"window_strides": (1,) * len(spatial), "lhs_dilation": desc.strides}
    else:
        padding = list(zip(desc.start_padding, desc.end_padding, strict=True))
        places = {"window_strides": desc.strides}
    y = lax.conv_general_dilated(
        x, w, padding=padding, rhs_dilation=desc.dilations, feature_group_count=desc.group_count, **places, **_EXACT
    )
    y = activated(desc.fused_activation, y if bias is None else y + bias)
    edges = [(0, 0, 0)] * 2 + [(0, more, 0) for more in added]
    return lax.pad(y.astype(x.dtype), jnp.zeros((), x.dtype), edges)


def _convolution_constraints(desc: Any) -> Violations:
    tensors = [name for name in desc.tensors if name != "input_tensor"]
    yield from alike_in_kind(desc, "input_tensor", *tensors)
    yield from without_zeros(desc, "strides", "dilations")
    if desc.group_count == 0:
        yield Violation("GroupCount", "must be greater than 0", 0)
    spatial = desc.input_tensor.dimension_count - 2
    if desc.dimension_count != spatial:
        rule = f"must be {spatial}, the spatial dimensions of InputTensor"
        yield Violation("DimensionCount", rule, desc.dimension_count)
    elif desc.group_count and len({tensor.dimension_count for tensor in desc.tensors.values()}) == 1:
        yield from _channels(desc)
        if 0 not in (*desc.strides, *desc.dilations):
            yield from _spatial(desc)


def _channels(desc: Any) -> Violations:
    """Require channels that groups divide, and that agree between the tensors."""
    (_, channels, *_), (filters, depth, *window) = desc.input_tensor.sizes, desc.filter_tensor.sizes
    groups, backward = desc.group_count, desc.direction == ConvolutionDirection.BACKWARD
    if filters % groups:
        yield Violation("GroupCount", f"must divide {filters}, the first size of FilterTensor", groups)
    if backward and channels != filters:
        rule = f"must be {filters}, the first of FilterTensor.Sizes, for DML_CONVOLUTION_DIRECTION_BACKWARD"
        yield Violation("InputTensor.Sizes[1]", rule, channels)
    elif not backward and channels != depth * groups:
        yield Violation(
            "InputTensor.Sizes[1]", f"must be {depth * groups}, FilterTensor.Sizes[1] * GroupCount", channels
        )
    features = depth * groups if backward else filters
    if desc.bias_tensor is not None:
        want = varying(2 + len(window), 1, features)
        yield from sized(desc, "bias_tensor", "one element for each channel of the output", want)
    batch, own = desc.input_tensor.sizes[0], desc.output_tensor.sizes
    if own[:2] != (batch, features):
        yield Violation("OutputTensor.Sizes", f"must begin with {[batch, features]}, images and channels", own)


def _spatial(desc: Any) -> Violations:
    """Require the number of windows; a transposed convolution may have more elements, up to the next one's."""
    backward = desc.direction == ConvolutionDirection.BACKWARD
    image, window = desc.input_tensor.sizes[2:], desc.filter_tensor.sizes[2:]
    along = fits(image, window, desc.strides, desc.dilations, desc.start_padding, desc.end_padding)
    arrays = image, along, desc.strides, desc.dilations, desc.output_padding, desc.output_tensor.sizes[2:]
    for d, (length, fit, stride, dilation, more, own) in enumerate(zip(*arrays, strict=True), 2):
        padding = fit.inside - length
        least = (length - 1) * stride + fit.reach - padding if backward else fit.number
        most = least + max(stride, dilation) - 1 if backward and not more else least
        if not least + more <= own <= most + more or least < 1:
            rule = f"must be {least + more}" + (f" to {most + more}" if most > least else "")
            yield Violation(f"OutputTensor.Sizes[{d}]", f"{rule}, as input, filter, strides and padding say", own)


def _multiply(desc: Any, a: Any, b: Any, c: Any) -> Any:
    a, b = (
        jnp.swapaxes(x, -1, -2) if turned == MatrixTransform.TRANSPOSE else x
        for x, turned in ((a, desc.trans_a), (b, desc.trans_b))
    )
    y = desc.alpha * jnp.matmul(a, b, **_EXACT)
    return activated(desc.fused_activation, y if c is None else y + desc.beta * c.astype(jnp.float32)).astype(a.dtype)


def _product_constraints(desc: Any) -> Violations:
    others = [name for name in desc.tensors if name != "a_tensor"]
    yield from alike_in_kind(desc, "a_tensor", *others)
    if len({tensor.dimension_count for tensor in desc.tensors.values()}) > 1:
        return
    (*batch, m, k), b = desc.a_tensor.sizes, desc.b_tensor.sizes
    if desc.trans_a == MatrixTransform.TRANSPOSE:
        m, k = k, m
    turned = desc.trans_b == MatrixTransform.TRANSPOSE
    n = b[-2] if turned else b[-1]
    inner = (n, k) if turned else (k, n)
    yield from sized(desc, "b_tensor", "a matrix for each of ATensor, whose columns are its rows", (*batch, *inner))
    for name in ("c_tensor", "output_tensor"):
        if name in desc.tensors:
            yield from sized(desc, name, "the rows of ATensor and the columns of BTensor", (*batch, m, n))


OPERATORS: Mapping[str, Operator] = {
    "CONVOLUTION": Operator(
        53,
        growing("1_0 4-5, 4_0 3-5", ("input_tensor filter_tensor bias_tensor output_tensor", "1_0 F")),
        _convolve,
        _convolution_constraints,
        doc="Convolve images with filters, or transpose such a convolution.",
        fields={
            "mode": "``CROSS_CORRELATION`` takes filters as they are, ``CONVOLUTION`` mirrors them.",
            "direction": "``BACKWARD`` transposes: the input's channels are the filters.",
            "output_padding": "zeros to append to the result.",
        },
    ),
    "GEMM": Operator(
        54,
        growing("1_0 4, 4_0 2-4", ("a_tensor b_tensor c_tensor output_tensor", "1_0 F")),
        _multiply,
        _product_constraints,
        doc="Compute ``Alpha * A @ B + Beta * C``.",
    ),
}
