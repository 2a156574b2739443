"""Define ``matrix_multiply_integer``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxdml.reference._quantization import of_product


def matrix_multiply_integer(
    a: ArrayLike, a_zero_point: ArrayLike | None, b: ArrayLike, b_zero_point: ArrayLike | None
) -> np.ndarray[Any, Any]:
    """Subtract the zero points and multiply in integers, one output at a time.

    Args:
      a: int8 or uint8, ``[..., M, K]``.
      a_zero_point: dtype of ``a``, one value or one per row; None means 0.
      b: int8 or uint8, ``[..., K, N]``.
      b_zero_point: dtype of ``b``, one value or one per column; None means 0.

    Returns:
      int32 ``[..., M, N]``: each sum modulo 2**32.

    Source:
      DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC.

    Example:
      >>> reference.matrix_multiply_integer(np.uint8([[11, 7]]), np.uint8(12), np.int8([[1], [2]]), None)
      array([[-11]], dtype=int32)
    """
    a, b = np.asarray(a), np.asarray(b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    output = np.empty((*batch, a.shape[-2], b.shape[-1]), np.int32)
    a_zeros, b_zeros = of_product(a_zero_point, output.shape, True), of_product(b_zero_point, output.shape, False)
    for place in np.ndindex(output.shape):
        *stack, i, j = place
        row = a[(*stack, i)].astype(np.int64) - int(a_zeros[place])
        column = b[(*stack, slice(None), j)].astype(np.int64) - int(b_zeros[place])
        total = int(row @ column)
        output[place] = (total + 2**31) % 2**32 - 2**31
    return output
