"""Add quantized arrays between other operators, which store int8."""

from typing import Any

import jax
import numpy as np

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._kernels.quantized_sum import serves_words
from jaxdml._operators.quantized_linear_add import quantized_linear_add


def add(
    a: jax.Array,
    a_scale: Any,
    a_zero_point: Any,
    b: jax.Array,
    b_scale: Any,
    b_zero_point: Any,
    output_scale: Any,
    output_zero_point: Any,
    *,
    output_dtype: Any,
) -> jax.Array:
    """Do what ``quantized_linear_add`` does, with large arrays of uint8 as int8, which a GPU reads in words.

    XLA sees that the 128 that is added to what an operator stores is subtracted here. Zero points are arrays or None.
    """
    dtype = stored = np.dtype(output_dtype)
    if serves_words(a, b):
        (a, a_zero_point), (b, b_zero_point) = _as_int8(a, a_zero_point), _as_int8(b, b_zero_point)
        output_zero_point = output_zero_point if dtype == np.int8 else _zero_of_int8(output_zero_point)
        stored = np.dtype(np.int8)
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, output_scale, output_zero_point)
    total = quantized_linear_add(*operands, output_dtype=stored)
    return total if stored == dtype else with_flipped_sign(total, dtype)


def _as_int8(x: jax.Array, zero_point: Any) -> tuple[jax.Array, Any]:
    return (x, zero_point) if x.dtype == np.int8 else (with_flipped_sign(x, np.int8), _zero_of_int8(zero_point))


def _zero_of_int8(zero_point: Any) -> Any:
    """Return the zero point of uint8 less 128, of NumPy if that is."""
    zero = np.zeros((), np.uint8) if zero_point is None else zero_point
    return with_flipped_sign(np.asarray(zero) if isinstance(zero, np.generic) else zero, np.int8)
