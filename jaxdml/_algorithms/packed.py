"""Make one integer of a key and a position, and select among those.

The key is in the high bits and the position, counted backwards, in the low ones. The integers of a row are all
different, so the larger one simply comes first, in whatever order they stand, and a method needs neither care about
ties nor carry positions along. They have 64 bits where key and position need them. Those exist only within: what comes
out has 32 bits again.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.order_keys import order_keys
from jaxdml._algorithms.selection import Among, Select
from jaxdml._base.axis_direction import AxisDirection

Take = Callable[[jax.Array, int], jax.Array]
"""Takes different integers ``[b, m]`` and k; returns the k greatest of every row, in decreasing order."""


def among_packed(take: Take) -> Among:
    """Select with ``take`` among keys of at most 32 bits, at positions below n, of at most 2**32, in any order."""

    def among(keys: jax.Array, positions: jax.Array, k: int, n: int) -> jax.Array:
        bits = (n - 1).bit_length()
        packed = np.dtype(np.uint32 if 8 * keys.dtype.itemsize + bits <= 32 else np.uint64)
        with jax.enable_x64(True):
            last = np.uint32((1 << bits) - 1)
            taken = take(keys.astype(packed) << packed.type(bits) | (last - positions).astype(packed), k)
            return last - (taken & packed.type(last)).astype(jnp.uint32)

    return among


def by_packed(take: Take) -> Select:
    """Select with ``take`` from a whole row."""
    among = among_packed(take)

    def select(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
        return among(order_keys(x, direction), lax.broadcasted_iota(jnp.uint32, x.shape, 1), k, x.shape[1])

    return select


def by_sorting(numbers: jax.Array, k: int) -> jax.Array:
    """Sort them all; nothing else moves with them, and no order need be kept."""
    return ~lax.sort(~numbers, dimension=1, is_stable=False)[:, :k]


def by_ranks(numbers: jax.Array, k: int) -> jax.Array:
    """Count for each number how many are greater: that is its place."""
    rows, m = numbers.shape
    ranks = (numbers[:, None, :] > numbers[:, :, None]).sum(axis=2, dtype=jnp.uint32)
    places = jnp.zeros((rows, k), numbers.dtype)
    row = lax.broadcasted_iota(jnp.uint32, (rows, m), 0)
    return places.at[row, ranks].set(numbers, mode="drop", unique_indices=True)
