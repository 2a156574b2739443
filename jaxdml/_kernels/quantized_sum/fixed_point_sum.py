"""Round ``(p * a_scale + q * b_scale) / output_scale`` correctly, ties to even, with integers only.

p and q are differences of 8-bit integers, at most 255 in magnitude. Write the scales over the output's as A and B, two
real numbers ``mantissa / mo * 2**exponent`` with a mantissa from mo to 2 * mo, where mo is the output's mantissa of 24
bits. The sum to round is ``v = p * A + q * B``. Below, ``hi`` is the greater one of the two exponents, and ``lo`` the
other.

**Few exponents matter.** Outputs have 8 bits, so a v beyond 254.5 saturates for every zero point. These changes of an
exponent, with the same mantissa, change no output:

- If hi is below -11, v rounds to 0. It still does with a hi of -11.
- ``p * A`` alone is a half, an integer plus 1/2, or differs from one by more than ``2**(min(hi, -1) - 24)``: both are
  multiples of ``2**min(hi, -1) / mo``. The other term is below ``2**(lo + 9)``. If lo is below ``min(hi, -1) - 33``,
  that term only decides by its sign, and it does so too if lo is ``min(hi, -1) - 33``.
- If hi is above ``max(lo, 0) + 10``, the greater scale alone saturates v, unless its factor is 0: 255 times the other
  one is at least 514 less. That is also true if hi is ``max(lo, 0) + 10``.
- If lo is above 32, v is 0 or saturates: it is a multiple of ``2**lo / mo``, which is more than 256. That is also true
  if both exponents are lowered until lo is 32.

What is left is ``-11 <= hi <= 42`` and ``hi - min(lo, -1) <= 44``.

**Fixed point.** A and B are truncated to multiples of a unit of ``2**(hi - 86)``, and written as four limbs: 21 bits at
the top, 22 in the others. A sum of two products of a limb and a difference fits int32, with the carry from the limb
below. The truncation makes v wrong by less than 510 units. If v is not a half, it differs from the nearest one by a
multiple of ``2**min(lo, -1) / mo``, which is more than 1024 units, as ``hi - min(lo, -1)`` is at most 52. So adding 1/2
and 512 units to v and taking the integer below rounds correctly. v was a half exactly where the fraction is then below
1024 units.

**Two limbs** make a unit of ``2**(hi - 42)``. By the same argument they suffice if ``hi - min(lo, -1)`` is at most 8.
They also suffice, with a hi of 0, for scales that are known and ``clear``: then no sum is beyond 2**10, so A and B are
below 2**3 and a top limb has 23 bits and a sign. What differs from a half does so by ``2**-31``, which is 2048 units.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.float_parts import decompose
from jaxdml._arithmetic.residuals import Scales

_LIMB = 22
"""The bits of a limb. The top limb has one less."""

_LIMBS = 4

_MASK = (1 << _LIMB) - 1

_LEAST, _DEEPEST, _STEEPEST, _GREATEST = -11, 33, 10, 32
"""The bounds of the exponents that matter, in the order of the text above."""

_MARGIN = 512
"""In units: more than the error of a truncated sum. A fraction of less than two margins is a tie."""

_POINT = 20
"""The bits of the top limb after the point, if hi is 0."""

_STEEPEST_OF_TWO, _GREATEST_OF_TWO = 8, 7
"""The greatest ``hi - min(lo, -1)`` for two limbs, and the greatest hi that it leaves."""


class Limbs(NamedTuple):
    """Hold the limbs of A and B and what follows from them: int32, but for ``two_suffice``.

    The first dimension of three of them counts limbs, the lowest first.
    """

    limbs: jax.Array
    """``[4, 2, ...]``, of A and of B."""
    half: jax.Array
    """1/2."""
    fraction: jax.Array
    """Masks of the bits after the point."""
    exponent: jax.Array
    """``hi``."""
    two_suffice: jax.Array
    """bool: whether the upper two limbs are enough."""


def addends(scales: Scales) -> Limbs:
    """Return the limbs for these scales of a, of b and of the output."""
    a_scale, b_scale, output_scale = jnp.broadcast_arrays(*scales)
    negative, mantissa, exponent = decompose(jnp.stack([a_scale, b_scale]))
    o_negative, mo, eo = decompose(output_scale[None])
    less = (mantissa < mo).astype(jnp.uint32)
    mantissa, exponent = mantissa << less, exponent - eo - less.astype(jnp.int32)
    greater = jnp.maximum(exponent[0], exponent[1])
    hi = jnp.maximum(greater, _LEAST)
    lo = jnp.maximum(jnp.minimum(exponent[0], exponent[1]), jnp.minimum(hi, -1) - _DEEPEST)
    hi = jnp.minimum(hi, jnp.maximum(lo, 0) + _STEEPEST)
    down = jnp.maximum(lo - _GREATEST, 0)
    hi, lo = hi - down, lo - down
    limbs = _limbs(mantissa, mo, jnp.where(exponent == greater[None], 0, (hi - lo)[None]), negative ^ o_negative)
    two = (hi <= _GREATEST_OF_TWO) & (hi - jnp.minimum(lo, -1) <= _STEEPEST_OF_TWO)
    # The point is above bit ``place`` of a limb. All bits of a limb but the sign of the top one may be below it.
    lowest = jnp.arange(0, _LIMB * _LIMBS, _LIMB, dtype=jnp.int32).reshape(-1, *[1] * hi.ndim)
    width = jnp.where(lowest < _LIMB * (_LIMBS - 1), _LIMB, 31)
    place = _POINT + _LIMB * (_LIMBS - 1) - hi[None] - lowest
    half = jnp.where((place > 0) & (place <= width), 1 << jnp.clip(place - 1, 0, 30), 0)
    return Limbs(limbs, half, (1 << jnp.clip(place, 0, width)) - 1, hi, two)


def _limbs(mantissa: jax.Array, mo: jax.Array, down: jax.Array, negative: jax.Array) -> jax.Array:
    """Return ``mantissa / mo * 2**(86 - down)`` as limbs, negated where ``negative``.

    The limbs are along a leading dimension, the lowest first.

    The long division has no loop in the program: each step of one would be a GPU kernel of its own.

    Args:
      mantissa: uint32 from ``mo`` to ``2 * mo``.
      mo: uint32 of 24 bits.
      down: int32 from 0 to two limbs.
      negative: bool.
    """
    with jax.enable_x64(True):
        rest, divisor = mantissa.astype(jnp.int64), mo.astype(jnp.int64)
        words = []
        for widths in ((_POINT, _LIMB), (_LIMB, _LIMB)):
            word = jnp.zeros_like(rest)
            for width in widths:
                rest = rest << width
                digits = lax.div(*jnp.broadcast_arrays(rest, divisor))
                rest, word = rest - digits * divisor, word << width | digits
            words.append(word)
        upper, lower = words
        down = down.astype(jnp.int64)
        lower = lower >> down | (upper << 2 * _LIMB - down) & (1 << 2 * _LIMB) - 1
        upper = upper >> down
        limbs = lower & _MASK, lower >> _LIMB, upper & _MASK, upper >> _LIMB
        sign = 1 - 2 * negative.astype(jnp.int32)
        return jnp.stack([limb.astype(jnp.int32) * sign for limb in limbs])


def clear_limbs(factors: jax.Array) -> Limbs:
    """Return the upper two limbs of A and B, given as the bits of two float64 numbers, uint32 ``[2, 2]``.

    They suffice if what is known of A and B is ``clear``.
    """
    with jax.enable_x64(True):
        low, high = factors[:, 0].astype(jnp.int64), factors[:, 1].astype(jnp.int64)
        mantissa = (high & (1 << 20) - 1 | 1 << 20) << 32 | low
        # The mantissa is in units of 2**(exponent - 1075), and the limbs are in units of 2**-42.
        down = jnp.minimum(1075 - _LIMB - _POINT - (high >> 20 & 0x7FF), 63)
        number = mantissa >> down
        sign = 1 - 2 * (high >> 31)
        upper, lower = (part.astype(jnp.int32) for part in ((number >> _LIMB) * sign, (number & _MASK) * sign))
    nothing = jnp.zeros_like(upper)
    half = jnp.array([0, 0, 0, 1 << _POINT - 1], jnp.int32)
    fraction = jnp.array([_MASK, _MASK, _MASK, (1 << _POINT) - 1], jnp.int32)
    return Limbs(jnp.stack([nothing, nothing, lower, upper]), half, fraction, jnp.int32(0), jnp.bool_(True))


def rounded_sum(p: jax.Array, q: jax.Array, by: Limbs, limbs: int = _LIMBS) -> jax.Array:
    """Return v, rounded with ties to even, as int32; any number beyond 254 where v saturates.

    Args:
      p: int32 of at most 255 in magnitude; ``q`` alike. The limbs and what follows from them broadcast against both.
      q: int32.
      by: what ``addends`` returns for the scales.
      limbs: 4, or 2 where these suffice.
    """
    lowest, top = _LIMBS - limbs, _LIMBS - 1

    def products(i: int, half: jax.Array) -> jax.Array:
        return p * by.limbs[i, 0] + (q * by.limbs[i, 1] + half)

    total = products(lowest, by.half[lowest] + _MARGIN)
    fraction = total & (by.fraction[lowest] & -2 * _MARGIN)
    for i in range(lowest + 1, top):
        total = products(i, by.half[i]) + (total >> _LIMB)
        fraction |= total & by.fraction[i]
    below, total = total, products(top, by.half[top]) + (total >> _LIMB)
    if limbs == _LIMBS:
        # With a hi of more than 20 the point is in the limb below. Then the top limb saturates or is small.
        up = jnp.maximum(by.exponent - _POINT, 0)
        bound = jnp.where(up > 0, 256, 2**31 - 1)
        total = (jnp.clip(total, -bound, bound) << up) + ((below & _MASK) >> (_LIMB - up))
    fraction |= total & by.fraction[top]
    rounded = total >> jnp.maximum(_POINT - by.exponent, 0)
    return rounded - jnp.where(fraction == 0, rounded & 1, 0)
