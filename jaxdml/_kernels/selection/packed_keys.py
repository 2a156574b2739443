"""Pack each key with its position into one integer, and select among those.

The key takes the high bits. The position, counted backwards, takes the low ones. The integers of a sequence are then
all distinct and the larger one comes first, in whatever order they are stored: a method has no ties to break and no
positions to carry. Where 32 bits are too few the integers have 64; the results have 32 bits again.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.exact_gather import over_batch
from jaxdml._arithmetic.order_keys import order_keys
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.selection.chunk_maxima import Among
from jaxdml._kernels.selection.whole_axis import Select

Take = Callable[[jax.Array, int], jax.Array]
"""Takes distinct unsigned integers ``[..., m]`` and k; returns the k greatest, ``[..., k]``, in decreasing order."""


def among_packed(take: Take) -> Among:
    """Select with ``take`` among candidates in any order: keys of at most 32 bits, positions below n <= 2**32."""

    def among(keys: jax.Array, positions: jax.Array, k: int, n: int) -> jax.Array:
        bits = (n - 1).bit_length()
        packed = np.dtype(np.uint32 if 8 * keys.dtype.itemsize + bits <= 32 else np.uint64)
        with jax.enable_x64(True):
            last = np.uint32((1 << bits) - 1)
            taken = take(keys.astype(packed) << packed.type(bits) | (last - positions).astype(packed), k)
            return last - (taken & packed.type(last)).astype(jnp.uint32)

    return among


def by_packed(take: Take) -> Select:
    """Select with ``take`` from whole sequences."""
    among = among_packed(take)

    def select(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
        keys = order_keys(x, direction)
        return among(keys, lax.broadcasted_iota(jnp.uint32, x.shape, x.ndim - 1), k, x.shape[-1])

    return select


def by_sorting(numbers: jax.Array, k: int) -> jax.Array:
    """Sort all the numbers. They are distinct, so the sort need not be stable."""
    return ~lax.sort(~numbers, dimension=numbers.ndim - 1, is_stable=False)[..., :k]


def by_ranks(numbers: jax.Array, k: int) -> jax.Array:
    """Count for each number how many are greater; that is its place in the output."""
    ranks = (numbers[..., None, :] > numbers[..., :, None]).sum(axis=-1, dtype=jnp.uint32)

    def ordered(numbers: jax.Array, ranks: jax.Array) -> jax.Array:
        return jnp.zeros(k, numbers.dtype).at[ranks].set(numbers, mode="drop", unique_indices=True)

    return over_batch(ordered, numbers.ndim - 1)(numbers, ranks)
