"""Select from segments of a sequence, then among what was selected from each."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.exact_gather import on_all_devices, take_along_last
from jaxdml._arithmetic.order_keys import order_keys
from jaxdml._arithmetic.sizes import index_dtype
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.selection.chunk_maxima import Among
from jaxdml._kernels.selection.whole_axis import Select

SelectWithKeys = Callable[[jax.Array, int, AxisDirection], tuple[jax.Array, jax.Array]]
"""Takes ``x: [..., n]``, ``k`` and the direction; returns the keys and the indices of the first k, in order."""


def with_keys(x: jax.Array, k: int, direction: AxisDirection, *, select: Select) -> tuple[jax.Array, jax.Array]:
    """Return the keys of what ``select`` selects, and the indices."""
    places = select(x, k, direction)
    return order_keys(take_along_last(x, places), direction), places


class Merging(NamedTuple):
    """Say how the candidates of all segments are brought together."""

    gather: Callable[[jax.Array], jax.Array]
    """Puts unsigned integers ``[..., segments, m]`` on every device."""

    among: Among
    """Selects among candidates whose positions ascend."""


def by_indexing(parts: jax.Array) -> jax.Array:
    """Put ``[..., segments, m]`` on every device by reading it at all indices."""
    return on_all_devices(parts, parts.ndim - 2)


def by_adding(parts: jax.Array) -> jax.Array:
    """Put ``[..., segments, m]`` on every device by adding up, for each segment, its integers and zeros for the others.

    The work grows with the square of the number of segments.
    """
    *batch, segments, _ = parts.shape
    own = jnp.eye(segments, dtype=bool).reshape(*(1 for _ in batch), segments, segments, 1)
    return jnp.where(own, parts[..., None, :, :], parts.dtype.type(0)).sum(axis=-2, dtype=parts.dtype)


def by_segments(
    x: jax.Array, k: int, direction: AxisDirection, *, devices: int, select: SelectWithKeys, merging: Merging
) -> jax.Array:
    """Split each sequence so that no segment lies on two devices, and move only the k first of each segment.

    The number of devices that share a sequence divides both ``devices`` and its length, so it divides the number of
    segments, their greatest common divisor.

    Args:
      x: ``[..., n]``, sharded or not along any dimension.
      k: how many to take.
      direction: whether the largest or the smallest come first.
      devices: over how many devices XLA partitions the program.
      select: the method that selects from a segment.
      merging: how the candidates of all segments are brought together.
    """
    *batch, n = x.shape
    segments = math.gcd(n, devices) if devices > 1 else 1
    if segments == 1:
        return select(x, k, direction)[1]
    length = n // segments
    parts = x.reshape(*batch, segments, length)
    if length <= k:
        keys = merging.gather(order_keys(parts, direction)).reshape(*batch, n)
        return merging.among(keys, lax.broadcasted_iota(index_dtype(n), keys.shape, len(batch)), k, n)
    keys, places = select(parts, k, direction)
    starts = lax.broadcasted_iota(index_dtype(n), places.shape, len(batch)) * length
    keys, positions = _gathered(merging.gather, keys, places.astype(starts.dtype) + starts)
    return merging.among(keys, positions, k, n)


def _gathered(gather: Callable[[jax.Array], jax.Array], *parts: jax.Array) -> list[jax.Array]:
    """Put candidates ``[..., segments, k]`` on every device, as ``[..., segments * k]``, with one collective."""
    dtypes = [part.dtype for part in parts]
    wide = max(*dtypes, jnp.dtype(jnp.uint32), key=lambda dtype: dtype.itemsize)
    together = gather(jnp.concatenate([part.astype(wide) for part in parts], axis=-1))
    split = jnp.split(together, len(parts), axis=-1)
    return [part.reshape(*part.shape[:-2], -1).astype(dtype) for part, dtype in zip(split, dtypes, strict=True)]
