"""Select from segments of a sequence, then among what was selected from each."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.indexing.exact_gather import on_all_devices, take_along_last
from jaxdml._algorithms.selection.order_keys import order_keys
from jaxdml._algorithms.selection.whole_axis import Select, index_dtype
from jaxdml._base.axis_direction import AxisDirection


def by_segments(
    x: jax.Array, k: int, direction: AxisDirection, *, devices: int, select: Select, merge: Select
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
      merge: the method that selects among the candidates of all segments, from their keys.
    """
    *batch, n = x.shape
    segments = math.gcd(n, devices) if devices > 1 else 1
    if segments == 1:
        return select(x, k, direction)
    if n <= segments * k:
        return merge(on_all_devices(order_keys(x, direction), x.ndim - 1), k, AxisDirection.DECREASING)
    length = n // segments
    parts = x.reshape(*batch, segments, length)
    places = select(parts, k, direction)
    starts = lax.broadcasted_iota(index_dtype(n), places.shape, len(batch)) * length
    keys, positions = _on_all_devices(
        order_keys(take_along_last(parts, places), direction), places.astype(starts.dtype) + starts
    )
    return take_along_last(positions, merge(keys, k, AxisDirection.DECREASING))


def _on_all_devices(*parts: jax.Array) -> list[jax.Array]:
    """Put candidates ``[..., segments, k]`` on every device, as ``[..., segments * k]``, with one collective."""
    dtypes = [part.dtype for part in parts]
    wide = max(*dtypes, jnp.dtype(jnp.uint32), key=lambda dtype: dtype.itemsize)
    together = jnp.concatenate([part.astype(wide) for part in parts], axis=-1)
    together = on_all_devices(together, together.ndim - 2)
    split = jnp.split(together, len(parts), axis=-1)
    return [part.reshape(*part.shape[:-2], -1).astype(dtype) for part, dtype in zip(split, dtypes, strict=True)]
