"""Define ``quantized_linear_matrix_multiply``."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from jaxdml.reference._quantization import of_product


def quantized_linear_matrix_multiply(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike | None,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike | None,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    bias: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
) -> np.ndarray[Any, Any]:
    """Dequantize, multiply and quantize in rational numbers, one output at a time.

    Args:
      a: int8 or uint8, ``[..., M, K]``.
      a_scale: float32, one value or one per row.
      a_zero_point: dtype of ``a``; None means 0.
      b: int8 or uint8, ``[..., K, N]``.
      b_scale: float32, one value or one per column.
      b_zero_point: dtype of ``b``; None means 0.
      output_scale: float32, one value or one per row.
      output_zero_point: dtype of the output; None means 0.
      bias: int32, one value or one per column; None means 0.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or that of ``a`` if it is None too.

    Returns:
      ``[..., M, N]`` of the output's dtype.

    Raises:
      ArithmeticError: a scale is 0, infinite or NaN.

    Source:
      DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC.

    Example:
      >>> one = np.float32(1)
      >>> reference.quantized_linear_matrix_multiply(np.int8([[5]]), one, None, np.int8([[3]]), one, None, 2 * one)
      array([[8]], dtype=int8)
    """
    a, b = np.asarray(a), np.asarray(b)
    if output_dtype is None:
        output_dtype = a.dtype if output_zero_point is None else np.asarray(output_zero_point).dtype
    bounds = np.iinfo(output_dtype)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    output = np.empty((*batch, a.shape[-2], b.shape[-1]), output_dtype)
    a_scales, b_scales = of_product(a_scale, output.shape, True), of_product(b_scale, output.shape, False)
    a_zeros, b_zeros = of_product(a_zero_point, output.shape, True), of_product(b_zero_point, output.shape, False)
    output_scales, output_zeros = (of_product(value, output.shape, True) for value in (output_scale, output_zero_point))
    biases = of_product(bias, output.shape, False)
    for place in np.ndindex(output.shape):
        *stack, i, j = place
        row = a[(*stack, i)].astype(np.int64) - int(a_zeros[place])
        column = b[(*stack, slice(None), j)].astype(np.int64) - int(b_zeros[place])
        total = int(row @ column) + int(biases[place])
        real = total * Fraction(float(a_scales[place])) * Fraction(float(b_scales[place]))
        rounded = round(real / Fraction(float(output_scales[place])))
        output[place] = min(max(rounded + int(output_zeros[place]), bounds.min), bounds.max)
    return output
