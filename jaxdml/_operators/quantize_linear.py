"""Check and run DML_OPERATOR_ELEMENT_WISE_QUANTIZE_LINEAR and DML_OPERATOR_QUANTIZE."""

from __future__ import annotations

import jax
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments import blocks, quantized
from jaxdml._arguments.call import Call
from jaxdml._base.dtypes import SCALES, WIDE_QUANTIZED
from jaxdml._kernels.quantization import are_ordinary, quantize
from jaxdml._placement.materialized import materialized


def quantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
    block_size: int | tuple[int, ...] | None = None,
    output_dtype: DTypeLike | None = None,
) -> jax.Array:
    """Divide by a scale, round to integers, add a zero point and clamp.

    ``clamp(rint(fl(x / scale)) + zero_point)``, where ``fl`` rounds to float32 and ``rint`` to the nearest integer,
    both ties to even. These are the bits of NumPy, on every device. A quotient that is infinite saturates, and one that
    is NaN gives the zero point.

    Without ``axis``, scale and zero point are one value, or broadcast against ``x``. With it they may be vectors: one
    value for each index of ``axis``. With ``block_size`` too they have the rank of ``x``, and along ``axis`` one value
    for each block of so many elements; the last block may have fewer.

    Scales and zero points that are Python numbers or NumPy arrays are known while tracing. Rounding then takes a
    shorter way with the same bits, after a proof on the host. Pass ``jnp.asarray(scale)`` for a scale that is data.

    Args:
      x: float32, float16, bfloat16 or int32. All are converted to float32 first.
      scale: float32, float16 or bfloat16, converted to float32 too; a Python number is float32. It may be negative.
      zero_point: dtype of the output; None means 0.
      axis: negative counts from the end. With ``block_size`` it may be a tuple. Static.
      block_size: the length of a block, or a tuple of one for each axis. Static.
      output_dtype: int8, uint8, int16 or uint16; None means the dtype of ``zero_point``, which then must have one.
        Static.

    Returns:
      An array with the shape of ``x``. As it holds integers, its derivatives are zero.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype or shape. Nothing says the dtype of the output.
      ValueError: ``axis`` or ``block_size`` is out of range. A scale is a Python number that is 0, subnormal or not
        finite as float32, or a zero point one that its dtype cannot hold.

    Source:
      DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC, DML_QUANTIZE_OPERATOR_DESC. The rounding, NaNs, ``axis`` and
      ``block_size`` are ours; see docs/departures.md.

    Example:
      >>> jaxdml.quantize_linear(jnp.array([-3.0, 0.5, 1.5, 100.0]), 1.0, 2, output_dtype="uint8")
      Array([  0,   2,   4, 102], dtype=uint8)
    """
    call = Call("quantize_linear", x=x, scale=scale, zero_point=zero_point)
    x = call.array("x")
    call.dtype("x", (*SCALES, "int32"))
    dtype = quantized.output_dtype(call, output_dtype, zero_point="zero_point", allowed=WIDE_QUANTIZED)
    zero = quantized.optional(call, "zero_point", dtype)
    operands, static = blocks.plan(call, x, blocks.scale_of(call), zero, axis, block_size)
    known = call.known("scale", np.float32)
    ordinary = known is not None and bool(are_ordinary(known))
    result = blocks.run_by_blocks(quantize, operands, static, dtype=dtype, ordinary=ordinary)
    return materialized(result) if ordinary and x.ndim > 2 and dtype.itemsize == 1 else result
