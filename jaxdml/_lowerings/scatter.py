"""Choose the method that writes, and as what the elements move; both scatters come down to it."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jaxdml._algorithms import indexed_write
from jaxdml._lowerings._platform import by_platform


def _scatter(x: jax.Array, indices: jax.Array, updates: jax.Array, mode: str, duplicates: str) -> jax.Array:
    direct, as_integers = (
        partial(indexed_write.write, mode=mode, duplicates=duplicates, as_integers=flag) for flag in (False, True)
    )
    if x.dtype == jnp.float16:
        # CPUs and GPUs move these as they are.
        return by_platform(x, indices, updates, cpu=direct, cuda=direct, rocm=direct, default=as_integers)
    # XLA's CPU backend widens the other narrow floats to move them.
    narrow_float = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4
    return (as_integers if narrow_float else direct)(x, indices, updates)


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
