"""Round ``acc * a_scale * b_scale / output_scale`` correctly, ties to even, with nothing but exact steps.

Write |acc| as an integer N and each scale as a 24-bit integer times a power of two. The quotient to round is then
``v = N * ma * mb * 2**e / mo``. Let f be the floor of an estimate of v in float32. Unless the estimate falls within
``TOLERANCE`` times itself of the half above f, v lies on the same side of ``f + 1/2`` and rounds to f or to f + 1
accordingly; also where f is one off, because v is then next to an integer, to which both round. Where it does fall so
near, the sign of ``D = N * ma * mb * 2**(e + 1) - (2 * f + 1) * mo`` decides, multiplied by the power of two that
makes it an integer. Its two terms agree in their leading bits, so D is small, and computing it modulo a power
of two a little above 2 * |D| gives its sign exactly: no term ever has to be held whole.

How a device rounds the estimate does not matter. It takes a handful of operations, each within 2**-22 even where
division is not correctly rounded or a product is contracted into a fused multiply-add, and the tolerance is 2**-18.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms import fixed_point, wide_integers
from jaxdml._algorithms.order_keys import bits_of
from jaxdml._algorithms.wide_integers import Limbs

TOLERANCE = 2.0**-18
"""Relative distance from a half within which the estimate is not believed."""

_CEILING = 1024.0
"""Quotients from here on saturate: no zero point brings them back into 8 bits."""

_LOWEST_EXPONENT, _HIGHEST_EXPONENT = -70, 40
"""Beyond these the quotient rounds to 0, or saturates, for every accumulator from 1 to 2**47."""

_MANTISSA_BITS = 23

_FEW = 2**13
"""So many outputs are rounded by their residuals at once: to weigh two ways looks at 2048 places itself."""

_PER_MULTIPLIER = 2**11
"""So many outputs must share a multiplier for its halves, four places each, to be fewer than they are."""

Scales = tuple[jax.Array, jax.Array, jax.Array]
Accumulate = Callable[..., jax.Array]


def _decompose(scale: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Write a float32 as ``(-1)**negative * mantissa * 2**exponent`` with ``2**23 <= mantissa < 2**24``.

    Subnormals are normalized too. Zero becomes a number so small, and infinity and NaN become numbers so large, that
    what they give is in range and the same everywhere, though it means nothing.
    """
    bits = bits_of(scale)
    fraction = bits & ((1 << _MANTISSA_BITS) - 1)
    biased = (bits >> _MANTISSA_BITS & 0xFF).astype(jnp.int32)
    shift = lax.clz(fraction).astype(jnp.int32) - (31 - _MANTISSA_BITS)
    subnormal = biased == 0
    mantissa = jnp.where(subnormal, fraction << shift.astype(jnp.uint32), fraction | (1 << _MANTISSA_BITS))
    exponent = jnp.where(subnormal, 1 - shift, biased) - 127 - _MANTISSA_BITS
    zero = subnormal & (fraction == 0)
    mantissa = jnp.where(zero, jnp.uint32(1 << _MANTISSA_BITS), mantissa)
    return bits >> 31 == 1, mantissa, jnp.where(zero, -1000, exponent)


def _float_of(limbs: Limbs) -> jax.Array:
    total = limbs[0].astype(jnp.float32)
    for place, limb in enumerate(limbs[1:], start=1):
        total += limb.astype(jnp.float32) * 2.0 ** (16 * place)
    return total


def _power_of_two(exponent: jax.Array) -> jax.Array:
    """Return ``2.0**exponent`` as float32, for exponents of normal numbers."""
    return lax.bitcast_convert_type((exponent + 127) << _MANTISSA_BITS, jnp.float32)


def _magnitude(low: jax.Array, high: jax.Array | None) -> tuple[jax.Array, Limbs]:
    """Return where the accumulator is negative, and the limbs of its magnitude."""
    if high is None:
        return low < 0, wide_integers.split(jnp.abs(low).astype(jnp.uint32))
    negative = high < 0
    # -(low + 2**16 * high), with the lower half kept from 0 to 2**16 - 1.
    flipped_low = -low & 0xFFFF
    flipped_high = -high - (low > 0).astype(jnp.int32)
    low = jnp.where(negative, flipped_low, low).astype(jnp.uint32)
    high = jnp.where(negative, flipped_high, high).astype(jnp.uint32)
    return negative, [low, *wide_integers.split(high)]


