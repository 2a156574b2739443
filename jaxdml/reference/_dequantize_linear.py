"""Define ``dequantize_linear``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxdml.reference._quantization import Axes, spread


def dequantize_linear(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: Axes = None,
    block_size: Axes = None,
) -> np.ndarray[Any, Any]:
    """Subtract in integers and multiply in float32, one element at a time.

    Args:
      x: int8, uint8, int16, uint16, int32 or uint32.
      scale: float32, float16 or bfloat16: one value, or one for each element, each index of ``axis`` or each block.
      zero_point: dtype of ``x``, with a shape like that of ``scale``; None means 0.
      axis: the axis that vectors belong to, or the axes that are divided into blocks.
      block_size: the length of a block along each axis.

    Returns:
      The dtype of ``scale``, shaped like ``x``. Every NaN is ``np.nan``.

    Source:
      DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC.

    Example:
      >>> reference.dequantize_linear(np.uint8([0, 255]), np.float32(0.5), np.uint8(128))
      array([-64. ,  63.5], dtype=float32)
    """
    x, scale = np.asarray(x), np.asarray(scale)
    output = np.empty(x.shape, scale.dtype)
    scales, zeros = (spread(value, x.shape, axis, block_size) for value in (scale, zero_point))
    for place in np.ndindex(x.shape):
        difference = int(x[place]) - int(zeros[place])
        if x.dtype == np.int32:
            difference = (difference + 2**31) % 2**32 - 2**31
        with np.errstate(all="ignore"):
            # A Python integer of 33 bits is a float64 exactly.
            product = np.float32(difference) * scales[place].astype(np.float32)
            output[place] = np.nan if np.isnan(product) else product.astype(scale.dtype)
    return output
