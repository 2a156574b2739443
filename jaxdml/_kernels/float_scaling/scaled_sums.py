"""Scale integer sums to floats, and add a bias, with the roundings of IEEE 754."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic import ieee
from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.float_parts import times_power_of_two

_USUAL_SCALES = 2.0**-50, 2.0**45
_USUAL_BIASES = 2.0**-100, 2.0**100
"""The usual magnitudes. A product of two such scales is between 2**-100 and 2**90. So every result before the bias is
0 or at least 2**-100, and a multiple of 2**-123. The bias is one too. So is their sum, which is no subnormal, and far
from infinity.

The argument has room: where there is no bias, scales from 2**-63 on would do, and the upper bounds only keep it short,
for a plain operation overflows as IEEE 754 defines it."""


class Scaling(NamedTuple):
    """Hold float32 scales and a bias, which broadcast to the shape of the sums."""

    a_scale: jax.Array
    b_scale: jax.Array
    bias: jax.Array | None


def scaled_sum(integers: jax.Array, by: Scaling, product: Callable[..., jax.Array] = ieee.product) -> jax.Array:
    """Return float32 ``integers * (a_scale * b_scale) + bias``, each operation rounded; ``integers`` as for ``scaled``.

    Args:
      integers: float32.
      by: what it is multiplied by, and added.
      product: multiplies scales as ``ieee.product`` does.
    """
    result = ieee.scaled(integers, product(by.a_scale, by.b_scale))
    return result if by.bias is None else ieee.total(result, by.bias)


def plain_scaled_sum(integers: jax.Array, by: Scaling) -> jax.Array:
    """Return what ``scaled_sum`` does, if ``is_usual(by)``, or on a device that does not take subnormals as zeros.

    ``integers`` is at most 2**31 in magnitude.
    """
    result = ieee.one_nan(integers * (by.a_scale * by.b_scale))
    return result if by.bias is None else ieee.one_nan(result + by.bias)


def is_usual(by: Scaling) -> jax.Array:
    """Tell whether ``plain_scaled_sum`` serves on every device."""
    of_b = _between(by.b_scale, *_USUAL_SCALES)
    if by.bias is not None:
        # Mostly both have one value a column. Then it takes one reduction.
        of_b &= _between(by.bias, *_USUAL_BIASES, or_zero=True)
    return jnp.all(_between(by.a_scale, *_USUAL_SCALES)) & jnp.all(of_b)


def of_two_words(low: jax.Array, high: jax.Array) -> jax.Array:
    """Return float32 ``low + 2**16 * high``, rounded once; int32, ``0 <= low < 2**16``."""
    # Drop so many lower bits that the rest fits int32, and keep in its last bit whether one of them was set. If any
    # are dropped, the rest has 31 bits, so that bit is far below the last one of the result.
    length = 32 - lax.clz(high ^ (high >> 31))
    dropped = jnp.maximum(length - 15, 0)
    lost = (low & ((1 << dropped) - 1) != 0).astype(jnp.int32)
    word = (high << (16 - dropped)) + (low >> dropped) | lost
    return times_power_of_two(word.astype(jnp.float32), dropped)


def _between(x: jax.Array, least: float, greatest: float, or_zero: bool = False) -> jax.Array:
    """Tell where ``least <= abs(x) <= greatest``, or also where ``x`` is 0.

    No float is compared with 0, not even by its bits: LLVM makes a comparison of floats of that, for which XLA's CPU
    backend takes subnormals as zeros. A magnitude of 0, less 1, wraps around to the greatest uint32.
    """
    magnitude = bits_of(x) & 0x7FFFFFFF
    below = np.float32(least).view(np.uint32) - np.uint32(1)
    above = magnitude - 1 >= below if or_zero else magnitude > below
    return above & (magnitude <= np.float32(greatest).view(np.uint32))
