"""Unsigned integers wider than a device's words, as lists of 16-bit limbs, lowest first, each in a uint32."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

Limbs = list[jax.Array]
_LIMB_MASK = 0xFFFF


def split(x: jax.Array) -> Limbs:
    """Write a uint32 as two limbs."""
    return [x & _LIMB_MASK, x >> 16]


def _carry(columns: Sequence[jax.Array]) -> Limbs:
    """Bring columns below 2**31 back to limbs, dropping what leaves the top."""
    limbs, carry = [], jnp.uint32(0)
    for column in columns:
        total = column + carry
        limbs.append(total & _LIMB_MASK)
        carry = total >> 16
    return limbs


def multiply(x: Limbs, y: Limbs, count: int) -> Limbs:
    """Return ``x * y`` modulo ``2**(16 * count)``."""
    columns = [jnp.uint32(0)] * (count + 1)
    for i, left in enumerate(x):
        for j, right in enumerate(y[: max(0, count - i)]):
            product = left * right
            columns[i + j] = columns[i + j] + (product & _LIMB_MASK)
            columns[i + j + 1] = columns[i + j + 1] + (product >> 16)
    return _carry(columns[:count])


def subtract(x: Limbs, y: Limbs) -> Limbs:
    """Return ``x - y`` modulo 2 to the bits of both, which have equally many limbs."""
    complemented = [left + (_LIMB_MASK - right) for left, right in zip(x, y, strict=True)]
    return _carry([complemented[0] + 1, *complemented[1:]])


def power_of_two(exponent: jax.Array, count: int) -> Limbs:
    """Return ``2**exponent`` modulo ``2**(16 * count)``, for an int32 ``exponent >= 0``."""
    bit = jnp.uint32(1) << (exponent & 15).astype(jnp.uint32)
    return [jnp.where(exponent >> 4 == limb, bit, jnp.uint32(0)) for limb in range(count)]


def is_zero(x: Limbs) -> jax.Array:
    """Tell where every limb is 0."""
    together = x[0]
    for limb in x[1:]:
        together = together | limb
    return together == 0


def is_negative(x: Limbs) -> jax.Array:
    """Tell where the top bit is set: in two's complement, a negative number."""
    return x[-1] >= 1 << 15
