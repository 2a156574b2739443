"""Read from the shard that has an element, and tell all shards."""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.words import by_any_bits, of_words, words_of
from jaxdml._kernels.indexed_read import kernel as indexed_read
from jaxdml._kernels.indexed_read.kernel import Reading
from jaxdml._kernels.indexed_write import block_of
from jaxdml._placement.layout import Names


def read(x: jax.Array, indices: jax.Array, how: Reading, over: Mapping[int, Names]) -> jax.Array:
    """Return the slices of the whole array at ``indices``, the same on all shards over ``over``.

    Args:
      x: ``[d_1, ..., d_r]``, the block of this shard.
      indices: integers ``[..., t]`` that count along the whole array, the same on these shards.
      how: what they address. Static.
      over: for dimensions that indices address, the axes over which they are sharded.
    """
    block = block_of(x, over)
    if block is None or any(x.shape[d] == 0 for d in over):
        return indexed_read.read(x, indices, how)
    part, inside = indexed_read.read_block(x, indices, how, block)
    combine = _combine_floats if jnp.issubdtype(x.dtype, jnp.inexact) else _combine
    return combine(part, inside, how.fill, tuple(name for names in over.values() for name in names))


def _combine(part: jax.Array, inside: jax.Array, fill: bytes, over: Names) -> jax.Array:
    """Return each element from the shard that has it, or ``fill`` if no shard has.

    Each shard adds how far the bits of its elements are from those of ``fill``. No two shards have the same element.
    """

    def add_up(bits: jax.Array, of_fill: jax.Array) -> jax.Array:
        words = words_of(jnp.where(inside, bits - of_fill, jnp.zeros_like(of_fill)))
        total: jax.Array = lax.psum(words, over)  # type: ignore[no-untyped-call]
        return of_words(total, bits) + of_fill

    return by_any_bits(add_up, part, jnp.asarray(np.frombuffer(fill, part.dtype)[0]))


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _combine_floats(part: jax.Array, inside: jax.Array, fill: bytes, over: Names) -> jax.Array:
    return _combine(part, inside, fill, over)


@_combine_floats.defjvp
def _combine_floats_jvp(
    fill: bytes, over: Names, primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    _, inside = primals
    tangent = jnp.where(inside, tangents[0], jnp.zeros((), tangents[0].dtype))
    return _combine_floats(*primals, fill, over), lax.psum(tangent, over)  # type: ignore[no-untyped-call]
