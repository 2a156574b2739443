"""Functions of one 8-bit operand: a table of 256 results, computed on the host and rounded once."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from jaxdml._networks.lookup import entries_of
from jaxdml.onnx.values.kinds import Quantization
from jaxdml.onnx.values.stored import stored

Real = Callable[[Fraction], Fraction | float]


def rounded(value: Fraction | float) -> int:
    """Round to the nearest integer, ties to even; infinities to numbers that every dtype saturates at."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0 if math.isnan(value) else int(math.copysign(2**40, value))
    return round(value)


def table(real: Real, x: Quantization, x_dtype: Any, out: Quantization, out_dtype: Any) -> np.ndarray:
    """Return ``clamp(round(real(x) / scale) + zero_point)`` for every x, indexed by its bits.

    Args:
      real: the function of real numbers. A float that it returns is taken as it is.
      x: scale and zero point of x, known now.
      x_dtype: int8 or uint8.
      out: scale and zero point of the result, known now.
      out_dtype: int8 or uint8.
    """
    scale, zero = fraction(x.scale), integer(x.zero_point)
    out_scale, out_zero = fraction(out.scale), integer(out.zero_point)
    limits = np.iinfo(out_dtype)
    results = []
    for bits in np.arange(256, dtype=np.uint8):
        value = real(scale * (int(bits.astype(x_dtype)) - zero))
        quotient = value / out_scale if isinstance(value, Fraction) else value / float(out_scale)
        results.append(min(max(rounded(quotient) + out_zero, int(limits.min)), int(limits.max)))
    return np.asarray(results, out_dtype)


def fraction(scale: Any) -> Fraction:
    """Return a scale as a rational number."""
    return Fraction(float(np.asarray(scale).reshape(())))


def integer(zero_point: Any) -> int:
    """Return a zero point as an integer."""
    return 0 if zero_point is None else int(np.asarray(zero_point).reshape(()))


def known(quantization: Quantization) -> bool:
    """Whether scale and zero point, one of each, are known while tracing, and the scale is positive."""
    zero = quantization.zero_point
    return (zero is None or isinstance(zero, np.ndarray)) and positive(quantization.scale)


def positive(scale: Any) -> bool:
    """Whether a scale is one finite positive number, known while tracing."""
    return isinstance(scale, np.ndarray) and 0 < float(scale.reshape(())) < math.inf


def is_identity(entries: np.ndarray, dtype: Any) -> bool:
    """Whether a table returns every 8-bit integer of this dtype as it is."""
    return entries.dtype == dtype and bool((entries == np.arange(256, dtype=np.uint8).astype(dtype)).all())


def look_up(entries: np.ndarray, x: Any) -> Any:
    """Return the table's entry for each of the 8-bit integers ``x``."""
    data, wrap = stored(x)
    return x if is_identity(entries, data.dtype) else wrap(entries_of(entries, data))


def identity(value: Fraction) -> Fraction:
    """Return the value."""
    return value
