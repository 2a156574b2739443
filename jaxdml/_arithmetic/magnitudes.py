"""Bound sums of 8-bit integers times others by the magnitudes of the integers."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._base.shapes import is_static

_LONGEST = 2**23
"""The sum of so many int8 magnitudes fits int32."""


def greatest_magnitude(integers: Any, axes: Sequence[int]) -> Any:
    """Return the greatest sum of magnitudes over some axes, of int8 or of uint8 less 128; 0 if int32 may not hold it.

    Args:
      integers: an array of NumPy, for which the result is of NumPy, or of JAX.
      axes: those that are summed over.
    """
    sizes = [integers.shape[axis] for axis in axes]
    if not is_static(*sizes) or math.prod(sizes) > _LONGEST:
        return np.int32(0)
    signed = integers if integers.dtype == jnp.int8 else with_flipped_sign(integers, jnp.int8)
    positive = signed.clip(0).sum(axis=tuple(axes), dtype=np.int32)
    return (2 * positive - signed.sum(axis=tuple(axes), dtype=np.int32)).max(initial=0)


def bound_of(greatest: Any) -> int:
    """Return a power of two no smaller than what ``greatest_magnitude`` returned, or 0 if that is not known here.

    Powers of two are few, so weights of the same kind share programs.
    """
    if isinstance(greatest, jax.core.Tracer) or (isinstance(greatest, jax.Array) and not greatest.is_fully_addressable):
        return 0
    return 1 << max(0, int(greatest) - 1).bit_length() if int(greatest) else 0
