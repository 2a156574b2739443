"""Define ``quantized_linear_convolution``."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from jaxdml.reference._convolution_integer import Array, Spatial, convolution_sums, of_channels, orders


def quantized_linear_convolution(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None,
    w: ArrayLike,
    w_scale: ArrayLike,
    w_zero_point: ArrayLike | None,
    bias: ArrayLike | None,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    strides: Spatial = 1,
    dilations: Spatial = 1,
    start_padding: Spatial = 0,
    end_padding: Spatial = 0,
    group_count: int = 1,
    dimension_numbers: Any = None,
    output_dtype: DTypeLike | None = None,
) -> Array:
    """Convolve in integers, then scale and round in rational numbers, one output at a time.

    Args:
      x: int8 or uint8, ``[N, C, *spatial]``.
      x_scale: float32, one value.
      x_zero_point: dtype of ``x``, one value; None means 0. Padding counts as this.
      w: int8 or uint8, ``[M, C / group_count, *spatial]``.
      w_scale: float32, one value or one per output channel.
      w_zero_point: dtype of ``w``, one value or one per output channel; None means 0.
      bias: int32, one value or one per output channel, in units of ``x_scale * w_scale``; None means 0.
      output_scale: float32, one value.
      output_zero_point: dtype of the output, one value; None means 0.
      strides: the distance of neighbouring windows, one integer or one for each spatial dimension.
      dilations: the distance of neighbouring elements of a window, likewise.
      start_padding: how much to pad before ``x``, likewise.
      end_padding: how much to pad after ``x``, likewise.
      group_count: into how many groups the channels fall; a filter reads the channels of one group.
      dimension_numbers: three strings for ``x``, ``w`` and the result, as ``("NHWC", "HWIO", "NHWC")``, or a
        ``jax.lax.ConvDimensionNumbers``; None means channels first.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or that of ``x`` if it is None too.

    Returns:
      ``[N, M, *spatial]`` of the output's dtype.

    Raises:
      ArithmeticError: a scale is infinite, or ``output_scale`` is 0.
      ValueError: a scale is NaN.

    Source:
      DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC.

    Example:
      >>> x, w, one = np.uint8([[[2, 3, 4]]]), np.int8([[[1, 2]]]), np.float32(1)
      >>> reference.quantized_linear_convolution(x, one, None, w, one, None, np.int32([1]), 2 * one)
      array([[[4, 6]]], dtype=uint8)
    """
    if output_dtype is None:
        output_dtype = np.asarray(x if output_zero_point is None else output_zero_point).dtype
    bounds = np.iinfo(output_dtype)
    options = strides, dilations, start_padding, end_padding, group_count, dimension_numbers
    sums = convolution_sums(x, x_zero_point, w, w_zero_point, *options)
    filters = sums.shape[1]
    to_output = Fraction(np.ravel(x_scale).item()) / Fraction(np.ravel(output_scale).item())
    multipliers = [Fraction(scale) * to_output for scale in of_channels(w_scale, filters).tolist()]
    biases = of_channels(bias, filters).tolist()
    zero = of_channels(output_zero_point, 1).item()
    output = np.empty(sums.shape, output_dtype)
    for place in np.ndindex(output.shape):
        channel = place[1]
        rounded = round((int(sums[place]) + biases[channel]) * multipliers[channel])
        output[place] = min(max(rounded + zero, bounds.min), bounds.max)
    return output.transpose(np.argsort(orders(dimension_numbers, output.ndim)[2]))
