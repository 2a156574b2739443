"""Normalizations and their gradients. Statistics are float32, and so is all that follows up to the result."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._networks.normalization import local_response, moments
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike_in_kind, axes_in_range, in_range, sized
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator, activated
from jaxdml.directml._support import growing

_STATISTICS = "mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor"
_GRADIENTS = "output_scale_gradient_tensor", "output_bias_gradient_tensor"


def _wide(*arrays: Any) -> list[Any]:
    return [None if x is None else x.astype(jnp.float32) for x in arrays]


def _batch(desc: Any, *inputs: Any) -> Any:
    x, mean, variance, scale, bias = _wide(*inputs)
    y = scale * (x - mean) * lax.rsqrt(variance + desc.epsilon) + bias
    return activated(desc.fused_activation, y).astype(inputs[0].dtype)


def _training(desc: Any, *inputs: Any) -> Any:
    """Normalize by the statistics over the dimensions in which the scale has size 1; return these, too."""
    x, scale, bias, added = _wide(*inputs)
    mean, variance = moments(x, _summed(desc))
    y = scale * (x - mean) * lax.rsqrt(variance + desc.epsilon) + bias
    y = activated(desc.fused_activation, y if added is None else y + added)
    return tuple(part.astype(inputs[0].dtype) for part in (y, mean, variance))


def _summed(desc: Any) -> tuple[int, ...]:
    return tuple(d for d, size in enumerate(desc.scale_tensor.sizes) if size == 1)


def _gradients(desc: Any, *inputs: Any, training: bool) -> Any:
    """Return the gradients in the input, the scale and the bias; in training the statistics follow from the input."""
    x, gradient, mean, variance, scale = _wide(*inputs)
    axes, root, centered = _summed(desc), lax.rsqrt(variance + desc.epsilon), x - mean
    of_scale = (gradient * centered * root).sum(axes, keepdims=True)
    of_x = gradient
    if training:
        centered = centered - centered.mean(axes, keepdims=True)
        slope = (gradient * centered).mean(axes, keepdims=True) * root**2
        of_x = gradient - gradient.mean(axes, keepdims=True) - centered * slope
    of_bias = gradient.sum(axes, keepdims=True)
    return tuple(part.astype(inputs[0].dtype) for part in (of_x * scale * root, of_scale, of_bias))


def _mean_variance(desc: Any, *inputs: Any, axes: Sequence[int], mean: Any, variance: Any) -> Any:
    """Normalize over axes; without the mean the variance is the mean square."""
    x, scale, bias = _wide(*inputs)
    center, spread = moments(x, axes)
    y = x
    if mean:
        y = x - center
    if variance:
        y *= lax.rsqrt((spread if mean else jnp.square(x).mean(axes, keepdims=True)) + desc.epsilon)
    y = y if scale is None else y * scale
    y = y if bias is None else y + bias
    return activated(desc.fused_activation, y).astype(inputs[0].dtype)


def _mean_variance_0(desc: Any, *inputs: Any) -> Any:
    axes = (1, 2, 3) if desc.cross_channel else (2, 3)
    return _mean_variance(desc, *inputs, axes=axes, mean=True, variance=desc.normalize_variance)


def _mean_variance_1(desc: Any, *inputs: Any) -> Any:
    return _mean_variance(desc, *inputs, axes=desc.axes, mean=True, variance=desc.normalize_variance)


def _mean_variance_2(desc: Any, *inputs: Any) -> Any:
    return _mean_variance(desc, *inputs, axes=desc.axes, mean=desc.use_mean, variance=desc.use_variance)


def _local_response(desc: Any, x: Any) -> Any:
    numbers = {"size": desc.local_size, "alpha": desc.alpha, "beta": desc.beta, "bias": desc.bias}
    axes = (1,) if desc.cross_channel else (2, 3)
    return local_response(x.astype(jnp.float32), axes, **numbers).astype(x.dtype)


def _local_response_gradient(desc: Any, x: Any, gradient: Any) -> Any:
    _, back = jax.vjp(partial(_local_response, desc), x)
    return back(gradient)[0]


def _norm(desc: Any, x: Any) -> Any:
    wide = x.astype(jnp.float32)
    total = (jnp.abs(wide) if desc.p == 1 else jnp.square(wide)).sum(desc.axis, keepdims=True)
    return (wide / ((total if desc.p == 1 else jnp.sqrt(total)) + desc.epsilon)).astype(x.dtype)


def _like_input(desc: Any) -> Violations:
    """Require all tensors to have the input's rank and data type, and those of its size to have that."""
    names = [name for name in desc.tensors if name != "input_tensor"]
    yield from alike_in_kind(desc, "input_tensor", *names)
    small = {*_STATISTICS, *_GRADIENTS, "output_mean_tensor", "output_variance_tensor"}
    for name in names:
        if name not in small:
            yield from sized(desc, name, "those of InputTensor", desc.input_tensor.sizes)


