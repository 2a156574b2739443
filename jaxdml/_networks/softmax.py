"""Normalize exponentials of 8-bit integers in integers, so that the bits are the same on every device.

An exponential is an integer of so many bits that sums of them fit: the nearest to ``exp(-scale * d) * 2**bits`` for a
distance ``d`` from the largest integer of its row. So its error is half of the last bit. The quotient of integers is
rounded once.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.nearest import by_addition
from jaxdml._networks import limbs
from jaxdml._networks.integers import to_nearest_integers
from jaxdml._networks.lookup import entries_at
from jaxdml._placement.lowering import Form, Target, at_lowering

BEYOND = np.float32(1023)
"""A quotient this large saturates for every zero point, whatever is added. ``2 * BEYOND + 1`` fits 11 bits."""

_FEWEST_BITS = 20
"""Exponentials of fewer bits would often round to another 8-bit result."""

_ROWS_OF_ONE_KERNEL = 2, 4, 8, 16, 32, 64, 128, 256
"""Rows of other lengths are padded, and of longer ones a thread has so many float64 that it stores some."""

_TO_INTEGER = np.float64(1.5 * 2**52)
"""Adding this to a float64 from 0 to ``2**31`` rounds it, ties to even, and leaves it in the lower 32 bits."""

_DISTANCES = np.arange(256)


def normalized_exponentials(
    x: jax.Array, axes: Sequence[int], scale: Fraction, out_scale: Fraction, counts: tuple[Any, Any] | None = None
) -> jax.Array | None:
    """Return exponentials over their sums along some axes, divided by a scale and rounded, as int32.

    In place of a quotient above ``BEYOND`` there may be ``BEYOND``. The result is None if too few bits are left for
    exponentials.

    Args:
      x: int8 or uint8, of which only differences count.
      axes: over which. Their sizes are known.
      scale: of ``x``.
      out_scale: of the result.
      counts: which elements count, and of how many that are added up: the bits depend on it. None where all do.
    """
    terms = math.prod(x.shape[axis] for axis in axes)
    bits = bits_of_exponentials(terms, out_scale)
    if bits < _FEWEST_BITS or terms >= 2**31:
        return None
    exponentials, counted, powers = _exponentials(scale, bits), None, None
    if counts is not None:
        # Of fewer terms there may be more bits.
        most = bits_of_exponentials(1, out_scale)
        limits_of = [(2 ** (61 - more) - 1) // out_scale.numerator for more in range(bits + 1, most + 1)]
        more = jnp.sum(jnp.asarray(counts[1]) <= np.asarray([min(limit, terms) for limit in limits_of], np.int32))
        exponentials = jnp.stack([_exponentials(scale, each) for each in range(bits, most + 1)])[more]
        counted = counts[0]
    elif terms in _ROWS_OF_ONE_KERNEL and [axis % x.ndim for axis in axes] == [x.ndim - 1]:
        powers = powers_of(scale, bits)
    static = {"axes": tuple(axes), "terms": terms, "scale": out_scale}
    rounded: jax.Array = at_lowering(partial(form, powers=powers), x, exponentials, counted, **static)
    return rounded


def form(target: Target, *, powers: tuple[float, ...] | None) -> Form:
    """Say who normalizes where a program is lowered for ``target``.

    Args:
      target: the platform decides.
      powers: what ``powers_of`` returns for rows that are short; None for others.
    """
    if target.platform == "cuda" and powers:
        return partial(_in_one_kernel, powers=powers)
    return partial(_from_a_table, divide=_of_limbs if target.platform == "tpu" else _of_words)


def _from_a_table(
    whole: jax.Array,
    exponentials: jax.Array,
    counted: jax.Array | None,
    *,
    divide: Form,
    axes: Sequence[int],
    terms: int,
    scale: Fraction,
) -> jax.Array:
    """Return the rounded quotients as int32."""
    least = int(np.iinfo(whole.dtype).min)
    integers = whole.astype(jnp.int32)
    integers = integers if counted is None else jnp.where(counted, integers, least)
    below = jnp.max(integers, axes, keepdims=True, initial=None if terms else least) - integers
    term = entries_at(exponentials, below).astype(jnp.uint32)
    term = term if counted is None else jnp.where(counted, term, 0)
    return divide(term, axes=axes, terms=terms, scale=scale)


def _of_words(term: jax.Array, *, axes: Sequence[int], terms: int, scale: Fraction) -> jax.Array:
    """Divide terms by their sums over axes and by the scale, rounded once, with integers of 64 bits.

    ``_estimated``, and two comparisons, would take a GPU longer.
    """
    del terms
    with jax.enable_x64(True):
        divisor = jnp.sum(term.astype(jnp.uint64), axes, keepdims=True) * np.uint64(scale.numerator)
        # A sum is 0 where no element counts.
        estimate = term.astype(jnp.float32) * (float(scale.denominator) / jnp.maximum(divisor.astype(jnp.float32), 1))
        # The integer nearest to the estimate minus 1/2 will do as its floor does: the quotient is rounded to that or to
        # one more. The minimum also stands between the two additions, which XLA would join.
        lower = to_nearest_integers(jnp.minimum(estimate - np.float32(0.5), BEYOND))
        half = divisor * (2 * lower + 1).astype(jnp.uint64)
        # The lowest bit of twice the dividend is 0. There the parity decides where both are equal.
        twice = term.astype(jnp.uint64) << np.uint64(scale.denominator.bit_length())
        return (lower + ((twice | (lower & 1).astype(jnp.uint64)) > half).astype(jnp.uint32)).astype(jnp.int32)


def _of_limbs(term: jax.Array, *, axes: Sequence[int], terms: int, scale: Fraction) -> jax.Array:
    """Return the same with integers of 32 bits: a TPU has no others."""
    divisor = limbs.times(limbs.total(term, axes, terms), scale.numerator)
    lower = _estimated(term, limbs.as_float(divisor), scale)
    half = limbs.product(divisor, 2 * lower + 1)
    up = limbs.exceeds(limbs.of((term, scale.denominator.bit_length())), half, or_equals=lower & 1 == 1)
    return (lower + up.astype(jnp.uint32)).astype(jnp.int32)


def _estimated(term: jax.Array, divisor: jax.Array, scale: Fraction) -> jax.Array:
    """Return the floor of an estimate that is less than 1/2 from the quotient, which is rounded to that or to one more.

    Integers decide. Twice the divisor, times this and a half, fits 63 bits, because it is at most one divisor more than
    twice the dividend, and the estimate's error.
    """
    estimate = term.astype(jnp.float32) * (float(scale.denominator) / divisor)
    return jnp.minimum(jnp.floor(estimate), BEYOND).astype(jnp.uint32)


def _in_one_kernel(
    whole: jax.Array,
    exponentials: jax.Array,
    counted: None,
    *,
    powers: tuple[float, ...],
    axes: Sequence[int],
    terms: int,
    scale: Fraction,
) -> jax.Array:
    """Do what ``_of_words`` does with operations of which XLA makes one kernel, for CUDA: it has no table there.

    XLA takes a sum of a row into the kernel of what follows only if one operation reads it. So terms are summed twice,
    and what reads the sum of integers is a difference, from which the sum is had again for each term.
    """
    del exponentials, counted, terms
    with jax.enable_x64(True):
        integers = whole.astype(jnp.int32)
        below = jnp.max(integers, axes, keepdims=True) - integers
        term = lax.bitcast_convert_type(_product(jnp, below, powers) + _TO_INTEGER, jnp.int64).astype(jnp.int32)
        real, wide = term.astype(jnp.float32), term.astype(jnp.int64)
        estimate = real * (np.float32(scale.denominator / scale.numerator) / jnp.sum(real, axes, keepdims=True))
        lower = by_addition(jnp.minimum(estimate - np.float32(0.5), BEYOND))
        divisor = wide - (wide - jnp.sum(wide, axes, keepdims=True) * np.int64(scale.numerator))
        half = divisor * (2 * lower + 1).astype(jnp.int64)
        twice = wide * np.int64(2 * scale.denominator)
        return lower + ((twice | (lower & 1).astype(jnp.int64)) > half).astype(jnp.int32)


def powers_of(scale: Fraction, bits: int) -> tuple[float, ...] | None:
    """Return float64 whose product over the bits of a distance rounds to each exponential; None if they do not.

    The first is ``2**bits``, and the others are for the bits of a distance, the lowest first.
    """
    powers = (2.0**bits, *(math.exp(-float(scale * 2**bit)) for bit in range(8)))
    product = _product(np, _DISTANCES, powers)
    # XLA may join the last product and the addition that rounds it, which differs only near 1/2.
    near = np.abs(product - np.floor(product) - 0.5) < 2.0**-16
    return None if near.any() or (np.rint(product) != _table(scale, bits)).any() else powers


def _product(xp: Any, distance: Any, powers: tuple[float, ...]) -> Any:
    """Multiply the powers of those bits that are set, with the first of all."""
    of_none, lowest, *others = map(np.float64, powers)
    product = xp.where((distance & 1) != 0, of_none * lowest, of_none)
    for bit, power in enumerate(others, 1):
        product = product * xp.where((distance & (1 << bit)) != 0, power, np.float64(1))
    return product


def bits_of_exponentials(terms: int, scale: Fraction) -> int:
    """Return how many bits exponentials may have. Both sides of the comparison fit 62 bits then.

    They are a sum of terms times the numerator, and a term times the denominator.
    """
    sides = (terms * scale.numerator, scale.denominator)
    return min(30, *(61 - side.bit_length() for side in sides))


def _exponentials(scale: Fraction, bits: int) -> jax.Array:
    return jnp.asarray(_table(scale, bits), jnp.int32)


@lru_cache(2**6)
def _table(scale: Fraction, bits: int) -> list[int]:
    """Compute a table once for its entries and for the proof of its powers."""
    return [round(math.exp(-float(scale * int(distance))) * 2**bits) for distance in _DISTANCES]
