"""Choose the method that writes, and as what the elements move; both scatters come down to it."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxdml._algorithms import indexed_write
from jaxdml._lowerings._platform import by_platform

GPU_WORD = 4
"""Bytes of the least integer that a GPU stores as it is: for any less XLA makes it compare and swap in a loop.

Words of 8 bytes took longer, though they are fewer."""

PLACES_PER_UPDATE = 16
"""Up to so many elements for each update, on a GPU all of them look for theirs sooner than the updates go to them."""


def _scatter(x: jax.Array, indices: jax.Array, updates: jax.Array, mode: str, duplicates: str) -> jax.Array:
    t = indices.shape[1]
    if x.ndim > t and math.prod(x.shape[t:]) == 1:
        # A slice of one element is an element.
        return _scatter(x.reshape(x.shape[:t]), indices, updates.reshape(-1), mode, duplicates).reshape(x.shape)

    def moved(word: int, by_place: bool = False) -> Callable[..., jax.Array]:
        return partial(indexed_write.write, mode=mode, duplicates=duplicates, word=word, by_place=by_place)

    narrow = _is_narrow(x.dtype)
    single = t == x.ndim
    by_place = duplicates == "last" and single and x.size <= PLACES_PER_UPDATE * len(updates)
    if not narrow and not by_place:
        return moved(0)(x, indices, updates)
    itself = x.dtype.itemsize if narrow and jnp.issubdtype(x.dtype, jnp.floating) else 0
    # XLA's CPU backend widens narrow floats to move them, all but this one.
    cpu, default = moved(0 if x.dtype == jnp.float16 else itself), moved(itself)
    gpu = moved(GPU_WORD if narrow else 0, by_place)
    return by_platform(x, indices, updates, cpu=cpu, cuda=gpu, rocm=gpu, default=default)


def _is_narrow(dtype: jnp.dtype) -> bool:
    """Tell whether elements have one or two bytes, of which all bits count."""
    for kind, info in ((jnp.floating, jnp.finfo), (jnp.integer, jnp.iinfo)):
        if jnp.issubdtype(dtype, kind):
            return info(dtype).bits == 8 * dtype.itemsize < 32
    return False


METHODS: dict[str, Callable[..., jax.Array]] = {"scatter": _scatter}


def write(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    mode: str,
    duplicates: str,
    implementation: str | None,
) -> jax.Array:
    """Write ``updates[i]`` at ``x[indices[i]]``, for indices ``[n, t]`` that are widened and wrapped."""
    return METHODS[implementation or "scatter"](x, indices, updates, mode, duplicates)
