"""Integers of up to 63 bits, as three limbs of 21 bits in uint32, the lowest first.

TPUs emulate 64-bit integers, so these use uint32 only. A limb times a factor of 11 bits, plus a carry, fits 32 bits.
Every result must fit 63 bits.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

_BITS = 21
_COUNT = 3
_FACTOR_BITS = 10

Limbs = Sequence[jax.Array]


def of(*numbers: tuple[jax.Array, int]) -> Limbs:
    """Add up ``number * 2**shift``, of uint32 and static shifts from 0 on; at most ``2**10`` of them."""
    pieces = [[_bits(number, _BITS * place - shift) for number, shift in numbers] for place in range(_COUNT)]
    return _carried([sum(piece[1:], piece[0]) for piece in pieces])


def _bits(number: jax.Array, start: int) -> jax.Array:
    """Return bits ``start`` to ``start + 20``, shifted down to bit 0. Bits outside of the number count as 0."""
    if start <= -_BITS or start >= 32:
        return jnp.zeros_like(number)
    moved = number << -start if start < 0 else number >> start
    return moved & ((1 << _BITS) - 1)


def _carried(limbs: Limbs) -> Limbs:
    found = [limbs[0]]
    for limb in limbs[1:]:
        found.append(limb + (found[-1] >> _BITS))
    return [limb & ((1 << _BITS) - 1) for limb in found]


def total(terms: jax.Array, axes: Sequence[int], count: int) -> Limbs:
    """Add up uint32 along axes, which have ``count < 2**31`` elements; the axes stay, of size 1."""
    bits = 32 - count.bit_length()
    parts = range(0, 32, bits)
    mask = np.uint32((1 << bits) - 1)
    sums = [jnp.sum(terms >> start & mask, axes, keepdims=True, dtype=jnp.uint32) for start in parts]
    return of(*zip(sums, parts, strict=True))


def times(limbs: Limbs, factor: int) -> Limbs:
    """Multiply by a positive integer that is static."""
    digits = range(0, factor.bit_length(), _FACTOR_BITS)
    return of(
        *(
            (limb * (factor >> start & ((1 << _FACTOR_BITS) - 1)), _BITS * place + start)
            for place, limb in enumerate(limbs)
            for start in digits
        )
    )


def product(limbs: Limbs, factor: jax.Array) -> Limbs:
    """Multiply by uint32 of up to 11 bits."""
    return _carried([limb * factor for limb in limbs])


def as_float(limbs: Limbs) -> jax.Array:
    """Return a float32 with a relative error of at most ``2**-22`` where float32 is IEEE 754's."""
    parts = [limb.astype(jnp.float32) * 2.0 ** (_BITS * place) for place, limb in enumerate(limbs)]
    return sum(parts[1:], parts[0])


def exceeds(limbs: Limbs, other: Limbs, or_equals: jax.Array) -> jax.Array:
    """Tell whether one is greater than the other, or equal to it where ``or_equals`` is true."""
    found = or_equals
    for mine, its in zip(limbs, other, strict=True):
        found = mine + found.astype(jnp.uint32) > its
    return found
