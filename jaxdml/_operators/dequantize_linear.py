"""Check and run DML_OPERATOR_ELEMENT_WISE_DEQUANTIZE_LINEAR and DML_OPERATOR_DEQUANTIZE."""

from __future__ import annotations

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxdml._arguments import blocks, quantized
from jaxdml._arguments.call import Call
from jaxdml._kernels.quantization import are_normal, dequantize

_INPUTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def dequantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
    block_size: int | tuple[int, ...] | None = None,
) -> jax.Array:
    """Subtract a zero point and multiply by a scale.

    ``fl(float(x - zero_point) * scale)``. ``float`` and ``fl`` round to float32, ties to even. These are the bits of
    NumPy, on every device, also for subnormals, and whatever the caller adds to the result. The first rounding changes
    nothing for 8 and 16 bits, and the second one happens once. If the scale is float16 or bfloat16, the product is
    rounded from float32 to that.

    Without ``axis``, scale and zero point are one value, or broadcast against ``x``. With it they may be vectors: one
    value for each index of ``axis``. With ``block_size`` too they have the rank of ``x``, and along ``axis`` one value
    for each block of so many elements; the last block may have fewer.

    Scales and zero points that are Python numbers or NumPy arrays are known while tracing. Rounding then takes a
    shorter way with the same bits, after a proof on the host. Pass ``jnp.asarray(scale)`` for a scale that is data.

    Args:
      x: int8, uint8, int16, uint16, int32 or uint32.
      scale: float32, float16 or bfloat16. A Python number is float32. It may be negative.
      zero_point: dtype of ``x``; None means 0. The difference of two int32 wraps around, all others are exact.
      axis: negative counts from the end. With ``block_size`` it may be a tuple. Static.
      block_size: the length of a block, or a tuple of one for each axis. Static.

    Returns:
      An array with the shape of ``x`` and the dtype of ``scale``, differentiable in ``scale``. All NaNs have one
      pattern of bits.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype or shape.
      ValueError: ``axis`` or ``block_size`` is out of range. A scale is a Python number that is 0, subnormal or not
        finite as float32, or a zero point one that its dtype cannot hold.

    Source:
      DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC, DML_DEQUANTIZE_OPERATOR_DESC. The roundings, ``axis`` and
      ``block_size`` are ours; see docs/departures.md.

    Example:
      >>> jaxdml.dequantize_linear(jnp.array([0, 128, 255], jnp.uint8), 0.5, 128)
      Array([-64. ,   0. ,  63.5], dtype=float32)
    """
    call = Call("dequantize_linear", x=x, scale=scale, zero_point=zero_point)
    x = call.array("x")
    call.dtype("x", _INPUTS)
    zero = quantized.optional(call, "zero_point", x.dtype)
    operands, static = blocks.plan(call, x, blocks.scale_of(call), zero, axis, block_size)
    known = call.known("scale", np.float32)
    return blocks.run_by_blocks(dequantize, operands, static, normal=known is not None and bool(are_normal(known)))
