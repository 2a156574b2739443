"""Normalizations. Statistics are float32 where the input is narrower."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._networks.normalization import Average, local_response, moments, plain
from jaxdml.onnx._errors import unsupported
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axes_of, axis_of
from jaxdml.onnx.values.kinds import Value, channels_first, channels_last, computed
from jaxdml.onnx.values.stored import ChannelsLast, on_device, widened


def parameter(value: Value) -> jax.Array:
    """Return a scale, a bias or a statistic as an array, float32 if it is narrower."""
    return widened(on_device(channels_first(value)))


def _batch_normalization(
    call: NodeCall,
    X: Value,
    scale: Value,
    B: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
) -> Value:
    if any(call.outputs[1:]):
        raise unsupported(f"{call.node} has more than one output, which means training.")
    return _normalized_batch(X, scale, B, parameter(mean), parameter(var), epsilon)


def _batch_normalization_14(
    call: NodeCall,
    X: Value,
    scale: Value,
    B: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    if not training_mode:
        return _normalized_batch(X, scale, B, parameter(mean), parameter(var), epsilon)
    x = channels_last(X)
    averages = [statistic.reshape(-1) for statistic in moments(widened(x), range(x.ndim - 1))]
    running = [
        (parameter(old) * momentum + new * (1 - momentum)).astype(old.dtype)
        for old, new in zip((mean, var), averages, strict=True)
    ]
    return _normalized_batch(ChannelsLast(x), scale, B, averages[0], averages[1], epsilon), *running


def _normalized_batch(X: Value, scale: Value, B: Value, mean: jax.Array, var: jax.Array, epsilon: float) -> Value:
    factor = parameter(scale) * lax.rsqrt(var + epsilon)
    shift = parameter(B) - mean * factor
    value = computed(X)
    if isinstance(value, ChannelsLast) and factor.ndim == 1:
        x = value.array
        return ChannelsLast((widened(x) * factor + shift).astype(x.dtype))
    x = on_device(channels_first(value))
    # Before version 9 there may be one parameter for each element of a sample.
    rank = (*factor.shape, *(1,) * (x.ndim - 1 - factor.ndim))
    return (widened(x) * factor.reshape(rank) + shift.reshape(rank)).astype(x.dtype)


def _instance_normalization(
    call: NodeCall, input: Value, scale: Value, B: Value, *, epsilon: float = 1e-5
) -> ChannelsLast:
    return by_instance(input, plain, scale, B, epsilon=epsilon)


def by_instance(X: Value, average: Average, scale: Value, bias: Value, *, epsilon: float) -> ChannelsLast:
    """Normalize each channel of each image; ``average`` gets these with channels last, as for the following."""
    x = channels_last(X)
    wide = widened(x)
    mean, variance = moments(wide, range(1, x.ndim - 1), average)
    factor = parameter(scale) * lax.rsqrt(variance + epsilon)
    return ChannelsLast(((wide - mean) * factor + parameter(bias)).astype(x.dtype))


def _in_groups(X: Value, num_groups: int, epsilon: float, average: Average) -> jax.Array:
    """Normalize each group of channels, and return ``[N, *spatial, groups, channels of a group]``."""
    x = widened(channels_last(X))
    grouped = x.reshape(*x.shape[:-1], num_groups, x.shape[-1] // num_groups)
    mean, variance = moments(grouped, (*range(1, x.ndim - 1), x.ndim), average)
    return (grouped - mean) * lax.rsqrt(variance + epsilon)


def _group_normalization_18(
    call: NodeCall, X: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5
) -> ChannelsLast:
    return by_group(X, plain, scale, bias, num_groups=num_groups, epsilon=epsilon)


def by_group(X: Value, average: Average, scale: Value, bias: Value, *, num_groups: int, epsilon: float) -> ChannelsLast:
    """Normalize each group of channels, and scale it."""
    normal = _in_groups(X, num_groups, epsilon, average)
    result = normal * parameter(scale)[:, None] + parameter(bias)[:, None]
    return ChannelsLast(result.reshape(*result.shape[:-2], -1).astype(X.dtype))


def _group_normalization_21(
    call: NodeCall, X: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> ChannelsLast:
    return by_channel(X, plain, scale, bias, num_groups=num_groups, epsilon=epsilon)


def by_channel(
    X: Value, average: Average, scale: Value, bias: Value, *, num_groups: int, epsilon: float
) -> ChannelsLast:
    """Normalize each group of channels, and scale each channel."""
    normal = _in_groups(X, num_groups, epsilon, average)
    result = normal.reshape(*normal.shape[:-2], -1) * parameter(scale) + parameter(bias)
    return ChannelsLast(result.astype(X.dtype))


def layer_normalization(
    call: NodeCall, X: Any, Scale: Any, B: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Any, ...]:
    """Normalize all that follows an axis; return the mean and the inverse deviation, too."""
    return by_deviation(X, plain, Scale, B, axis=axis, epsilon=epsilon)


def by_deviation(
    X: Any, average: Average, scale: Any, bias: Any = None, *, axis: int, epsilon: float
) -> tuple[Any, ...]:
    """Do what ``layer_normalization`` does."""
    wide = widened(X)
    mean, variance = moments(wide, range(axis_of(axis, X.ndim), X.ndim), average)
    inverse = lax.rsqrt(variance + epsilon)
    # The statistics are float32, and what follows has the type of the input.
    result = ((wide - mean) * inverse).astype(X.dtype) * scale
    result = result if bias is None else result + bias
    return result, mean, inverse


def rms_normalization(
    call: NodeCall, X: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Any, ...]:
    """Divide all that follows an axis by the root of its mean square; return the inverse of the root, too."""
    return by_root(X, plain, scale, axis=axis, epsilon=epsilon)


def by_root(X: Any, average: Average, scale: Any, *, axis: int, epsilon: float) -> tuple[Any, ...]:
    """Do what ``rms_normalization`` does."""
    wide = widened(X)
    inverse = lax.rsqrt(average(jnp.square(wide), range(axis_of(axis, X.ndim), X.ndim)) + epsilon)
    return (wide * inverse).astype(X.dtype) * scale, inverse


def _mean_variance_1(call: NodeCall, x: Any, *, across_channels: int = 0, normalize_variance: int = 1) -> Any:
    """Normalize as onnxruntime does where the version is older than ONNX's own: over batches, too."""
    axes = [axis for axis in range(x.ndim) if across_channels or axis != 1]
    if normalize_variance:
        return _mean_variance_9(call, x, axes=axes)
    wide = widened(x)
    return (wide - wide.mean(axes, keepdims=True)).astype(x.dtype)


