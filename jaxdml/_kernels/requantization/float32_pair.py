"""Round ``(p - zp) * A + (q - zq) * B`` in float32, where A, B and the zero points are known, and p and q are int8.

One number C, about ``-(zp * A + zq * B)``, stands for both zero points. It is added to the greater product before the
other one. For A and B near 1 float32 errs by less than 0.0001. Of the 65,536 sums there are some tens so near to an
integer plus 1/2 that this can decide. They are computed on the host, as each device may: with products rounded, or
inside a fused multiply-add. A compiler also adds C to the lesser product first if that is a constant. Where some sums
are wrong, numbers next to A and B are tried, and for each some numbers C.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_LEAST, _GREATEST = 2.0**-15, 2.0**6
"""Of A and B. Between these, products are multiples of ``2**-38`` below ``2**14``: float64 holds the sum of one and a
rounded one."""

_STEP = 2.0**-36
"""C is a multiple of this, so that float64 holds its sums with products, too."""

_UNITS = range(-24, 25)
"""By how many units in the last place the factors may differ from A and B."""

_CANDIDATES = sorted(itertools.product(_UNITS, _UNITS), key=lambda both: abs(both[0]) + abs(both[1]))

_MOST_NEAR = 2**12
"""More sums near to halves are not tried: then many are halves."""

_SATURATED = 257
"""A greater sum is clamped, whatever the zero point of the result."""

_STORED = np.arange(-128, 128)


class Pair(NamedTuple):
    """Hold what ``proved_pair`` returns: three float32 numbers."""

    first: float
    second: float
    offset: float

    without_ties: bool
    """Whether no sum is an integer plus 1/2, nor computed as one, so that it does not matter how ties are rounded."""


def proved_pair(
    factors: np.ndarray, zero_points: Sequence[int], total: np.ndarray, distance: np.ndarray
) -> Pair | None:
    """Return float32 numbers with which ``pair_sum`` rounds every sum correctly, or None if none are found.

    Args:
      factors: A and B, float64.
      zero_points: zp and zq, of integers as they are stored.
      total: the sums of all p and q in float64, ``[256, 256]``; what is a half is one exactly.
      distance: of these from the nearest half.
    """
    sizes = np.abs(factors)
    if (sizes < _LEAST).any() or (sizes > _GREATEST).any():
        return None
    # Of the factors and of the sum. C may differ by as much from what the zero points contribute.
    error = 256 * sizes.sum() * (len(_UNITS) // 2 + 2) * 2.0**-23
    near = (distance <= 2 * error) & (np.abs(total) <= _SATURATED)
    if np.count_nonzero(near) > _MOST_NEAR:
        return None
    wanted = np.rint(total[near])
    p, q = (_STORED[places].astype(np.float32) for places in np.nonzero(near))
    middle = factors.astype(np.float32)
    contributed = -float(factors @ zero_points)
    ways = (False,) if _ties(total[near]).any() else (True, False)
    for without_ties, units in itertools.product(ways, _CANDIDATES):
        a, b = middle + np.asarray(units, np.float32) * np.spacing(middle)
        products = p * np.float64(a) + q * np.float64(b)
        least = (wanted - 0.5 - products).max(initial=contributed - error)
        most = (wanted + 0.5 - products).min(initial=contributed + error)
        tried = [np.clip(contributed, least, most), *np.linspace(least, most, 9)[1:-1]] if least <= most else []
        for c in np.asarray(np.rint(np.divide(tried, _STEP)) * _STEP, np.float32):
            computed = np.stack(_computed(p, q, a, b, c))
            if (np.rint(computed) == wanted).all() and not (without_ties and _ties(computed).any()):
                return Pair(float(a), float(b), float(c), without_ties)
    return None


def _ties(sums: np.ndarray) -> np.ndarray:
    return np.abs(sums - np.floor(sums)) == 0.5


def pair_sum(p: jax.Array, q: jax.Array, by: Pair) -> jax.Array:
    """Return the sum as float32.

    Args:
      p: the integers as they are stored, less 128 if that is uint8; int8 or int32.
      q: alike; broadcasts against ``p``.
      by: what is proved to round every sum.
    """
    first, second, offset = map(np.float32, by[:3])
    x, y = p.astype(jnp.float32) * first, q.astype(jnp.float32) * second
    return y + offset + x if abs(second) > abs(first) else x + offset + y


def _computed(p: np.ndarray, q: np.ndarray, a: np.float32, b: np.float32, c: np.float32) -> list[np.ndarray]:
    """Return the sums as devices compute them."""
    if abs(b) > abs(a):
        p, q, a, b = q, p, b, a
    of_x, of_y = p * np.float64(a), q * np.float64(b)
    x, y = p * a, q * b
    each = [sums for partial in (x + c, (of_x + c).astype(np.float32)) for sums in (partial + y, partial + of_y)]
    # A product that is a constant, and C, are one number.
    each += [x + (y + c), of_x + (y + c)]
    return [sums.astype(np.float32).astype(np.float64) for sums in each]
