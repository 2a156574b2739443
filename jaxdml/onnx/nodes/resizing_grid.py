"""GridSample: read an image at places that another operand says."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._networks.coordinates import product
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._interpolation import keys
from jaxdml.onnx.values.stored import widened

_CUBIC = -0.75
"""The coefficient of cubic weights."""


def _grid_sample_20(
    call: NodeCall, X: Any, grid: Any, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    lengths = X.shape[2:]
    wide = widened(grid)
    edges = [(0.0, n - 1.0) if align_corners else (-0.5, n - 0.5) for n in lengths]
    # The last dimension of the grid names the places in reversed order, from -1 at one edge to 1 at the other.
    places = [product((wide[..., -1 - d] + 1) / 2, high - low) + low for d, (low, high) in enumerate(edges)]
    image = jnp.moveaxis(X, 1, -1)
    return jnp.moveaxis(interpolated(image, places, mode, padding_mode, edges), -1, 1)


def interpolated(
    image: jax.Array,
    places: Sequence[jax.Array],
    mode: str,
    padding_mode: str = "zeros",
    edges: Sequence[tuple[float, float]] = (),
) -> jax.Array:
    """Read images at places.

    Args:
      image: ``[N, *spatial, C]``.
      places: for each spatial dimension ``[N, ...]``, 0 being the first element.
      mode: nearest, linear or cubic.
      padding_mode: zeros, border or reflection: what stands outside.
      edges: for reflection, where to mirror each dimension.

    Returns:
      ``[N, ..., C]``, of the image's dtype.
    """
    if mode == "nearest":
        places = [jnp.round(place) for place in places]
    if padding_mode == "reflection":
        places = [_reflected(place, *edge) for place, edge in zip(places, edges, strict=True)]
    wide = widened(image)
    batch = jnp.arange(image.shape[0]).reshape(-1, *(1,) * (places[0].ndim - 1))
    limits = zip(places, image.shape[1:-1], edges or [(0.0, 0.0)] * len(places), strict=True)
    around = [
        [(*_kept(at, length, edge, padding_mode), weight) for at, weight in _around(place, mode)]
        for place, length, edge in limits
    ]
    result: Any = 0
    for corner in itertools.product(*around):
        indices, inside, weights = zip(*corner, strict=True)
        found = wide[(batch, *indices)]
        if padding_mode == "zeros":
            found = jnp.where(math.prod(inside)[..., None], found, 0)
        result += found * math.prod(weights)[..., None]
    return result.astype(image.dtype)


def _around(place: jax.Array, mode: str) -> list[tuple[jax.Array, jax.Array]]:
    """Return the integer places around a place, and how they weigh."""
    if mode == "nearest":
        return [(place, jnp.ones_like(place))]
    low = jnp.floor(place)
    fraction = place - low
    if mode == "linear":
        return [(low, 1 - fraction), (low + 1, fraction)]
    return [(low + step, keys(fraction - step, _CUBIC)) for step in (-1, 0, 1, 2)]


def _reflected(place: jax.Array, low: float, high: float) -> jax.Array:
    """Mirror places at both edges until they are between these."""
    span = high - low
    if span == 0:
        return jnp.full_like(place, low)
    inside = jnp.mod(place - low, 2 * span)
    return jnp.minimum(inside, 2 * span - inside) + low


def _kept(place: jax.Array, length: int, edge: tuple[float, float], padding_mode: str) -> tuple[jax.Array, jax.Array]:
    """Return which element stands for an integer place, and whether it is the one that is there."""
    if padding_mode == "reflection":
        place = _reflected(place, *edge)
    kept = jnp.clip(place, 0, length - 1)
    return kept.astype(np.int32), kept == place


def _grid_sample_16(
    call: NodeCall, X: Any, grid: Any, *, align_corners: int = 0, mode: str = "bilinear", padding_mode: str = "zeros"
) -> Any:
    names = {"bilinear": "linear", "bicubic": "cubic"}
    return _grid_sample_20(
        call, X, grid, align_corners=align_corners, mode=names.get(mode, mode), padding_mode=padding_mode
    )


TABLE: Table = {"GridSample": (Handler(16, _grid_sample_16), Handler(20, _grid_sample_20))}
