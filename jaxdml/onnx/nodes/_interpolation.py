"""Where the results of a resize lie in its input, and from which elements they come."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxdml.onnx.nodes._windows import LARGEST_TABLE


class Sampling(NamedTuple):
    """How one dimension is resized.

    Attributes:
      length: of the input.
      outputs: length of the output.
      width: of the output before it was rounded to ``outputs``.
      factor: ``width / length``.
      mode: ONNX's ``coordinate_transformation_mode``.
      part: where the region of interest starts and ends, 1 being the last element; only for tf_crop_and_resize.
    """

    length: int
    outputs: int
    width: float
    factor: float
    mode: str
    part: tuple[float, float]


def originals(sampling: Sampling) -> np.ndarray:
    """Return the place in the input for each element of the output.

    In float32, as exporters expect: 2 / float32(2 / 3) must not fall below 3.
    """
    if sampling.outputs > LARGEST_TABLE:
        raise NotImplementedError(f"an output of length {sampling.outputs}; at most {LARGEST_TABLE} is supported")
    real = np.float32
    factor, width, n = real(sampling.factor), real(sampling.width), real(sampling.length)
    start, end = map(real, sampling.part)
    x = np.arange(sampling.outputs, dtype=real)
    one = sampling.outputs == 1
    last, half = n - 1, real(0.5)
    gap = real(max(sampling.outputs - 1, 1))
    # ONNX's text and onnxruntime divide by ``gap`` here too, but ONNX's tests by the width before rounding.
    corner = gap if one else width - 1
    places: Mapping[str, Callable[[], np.ndarray]] = {
        "half_pixel": lambda: (x + half) / factor - half,
        "asymmetric": lambda: x / factor,
        "pytorch_half_pixel": lambda: x if one else (x + half) / factor - half,
        "tf_half_pixel_for_nn": lambda: (x + half) / factor,
        "half_pixel_symmetric": lambda: (x + half) / factor - half + n / 2 * (1 - sampling.outputs / width),
        "align_corners": lambda: x * last / corner,
        "tf_crop_and_resize": lambda: (
            x + (start + end) * last / 2 if one else start * last + x * (end - start) * last / gap
        ),
    }
    return places[sampling.mode]().astype(real)


def taps(
    sampling: Sampling, mode: str, nearest_mode: str, cubic_coeff_a: float, exclude_outside: bool, antialias: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return which elements of the input make up each element of the output, and their weights.

    Args:
      sampling: the dimension.
      mode: nearest, linear or cubic.
      nearest_mode: ONNX's, or "simple": up where the dimension shrinks, else down.
      cubic_coeff_a: ONNX's.
      exclude_outside: whether elements outside weigh nothing; else the edge's element stands for them.
      antialias: whether the kernel widens as the dimension shrinks.

    Returns:
      Indices ``[taps, outputs]``, and weights like them; None for nearest.
    """
    x = originals(sampling)
    if mode == "nearest":
        return _clipped(_nearest(x, nearest_mode, sampling.factor)[None], sampling.length), None
    support, kernel = {"linear": (1, _triangle), "cubic": (2, keys)}[mode]
    shrink = min(float(sampling.factor), 1.0) if antialias else 1.0
    reach = int(np.ceil(support / shrink))
    at = np.floor(x).astype(np.int64) + np.arange(1 - reach, 1 + reach)[:, None]
    weights = kernel((at - x.astype(np.float64)) * shrink, cubic_coeff_a)
    if exclude_outside:
        weights = np.where((at >= 0) & (at < sampling.length), weights, 0)
    return _clipped(at, sampling.length), weights / weights.sum(0)


def _clipped(indices: np.ndarray, length: int) -> np.ndarray:
    return np.clip(indices, 0, length - 1)


def _nearest(x: np.ndarray, nearest_mode: str, factor: float) -> np.ndarray:
    up = {"simple": factor < 1, "ceil": True, "round_prefer_floor": True, "floor": False, "round_prefer_ceil": False}
    shift = {"round_prefer_floor": np.float32(-0.5), "round_prefer_ceil": np.float32(0.5)}.get(nearest_mode, 0)
    return (np.ceil if up[nearest_mode] else np.floor)(x + shift).astype(np.int64)


def _triangle(x: np.ndarray, _: float) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def keys(x: Any, a: float) -> Any:
    """Return the weights of a cubic convolution at distances, in NumPy or JAX."""
    x = abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return near * (x <= 1) + far * ((x > 1) & (x < 2))