def _each_one_or_whole(desc: Any, *names: str) -> Violations:
    """Require each size of these tensors to be 1 or that of the input."""
    for name in names:
        if name in desc.tensors and (sizes := desc.tensors[name].sizes):
            pairs = list(zip(sizes, desc.input_tensor.sizes, strict=False))
            if len(sizes) == len(desc.input_tensor.sizes) and any(n not in (1, whole) for n, whole in pairs):
                rule = f"must be 1 or those of InputTensor, {list(desc.input_tensor.sizes)}"
                yield Violation(f"{c_field(name)}.Sizes", rule, sizes)


def _statistics(desc: Any) -> Violations:
    yield from _like_input(desc)
    yield from _each_one_or_whole(desc, *_STATISTICS)


def _one_shape(desc: Any) -> Violations:
    """Require statistics and their gradients to have the sizes of the scale."""
    yield from _statistics(desc)
    for name in (*_STATISTICS, *_GRADIENTS, "output_mean_tensor", "output_variance_tensor"):
        if name in desc.tensors:
            yield from sized(desc, name, "those of ScaleTensor", desc.scale_tensor.sizes)


def _axes(desc: Any) -> Violations:
    yield from _statistics(desc)
    yield from axes_in_range(desc, "input_tensor")


def _around(desc: Any) -> Violations:
    yield from _like_input(desc)
    if desc.local_size == 0:
        yield Violation("LocalSize", "must be greater than 0", 0)


def _along_axis(desc: Any) -> Violations:
    yield from _like_input(desc)
    yield from in_range(desc, "axis", "input_tensor")
    if desc.p not in (1, 2):
        yield Violation("P", "must be 1 or 2", desc.p)


_BATCH = "input_tensor mean_tensor variance_tensor scale_tensor"
_OUTPUTS = "output_gradient_tensor output_scale_gradient_tensor output_bias_gradient_tensor"
_PARAMETERS = "input_tensor scale_tensor bias_tensor output_tensor"
_WITH_GRADIENTS = f"{_BATCH} input_gradient_tensor {_OUTPUTS}"
_TRAINED = f"{_PARAMETERS} fused_add_tensor output_mean_tensor output_variance_tensor"

OPERATORS: Mapping[str, Operator] = {
    "BATCH_NORMALIZATION": Operator(
        *(72, growing("1_0 4, 3_1 1-8", (f"{_BATCH} bias_tensor output_tensor", "1_0 F")), _batch, _statistics),
        doc="Normalize by given statistics: ``Scale * (x - Mean) / sqrt(Variance + Epsilon) + Bias``.",
        fields={"spatial": "without effect: the sizes of the statistics say what is normalized alike."},
    ),
    "BATCH_NORMALIZATION_GRAD": Operator(
        *(146, growing("3_1 1-8", (_WITH_GRADIENTS, "3_1 F")), partial(_gradients, training=False), _one_shape),
        doc="Return the gradients of a batch normalization with given statistics.",
    ),
    "BATCH_NORMALIZATION_TRAINING": Operator(
        *(151, growing("4_1 1-8", (_TRAINED, "4_1 F")), _training, _one_shape),
        doc="Normalize by the statistics over the dimensions in which ``ScaleTensor`` has size 1, and return these.",
    ),
    "BATCH_NORMALIZATION_TRAINING_GRAD": Operator(
        *(152, growing("4_1 1-8", (_WITH_GRADIENTS, "4_1 F")), partial(_gradients, training=True), _one_shape),
        doc="Return the gradients of a batch normalization whose statistics follow from its input.",
    ),
    "MEAN_VARIANCE_NORMALIZATION": Operator(
        *(73, growing("1_0 4", (_PARAMETERS, "1_0 F")), _mean_variance_0, _statistics),
        doc="Normalize each channel of an image, or with ``CrossChannel`` the whole image.",
    ),
    "MEAN_VARIANCE_NORMALIZATION1": Operator(
        *(115, growing("2_1 4, 3_1 1-8", (_PARAMETERS, "2_1 F")), _mean_variance_1, _axes),
        doc="Normalize over axes.",
    ),
    "MEAN_VARIANCE_NORMALIZATION2": Operator(
        *(171, growing("6_3 1-8", (_PARAMETERS, "6_3 F")), _mean_variance_2, _axes),
        doc="Normalize over axes, by the mean, by the variance or by both; without the mean by the mean square.",
    ),
    "LOCAL_RESPONSE_NORMALIZATION": Operator(
        *(74, growing("1_0 4", ("input_tensor output_tensor", "1_0 F")), _local_response, _around),
        doc="Divide by a power of the sum of squares in nearby channels, or without ``CrossChannel`` in nearby places.",
    ),
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": Operator(
        144,
        growing("3_1 4", ("input_tensor input_gradient_tensor output_gradient_tensor", "3_1 F")),
        _local_response_gradient,
        _around,
        doc="Return the gradient of a local response normalization in its input.",
    ),
    "LP_NORMALIZATION": Operator(
        *(75, growing("1_0 4, 3_1 1-8", ("input_tensor output_tensor", "1_0 F")), _norm, _along_axis),
        doc="Divide by ``Epsilon`` and the P-norm along an axis.",
    ),
}
