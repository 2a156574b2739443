"""Operators of com.microsoft on floats, which onnxruntime writes into models that it saves after optimizing."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml.onnx.nodes import convolution, linear_algebra, pooling
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._recurrence import ACTIVATIONS
from jaxdml.onnx.nodes._sizes import refusal
from jaxdml.onnx.nodes.activations import gelu, swish
from jaxdml.onnx.nodes.normalization import layer_normalization, rms_normalization
from jaxdml.onnx.values.kinds import channels_first, channels_last
from jaxdml.onnx.values.stored import ChannelsLast, on_device, widened

FUSED = {name.lower(): function for name, (function, _) in ACTIVATIONS.items()} | {"clip": jnp.clip}
"""What a product or a convolution applies to its result, by name in small letters."""


def _matmul(
    call: NodeCall,
    A: Any,
    B: Any,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> jax.Array:
    """Multiply matrices; ``transBatch`` says that rows are the first dimension, before those of the batch."""
    if (transBatchA or transBatchB) and A.ndim != B.ndim:
        raise refusal(f"with transBatch both operands must have one rank; they have {A.ndim} and {B.ndim}.")
    operands = []
    for operand, first, swapped in ((A, transBatchA, transA), (B, transBatchB, transB)):
        placed = jnp.moveaxis(operand, 0, -2) if first else operand
        operands.append(jnp.swapaxes(placed, -1, -2) if swapped and operand.ndim > 1 else placed)
    return jnp.asarray(alpha, A.dtype) * jnp.matmul(*operands, precision=lax.Precision.HIGHEST)


def _gelu(call: NodeCall, X: Any) -> Any:
    return gelu(call, X)  # It has no attribute, unlike ONNX's.


def _bias_gelu(call: NodeCall, A: Any, B: Any) -> Any:
    return gelu(call, A + B)


def _fast_gelu(call: NodeCall, X: Any, bias: Any = None) -> Any:
    return gelu(call, X if bias is None else X + bias, approximate="tanh")


def _quick_gelu(call: NodeCall, X: Any, *, alpha: float = 1.702) -> Any:
    return swish(call, X, alpha=alpha)


def _sum(input: Any, skip: Any, bias: Any) -> Any:
    """Add, in float32 for narrower types."""
    total = widened(input) + widened(skip)
    return total if bias is None else total + widened(bias)


def _skip_layer_normalization(
    call: NodeCall, input: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *, epsilon: float = 1e-12
) -> tuple[Any, ...]:
    """Normalize a sum along its last axis, and round once."""
    total = _sum(input, skip, bias)
    affine = (None if part is None else widened(part) for part in (gamma, beta))
    result, mean, inverse = layer_normalization(call, total, *affine, epsilon=epsilon)
    return result.astype(input.dtype), mean, inverse, total.astype(input.dtype)


def _skip_simplified(
    call: NodeCall, input: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12
) -> tuple[Any, ...]:
    total = _sum(input, skip, bias)
    result, inverse = rms_normalization(call, total, widened(gamma), epsilon=epsilon)
    return result.astype(input.dtype), jnp.zeros_like(inverse), inverse, total.astype(input.dtype)


def _simplified(
    call: NodeCall, X: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Any, ...]:
    """Divide by the root of the mean square, and round once, to the type of the scale."""
    result, inverse = rms_normalization(call, widened(X), widened(scale), axis=axis, epsilon=epsilon)
    return result.astype(scale.dtype), inverse


def _fused(name: str, parameters: Sequence[float]) -> Callable[[Any], Any]:
    """Return what a fused activation applies."""
    return lambda x: FUSED[name.lower()](x, *parameters) if name else x


def _conv(
    call: NodeCall,
    X: Any,
    W: Any,
    B: Any = None,
    Z: Any = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> ChannelsLast:
    """Convolve, add ``Z`` and apply a function."""
    (handler,) = convolution.TABLE["Conv"]
    shapes = {"dilations": dilations, "kernel_shape": kernel_shape, "pads": pads, "strides": strides}
    result = channels_last(handler.run(call, X, W, B, auto_pad=auto_pad, group=group, **shapes))
    if Z is not None:
        shape = (*result.shape[:1], result.shape[-1], *result.shape[1:-1])
        if Z.shape != shape:
            raise refusal(f"Z must have the shape of the result, {list(shape)}; it has {list(Z.shape)}.")
        result = result + channels_last(Z)
    return ChannelsLast(_fused(activation, activation_params)(result))


def _gemm(
    call: NodeCall,
    A: Any,
    B: Any,
    C: Any = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    """Multiply matrices, add ``C`` and apply a function."""
    handler = linear_algebra.TABLE["Gemm"][-1]
    result = handler.run(call, A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _fused(activation, [value for value in (activation_alpha, activation_beta) if value is not None])(result)


def _nhwc_max_pool(
    call: NodeCall,
    x: Any,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] = (),
    kernel_shape: Sequence[int],
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> jax.Array:
    """Pool an array whose channels are its last dimension for ONNX, too."""
    (handler,) = pooling.TABLE["MaxPool"]
    shapes = {"dilations": dilations, "kernel_shape": kernel_shape, "pads": pads, "strides": strides}
    array = ChannelsLast(on_device(channels_first(x)))
    return channels_last(handler.run(call, array, auto_pad=auto_pad, ceil_mode=ceil_mode, **shapes))


TABLE: Table = {
    "BiasAdd": (Handler(1, lambda call, X, bias, skip: X + bias + skip),),
    "BiasGelu": (Handler(1, _bias_gelu, elementwise=True),),
    "FastGelu": (Handler(1, _fast_gelu, elementwise=True),),
    "FusedConv": (Handler(1, _conv, raw=True),),
    "FusedGemm": (Handler(1, _gemm),),
    "FusedMatMul": (Handler(1, _matmul),),
    "Gelu": (Handler(1, _gelu, elementwise=True),),
    "NhwcMaxPool": (Handler(1, _nhwc_max_pool, raw=True),),
    "QuickGelu": (Handler(1, _quick_gelu, elementwise=True),),
    "SimplifiedLayerNormalization": (Handler(1, _simplified),),
    "SkipLayerNormalization": (Handler(1, _skip_layer_normalization),),
    "SkipSimplifiedLayerNormalization": (Handler(1, _skip_simplified),),
    "TransposeMatMul": (Handler(1, _matmul),),
}

STANDARD: Table = {"SimplifiedLayerNormalization": TABLE["SimplifiedLayerNormalization"]}
"""What onnxruntime puts into ai.onnx, where ONNX does not have it."""
