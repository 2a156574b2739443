"""Read elements at indexed positions without changing a bit of them, differentiably."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.bits import by_bits


def over_batch(function: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """Map ``function`` over the first ``rank`` dimensions of all its arguments."""
    for _ in range(rank):
        function = jax.vmap(function)
    return function


def _take(x: jax.Array, indices: jax.Array) -> jax.Array:
    batch = tuple(range(x.ndim - 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(x.ndim - 1,),
        start_index_map=(x.ndim - 1,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
    )
    return lax.gather(x, indices[..., None], numbers, (1,) * x.ndim, mode="promise_in_bounds")


@jax.custom_jvp
def _take_floats(x: jax.Array, indices: jax.Array) -> jax.Array:
    return by_bits(lambda moved: _take(moved, indices), x)


@_take_floats.defjvp
def _take_floats_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    x, indices = primals
    return _take_floats(x, indices), _take(tangents[0], indices)


def take_along_last(x: jax.Array, indices: jax.Array) -> jax.Array:
    """Take ``x[..., indices[..., j]]`` bit for bit; ``x: [..., n]``, ``indices: [..., k]``, all in range.

    The derivative is the same gather of the tangent, so every order of it exists.
    """
    if jnp.issubdtype(x.dtype, jnp.floating):
        return _take_floats(x, indices)
    return _take(x, indices)


def on_all_devices(x: jax.Array, axis: int) -> jax.Array:
    """Return ``x``, and have XLA put the whole of ``axis`` on every device.

    The result of a gather is sharded as its indices are, here not at all. Otherwise XLA might keep ``axis`` sharded,
    exchange parts of it for every operation that follows, and shard the output of the program.
    """
    last = jnp.moveaxis(x, axis, -1)
    whole = _take(last, lax.broadcasted_iota(jnp.uint32, last.shape, last.ndim - 1))
    return jnp.moveaxis(whole, -1, axis)
