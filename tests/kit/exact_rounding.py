"""A fast exact judge of requantization: the accumulators at which each output begins, in rational numbers."""

from fractions import Fraction

import numpy as np


def rounded_quotients(accumulators: np.ndarray, scales: tuple[float, float, float], limit: int = 600) -> np.ndarray:
    """Round ``acc * a_scale * b_scale / output_scale``, ties to even, and clamp to ``-limit`` and ``limit``.

    The quotient grows, or falls, with the accumulator, so each output begins at one accumulator, found exactly.
    """
    starts = begins(scales, limit)
    signed = accumulators.astype(np.int64) * _sign(scales)
    return np.searchsorted(starts, signed, side="right") - limit


def begins(scales: tuple[float, float, float], limit: int) -> np.ndarray:
    """Return the accumulators at which the outputs from ``1 - limit`` to ``limit`` begin; signs of scales left out."""
    a_scale, b_scale, output_scale = (Fraction(float(scale)) for scale in scales)
    multiplier = abs(a_scale * b_scale / output_scale)
    # The quotient is q - 1/2 where the accumulator is the fraction (2 * q - 1) * over / under, here in integers.
    over, under = multiplier.denominator, 2 * multiplier.numerator
    halves = [((2 * q - 1) * over, q) for q in range(-limit + 1, limit + 1)]
    # A tie just below q rounds to q where q is even.
    starts = [-(-half // under) if q % 2 == 0 else half // under + 1 for half, q in halves]
    ends = 2**62
    return np.array([min(max(start, -ends), ends) for start in starts])


def _sign(scales: tuple[float, float, float]) -> int:
    return -1 if sum(scale < 0 for scale in scales) % 2 else 1


def one_multiply(accumulators: np.ndarray, scales: tuple[float, float, float]) -> np.ndarray:
    """Round the way that most libraries do: one float32 multiplier, one float32 product."""
    a_scale, b_scale, output_scale = (np.float32(scale) for scale in scales)
    with np.errstate(all="ignore"):
        return np.rint(accumulators.astype(np.float32) * (a_scale * b_scale / output_scale))


def scale_triples(rng: np.random.Generator, count: int, greatest: int) -> list[tuple[float, float, float]]:
    """Draw scales whose quotients spread over the outputs: powers of two, nice decimals, any floats, extremes."""
    triples = []
    for i in range(count):
        span = 10 ** rng.uniform(0.5, 3)
        match i % 4:
            case 0:  # Powers of two, so that true ties abound.
                a, b = 2.0 ** rng.integers(-8, 3, 2)
                o = 2.0 ** np.round(np.log2(a * b * greatest / span))
            case 1:  # Few decimals.
                a, b = rng.choice([0.1, 0.02, 0.05, 0.25, 0.003, 0.7, 1.5, 0.125], 2)
                o = float(f"{a * b * greatest / span:.2g}")
            case 2:
                a, b = rng.uniform(0.5, 2, 2) * 2.0 ** rng.integers(-20, 20, 2)
                o = a * b * greatest / span
            case _:  # The product of two, or the quotient, leaves float32.
                a = rng.uniform(1, 2) * 2.0 ** rng.integers(100, 126)
                b = rng.uniform(1, 2) * 2.0 ** (rng.integers(60, 120) * rng.choice([-1, 1]))
                o = a * b * greatest / span
        if all(np.finfo(np.float32).tiny <= s <= np.finfo(np.float32).max for s in (a, b, o)):
            triples.append(tuple(float(np.float32(s)) for s in (a, b, o)))
    return triples
