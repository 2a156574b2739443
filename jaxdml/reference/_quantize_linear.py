"""Define ``quantize_linear``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from jaxdml.reference._quantization import Axes, spread


def quantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: Axes = None,
    block_size: Axes = None,
    output_dtype: DTypeLike | None = None,
) -> np.ndarray[Any, Any]:
    """Divide in float32, round, add the zero point and clamp, one element at a time.

    Args:
      x: float32, float16, bfloat16 or int32.
      scale: float32, float16 or bfloat16: one value, or one for each element, each index of ``axis`` or each block.
      zero_point: dtype of the output, with a shape like that of ``scale``; None means 0.
      axis: the axis that vectors belong to, or the axes that are divided into blocks.
      block_size: the length of a block along each axis.
      output_dtype: by default the dtype of ``zero_point``.

    Returns:
      The integers, shaped like ``x``.

    Source:
      DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC.

    Example:
      >>> reference.quantize_linear(np.float32([0.5, 1.5, 300]), np.float32(1), np.uint8(1))
      array([  1,   3, 255], dtype=uint8)
    """
    x = np.asarray(x)
    dtype = np.dtype(np.asarray(zero_point).dtype if output_dtype is None else output_dtype)
    output, bounds = np.empty(x.shape, dtype), np.iinfo(dtype)
    scales, zeros = (spread(value, x.shape, axis, block_size) for value in (scale, zero_point))
    for place in np.ndindex(x.shape):
        with np.errstate(all="ignore"):
            quotient = np.rint(x[place].astype(np.float32) / scales[place].astype(np.float32))
        if np.isinf(quotient):
            output[place] = bounds.max if quotient > 0 else bounds.min
            continue
        rounded = 0 if np.isnan(quotient) else int(quotient)
        output[place] = min(max(rounded + int(zeros[place]), bounds.min), bounds.max)
    return output
