"""Operators on quantized values whose scales and zero points are known while tracing, as they are in most models.

Then NumPy proves that a short formula rounds every possible sum correctly, and a CPU needs no other way to round. Each
function returns None where something is not known, or where there is no proof.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

import jaxdml
from jaxdml._algorithms.quantized.proved_rounding import proved_addends, proved_multipliers
from jaxdml._algorithms.quantized.windows import Windows
from jaxdml._base.shapes import is_static
from jaxdml._lowerings import known_scales
from jaxdml._lowerings.known_scales import Rounding, Stored
from jaxdml.onnx._values import (
    ChannelsLast,
    Dequantized,
    Filters,
    Quantization,
    channels_first,
    channels_last,
    on_device,
    right_matrix,
)

_PADDING = "start_padding", "end_padding"


def convolution(
    x: Dequantized, w: Dequantized, bias: Any, out: Quantization, dtype: Any, options: dict[str, Any], order: Any
) -> jax.Array | None:
    """Convolve as ``_integers.convolution`` does; the result has channels last."""
    filters, images = w.integers, channels_last(x.integers)
    parts = (*x.quantization[:2], *w.quantization[:2], *out[:2], bias)
    if not (isinstance(filters, Filters) and filters.sums is not None and _known(*parts)):
        return None
    *sizes, depth, features = filters.array.shape
    groups = options["group_count"]
    if not is_static(*images.shape) or images.shape[-1] != depth * groups or features % groups or not images.size:
        return None
    zx = _zero(x.quantization, images.dtype)
    zw = _zeros(w.quantization, filters.dtype)
    biases = None if bias is None else np.asarray(bias, np.int32).reshape(-1)
    greatest = int(np.prod(sizes)) * depth * _reach(zx) * max(map(_reach, zw.tolist())) + (
        0 if biases is None else int(np.abs(biases.astype(np.int64)).max())
    )
    multipliers = proved_multipliers(x.quantization.scale, w.quantization.scale, out.scale, greatest)
    if multipliers is None:
        return None
    windows = Windows(tuple(range(1, images.ndim - 1)), tuple(sizes), **_placed(options), groups=groups)
    stored = Stored(zx, zw if zw.any() else None, biases)
    rounding = Rounding(multipliers, _integer(out), np.dtype(dtype))

    def form(x: jax.Array, w: jax.Array, sums: jax.Array) -> jax.Array:
        return known_scales.convolve(stored, rounding, windows, x, w, sums)

    def otherwise(x: jax.Array, w: jax.Array, sums: jax.Array) -> jax.Array:
        whole = Filters(w, sums, filters.dtype).whole()
        operands = (x, *parts[:2], whole, *parts[2:4], bias, *parts[4:6])
        return jaxdml.quantized_linear_convolution(*operands, output_dtype=dtype, dimension_numbers=order, **options)

    return known_scales.on_one_cpu(form, otherwise, images, filters.array, filters.sums)


def gemm(a: Dequantized, b: Dequantized, bias: Any, out: Quantization, dtype: Any) -> jax.Array | None:
    """Multiply ``[M, K]`` by ``Filters`` of no spatial dimensions, and add a bias: windows of one element."""
    if not isinstance(b.integers, Filters):
        return None
    w = replace(b.integers, array=b.integers.array[None])
    x = replace(a, integers=ChannelsLast(on_device(channels_first(a.integers))[:, None]), _floats=[])
    whole = None if bias is None else np.broadcast_to(bias.reshape(-1), w.shape[:1]) if _known(bias) else bias
    options = {**dict.fromkeys(("strides", "dilations"), (1,)), **dict.fromkeys(_PADDING, (0,)), "group_count": 1}
    order = ("NWC", "OIW", "NWC")
    result = convolution(x, replace(b, integers=w, _floats=[]), whole, out, dtype, options, order)
    return None if result is None else result[:, 0]


def matrix_multiply(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> jax.Array | None:
    """Multiply matrices. ``b`` may have a scale for each column."""
    left, right = on_device(channels_first(a.integers)), right_matrix(b.integers)
    parts = (*a.quantization[:2], *b.quantization[:2], *out[:2])
    if not (_known(*parts) and is_static(*left.shape, *right.shape)) or np.size(parts[0]) > 1 or np.ndim(parts[2]) > 1:
        return None
    reaches = (
        max(map(_reach, _zeros(a.quantization, left.dtype))),
        max(map(_reach, _zeros(b.quantization, right.dtype))),
    )
    greatest = left.shape[-1] * int(reaches[0]) * int(reaches[1])
    multipliers = proved_multipliers(a.quantization.scale, b.quantization.scale, out.scale, greatest)
    if multipliers is None:
        return None
    rounding = Rounding(multipliers, _integer(out), np.dtype(dtype))

    def form(left: jax.Array, right: Any) -> jax.Array:
        sums = jaxdml.matrix_multiply_integer(left, parts[1], right, parts[3])
        return known_scales.rounded(sums, rounding)

    def otherwise(left: jax.Array, right: Any) -> jax.Array:
        operands = (left, *parts[:2], right, *parts[2:4], *parts[4:])
        return jaxdml.quantized_linear_matrix_multiply(*operands, output_dtype=dtype)

    return known_scales.on_one_cpu(form, otherwise, left, right)


def add(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> Callable[..., jax.Array] | None:
    """Return what adds two arrays of integers that broadcast, or None."""
    if not _known(*a.quantization[:2], *b.quantization[:2], *out[:2]):
        return None
    zeros = _zero(a.quantization, a.integers.dtype), _zero(b.quantization, b.integers.dtype)
    each = np.arange(-128, 128.0)
    factors = proved_addends(a.quantization.scale, b.quantization.scale, out.scale, each - zeros[0], each - zeros[1])
    return None if factors is None else partial(known_scales.add, factors, zeros, _integer(out), np.dtype(dtype))


def multiply(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> Callable[..., jax.Array] | None:
    """Return what multiplies two arrays of integers that broadcast, or None."""
    if not _known(*a.quantization[:2], *b.quantization[:2], *out[:2]):
        return None
    zeros = _zero(a.quantization, a.integers.dtype), _zero(b.quantization, b.integers.dtype)
    multipliers = proved_multipliers(a.quantization.scale, b.quantization.scale, out.scale, 255 * 255)
    rounding = multipliers is not None and Rounding(multipliers, _integer(out), np.dtype(dtype))
    return partial(known_scales.multiply, rounding, zeros) if rounding else None


def _placed(options: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(options[name]) for name in ("strides", "dilations", *_PADDING)}


def _known(*parts: Any) -> bool:
    """Whether scales, zero points and biases are known while tracing, or None."""
    return all(part is None or isinstance(part, np.ndarray | np.generic) for part in parts)


def _integer(quantization: Quantization) -> int:
    zero = quantization.zero_point
    return 0 if zero is None else int(np.asarray(zero).reshape(()))


def _zero(quantization: Quantization, dtype: Any) -> int:
    """Return the zero point of integers that are stored as int8."""
    return _integer(quantization) - (128 if dtype == np.uint8 else 0)


def _zeros(quantization: Quantization, dtype: Any) -> np.ndarray:
    """Return the zero points of filters that are stored as int8."""
    zero = np.asarray(0 if quantization.zero_point is None else quantization.zero_point)
    return zero.astype(np.int32).reshape(-1) - (128 if dtype == np.uint8 else 0)


def _reach(zero_point: int) -> int:
    """Return the greatest magnitude of an int8 less its zero point."""
    return max(zero_point + 128, 127 - zero_point)
