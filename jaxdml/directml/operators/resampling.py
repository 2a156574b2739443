"""Operators that resample: along each dimension at places that offsets and scales give, and their gradients."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base.axis_direction import AxisDirection
from jaxdml._networks.resampling import along
from jaxdml._networks.transposes import transposed
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike_in_kind, sized
from jaxdml.directml._enums import InterpolationMode
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing


class Sampling(NamedTuple):
    """Hold how one dimension is resampled: output ``o`` lies at ``(o - after) / scale - before`` of the input."""

    scale: float
    before: float
    after: float
    round_up: bool | None
    """Where the nearest element is asked for: up, down, or None to the nearer one."""

    linear: bool
    antialiased: bool

    def taps(self, length: int, outputs: int) -> tuple[Any, Any]:
        """Return which elements make up each output, ``[taps, outputs]``, and their weights; None for the nearest."""
        # A division of float32 hits more of the places that are exact than a product by the reciprocal.
        scale = np.float32(self.scale)
        places = (np.arange(outputs, dtype=np.float32) - np.float32(self.after)) / scale - np.float32(self.before)
        if not self.linear:
            shifted = places + np.float32(0.5) if self.round_up is None else places
            return _clipped((np.ceil if self.round_up else np.floor)(shifted)[None], length), None
        shrink = min(float(self.scale), 1.0) if self.antialiased else 1.0
        reach = math.ceil(1 / shrink)
        low = np.floor(places)
        steps = np.arange(1 - reach, 1 + reach)[:, None]
        weights = (1 - np.abs(steps - (places - low)) * shrink).clip(0)
        at = low + steps
        if self.antialiased:
            # What is outside weighs nothing; without it the edge's element stands for it.
            weights = np.where((at >= 0) & (at < length), weights, 0)
            total = weights.sum(0)
            weights = weights / np.where(total == 0, 1, total)
        return _clipped(at, length), weights


def _clipped(places: Any, length: int) -> Any:
    return np.clip(places, 0, length - 1).astype(np.int64)


def _resampled(samplings: Sequence[Sampling], sizes: Sequence[int], x: Any) -> Any:
    """Resample every dimension of an array to ``sizes``; integers are rounded to the nearest, ties to even."""
    result = x.astype(jnp.float32) if samplings[0].linear else x
    for axis, (sampling, size) in enumerate(zip(samplings, sizes, strict=True)):
        indices, weights = sampling.taps(x.shape[axis], size)
        if size != x.shape[axis] or (indices != np.arange(size)).any() or weights is not None:
            with jax.numpy_rank_promotion("allow"):
                result = along(jnp, result, axis, indices, weights)
    if jnp.issubdtype(x.dtype, jnp.integer) and result.dtype != x.dtype:
        limits = jnp.iinfo(x.dtype)
        result = jnp.clip(jnp.round(result), limits.min, limits.max)
    return result.astype(x.dtype)


def _samplings(desc: Any) -> list[Sampling]:
    """Return how each dimension is resampled, whatever fields the struct has for that."""
    count = len(desc.scales)
    before = getattr(desc, "input_pixel_offsets", (0.5,) * count)
    after = getattr(desc, "output_pixel_offsets", (-0.5,) * count)
    direction = getattr(desc, "rounding_direction", None)
    up = None if direction is None else direction == AxisDirection.INCREASING
    linear = desc.interpolation_mode == InterpolationMode.LINEAR
    smooth = linear and bool(getattr(desc, "antialiased", False))
    return [Sampling(*each, up, linear, smooth) for each in zip(desc.scales, before, after, strict=True)]


def _resample(desc: Any, x: Any) -> Any:
    return _resampled(_samplings(desc), desc.output_tensor.sizes, x)


def _gradient(desc: Any, gradient: Any) -> Any:
    """Transpose the resampling whose result has this gradient."""
    resampled = partial(_resampled, _samplings(desc), gradient.shape)
    return transposed(resampled, desc.output_gradient_tensor.sizes, gradient)


def _upsample(desc: Any, x: Any) -> Any:
    """Repeat the elements of an image, or interpolate between their centers."""
    scales = [*(1,) * (x.ndim - 2), desc.scale_size.height, desc.scale_size.width]
    linear = desc.interpolation_mode == InterpolationMode.LINEAR
    offsets = (0.5, -0.5) if linear else (0.0, 0.0)
    samplings = [Sampling(scale, *offsets, False, linear, False) for scale in scales]
    return _resampled(samplings, desc.output_tensor.sizes, x)


def _constraints(desc: Any) -> Violations:
    first, second = desc.tensors
    yield from alike_in_kind(desc, first, second)
    rank = desc.tensors[first].dimension_count
    if len(desc.scales) != rank:
        yield Violation("Scales", f"must have {rank} numbers, one for each dimension of {c_field(first)}", desc.scales)
    if not all(0 < scale < math.inf for scale in desc.scales):
        yield Violation("Scales", "must be greater than 0, and finite", desc.scales)


def _upsample_constraints(desc: Any) -> Violations:
    yield from alike_in_kind(desc, "input_tensor", "output_tensor")
    width, height = desc.scale_size
    if not width or not height:
        yield Violation("ScaleSize", "must be greater than 0", desc.scale_size)
        return
    sizes = desc.input_tensor.sizes
    times = ((1,) * len(sizes) + (height, width))[2:]
    want = tuple(size * each for size, each in zip(sizes, times, strict=True))
    yield from sized(desc, "output_tensor", "those of InputTensor times ScaleSize", want)


_BOTH, _GRADIENTS = "input_tensor output_tensor", "input_gradient_tensor output_gradient_tensor"


def _operator(number: int, counts: str, tensors: tuple[str, str], doc: str, compute: Callable[..., Any]) -> Operator:
    fields = {"scales": "how many times as long each dimension becomes."}
    return Operator(number, growing(counts, tensors), compute, _constraints, doc=doc, fields=fields)


_DOC = "Resample each dimension at places that scales and offsets give: the nearest element, or linearly."
_DOC_OF_GRADIENT = "Return the gradient of a resampling in its input: the transpose, with the resampling's own scales."

OPERATORS: Mapping[str, Operator] = {
    "UPSAMPLE_2D": Operator(
        *(66, growing("1_0 4-5", (_BOTH, "1_0 F")), _upsample, _upsample_constraints),
        doc="Enlarge the last two dimensions a whole number of times: repeat elements, or interpolate linearly.",
    ),
    "RESAMPLE": _operator(96, "2_0 4, 5_1 1-4", (_BOTH, "2_0 F"), _DOC, _resample),
    "RESAMPLE1": _operator(116, "2_1 4, 5_1 1-4", (_BOTH, "2_1 F"), _DOC, _resample),
    "RESAMPLE2": _operator(161, "5_1 1-4", (_BOTH, "5_1 F, 6_2 F+INT8+UINT8"), _DOC, _resample),
    "RESAMPLE3": _operator(175, "6_4 1-4", (_BOTH, "6_4 F+INT8+UINT8"), _DOC, _resample),
    "RESAMPLE_GRAD": _operator(134, "3_0 4, 5_1 1-4", (_GRADIENTS, "3_0 F"), _DOC_OF_GRADIENT, _gradient),
    "RESAMPLE_GRAD1": _operator(162, "5_1 1-4", (_GRADIENTS, "5_1 F"), _DOC_OF_GRADIENT, _gradient),
}
