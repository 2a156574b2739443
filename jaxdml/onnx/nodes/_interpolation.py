"""Where the results of a resize lie in its input, and from which elements they come.

Sizes are known while tracing, so places are exact: a rounding error near an integer would read another element.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from jaxdml.onnx.nodes._windows import LARGEST_TABLE

_HALF = Fraction(1, 2)


def meant(number: Any) -> Fraction:
    """Return the fraction that a float32 number stands for: one with a small denominator that rounds to it.

    Exporters write scales such as 2 / 3 and 0.7. Float32 has neither, and what it has instead moves places by less
    than an element, but over its edge: 2 / float32(2 / 3) is less than 3.
    """
    exact = Fraction(float(number))
    simple = (exact.limit_denominator(2**bits) for bits in range(24))
    return next((fraction for fraction in simple if np.float32(fraction) == np.float32(number)), exact)


class Sampling(NamedTuple):
    """How one dimension is resized.

    Attributes:
      length: of the input.
      outputs: length of the output.
      factor: length of the output, before it was rounded to ``outputs``, over that of the input.
      mode: ONNX's ``coordinate_transformation_mode``.
      region: where the region of interest starts and ends, 1 being the last element; only for tf_crop_and_resize.
    """

    length: int
    outputs: int
    factor: Fraction
    mode: str
    region: tuple[Fraction, Fraction]


class Places(NamedTuple):
    """Exact places in the input, one for each element of the output: ``numerators / denominator``."""

    numerators: np.ndarray
    denominator: int

    def outside(self, length: int) -> np.ndarray:
        """Return which are before the first of so many elements, or after the last one."""
        return (self.numerators < 0) | (self.numerators > (length - 1) * self.denominator)

    def rounded(self, nearest_mode: str) -> np.ndarray:
        """Return the nearest integer places."""
        shift = {"round_prefer_floor": -1, "round_prefer_ceil": 1}.get(nearest_mode, 0)
        twice, by = 2 * self.numerators + shift * self.denominator, 2 * self.denominator
        return -(-twice // by) if nearest_mode in ("ceil", "round_prefer_floor") else twice // by


def originals(sampling: Sampling) -> Places:
    """Return the place in the input for each element of the output."""
    if sampling.outputs > LARGEST_TABLE:
        raise NotImplementedError(f"an output of length {sampling.outputs}; at most {LARGEST_TABLE} is supported")
    start, step = _line(sampling) if sampling.outputs else (Fraction(), Fraction())
    denominator = math.lcm(start.denominator, step.denominator)
    first, more = int(start * denominator), int(step * denominator)
    largest = abs(first) + sampling.outputs * abs(more) + sampling.length * denominator
    integer = np.int64 if 4 * largest < 2**63 else object  # Python's integers have no largest.
    return Places(first + np.arange(sampling.outputs).astype(integer) * more, denominator)


def _line(sampling: Sampling) -> tuple[Fraction, Fraction]:
    """Return the place of the first result, and the step to the next one."""
    n, outputs, factor = sampling.length, sampling.outputs, sampling.factor
    last, one = n - 1, outputs == 1
    start, end = sampling.region
    half_pixel = _HALF / factor - _HALF
    # ONNX's text and onnxruntime divide by ``outputs - 1`` here too, but ONNX's tests by the width before rounding.
    corner = 1 if one else n * factor - 1
    lines: Mapping[str, Callable[[], tuple[Any, Any]]] = {
        "half_pixel": lambda: (half_pixel, 1 / factor),
        "asymmetric": lambda: (0, 1 / factor),
        "pytorch_half_pixel": lambda: (0 if one else half_pixel, 1 / factor),
        "tf_half_pixel_for_nn": lambda: (_HALF / factor, 1 / factor),
        "half_pixel_symmetric": lambda: (half_pixel + (n - outputs / factor) / 2, 1 / factor),
        "align_corners": lambda: (0, last / Fraction(corner)),
        "tf_crop_and_resize": lambda: (
            ((start + end) * last / 2, 0) if one else (start * last, (end - start) * last / (outputs - 1))
        ),
    }
    first, step = lines[sampling.mode]()
    return Fraction(first), Fraction(step)


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
      antialias: whether the weights spread as the dimension shrinks.

    Returns:
      Indices ``[taps, outputs]``, and weights like them; None for nearest.
    """
    places = originals(sampling)
    if mode == "nearest":
        way = ("ceil" if sampling.factor < 1 else "floor") if nearest_mode == "simple" else nearest_mode
        return _clipped(places.rounded(way)[None], sampling.length), None
    support, weigh = KERNELS[mode]
    shrink = min(sampling.factor, Fraction(1)) if antialias and sampling.outputs else Fraction(1)
    reach = math.ceil(support / shrink)
    steps = np.arange(1 - reach, 1 + reach)[:, None]
    lower, rest = np.divmod(places.numerators, places.denominator)
    at = lower + steps
    weights = weigh((steps - (rest / places.denominator).astype(np.float64)) * float(shrink), cubic_coeff_a)
    if exclude_outside:
        weights = np.where((at >= 0) & (at < sampling.length), weights, 0)
    total = weights.sum(0)
    return _clipped(at, sampling.length), weights / np.where(total == 0, 1, total)


def _clipped(indices: np.ndarray, length: int) -> np.ndarray:
    return np.clip(indices, 0, length - 1).astype(np.int64)


def _triangle(x: Any, _: float) -> Any:
    return (1 - abs(x)).clip(0)


def keys(x: Any, a: float) -> Any:
    """Return the weights of a cubic convolution at distances, in NumPy or JAX."""
    x = abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return near * (x <= 1) + far * ((x > 1) & (x < 2))


KERNELS: Mapping[str, tuple[int, Callable[[Any, float], Any]]] = {"linear": (1, _triangle), "cubic": (2, keys)}
"""How far each way of interpolation reaches, and how it weighs distances, in NumPy or JAX."""
