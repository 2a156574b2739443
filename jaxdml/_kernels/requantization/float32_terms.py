"""Add a quantized array that is known while tracing, such as a bias: one product and one sum in float32.

``(p * A + q * B)`` is rounded, where q and both scales over the output's are known. The zero point of the output is a
part of the terms: no sum is next to a half, so an odd one turns no tie. Each q leaves room for its term: all 256
numbers p must be rounded to their result. Mostly that is some thousandths, and the errors of float32 are some
hundred-thousandths. So what float32 rounds at all is proved for each q by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._arithmetic.nearest import nearest_without_ties
from jaxdml._arithmetic.residuals import clamp
from jaxdml._arithmetic.signedness import stored_zero
from jaxdml._kernels.requantization.proofs import STEP, proved_sum

_ERROR = 2.0**-24
"""Of a product and of a sum in float32, relative to each."""

_FACTORS = (0, 1, -1, 2, -2, 3, -3, 4, -4)
"""By how many units in the last place the factor may differ from A, in the order of trial."""


@partial(jax.tree_util.register_dataclass, data_fields=["factor", "terms"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class Terms:
    """Hold what ``proved_terms`` returns, a pytree of operands.

    Attributes:
      factor: float32, which the array is multiplied by.
      terms: float32 of the shape of the known array, which are added to that. What is rounded then is stored as int8.
    """

    factor: Any
    terms: Any


def proved_terms(
    scales: Sequence[float],
    zero_points: Sequence[int],
    dtypes: Sequence[np.dtype[Any]],
    known: np.ndarray[Any, Any],
) -> Terms | None:
    """Return what rounds every sum of an array and a known one, or None if none is found.

    Args:
      scales: of the array, of the known one and of the output, float32 numbers.
      zero_points: of the same.
      dtypes: of the same, int8 or uint8.
      known: the integers that are known.
    """
    values, places = np.unique(known, return_inverse=True)
    found = _proved(
        tuple(map(float, scales)),
        tuple(map(int, zero_points)),
        tuple(map(np.dtype, dtypes)),
        tuple(values.tolist()),
    )
    return found and Terms(found[0], found[1][places].reshape(known.shape))


@lru_cache(2**10)
def _proved(
    scales: tuple[float, ...],
    zero_points: tuple[int, ...],
    dtypes: tuple[np.dtype[Any], ...],
    values: tuple[int, ...],
) -> tuple[np.float32, np.ndarray[Any, Any]] | None:
    by = proved_sum(scales, zero_points[:2], dtypes[:2])
    if by is None or not by.fits:
        return None
    given, offset = np.iinfo(dtypes[0]), stored_zero(zero_points[2], dtypes[2])
    low, high = np.iinfo(np.int8).min, np.iinfo(np.int8).max
    p, q = np.arange(given.min, given.max + 1) - zero_points[0], np.asarray(values, np.int64)[:, None] - zero_points[1]
    first, second = by.factors.reshape(-1).view(np.float64)
    zero = stored_zero(zero_points[0], dtypes[0])
    sums = p * first + q * second
    wanted = np.clip(np.rint(np.rint(sums / STEP) * STEP if by.with_halves else sums) + offset, low, high)
    for units in _FACTORS:
        factor = np.float32(first + units * np.spacing(np.float32(first)))
        products = (p + zero) * np.float64(factor)
        # Whether or not a device rounds the product before it adds.
        error = (np.abs(products) + np.abs(wanted) + 1) * _ERROR
        least = np.where(wanted > low, wanted - 0.5 - products + error, -np.inf).max(-1)
        most = np.where(wanted < high, wanted + 0.5 - products - error, np.inf).min(-1)
        terms = np.clip(q[:, 0] * second - zero * first + offset, least, most).astype(np.float32)
        if ((least <= terms) & (terms <= most)).all():
            return factor, terms
    return None


def round_terms(p: jax.Array, by: Terms, *, dtype: Any, by_addition: bool) -> jax.Array:
    """Return ``clamp(round(p * factor + terms))`` as int8, or 128 more as uint8.

    Args:
      p: integers as they are stored, less 128 if that is uint8; int8 or int32.
      by: the terms, which broadcast against it.
      dtype: int8 or uint8.
      by_addition: whether to round by an addition, which must round ties to even.
    """
    values = p.astype(jnp.float32) * by.factor + by.terms
    if by_addition:
        stored = nearest_without_ties(values, None, jnp.int8)
    else:
        rounded = lax.round(values, lax.RoundingMethod.TO_NEAREST_EVEN).astype(jnp.int32)
        stored = clamp(rounded, None, jnp.dtype(jnp.int8))
    return stored if dtype == jnp.int8 else with_flipped_sign(stored, dtype)
