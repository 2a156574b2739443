"""Resize and Upsample: one dimension after another, at places that are known while tracing."""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml._networks.resampling import along
from jaxdml.onnx.nodes import resizing_grid
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._interpolation import Sampling, meant, originals, taps
from jaxdml.onnx.nodes._sizes import different_axes, namespace, refusal
from jaxdml.onnx.values.kinds import Value, computed, is_host
from jaxdml.onnx.values.stored import stored, stored_axis, widened

_WHOLE = (Fraction(0), Fraction(1))
"""The region of interest that is all of a dimension."""

_ROUNDING = 2.0**-10
"""More than the rounding errors of interpolated 8-bit integers."""


def _resize(
    call: NodeCall,
    X: Value,
    roi: np.ndarray | None = None,
    scales: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] = (),
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    axes = different_axes(axes, X.ndim) or range(X.ndim)
    regions: Iterable[tuple[Fraction, Fraction]] = [_WHOLE] * len(axes)
    if coordinate_transformation_mode == "tf_crop_and_resize" and roi is not None:
        regions = zip(*(map(meant, ends) for ends in roi.reshape(2, -1)), strict=True)
    lengths = [X.shape[axis] for axis in axes]
    if scales is not None and scales.size:
        targets = [by_factor(n, factor) for n, factor in zip(lengths, scales, strict=True)]
    elif sizes is None:
        raise ValueError(f"{call.node} has neither scales nor sizes")
    else:
        targets = _of_sizes(lengths, sizes.tolist(), keep_aspect_ratio_policy)
    samplings = [
        (axis, Sampling(n, *target, coordinate_transformation_mode, region))
        for axis, n, target, region in zip(axes, lengths, targets, regions, strict=True)
        if target[-1] != 1 or region != _WHOLE
    ]
    rule = (mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias))
    return _resized(X, samplings, rule, extrapolation_value)


def by_factor(length: Any, factor: Any) -> tuple[Any, Fraction]:
    """Return the length of the output, as ONNX infers it in float32, and the factor."""
    if not 0 < factor < np.inf:
        raise refusal(f"a scale must be above 0 and finite; got {factor}.")
    # A dimension that is not resized may be symbolic.
    return length if factor == 1 else int(np.float32(length) * np.float32(factor)), meant(factor)


def _of_sizes(lengths: list[Any], sizes: list[Any], policy: str) -> list[tuple[Any, Fraction]]:
    """Return the same as ``_by_factor`` for wanted lengths."""
    factors = [Fraction(1) if size == n else _factor(n, size) for n, size in zip(lengths, sizes, strict=True)]
    if policy == "stretch":
        return list(zip(sizes, factors, strict=True))
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [(n if factor == 1 else math.floor(factor * n + Fraction(1, 2)), factor) for n in lengths]


def _factor(length: Any, size: Any) -> Fraction:
    if not length:
        raise refusal(f"a dimension of length 0 has no elements to resize to length {size}.")
    return Fraction(size, length)


def _resized(X: Value, samplings: Sequence[tuple[int, Sampling]], rule: Any, extrapolation_value: float) -> Value:
    value = computed(X)
    xp: Any = jnp
    if is_host(value) and value.dtype == np.float32:  # Such as what a loop on the host resizes, each turn otherwise.
        outputs = {axis: sampling.outputs for axis, sampling in samplings}
        xp = namespace(np, [outputs.get(axis, n) for axis, n in enumerate(value.shape)], value.dtype)
    x, wrap = (value, lambda array: array) if xp is np else stored(value)
    result = x if rule[0] == "nearest" else widened(x)
    for axis, sampling in samplings:
        at = stored_axis(value, axis)
        result = along(xp, result, at, *taps(sampling, *rule))
    for axis, sampling in samplings:
        at = stored_axis(value, axis)
        crops = sampling.mode == "tf_crop_and_resize"
        if crops and (outside := originals(sampling).outside(sampling.length)).any():
            mask = outside.reshape(-1, *(1,) * (x.ndim - 1 - at))
            result = xp.where(mask, xp.asarray(extrapolation_value, result.dtype), result)
    return wrap(as_was(result, x.dtype))


def as_was(result: Any, dtype: Any) -> Any:
    """Return what was interpolated in the type of the images."""
    if jnp.issubdtype(dtype, jnp.integer) and result.dtype != dtype:
        # The cast cuts the fraction off, so that what is an integer but for rounding must become one first.
        limits, nearest = jnp.iinfo(dtype), jnp.round(result)
        result = jnp.where(jnp.abs(result - nearest) < _ROUNDING, nearest, result)
        result = jnp.clip(result, limits.min, limits.max)
    return result.astype(dtype)


def _resize_10(call: NodeCall, X: Value, scales: np.ndarray, *, mode: str = "nearest") -> Value:
    mode = {"bilinear": "linear"}.get(mode, mode)
    # Where a dimension shrinks, onnxruntime and the models made for it round up.
    samplings = [
        (axis, Sampling(n, *by_factor(n, factor), "asymmetric", _WHOLE))
        for axis, (n, factor) in enumerate(zip(X.shape, scales, strict=True))
        if factor != 1
    ]
    return _resized(X, samplings, (mode, "simple", -0.75, False, False), 0.0)


def _upsample_7(call: NodeCall, X: Value, *, scales: Sequence[float], mode: str = "nearest") -> Value:
    return _resize_10(call, X, np.asarray(scales, np.float32), mode=mode)


TABLE: Table = {
    **resizing_grid.TABLE,
    "Resize": (
        Handler(10, _resize_10, raw=True, static="scales"),
        Handler(11, _resize, raw=True, static="roi scales sizes"),
    ),
    "Upsample": (
        Handler(7, _upsample_7, raw=True),
        Handler(9, _resize_10, raw=True, static="scales"),
    ),
}
