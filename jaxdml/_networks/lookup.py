"""Look up numbers in tables, on a TPU without an index for each."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.bits import with_flipped_sign


def entries_of(entries: np.ndarray, x: jax.Array) -> jax.Array:
    """Return the 8-bit entries of a table for 8-bit integers.

    Args:
      entries: int8 or uint8 ``[256]``, indexed by the bits of ``x``.
      x: int8 or uint8.
    """
    stored = of_int8(entries, x.dtype)
    if x.dtype == jnp.uint8:
        x = with_flipped_sign(x, np.int8)
    bits = jax.lax.bitcast_convert_type(x, jnp.uint8).astype(jnp.int32)
    found: jax.Array = jax.lax.platform_dependent(
        jnp.asarray(stored), bits, default=_indexed, tpu=partial(_selected, stored)
    )
    return with_flipped_sign(found, np.uint8) if entries.dtype == np.uint8 else found


def of_int8(entries: np.ndarray, dtype: Any) -> np.ndarray:
    """Return a table for integers of a dtype as int8, which operators store between them, for the same as int8."""
    by_stored = np.roll(entries, 128) if dtype == np.uint8 else entries
    stored: np.ndarray = with_flipped_sign(by_stored, np.int8) if entries.dtype == np.uint8 else by_stored
    return stored


def entries_at(entries: jax.Array, places: jax.Array) -> jax.Array:
    """Return the entries of a table of int32 at these places, which are in it; sharded as the places are."""
    # A TPU reads a whole tile for each entry that an index reads.
    found: jax.Array = jax.lax.platform_dependent(entries, places, default=_indexed, tpu=_summed)
    return found


def _indexed(entries: jax.Array, places: jax.Array) -> jax.Array:
    sharding = jax.typeof(places).sharding
    # Of unsigned places nothing else is computed. With several axes of a mesh JAX does not say by itself how the result
    # is sharded.
    found = entries.at[places.astype(jnp.uint32)]
    return found.get(mode="promise_in_bounds", out_sharding=sharding if any(sharding.spec) else None)


def _selected(entries: np.ndarray, _: jax.Array, places: jax.Array) -> jax.Array:
    """Select among words of four entries, bit by bit of the place, and shift the entry out of the last one.

    Only element-wise operations: they are fused with what makes the places. So only 8-bit results are stored, where a
    sum over the table stores its places and its results as int32.
    """
    words: list[Any] = list(entries.view(np.uint8).reshape(-1, 4) @ np.array([1, 2**8, 2**16, 2**24], np.uint32))
    for bit in range(2, 8):
        upper = (places >> bit) & 1 == 1
        words = [_one_of(upper, *pair) for pair in zip(words[1::2], words[::2], strict=True)]
    (word,) = words
    shifted = jnp.right_shift(word, (places & 3).astype(jnp.uint32) * 8)
    found = jax.lax.bitcast_convert_type((shifted & 255).astype(jnp.uint8), jnp.dtype(entries.dtype))
    # Else XLA fuses the selects with a product that reads them, and compiles for six times as long.
    return jax.lax.optimization_barrier(found)  # type: ignore[no-untyped-call]


def _one_of(upper: jax.Array, one: Any, other: Any) -> Any:
    """Return one or the other; without a select where both are the same number."""
    same = isinstance(one, np.uint32) and isinstance(other, np.uint32) and one == other
    return one if same else jnp.where(upper, one, other)


def _summed(entries: jax.Array, places: jax.Array) -> jax.Array:
    """Add all entries of a table, each times whether its place is wanted."""
    every = jax.lax.broadcasted_iota(places.dtype, (*[1] * places.ndim, entries.size), places.ndim)
    return jnp.sum(jnp.where(places[..., None] == every, entries, 0), axis=-1, dtype=entries.dtype)
