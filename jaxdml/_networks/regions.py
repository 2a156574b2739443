"""Regions of images, each with its own sizes."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._networks.coordinates import product

_FARTHEST = 2**29
"""Coordinates beyond it would overflow, and lie outside of every image."""

_REGIONS_AT_ONCE = 16
"""Of so many regions the image is copied at a time."""


def greatest_of_regions(images: jax.Array, rois: jax.Array, pooled: Sequence[int], scale: float) -> jax.Array:
    """Return the greatest element of each part of each region, ``[regions, channels, rows, columns]``.

    Args:
      images: ``[N, C, H, W]``.
      rois: for each region its image, and two corners that belong to it, x before y: ``[regions, 5]``.
      pooled: into how many rows and columns of parts a region is cut.
      scale: what corners are multiplied by.
    """
    # A region is given as x before y, a window by its first and its last element.
    corners = lax.round(
        product(rois[:, 1:].astype(jnp.promote_types(rois.dtype, np.float32)), scale), lax.RoundingMethod.AWAY_FROM_ZERO
    )
    corners = jnp.clip(corners, -_FARTHEST, _FARTHEST).astype(np.int32)

    def one(region: tuple[jax.Array, jax.Array]) -> jax.Array:
        of, (*starts, x_end, y_end) = region
        image, empty = images[of], jnp.zeros((), np.bool_)
        for d, (first, last, count) in enumerate(zip(starts[::-1], (y_end, x_end), pooled, strict=True)):
            # Bin i has the elements from i / count of the length on, which is no rounding of floats.
            ends = _parts(jnp.maximum(last - first + 1, 1), count, up=True)[1:]
            begins = _parts(jnp.maximum(last - first + 1, 1), count, up=False)[:-1]
            at = jnp.arange(images.shape[2 + d]) - first
            members = (at >= begins[:, None]) & (at < ends[:, None])
            empty = empty[..., None] | ~members.any(-1)
            # The dimension goes last, its bins take its place.
            values = jnp.moveaxis(image, 1 + d, -1)
            values = jnp.where(members, values[..., None, :], -np.inf).max(-1)
            image = jnp.moveaxis(values, -1, 1 + d)
        return jnp.where(empty, 0, image).astype(images.dtype)

    return lax.map(one, (rois[:, 0].astype(np.int32), corners), batch_size=_REGIONS_AT_ONCE)


def _parts(length: jax.Array, count: int, up: bool) -> jax.Array:
    """Return ``i * length / count`` for i from 0 to the count, rounded down or up; without a product that overflows."""
    i = jnp.arange(count + 1)
    rest = i * (length % count)
    return i * (length // count) + (-(-rest // count) if up else rest // count)
