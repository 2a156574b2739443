"""Choose the method that writes; both scatters come down to it."""

from collections.abc import Callable

import jax

from jaxdml._algorithms import indexed_write

METHODS: dict[str, Callable[..., jax.Array]] = {"scatter": indexed_write.write}


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
