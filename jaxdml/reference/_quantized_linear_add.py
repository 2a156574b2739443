"""Define ``quantized_linear_add``."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def quantized_linear_add(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike | None,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike | None,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    output_dtype: DTypeLike | None = None,
) -> np.ndarray[Any, Any]:
    """Dequantize, add and quantize in rational numbers, one output at a time.

    Args:
      a: int8 or uint8.
      a_scale: float32.
      a_zero_point: dtype of ``a``; None means 0.
      b: int8 or uint8.
      b_scale: float32.
      b_zero_point: dtype of ``b``; None means 0.
      output_scale: float32.
      output_zero_point: dtype of the output; None means 0.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or that of ``a`` if it is None too.

    Returns:
      The sum, of the output's dtype. ``a`` and ``b`` broadcast as in NumPy, and the rest broadcasts against that.

    Raises:
      ArithmeticError: a scale is 0, infinite or NaN.

    Source:
      DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC.

    Example:
      >>> half, one = np.float32(0.5), np.float32(1)
      >>> reference.quantized_linear_add(np.int8([5, 7]), half, None, np.int8([4]), one, None, one)
      array([6, 8], dtype=int8)
    """
    a, b = np.asarray(a), np.asarray(b)
    if output_dtype is None:
        output_dtype = a.dtype if output_zero_point is None else np.asarray(output_zero_point).dtype
    bounds = np.iinfo(output_dtype)
    output = np.empty(np.broadcast_shapes(a.shape, b.shape), output_dtype)

    def broadcast(value: ArrayLike | None) -> np.ndarray[Any, Any]:
        return np.broadcast_to(np.asarray(0 if value is None else value), output.shape)

    a, b, a_zeros, b_zeros = broadcast(a), broadcast(b), broadcast(a_zero_point), broadcast(b_zero_point)
    a_scales, b_scales = broadcast(a_scale), broadcast(b_scale)
    output_scales, output_zeros = broadcast(output_scale), broadcast(output_zero_point)
    for place in np.ndindex(output.shape):
        of_a = (int(a[place]) - int(a_zeros[place])) * Fraction(float(a_scales[place]))
        of_b = (int(b[place]) - int(b_zeros[place])) * Fraction(float(b_scales[place]))
        rounded = round((of_a + of_b) / Fraction(float(output_scales[place])))
        output[place] = min(max(rounded + int(output_zeros[place]), bounds.min), bounds.max)
    return output
