"""Move elements without touching a bit of them, and stay differentiable."""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.order_keys import bits_of

_ROW_GATHER = lax.GatherDimensionNumbers(
    offset_dims=(),
    collapsed_slice_dims=(1,),
    start_index_map=(1,),
    operand_batching_dims=(0,),
    start_indices_batching_dims=(0,),
)


def _take(x: jax.Array, indices: jax.Array) -> jax.Array:
    return lax.gather(x, indices[..., None], _ROW_GATHER, (1, 1), mode="promise_in_bounds")


@jax.custom_jvp
def _take_floats(x: jax.Array, indices: jax.Array) -> jax.Array:
    # As integers: a device that widens 16-bit floats to move them would quiet a signalling NaN.
    return lax.bitcast_convert_type(_take(bits_of(x), indices), x.dtype)


@_take_floats.defjvp
def _take_floats_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    x, indices = primals
    return _take_floats(x, indices), _take(tangents[0], indices)


def take_from_rows(x: jax.Array, indices: jax.Array) -> jax.Array:
    """Take ``x[i, indices[i, j]]`` bit for bit; ``x: [b, n]``, ``indices: [b, k]`` in range.

    The derivative is the same gather of the tangent, so every order of it exists.
    """
    if jnp.issubdtype(x.dtype, jnp.floating):
        return _take_floats(x, indices)
    return _take(x, indices)
