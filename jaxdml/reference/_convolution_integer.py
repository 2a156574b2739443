"""Define ``convolution_integer``, and the exact sums of both convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray[Any, Any]
Spatial = int | Sequence[int]
"""One integer for all spatial dimensions, or one for each."""


def orders(dimension_numbers: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Say where x and the result have N, C and the spatial dimensions, and where w has O, I and those."""
    if dimension_numbers is None:
        given = tuple(range(rank))
        return given, given, given
    of_x, of_w, of_output = dimension_numbers
    if isinstance(of_w, str):
        spatial = [letter for letter in of_w if letter not in "OI"]
        of_x, of_output = (tuple(map(spec.index, ["N", "C", *spatial])) for spec in (of_x, of_output))
        of_w = tuple(map(of_w.index, ["O", "I", *spatial]))
    return of_x, of_w, of_output


def of_channels(value: ArrayLike | None, channels: int) -> Array:
    """Return one value for each output channel, of one value or of as many; None means 0."""
    return np.broadcast_to(np.ravel(0 if value is None else value), channels)


def convolution_sums(
    x: ArrayLike,
    x_zero_point: ArrayLike | None,
    w: ArrayLike,
    w_zero_point: ArrayLike | None,
    strides: Spatial,
    dilations: Spatial,
    start_padding: Spatial,
    end_padding: Spatial,
    group_count: int,
    dimension_numbers: Any,
) -> Array:
    """Return the exact sums as int64, ``[N, M, *spatial]``; the arguments are those of ``convolution_integer``."""
    x, w = np.asarray(x).astype(np.int64), np.asarray(w).astype(np.int64)
    of_x, of_w, _ = orders(dimension_numbers, x.ndim)
    x, w = x.transpose(of_x), w.transpose(of_w)
    filters, depth, *extents = w.shape
    x = x - of_channels(x_zero_point, 1)
    w = w - of_channels(w_zero_point, filters).astype(np.int64).reshape(-1, *[1] * (w.ndim - 1))
    stride, dilation, start, end = (
        np.broadcast_to(option, len(extents)) for option in (strides, dilations, start_padding, end_padding)
    )
    # Padding counts as x_zero_point. That is subtracted already, so it is 0 here.
    x = np.pad(x, [(0, 0), (0, 0), *zip(start, end, strict=True)])
    reach = (np.array(extents) - 1) * dilation + 1
    output = np.empty((len(x), filters, *(x.shape[2:] - reach) // stride + 1), np.int64)
    for image, channel, *place in np.ndindex(output.shape):
        first = channel // (filters // group_count) * depth
        corner = place * stride
        window = [slice(*ends) for ends in zip(corner, corner + reach, dilation, strict=True)]
        read = x[(image, slice(first, first + depth), *window)]
        output[(image, channel, *place)] = (read * w[channel]).sum()
    return output


def convolution_integer(
    x: ArrayLike,
    x_zero_point: ArrayLike | None,
    w: ArrayLike,
    w_zero_point: ArrayLike | None,
    *,
    strides: Spatial = 1,
    dilations: Spatial = 1,
    start_padding: Spatial = 0,
    end_padding: Spatial = 0,
    group_count: int = 1,
    dimension_numbers: Any = None,
) -> Array:
    """Subtract the zero points, and sum each window times each filter in integers, one output at a time.

    Args:
      x: int8 or uint8, ``[N, C, *spatial]``.
      x_zero_point: dtype of ``x``, one value; None means 0. Padding counts as this.
      w: int8 or uint8, ``[M, C / group_count, *spatial]``.
      w_zero_point: dtype of ``w``, one value or one per output channel; None means 0.
      strides: the distance of neighbouring windows, one integer or one for each spatial dimension.
      dilations: the distance of neighbouring elements of a window, likewise.
      start_padding: how much to pad before ``x``, likewise.
      end_padding: how much to pad after ``x``, likewise.
      group_count: into how many groups the channels fall; a filter reads the channels of one group.
      dimension_numbers: three strings for ``x``, ``w`` and the result, as ``("NHWC", "HWIO", "NHWC")``, or a
        ``jax.lax.ConvDimensionNumbers``; None means channels first.

    Returns:
      int32 ``[N, M, *spatial]``: each sum modulo 2**32.

    Source:
      DML_CONVOLUTION_INTEGER_OPERATOR_DESC.

    Example:
      >>> x, w = np.uint8([[[2, 3, 4]]]), np.uint8([[[2, 2]]])
      >>> reference.convolution_integer(x, np.uint8(1), w, np.uint8(1), start_padding=1)
      array([[[1, 3, 5]]], dtype=int32)
    """
    options = strides, dilations, start_padding, end_padding, group_count, dimension_numbers
    total = convolution_sums(x, x_zero_point, w, w_zero_point, *options)
    wrapped = ((total + 2**31) % 2**32 - 2**31).astype(np.int32)
    return wrapped.transpose(np.argsort(orders(dimension_numbers, total.ndim)[2]))
