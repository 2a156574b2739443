"""Quantize and dequantize, with gradients for training."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments import blocks, quantized
from jaxdml._arguments.call import Call
from jaxdml._arithmetic.to_float32 import widened
from jaxdml._base.dtypes import SCALES, WIDE_QUANTIZED
from jaxdml._kernels.quantization import are_normal, are_ordinary, dequantize, quantize


def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
    block_size: int | tuple[int, ...] | None = None,
    output_dtype: DTypeLike | None = None,
) -> jax.Array:
    """Quantize and dequantize, so that a model is trained with the numbers that it will run with.

    The bits are those of ``dequantize_linear(quantize_linear(x, scale, zero_point), scale, zero_point)``, on every
    device. The derivatives are those of a straight-through estimator: as if rounding changed nothing. In ``x`` it is 1,
    and 0 where ``x`` saturates. In ``scale`` it is the one of learned step sizes: ``(q - zero_point) - x / scale``,
    without the second term where ``x`` saturates, for the integer ``q``. An ``x`` that is NaN has derivatives of 0.

    Args:
      x: float32, float16 or bfloat16.
      scale: as in ``quantize_linear``: a value, or one for each index of ``axis``, or for each block.
      zero_point: dtype of the integers; None means 0.
      axis: negative counts from the end. With ``block_size`` it may be a tuple. Static.
      block_size: the length of a block, or a tuple of one for each axis. Static.
      output_dtype: int8, uint8, int16 or uint16: the dtype of the integers. None means the dtype of ``zero_point``,
        which then must have one. Static.

    Returns:
      An array with the shape of ``x`` and the dtype of ``scale``, differentiable in ``x`` and ``scale``.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype or shape. Nothing says the dtype of the integers.
      ValueError: ``axis`` or ``block_size`` is out of range. A scale is a Python number that is 0, subnormal or not
        finite as float32, or a zero point one that its dtype cannot hold.

    Source:
      DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC, then DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC. Bengio,
      Léonard and Courville, 2013, "Estimating or propagating gradients through stochastic neurons" (straight-through);
      Esser and others, 2020, "Learned step size quantization", equation 3, without its factor for the step.

    Example:
      >>> x = jnp.array([-0.4, 0.3, 200.0])
      >>> jaxdml.fake_quantize(x, 0.5, output_dtype="int8")
      Array([-0.5,  0.5, 63.5], dtype=float32)
      >>> jax.grad(lambda x: jaxdml.fake_quantize(x, 0.5, output_dtype="int8").sum())(x)
      Array([1., 1., 0.], dtype=float32)
    """
    call = Call("fake_quantize", x=x, scale=scale, zero_point=zero_point)
    x = call.array("x")
    call.dtype("x", SCALES)
    dtype = quantized.output_dtype(call, output_dtype, zero_point="zero_point", allowed=WIDE_QUANTIZED)
    zero = quantized.optional(call, "zero_point", dtype)
    operands, static = blocks.plan(call, x, blocks.scale_of(call), zero, axis, block_size)
    known = call.known("scale", np.float32)
    ordinary, normal = (known is not None and bool(test(known)) for test in (are_ordinary, are_normal))
    return blocks.run_by_blocks(_rounded, operands, static, dtype=dtype, ordinary=ordinary, normal=normal)


@partial(jax.custom_jvp, nondiff_argnums=(3, 4, 5))
def _rounded(
    x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: np.dtype[Any], ordinary: bool, normal: bool
) -> jax.Array:
    """Quantize and dequantize on one shard."""
    return dequantize(quantize(x, scale, zero_point, dtype, ordinary), scale, zero_point, normal)


def _rounded_jvp(
    dtype: np.dtype[Any], ordinary: bool, normal: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[jax.Array, jax.Array]:
    x, scale, zero_point = primals
    zero = jnp.int32(0) if zero_point is None else zero_point.astype(jnp.int32)
    integers = quantize(x, scale, zero, dtype, ordinary)
    limits = np.iinfo(dtype)
    least, greatest = integers == limits.min, integers == limits.max
    # An integer at a limit is there by itself if it moves with the zero point.
    moved = quantize(x, scale, jnp.where(least, zero + 1, jnp.where(greatest, zero - 1, zero)), dtype, ordinary)
    passes = ((moved != integers) | ~(least | greatest)) & ~jnp.isnan(x)
    slope = jnp.zeros(x.shape, jnp.float32)
    if not isinstance(tangents[0], SymbolicZero):
        slope += jnp.where(passes, tangents[0].astype(jnp.float32), 0)
    if not isinstance(tangents[1], SymbolicZero):
        steps = (integers.astype(jnp.int32) - zero).astype(jnp.float32)
        of_scale = steps - jnp.where(passes, widened(x) / widened(scale), 0)
        slope += of_scale * tangents[1].astype(jnp.float32)
    return _rounded(x, scale, zero_point, dtype, ordinary, normal), slope.astype(scale.dtype)


_rounded.defjvp(_rounded_jvp, symbolic_zeros=True)
