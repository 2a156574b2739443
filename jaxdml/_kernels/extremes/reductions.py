"""Find the greatest or the least element along some axes, and where it is.

Every method takes ``x``, the axes in ascending order, a ``Rule``, and the dtype of positions. It returns the key of the
element that the rule chooses, and the position of that element: row-major over the axes. Both have the shape of ``x``
without the axes. XLA does not join a conversion to a reduction of pairs, so positions have the dtype asked for at once.

All comparisons are of integers. So the result does not depend on the order in which a device reduces.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.order_keys import order_keys
from jaxdml._base.axis_direction import AxisDirection

Axes = tuple[int, ...]


class Rule(NamedTuple):
    """Say which element is chosen."""

    least: bool
    """The least one, and not the greatest."""

    last: bool
    """Of equal ones the last, and not the first."""


Find = Callable[[jax.Array, Axes, Rule, np.dtype[np.integer]], tuple[jax.Array, jax.Array]]
"""A method: takes ``x``, the axes, the rule and the dtype of positions; returns keys and positions."""


def extreme_keys(x: jax.Array, rule: Rule) -> jax.Array:
    """Map each element to an unsigned integer of its width; the element with the greatest one is chosen.

    A NaN has the greatest of all, whether the greatest or the least element is wanted.
    """
    if not rule.least:
        return order_keys(x, AxisDirection.DECREASING)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return order_keys(x, AxisDirection.INCREASING)
    bits = bits_of(x)
    negative = bits ^ bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    return order_keys(lax.bitcast_convert_type(negative, x.dtype), AxisDirection.DECREASING)


def positions_along(keys: jax.Array, axes: Axes, dtype: np.dtype[np.integer]) -> jax.Array:
    """Return the position of each key: row-major over the axes. It varies over the mesh axes that ``keys`` does."""
    sizes = [keys.shape[axis] for axis in axes]
    positions = lax.iota(dtype, math.prod(sizes)).reshape(sizes)
    return lax.broadcast_in_dim(positions, keys.shape, axes) + jnp.zeros_like(keys, dtype)


def first_or_last(chosen: jax.Array, positions: jax.Array, axes: Axes, rule: Rule) -> jax.Array:
    """Return the position of the first, or last, element that is ``chosen``. At least one is."""
    candidates = jnp.where(chosen, positions, _beaten(positions.dtype, rule))
    return candidates.max(axes) if rule.last else candidates.min(axes)


def _beaten(dtype: np.dtype[np.integer], rule: Rule) -> np.integer:
    """Return the position that every other one beats."""
    return dtype.type(0 if rule.last else np.iinfo(dtype).max)


def by_two_reductions(x: jax.Array, axes: Axes, rule: Rule, dtype: np.dtype[np.integer]) -> tuple[jax.Array, jax.Array]:
    """Find the greatest key, then the first or last position that has it.

    Where the axes are sharded, each of the two is one small collective.
    """
    keys = extreme_keys(x, rule)
    greatest = keys.max(axes, keepdims=True)
    positions = positions_along(keys, axes, dtype)
    return greatest.squeeze(axes), first_or_last(keys == greatest, positions, axes, rule)


def by_pair_reduction(x: jax.Array, axes: Axes, rule: Rule, dtype: np.dtype[np.integer]) -> tuple[jax.Array, jax.Array]:
    """Reduce pairs of a key and its position, which reads ``x`` once.

    No two pairs are equal, so the greatest pair is the same in whichever order they are compared.
    """
    keys = extreme_keys(x, rule)
    positions = positions_along(keys, axes, dtype)
    beaten = keys.dtype.type(0), _beaten(dtype, rule)

    def better(one: tuple[jax.Array, jax.Array], other: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        (key, position), (other_key, other_position) = one, other
        wins = position > other_position if rule.last else position < other_position
        kept = (key > other_key) | ((key == other_key) & wins)
        return jnp.where(kept, key, other_key), jnp.where(kept, position, other_position)

    found: tuple[jax.Array, jax.Array] = lax.reduce((keys, positions), beaten, better, axes)
    return found
