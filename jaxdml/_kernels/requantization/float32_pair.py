"""Round ``p * A + q * B`` in float32, where A and B are known, and p and q are differences of 8-bit integers.

For A and B near 1 float32 errs by less than 0.0001. Of the 65,536 sums there are some tens so near to a half, an
integer plus 1/2, that this can decide. They are computed on the host, as each device may: with both products rounded,
or with one of them inside a fused multiply-add. Where some are wrong, numbers next to A and B are tried.
"""

import itertools

import numpy as np

_LEAST, _GREATEST = 2.0**-15, 2.0**6
"""Of A and B. Between these float64 holds the sum of an exact product and a rounded one, wherever it is tried."""

_UNITS = range(-6, 7)
"""By how many units in the last place the factors may differ from A and B."""

_CANDIDATES = sorted(itertools.product(_UNITS, _UNITS), key=lambda both: abs(both[0]) + abs(both[1]))

_MOST_NEAR = 2**12
"""More sums near to halves are not tried: then many are halves."""

_SATURATED = 257
"""A greater sum is clamped, whatever the zero point."""


def proved_pair(
    p: np.ndarray, q: np.ndarray, factors: np.ndarray, total: np.ndarray, distance: np.ndarray
) -> tuple[float, float] | None:
    """Return two float32 numbers that round every sum correctly, or None if none are found.

    Args:
      p: all integers of the first, ``[256]``.
      q: those of the second, ``[256]``.
      factors: A and B, float64.
      total: their sums in float64, ``[256, 256]``; what is a half is one exactly.
      distance: of these from the nearest half.
    """
    sizes = np.abs(factors)
    if (sizes < _LEAST).any() or (sizes > _GREATEST).any():
        return None
    error = 255 * sizes.sum() * (len(_UNITS) // 2 + 2) * 2.0**-23
    near = (distance <= error) & (np.abs(total) <= _SATURATED)
    if np.count_nonzero(near) > _MOST_NEAR:
        return None
    wanted = np.rint(total[near])
    places = np.nonzero(near)
    first, second = p[places[0]].astype(np.float32), q[places[1]].astype(np.float32)
    middle = factors.astype(np.float32)
    for units in _CANDIDATES:
        pair = middle + np.asarray(units, np.float32) * np.spacing(middle)
        if all((np.rint(sums) == wanted).all() for sums in _computed(first, second, *pair)):
            return float(pair[0]), float(pair[1])
    return None


def _computed(p: np.ndarray, q: np.ndarray, a: np.float32, b: np.float32) -> tuple[np.ndarray, ...]:
    """Return the sums as devices compute them."""
    x, y = p * a, q * b
    of_x, of_y = p * np.float64(a), q * np.float64(b)
    return x + y, (of_x + y).astype(np.float32), (x + of_y).astype(np.float32)
