"""What the operators of attention share: heads, rotations, and softmax(Q K^T) V in float32."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._base.shapes import is_static
from jaxdml._placement.layout import on_explicit_axes

EXACTLY = lax.Precision.HIGHEST

MOST_ROWS, MOST_PRODUCTS = 8, 2**22
"""So few queries of the heads that share keys are multiplied as sums on a GPU, with so few products in all. On an H100
a step of nine heads in three groups, with 128 keys of 64 numbers, takes 7.2 µs so, not 11.5; one of 32 heads in eight
groups, with 1,024 keys, 14.4, not 25.6; with 4,096 keys of 128 numbers 42.5, not 34.2."""


def split_heads(value: Any, heads: int) -> Any:
    """Bring [batch, length, heads * size] to [batch, heads, length, size]."""
    batch, length, width = value.shape
    return value.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def merge_heads(value: Any) -> Any:
    """Bring [batch, heads, length, size] to [batch, length, heads * size]."""
    batch, heads, length, size = value.shape
    return value.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def grouped(value: Any, groups: int) -> Any:
    """Bring [batch, heads, ...] to [batch, groups, heads of a group, ...]: consecutive heads share keys and values."""
    batch, heads, *rest = value.shape
    return value.reshape(batch, groups, heads // groups, *rest)


def ungrouped(value: Any) -> Any:
    """Bring [batch, groups, heads of a group, ...] to [batch, heads, ...]."""
    batch, groups, heads, *rest = value.shape
    return value.reshape(batch, groups * heads, *rest)


def products(q: Any, k: Any) -> Any:
    """Multiply each query with each key, in float32 for narrower types."""
    wide = jnp.promote_types(q.dtype, jnp.float32)
    by_dot = partial(jnp.einsum, "bghqd,bgkd->bghqk", precision=EXACTLY, preferred_element_type=wide)

    def stored(q: Any, k: Any) -> Any:
        # XLA for CUDA has one kernel for a softmax that begins with what is stored.
        return lax.optimization_barrier(by_dot(q, k))  # type: ignore[no-untyped-call]

    def by_sums(q: Any, k: Any) -> Any:
        return jnp.sum(q[..., None, :].astype(wide) * k[:, :, None, None].astype(wide), -1)

    return ungrouped(_product(grouped(q, k.shape[1]), k, by_dot, cuda=(stored, by_sums)))


def weighted(probabilities: Any, v: Any) -> Any:
    """Add values up."""
    wide = jnp.promote_types(jnp.promote_types(probabilities.dtype, v.dtype), jnp.float32)
    by_dot = partial(jnp.einsum, "bghqk,bgkv->bghqv", precision=EXACTLY)

    def by_sums(p: Any, v: Any) -> Any:
        products = p[..., None].astype(wide) * v[:, :, None, None].astype(wide)
        return jnp.sum(products, -2).astype(jnp.promote_types(p.dtype, v.dtype))

    return ungrouped(_product(grouped(probabilities, v.shape[1]), v, by_dot, cuda=(by_dot, by_sums)))


def _product(by_group: Any, shared: Any, default: Any, *, cuda: tuple[Any, Any]) -> Any:
    """Multiply ``[batch, groups, heads of a group, queries, ...]`` by what a group shares; on CUDA few rows as sums.

    A GPU multiplies few rows in blocks that are mostly padding, in a kernel of their own.

    Args:
      by_group: the left operand.
      shared: the right one.
      default: multiplies elsewhere.
      cuda: multiplies on CUDA, and adds up products there.
    """
    sizes = *by_group.shape[:4], *shared.shape[2:]
    rows = math.prod(sizes[2:4]) if is_static(*sizes) else 0
    few = 0 < rows <= MOST_ROWS and math.prod(sizes) <= MOST_PRODUCTS
    if on_explicit_axes(by_group, shared):
        return default(by_group, shared)  # On Explicit axes each form may give its result another sharding.
    return lax.platform_dependent(by_group, shared, cuda=cuda[few], default=default)


def without_unseen(v: Any, visible: Any) -> Any:
    """Return values with 0 for those of keys that no query sees: their weight is 0, and 0 times NaN is NaN.

    Args:
      v: ``[batch, heads, keys, size]``.
      visible: booleans ``[queries, keys]``, with heads and batch before them or without.
    """
    seen = visible.any(axis=tuple(range(-min(visible.ndim, 3), -1)), keepdims=True)  # The last dimension is of keys.
    return jnp.where(jnp.swapaxes(seen, -1, -2), v, 0)


def within(length: Any, ends: Any, starts: Any = None) -> Any:
    """Return which keys come before the end of each row, and not before its start, ``[batch, 1, 1, keys]``."""
    places = jnp.arange(length)[None]
    found = places < ends[:, None]
    return (found if starts is None else found & (places >= starts[:, None]))[:, None, None]


def capped(x: Any, softcap: float) -> Any:
    """Bound scores by a tanh, if there is a cap."""
    return softcap * jnp.tanh(x / softcap) if softcap else x


def probabilities(x: Any, visible: Any, sink: Any = None) -> Any:
    """Normalize the exponentials of what is visible. A row of which nothing is visible is 0.

    Args:
      x: scores ``[..., queries, keys]``.
      visible: booleans that broadcast to ``x``.
      sink: a score that counts in each row, and has no value.
    """
    # XLA for CUDA has one kernel for all of this if nothing is selected between the maximum and the sum.
    limited, limits = jnp.where(visible, x, -jnp.inf), jnp.finfo(x.dtype)
    most = jnp.max(limited, -1, keepdims=True, initial=-jnp.inf)
    most = most if sink is None else jnp.maximum(most, sink)
    most = lax.stop_gradient(jnp.clip(most, limits.min, limits.max))
    powers = jnp.exp(limited - most)
    total = powers.sum(-1, keepdims=True) + (0 if sink is None else jnp.exp(sink - most))
    # Where nothing is visible the total is 0; else the greatest power is 1, but for rounding.
    return powers / jnp.maximum(total, 0.5)


def rotated(x: Any, cos: Any, sin: Any, *, interleaved: bool) -> jax.Array:
    """Rotate pairs of the first elements of each head, in float32, and round once.

    Args:
      x: ``[batch, heads, length, size]``.
      cos: ``[batch, length, pairs]``, or with batch 1.
      sin: as ``cos``.
      interleaved: whether neighbours are pairs; else element i and element i + pairs are.
    """
    wide = jnp.promote_types(x.dtype, jnp.float32)
    cosine, sine = (part[:, None].astype(wide) for part in (cos, sin))
    size = 2 * cos.shape[-1]
    turned, rest = x[..., :size].astype(wide), x[..., size:]
    pairs = turned.reshape(*turned.shape[:-1], -1, 2) if interleaved else turned.reshape(*turned.shape[:-1], 2, -1)
    axis = -1 if interleaved else -2
    first, second = (lax.index_in_dim(pairs, index, pairs.ndim + axis, keepdims=False) for index in (0, 1))
    both = jnp.stack((cosine * first - sine * second, sine * first + cosine * second), axis=axis)
    return jnp.concatenate((both.reshape(turned.shape).astype(x.dtype), rest), axis=-1)