def requantize(
    low: jax.Array,
    high: jax.Array | None,
    a_scale: jax.Array,
    b_scale: jax.Array,
    output_scale: jax.Array,
    zero_point: jax.Array | None,
    dtype: jnp.dtype,
) -> jax.Array:
    """Return ``clamp(round(acc * a_scale * b_scale / output_scale) + zero_point)``, rounded once and correctly.

    Args:
      low: int32 accumulator, below 2**31 in magnitude; with ``high``, its lower 16 bits, from 0.
      high: None, or int32 and the accumulator is ``low + 2**16 * high``, below 2**47 in magnitude.
      a_scale: float32 that broadcasts against the accumulator, like the other scales and the zero point.
      b_scale: float32.
      output_scale: float32.
      zero_point: int32, or None for 0.
      dtype: int8 or uint8.
    """
    negative, magnitude = _magnitude(low, high)
    a_negative, a_mantissa, a_exponent = _decompose(a_scale)
    b_negative, b_mantissa, b_exponent = _decompose(b_scale)
    o_negative, o_mantissa, o_exponent = _decompose(output_scale)
    negative = negative ^ a_negative ^ b_negative ^ o_negative
    exponent = a_exponent + b_exponent - o_exponent
    exponent = jnp.clip(exponent, _LOWEST_EXPONENT - _MANTISSA_BITS, _HIGHEST_EXPONENT - _MANTISSA_BITS)

    a_part, b_part, o_part = (m.astype(jnp.float32) for m in (a_mantissa, b_mantissa, o_mantissa))
    ratio = a_part * (b_part / o_part)
    estimate = _float_of(magnitude) * ratio * _power_of_two(exponent)
    estimate = jnp.minimum(estimate, _CEILING)
    floor = jnp.floor(estimate)
    past_half = estimate - (floor + 0.5)
    doubtful = jnp.abs(past_half) <= TOLERANCE * estimate
    whole = floor.astype(jnp.int32)

    up = jnp.where(
        doubtful,
        _reaches_half(magnitude, a_mantissa, b_mantissa, o_mantissa, exponent, whole),
        past_half > 0,
    )
    rounded = whole + up.astype(jnp.int32)
    return _clamp(jnp.where(negative, -rounded, rounded), zero_point, dtype)


def _clamp(rounded: jax.Array, zero_point: jax.Array | None, dtype: jnp.dtype) -> jax.Array:
    result = rounded if zero_point is None else rounded + zero_point
    bounds = np.iinfo(dtype)
    return jnp.clip(result, bounds.min, bounds.max).astype(dtype)


def requantize_by_multiplier(
    accumulate: Accumulate, parts: object, scales: Scales, zero_point: jax.Array | None, dtype: jnp.dtype
) -> jax.Array:
    """Return what ``requantize`` does of ``accumulate(parts)``, by residuals only if a multiplier leaves doubts.

    Args:
      accumulate: gives the int32 accumulator. It is called in every branch, so that it need not be stored.
      parts: its argument, a tree of arrays.
      scales: of ``a``, of ``b`` and of the output.
      zero_point: int32, or None for 0.
      dtype: int8 or uint8.
    """
    shape = jax.eval_shape(accumulate, parts).shape
    outputs = math.prod(shape)
    distinct = math.prod(np.broadcast_shapes(*(scale.shape for scale in scales)))

    def by_residuals(parts: object) -> jax.Array:
        return requantize(accumulate(parts), None, *scales, zero_point, dtype)

    if outputs <= _FEW or distinct * 2 > outputs:
        return by_residuals(parts)
    multiplier = multiplier_of(scales)

    def by_multiplier(parts: object) -> jax.Array:
        rounded, _ = fixed_point.rounded_products(accumulate(parts), multiplier)
        return _clamp(rounded, zero_point, dtype)

    if distinct * _PER_MULTIPLIER <= outputs:
        doubtful = fixed_point.may_be_doubtful(multiplier)
    else:
        _, where = fixed_point.rounded_products(accumulate(parts), multiplier)
        # Stored as bytes first: XLA has a fast maximum of those, and a slow one of anything that it fuses into it.
        stored = lax.optimization_barrier(where.astype(jnp.uint8))  # type: ignore[no-untyped-call]
        doubtful = jnp.max(stored) > 0
    return lax.cond(doubtful, by_residuals, by_multiplier, parts)


def multiplier_of(scales: Scales) -> fixed_point.Multiplier:
    """Return ``a_scale * b_scale / output_scale``."""
    (a_negative, ma, ea), (b_negative, mb, eb), (o_negative, mo, eo) = map(_decompose, scales)
    return fixed_point.multiplier(a_negative ^ b_negative ^ o_negative, ma, mb, mo, ea + eb - eo)


def _reaches_half(
    magnitude: Limbs, ma: jax.Array, mb: jax.Array, mo: jax.Array, exponent: jax.Array, whole: jax.Array
) -> jax.Array:
    """Tell where the quotient, known to be within a few tolerances of ``whole + 1/2``, rounds up from there.

    With N of 16 * p bits less one, N * ma * mb is below 2**(16p + 47), and D within 2**-17 of it: below 2**(16p + 30).
    Sign and all that is 16p + 31 bits, so p + 2 limbs hold it. Where the exponent is positive, both
    terms are of the size of (2 * whole + 1) * mo, below 2**35, instead.
    """
    count = len(magnitude) + 2
    doubled = exponent + 1
    raised = wide_integers.power_of_two(jnp.maximum(doubled, 0), count)
    lowered = wide_integers.power_of_two(jnp.maximum(-doubled, 0), count)
    scales = wide_integers.multiply(wide_integers.split(ma), wide_integers.split(mb), count)
    numerator = wide_integers.multiply(wide_integers.multiply(magnitude, scales, count), raised, count)
    odd = (2 * whole + 1).astype(jnp.uint32)
    halves = wide_integers.multiply([odd], wide_integers.split(mo), count)
    difference = wide_integers.subtract(numerator, wide_integers.multiply(halves, lowered, count))
    tie = wide_integers.is_zero(difference)
    return jnp.where(tie, whole % 2 == 1, ~wide_integers.is_negative(difference))