def _mean_variance_9(call: NodeCall, X: Any, *, axes: Sequence[int] = (0, 2, 3)) -> Any:
    return mean_variance(X, plain, axes)


def mean_variance(X: Any, average: Average, axes: Sequence[int]) -> Any:
    """Normalize along axes."""
    wide = widened(X)
    mean, variance = moments(wide, axes_of(axes, X.ndim), average)
    return ((wide - mean) / (jnp.sqrt(variance) + 1e-9)).astype(X.dtype)


def _lp_normalization(call: NodeCall, input: Any, *, axis: int = -1, p: int = 2) -> Any:
    wide = widened(input)
    total = (jnp.abs(wide) if p == 1 else jnp.square(wide)).sum(axis, keepdims=True)
    # What has the norm 0 stays 0, with a finite derivative.
    total = jnp.where(total == 0, 1, total)
    return (wide / (total if p == 1 else jnp.sqrt(total))).astype(input.dtype)


def _lrn(call: NodeCall, X: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Value:
    x = channels_last(X)
    result = local_response(widened(x), (x.ndim - 1,), size=size, alpha=alpha, beta=beta, bias=bias)
    return ChannelsLast(result.astype(x.dtype))


TABLE: Table = {
    "BatchNormalization": (
        Handler(7, _batch_normalization, raw=True),
        Handler(14, _batch_normalization_14, raw=True),
    ),
    "InstanceNormalization": (Handler(6, _instance_normalization, raw=True),),
    "GroupNormalization": (
        Handler(18, _group_normalization_18, raw=True),
        Handler(21, _group_normalization_21, raw=True),
    ),
    # onnxruntime has it from version 1 on, ONNX from 17 on.
    "LayerNormalization": (Handler(1, layer_normalization),),
    "MeanVarianceNormalization": (Handler(1, _mean_variance_1), Handler(9, _mean_variance_9)),
    "RMSNormalization": (Handler(23, rms_normalization),),
    "LpNormalization": (Handler(1, _lp_normalization),),
    "LRN": (Handler(1, _lrn, raw=True),),
}
