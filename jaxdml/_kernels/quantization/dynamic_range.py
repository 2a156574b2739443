"""Choose the scale and the zero point that cover the range of an array, in the same way on every device."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic import ieee, in_float64
from jaxdml._arithmetic.float_parts import (
    INFINITY,
    MAGNITUDE,
    MANTISSA_BITS,
    SIGN,
    decompose,
    float_of_bits,
    int_bits,
)
from jaxdml._kernels.quantization.quantizing import quantize
from jaxdml._placement.lowering import Form, Target, at_lowering

_STEPS = 255
"""How many steps an 8-bit range has."""

_ONE = 127 << MANTISSA_BITS
"""The bits of 1."""


def extremes(x: jax.Array) -> jax.Array:
    """Return the bits of the greatest ``x`` and of the greatest ``-x``, each at least 0, as int32 ``[2]``.

    The bits of floats that are not negative have their order, and those of negative ones are negative int32. So no
    device can flush a subnormal. NaNs count as 0.

    Args:
      x: float32 of any shape.
    """
    bits = int_bits(x)
    numbers = jnp.atleast_1d(jnp.where((bits & MAGNITUDE) > INFINITY, 0, bits))
    zero = np.int32(0)
    # One reduction of both is several times faster on a CPU than two. If it is over a single element, XLA drops the 0.
    found = lax.reduce((numbers, numbers ^ SIGN), (zero, zero), _greater, range(numbers.ndim))
    return jnp.maximum(jnp.stack(found), zero)


def _greater(left: tuple[jax.Array, jax.Array], right: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
    return tuple(map(lax.max, left, right))


@jax.jit
def scale_and_zero_point(extremes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return ``fl(fl(max - min) / 255)``, or 1 for a range of 0, and ``clamp(rint(fl(0 - fl(min / scale))))`` in uint8.

    It is not inlined: arrays of all shapes share one function of the program.

    Args:
      extremes: what ``extremes`` returns.
    """
    both: tuple[jax.Array, jax.Array] = at_lowering(form, extremes)
    return both


def form(target: Target) -> Form:
    """Say who serves where a program is lowered for ``target``."""
    return _in_a_branch if target.alone and target.platform == "cpu" else _in_integers


def _in_integers(extremes: jax.Array) -> tuple[jax.Array, jax.Array]:
    greatest, least_negated = float_of_bits(extremes)
    width = ieee.total(greatest, least_negated)
    scale = jnp.where(jnp.max(extremes) == 0, jnp.float32(1), _of_steps(width))
    return scale, quantize(least_negated, scale, None, np.dtype("uint8"))


def _in_a_branch(extremes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Compute them where there is a range; else XLA would do so in each loop that reads one of them."""
    # In one array, for XLA would compute two by two loops, and most of it twice.
    bits, zero_point = lax.cond(jnp.max(extremes) == 0, _of_nothing, _in_float64, extremes)
    return float_of_bits(bits), zero_point.astype(jnp.uint8)


def _of_nothing(extremes: jax.Array) -> jax.Array:
    """Return what ``_in_float64`` does, for extremes of 0, without an array of its own: it would have no mesh axes."""
    return jnp.stack([extremes[0] + _ONE, extremes[1]])


def _in_float64(extremes: jax.Array) -> jax.Array:
    """Return the bits of the scale and the zero point of a range that is not 0 as int32 ``[2]``, on a CPU.

    A sum of subnormals is exact. A quotient of one by 255 is no closer to the middle of two units than 1 / 510. A
    quotient of 0 by a scale of 0, or of infinities, counts as 0.
    """
    with jax.enable_x64(True):
        greatest, least_negated = in_float64.magnitude_as_float64(extremes)
        quotient = in_float64.rounded_sum(greatest + least_negated) / _STEPS
        units = in_float64.in_units(quotient)
        subnormal = quotient < in_float64.LEAST_NORMAL_NUMBER
        normal = int_bits(quotient.astype(jnp.float32)) & MAGNITUDE  # XLA would drop one of two conversions.
        scale = jnp.where(subnormal, units * in_float64.UNIT, float_of_bits(normal).astype(jnp.float64))
        steps = (least_negated / scale).astype(jnp.float32)
        bits = jnp.where(subnormal, units.astype(jnp.int32), normal)
    steps = lax.round(steps, lax.RoundingMethod.TO_NEAREST_EVEN)
    steps = jnp.minimum(jnp.where(steps == steps, steps, 0), _STEPS)  # noqa: PLR0124
    return jnp.stack([bits, steps.astype(jnp.int32)])


def _of_steps(width: jax.Array) -> jax.Array:
    """Return float32 ``width / 255``, rounded once, ties to even, for a ``width`` that is above 0."""
    _, mantissa, exponent = decompose(width)
    dividend = mantissa << 8
    quotient = dividend // _STEPS
    rest = 2 * (dividend - quotient * _STEPS)
    # Two more bits: the next one of the quotient, and whether anything follows it. It has 26 or 27 bits then.
    follows = (rest != 0) & (rest != _STEPS)
    word = quotient << 2 | (rest >= _STEPS).astype(jnp.uint32) << 1 | follows.astype(jnp.uint32)
    exponent -= 10
    length = 32 - lax.clz(word).astype(jnp.int32)
    biased = jnp.maximum(exponent + length + 126, 1)
    # A subnormal result keeps the bits that are worth 2**-149 and more.
    shift = jnp.clip(jnp.maximum(length - 24, -149 - exponent), 0, 31).astype(jnp.uint32)
    rounded = word + ((jnp.uint32(1) << (shift - 1)) - 1) + (word >> shift & 1) >> shift
    bits = ((biased - 1) << MANTISSA_BITS) + rounded.astype(jnp.int32)
    infinite = int_bits(width) == INFINITY
    return float_of_bits(jnp.where(infinite, INFINITY, bits))
