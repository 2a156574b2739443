"""What the operators of attention share: heads, rotations, and softmax(Q K^T) V in float32."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

EXACTLY = lax.Precision.HIGHEST


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
    by_group = jnp.einsum(
        "bghqd,bgkd->bghqk", grouped(q, k.shape[1]), k, precision=EXACTLY, preferred_element_type=wide
    )
    return ungrouped(by_group)


def weighted(probabilities: Any, v: Any) -> Any:
    """Add values up."""
    by_group = grouped(probabilities, v.shape[1])
    return ungrouped(jnp.einsum("bghqk,bgkv->bghqv", by_group, v, precision=EXACTLY))


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
    limited = jnp.where(visible, x, -jnp.inf)
    most = lax.stop_gradient(jnp.max(limited, -1, keepdims=True, initial=-jnp.inf))
    if sink is not None:
        most = jnp.maximum(most, sink)
    most = jnp.where(jnp.isfinite(most), most, 0)
    powers = jnp.where(visible, jnp.exp(jnp.where(visible, x, most) - most), 0)
    total = powers.sum(-1, keepdims=True) + (0 if sink is None else jnp.exp(sink - most))
    return powers / jnp.where(total == 0, 1, total)


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
