"""Check and run DML_OPERATOR_QUANTIZED_LINEAR_CONVOLUTION."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments import convolutions, quantized, rounding
from jaxdml._arguments.call import Call
from jaxdml._arguments.chains import chained
from jaxdml._kernels.integer_convolution import PackedFilters
from jaxdml._kernels.requantization import requantize


def quantized_linear_convolution(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None,
    w: ArrayLike | PackedFilters,
    w_scale: ArrayLike,
    w_zero_point: ArrayLike | None,
    bias: ArrayLike | None,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
    start_padding: int | Sequence[int] = 0,
    end_padding: int | Sequence[int] = 0,
    group_count: int = 1,
    dimension_numbers: tuple[str, str, str] | lax.ConvDimensionNumbers | None = None,
    output_dtype: DTypeLike | None = None,
    axis_name: str | tuple[str, ...] | None = None,
    implementation: str | None = None,
) -> jax.Array:
    """Convolve quantized arrays and quantize the result, rounding once and correctly.

    ``(sum + bias) * x_scale * w_scale / output_scale`` as if in real numbers, where ``sum`` is what
    ``convolution_integer`` computes, exact for filters of any size. It is rounded once, ties to even;
    ``output_zero_point`` is added; the result is clamped. Padding stands for the real number 0.

    The options of spatial dimensions are one integer, or one for each of them. A Python number is converted to the
    required dtype, also if it is an argument of ``jax.jit``.

    Scales and zero points that are Python numbers or NumPy arrays are known while tracing. Rounding then takes a
    shorter way with the same bits, after a proof on the host. Pass ``jnp.asarray(scale)`` for a scale that is data.

    Args:
      x: int8 or uint8, ``[N, C, *spatial]``.
      x_scale: float32, float16 or bfloat16, one value.
      x_zero_point: dtype of ``x``, one value; None means 0.
      w: int8 or uint8, ``[M, C / group_count, *spatial]``. The filters are not reversed.
      w_scale: float32, float16 or bfloat16, one value or one per output channel.
      w_zero_point: dtype of ``w``, one value or one per output channel; None means 0.
      bias: int32, one value or one per output channel, in units of ``x_scale * w_scale``; None means 0. The sum with
        it need not fit int32.
      output_scale: float32, float16 or bfloat16, one value.
      output_zero_point: dtype of the output, one value; None means 0.
      strides: as in ``convolution_integer``, like all options up to ``dimension_numbers``. Static.
      dilations: the distance between neighbouring elements of a window.
      start_padding: how many elements to add before ``x``.
      end_padding: how many elements to add after ``x``.
      group_count: into how many groups the channels fall.
      dimension_numbers: the order of dimensions; None means channels first.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or that of ``x`` if there is none or
        it is a Python number. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that the channels of each group are sharded over, or a tuple of
        axes. ``x`` and ``w`` are then blocks, and every shard gets the result for all channels. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      ``[N, M, *spatial]``, or as ``dimension_numbers`` says, of the output's dtype. If a scale in an array is 0,
      infinite or NaN, the outputs that it scales have no meaning.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype, rank or shape.
      ValueError: an option is out of range, or a window is larger than the padded ``x``. ``implementation`` is unknown.
        A Python number is no zero point of its dtype, or as a scale is 0, subnormal, infinite or NaN. A spatial
        dimension is sharded over an Explicit axis.
      NotImplementedError: the program is lowered for a platform without the forced ``implementation``.

    Source:
      DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC: ``InputTensor``, ``InputScaleTensor``, ``InputZeroPointTensor``,
      ``FilterTensor``, ``FilterScaleTensor``, ``FilterZeroPointTensor``, ``BiasTensor``, ``OutputScaleTensor``,
      ``OutputZeroPointTensor``, ``Strides``, ``Dilations``, ``StartPadding``, ``EndPadding``, ``GroupCount``. The
      rounding and the unit of the bias are ours; see docs/departures.md.

    Example:
      >>> x, w = jnp.array([[[2, 3, 4, 5]]], jnp.uint8), jnp.array([[[100, -100]]], jnp.int8)
      >>> jaxdml.quantized_linear_convolution(x, 0.5, 2, w, 0.25, None, 50, 2.0, 100)
      Array([[[97, 97, 97]]], dtype=uint8)
    """
    call = Call(
        "quantized_linear_convolution",
        x=x,
        x_scale=x_scale,
        x_zero_point=x_zero_point,
        w=w,
        w_scale=w_scale,
        w_zero_point=w_zero_point,
        bias=bias,
        output_scale=output_scale,
        output_zero_point=output_zero_point,
    )
    options = {
        "strides": strides,
        "dilations": dilations,
        "start_padding": start_padding,
        "end_padding": end_padding,
        "group_count": group_count,
    }
    given = convolutions.convolution(call, axis_name, dimension_numbers, options)
    dtype = quantized.output_dtype(call, output_dtype, given.x.dtype)
    zeros = convolutions.parameters(call, given, x_zero_point=given.x.dtype, w_zero_point=given.w.dtype)
    scales = convolutions.parameters(call, given, x_scale=np.float32, w_scale=np.float32, output_scale=np.float32)
    added = convolutions.parameters(call, given, bias=np.int32, output_zero_point=dtype)
    greatest = rounding.greatest_sum(call, given.terms, x=given.x, w=given.w)
    multiplier = chained(rounding.multiplier(call, scales, greatest), call, ("x", "w"), given.x, dtype, 0, greatest)
    given = convolutions.with_runs(call, given, multiplier)
    parameters = *zeros.values(), *scales.values(), *added.values(), multiplier
    return convolutions.convolve(call, given, implementation, requantize, *parameters, dtype=dtype)
