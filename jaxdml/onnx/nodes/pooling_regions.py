"""Poolings of regions of an image."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._networks.coordinates import product, quotient
from jaxdml._networks.regions import greatest_of_regions
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.values.stored import widened


def _max_roi_pool(call: NodeCall, X: Any, rois: Any, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Any:
    return greatest_of_regions(X, rois, pooled_shape, spatial_scale)


def _roi_align(half_pixel: bool) -> Callable[..., Any]:
    """Return the operator, whose places are half a pixel less by default or not."""

    def run(
        call: NodeCall,
        X: Any,
        rois: Any,
        batch_indices: Any,
        *,
        mode: str = "avg",
        output_height: int = 1,
        output_width: int = 1,
        sampling_ratio: int = 0,
        spatial_scale: float = 1.0,
        coordinate_transformation_mode: str = "half_pixel" if half_pixel else "output_half_pixel",
    ) -> Any:
        shifted = coordinate_transformation_mode == "half_pixel"
        corners = product(widened(rois), spatial_scale) - 0.5 * shifted
        starts = corners[:, 1::-1].T
        sizes = corners[:, :1:-1].T - starts
        sizes = sizes if shifted else jnp.maximum(sizes, 1)
        counts = (output_height, output_width)
        bins = quotient(sizes, np.array(counts, sizes.dtype)[:, None])
        if sampling_ratio > 0:
            grids: Any = np.full(bins.shape, sampling_ratio)
        else:
            grids = jnp.ceil(bins).astype(np.int32)
        places = [_places(*each) for each in zip(starts, bins, grids, counts, strict=True)]
        return _aligned(X, batch_indices, places, grids, mode).astype(X.dtype)

    return run


def _places(start: jax.Array, size: jax.Array, grid: Any, count: int) -> Callable[[Any], tuple[jax.Array, Any]]:
    """Return a function: where sample ``i`` of each bin of each region is, and whether there is such a sample."""

    def at(i: Any) -> tuple[jax.Array, Any]:
        inside = quotient((i + 0.5) * size, grid)
        return start[:, None] + product(jnp.arange(count), size[:, None]) + inside[:, None], i < grid

    return at


def _aligned(X: jax.Array, batch_indices: jax.Array, places: Sequence[Any], grids: Any, mode: str) -> jax.Array:
    """Combine the samples of every bin, ``[regions, channels, height, width]``."""
    image = widened(jnp.moveaxis(X, 1, -1))
    regions = batch_indices.astype(np.int32)[:, None, None]
    rows, columns = (grid.max(initial=0) for grid in grids)
    average = mode == "avg"

    def sample(i: Any, total: jax.Array) -> jax.Array:
        (y, is_row), (x, is_column) = places[0](i // columns), places[1](i % columns)
        parts = [
            image[regions, row[:, :, None], column[:, None, :]]
            * (of_row[:, :, None] * of_column[:, None, :])[..., None]
            for row, of_row in _neighbours(y, image.shape[1])
            for column, of_column in _neighbours(x, image.shape[2])
        ]
        valid = (is_row & is_column)[:, None, None, None]
        if average:
            return total + jnp.where(valid, sum(parts[1:], start=parts[0]), 0)
        largest = jnp.maximum(jnp.maximum(parts[0], parts[1]), jnp.maximum(parts[2], parts[3]))
        return jnp.where(valid, jnp.maximum(total, largest), total)

    shape = (len(regions), places[0](0)[0].shape[1], places[1](0)[0].shape[1], image.shape[-1])
    total = lax.fori_loop(0, rows * columns, sample, jnp.full(shape, 0 if average else -np.inf, image.dtype))
    number = jnp.maximum(grids[0] * grids[1], 1)[:, None, None, None]
    result = total / number if average else jnp.where(jnp.isneginf(total), 0, total)
    return jnp.moveaxis(result, -1, 1)


def _neighbours(place: jax.Array, length: int) -> list[tuple[jax.Array, jax.Array]]:
    """Return the two integer places around a place, and how they weigh: nothing more than 1 outside of the image."""
    inside = (place >= -1) & (place <= length)
    kept = jnp.clip(place, 0, length - 1)
    low = jnp.floor(kept)
    fraction = kept - low
    high = jnp.minimum(low + 1, length - 1)
    return [
        (low.astype(np.int32), jnp.where(inside, 1 - fraction, 0)),
        (high.astype(np.int32), jnp.where(inside, fraction, 0)),
    ]


TABLE: Table = {
    "MaxRoiPool": (Handler(1, _max_roi_pool),),
    "RoiAlign": (Handler(10, _roi_align(half_pixel=False)), Handler(16, _roi_align(half_pixel=True))),
}
