"""Define ``quantized_linear_average_pooling``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def _each(option: int | Sequence[int], count: int) -> list[int]:
    """Return one integer for each spatial dimension."""
    return [int(one) for one in np.broadcast_to(option, count)]


def _orders(dimension_numbers: str | Sequence[str] | None, rank: int) -> tuple[list[int], list[int]]:
    """Return where N, C and the spatial dimensions are, in ``x`` and in the result."""
    if dimension_numbers is None:
        return [*range(rank)], [*range(rank)]
    orders = [dimension_numbers] if isinstance(dimension_numbers, str) else [*dimension_numbers]
    # With three strings the one of the filter gives the order of the spatial dimensions.
    letters = [letter for letter in orders[1 if len(orders) == 3 else 0] if letter not in "NCOI"]
    of_x, of_output = ([order.index(letter) for letter in ["N", "C", *letters]] for order in (orders[0], orders[-1]))
    return of_x, of_output


def quantized_linear_average_pooling(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    window: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
    start_padding: int | Sequence[int] = 0,
    end_padding: int | Sequence[int] = 0,
    include_padding: bool = False,
    dimension_numbers: str | Sequence[str] | None = None,
    output_dtype: DTypeLike | None = None,
) -> np.ndarray[Any, Any]:
    """Dequantize, average and quantize in rational numbers, one output at a time.

    Args:
      x: int8 or uint8, ``[N, C, *spatial]``.
      x_scale: float32, one value or one per channel.
      x_zero_point: dtype of ``x``; None means 0.
      output_scale: float32.
      output_zero_point: dtype of the output; None means 0.
      window: how many elements a window has along each spatial dimension.
      strides: from one window to the next.
      dilations: from one element of a window to the next.
      start_padding: how many zeros stand before ``x``.
      end_padding: how many zeros stand after ``x``.
      include_padding: whether the mean counts the padding. If not, the mean of padding alone is 0.
      dimension_numbers: a string such as ``"NHWC"``, or one for ``x`` and one for the result, or three as for a
        convolution; None is channels first.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or that of ``x`` if it is None too.

    Returns:
      The means, of the output's dtype.

    Raises:
      ArithmeticError: a scale is 0, infinite or NaN.

    Source:
      DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC.

    Example:
      >>> half, one = np.float32(0.5), np.float32(1)
      >>> reference.quantized_linear_average_pooling(np.int8([[[6, 8, 4]]]), one, None, half, window=2)
      array([[[14, 12]]], dtype=int8)
    """
    array = np.asarray(x)
    if output_dtype is None:
        output_dtype = array.dtype if output_zero_point is None else np.asarray(output_zero_point).dtype
    bounds = np.iinfo(output_dtype)
    of_x, of_output = _orders(dimension_numbers, array.ndim)
    channel = of_x[1]

    def by_channel(value: ArrayLike | None) -> np.ndarray[Any, Any]:
        value = np.asarray(0 if value is None else value)
        if value.ndim > 1:
            shape = [1] * array.ndim
            shape[channel] = array.shape[channel]
            value = np.broadcast_to(value, shape).reshape(-1)
        return np.broadcast_to(value, array.shape[channel])

    scales, zeros = by_channel(x_scale), by_channel(x_zero_point)
    output_scales, output_zeros = by_channel(output_scale), by_channel(output_zero_point)
    array = array.transpose(of_x)
    sizes = _each(window, array.ndim - 2)
    options = (strides, dilations, start_padding, end_padding)
    stride, step, start, end = (_each(option, array.ndim - 2) for option in options)
    counts = [
        (n + start[d] + end[d] - (sizes[d] - 1) * step[d] - 1) // stride[d] + 1 for d, n in enumerate(array.shape[2:])
    ]
    output = np.empty((*array.shape[:2], *counts), output_dtype)
    for n, c, *place in np.ndindex(output.shape):
        total = real = 0
        for tap in np.ndindex(*sizes):
            at = [place[d] * stride[d] + tap[d] * step[d] - start[d] for d in range(len(sizes))]
            if all(0 <= i < size for i, size in zip(at, array.shape[2:], strict=True)):
                total, real = total + int(array[n, c, *at]) - int(zeros[c]), real + 1
        count = int(np.prod(sizes)) if include_padding else max(real, 1)
        mean = Fraction(total, count) * Fraction(float(scales[c])) / Fraction(float(output_scales[c]))
        output[n, c, *place] = min(max(round(mean) + int(output_zeros[c]), bounds.min), bounds.max)
    return output.transpose(np.argsort(of_output))
