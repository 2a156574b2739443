"""Define ``matrix_multiply_integer_to_float``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from jaxdml.reference._quantization import of_product


def matrix_multiply_integer_to_float(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike | None,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike | None,
    bias: ArrayLike | None = None,
    *,
    output_dtype: DTypeLike = "float32",
) -> np.ndarray[Any, Any]:
    """Sum in integers, and scale and add in float32, one output at a time.

    Args:
      a: int8 or uint8, ``[..., M, K]``.
      a_scale: float32, one value or one per row.
      a_zero_point: dtype of ``a``, one value or one per row; None means 0.
      b: int8 or uint8, ``[..., K, N]``.
      b_scale: float32, one value or one per column.
      b_zero_point: dtype of ``b``, one value or one per column; None means 0.
      bias: float32 that broadcasts to ``[..., M, N]``; None adds nothing.
      output_dtype: float32, or a narrower one, to which the float32 result is rounded.

    Returns:
      ``[..., M, N]`` of ``output_dtype``. Every NaN has the bits of ``np.nan``.

    Source:
      DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC.

    Example:
      >>> a, b, half = np.uint8([[11, 7]]), np.int8([[1], [2]]), np.float32(0.5)
      >>> reference.matrix_multiply_integer_to_float(a, half, np.uint8(12), b, half, None, np.float32(1))
      array([[-1.75]], dtype=float32)
    """
    a, b = np.asarray(a), np.asarray(b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    output = np.empty((*batch, a.shape[-2], b.shape[-1]), output_dtype)
    a_scales, b_scales = of_product(a_scale, output.shape, True), of_product(b_scale, output.shape, False)
    a_zeros, b_zeros = of_product(a_zero_point, output.shape, True), of_product(b_zero_point, output.shape, False)
    biases = None if bias is None else np.broadcast_to(bias, output.shape)
    with np.errstate(all="ignore"):
        for place in np.ndindex(output.shape):
            *stack, i, j = place
            row = a[(*stack, i)].astype(np.int64) - int(a_zeros[place])
            column = b[(*stack, slice(None), j)].astype(np.int64) - int(b_zeros[place])
            real = np.float32(int(row @ column)) * (a_scales[place] * b_scales[place])
            if biases is not None:
                real = real + biases[place]
            output[place] = np.float32(np.nan) if np.isnan(real) else real
    return output
