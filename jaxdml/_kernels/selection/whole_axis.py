"""Select from a whole sequence at once; of equal elements the lowest index comes first.

Every method of selection takes ``x: [..., n]`` and returns the indices ``[..., k]``, in order. The values follow by one
exact gather, so no method carries them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.order_keys import as_float32, order_keys
from jaxdml._arithmetic.sizes import index_dtype
from jaxdml._base.axis_direction import AxisDirection

Select = Callable[[jax.Array, int, AxisDirection], jax.Array]
"""Takes ``x: [..., n]``, ``k`` and the direction; returns the indices of the first k, ``[..., k]``, in order."""


def by_sort(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Sort the whole sequence stably, together with its indices."""
    return _sorted(x, direction)[1][..., :k]


def by_sort_with_keys(x: jax.Array, k: int, direction: AxisDirection) -> tuple[jax.Array, jax.Array]:
    """Sort as ``by_sort`` does; return the keys of the first k too, before the indices."""
    keys, order = _sorted(x, direction)
    return ~keys[..., :k], order[..., :k]


def _sorted(x: jax.Array, direction: AxisDirection) -> tuple[jax.Array, jax.Array]:
    # lax.sort puts small keys first, so it gets the keys of the opposite direction.
    keys = order_keys(x, AxisDirection(1 - direction))
    last = x.ndim - 1
    positions = lax.broadcasted_iota(index_dtype(x.shape[-1]), x.shape, last)
    keys, order = lax.sort((keys, positions), dimension=last, is_stable=True, num_keys=1)
    return keys, order


def by_integer_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Apply ``lax.top_k`` to the integer keys."""
    return lax.top_k(order_keys(x, direction), k)[1].astype(jnp.uint32)


def by_float_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Apply ``lax.top_k`` to the keys written as float32; only where it orders float32 by its bits."""
    return lax.top_k(as_float32(order_keys(x, direction)), k)[1].astype(jnp.uint32)
