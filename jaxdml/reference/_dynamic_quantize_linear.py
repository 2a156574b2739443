"""Define ``dynamic_quantize_linear``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from jaxdml.reference._quantize_linear import quantize_linear


def dynamic_quantize_linear(
    x: ArrayLike, *, output_dtype: DTypeLike = "uint8"
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Find the range, choose scale and zero point, and quantize, each step in float32.

    Args:
      x: float32, float16 or bfloat16.
      output_dtype: uint8, or int8, for which output and zero point are 128 less.

    Returns:
      The output, shaped like ``x``; the float32 scale and the zero point, both of shape ``()``.

    Source:
      DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC.

    Example:
      >>> reference.dynamic_quantize_linear(np.float32([0, 255, -255]))
      (array([128, 255,   0], dtype=uint8), array(2., dtype=float32), array(128, dtype=uint8))
    """
    low = high = np.float32(0)
    for value in np.asarray(x).astype(np.float32).flat:
        low, high = (value if value < low else low), (value if value > high else high)
    with np.errstate(all="ignore"):
        scale = np.float32(1) if low == high else (high - low) / np.float32(255)
        zero = np.rint(np.float32(0) - low / scale)
    zero_point: np.ndarray[Any, Any] = np.array(0 if np.isnan(zero) else min(max(zero, 0), 255), np.uint8)
    output = quantize_linear(x, scale, zero_point)
    if np.dtype(output_dtype) == np.int8:
        output, zero_point = (np.asarray(part.astype(np.int16) - 128, np.int8) for part in (output, zero_point))
    return output, np.asarray(scale), zero_point
