"""Operators on quantized values whose scales and zero points are known while tracing, as they are in most models.

Then NumPy proves that a short formula rounds every possible sum correctly, and a CPU or a GPU needs no other way to
round. Each function returns None where something is not known, or where there is no proof.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from jaxdml._arithmetic.windows import Windows
from jaxdml._base.dtypes import QUANTIZED
from jaxdml._base.shapes import is_static
from jaxdml._kernels import known_scales
from jaxdml._kernels.known_scales import Rounding, Stored
from jaxdml._kernels.quantization import float64_quotient
from jaxdml._kernels.requantization.proved_rounding import (
    ON_CPU,
    ON_CUDA,
    Arithmetic,
    proved_addends,
    proved_multipliers,
)
from jaxdml._placement.when_lowered import Form
from jaxdml.onnx._stored import Filters, on_device
from jaxdml.onnx._values import Dequantized, Quantization, channels_first, channels_last, right_matrix

_PADDING = "start_padding", "end_padding"


def convolution(
    x: Dequantized, w: Dequantized, bias: Any, out: Quantization, dtype: Any, options: dict[str, Any], order: Any
) -> jax.Array | None:
    """Convolve as ``_integers.convolution`` does; the result has channels last."""
    filters, images = w.integers, channels_last(x.integers)
    if not isinstance(filters, Filters) or filters.sums is None or filters.ndim < 3:
        return None
    features, depth, *sizes = filters.shape
    groups = options["group_count"]
    if not is_static(*images.shape) or images.shape[-1] != depth * groups or features % groups or not images.size:
        return None
    settled = _settled(x, w, bias, out, dtype, math.prod(sizes) * depth, features)
    if settled is None:
        return None
    of_x, of_w = x.quantization[:2], w.quantization[:2]
    windows = Windows(tuple(range(1, images.ndim - 1)), tuple(sizes), **_placed(options), groups=groups)

    meaning, _ = settled
    form = partial(partial, known_scales.convolve, *settled, windows)
    images_of, _, results_of = order
    of_stored = "".join(("OI" + images_of[1:-1])[d] for d in filters.order)

    def by_operator(x: jax.Array, w: jax.Array) -> jax.Array:
        zero = None if meaning.w_zero_point is None else meaning.w_zero_point.astype(np.int8)
        unpadded = options | dict.fromkeys(_PADDING, 0) | {"dimension_numbers": (images_of, of_stored, results_of)}
        return jaxdml.convolution_integer(x, None, w, zero, **unpadded)

    def otherwise(x: jax.Array, w: jax.Array, sums: jax.Array) -> jax.Array:
        operands = (x, *of_x, replace(filters, array=w, sums=sums).whole(), *of_w, bias, *out[:2])
        return jaxdml.quantized_linear_convolution(*operands, output_dtype=dtype, dimension_numbers=order, **options)

    on_cpu = partial(known_scales.sums_on_cpu, windows, meaning.w_zero_point, filters.by_rows)
    operands = images, filters.array, filters.sums
    return known_scales.where_proved(otherwise, *operands, cpu=form(ON_CPU, on_cpu), cuda=form(ON_CUDA, by_operator))


def _settled(
    x: Dequantized, w: Dequantized, bias: Any, out: Quantization, dtype: Any, depth: int, features: int
) -> tuple[Stored, Rounding] | None:
    """Return what is known of sums of ``depth`` products, for so many filters, and of their rounding, or None."""
    of_x, of_w = x.quantization[:2], w.quantization[:2]
    one = (*of_x, *out[:2])
    if not (_known(x.integers.dtype, of_x) and _known(w.integers.dtype, of_w) and _known(dtype, out)):
        return None
    if not all(_fits(part, 1) for part in one) or not all(_fits(part, features) for part in (*of_w, bias)):
        return None
    if bias is not None and bias.dtype != np.int32:
        return None
    zx = _zero(x.quantization, x.integers.dtype)
    zero = np.asarray(0 if w.quantization.zero_point is None else w.quantization.zero_point)
    zw = zero.astype(np.int32).reshape(-1) - (128 if w.integers.dtype == np.uint8 else 0)
    greatest = depth * _reach(zx) * max(map(_reach, zw.tolist()))
    if bias is not None:
        greatest += int(np.abs(bias.astype(np.int64)).max())
    multipliers = proved_multipliers(x.quantization.scale, w.quantization.scale, out.scale, greatest)
    if multipliers is None:
        return None
    meaning = Stored(zx, zw if zw.any() else None, None if bias is None else bias.reshape(-1))
    return meaning, Rounding(multipliers, _integer(out), np.dtype(dtype))


def multiply_matrices(
    a: Dequantized, b: Dequantized, bias: Any, out: Quantization, dtype: Any, otherwise: Callable[..., jax.Array]
) -> jax.Array | None:
    """Multiply ``[..., M, K]`` by ``[K, N]``, or by ``Filters`` ``[N, K]``; ``otherwise`` takes both as arrays."""
    left, right = on_device(channels_first(a.integers)), b.integers
    by_columns = isinstance(right, Filters)
    w, sums = (right.array, right.sums) if by_columns else (on_device(channels_first(right)), None)
    if not is_static(*left.shape, *w.shape) or left.ndim < 2 or w.ndim != 2 or not left.size * w.size:
        return None
    depth, features = w.shape[::-1] if by_columns else w.shape
    settled = _settled(a, b, bias, out, dtype, depth, features) if left.shape[-1] == depth else None
    if settled is None:
        return None

    meaning, rounding = settled

    def on_cpu(x: jax.Array, w: jax.Array, sums: jax.Array | None) -> jax.Array:
        return known_scales.multiply_matrices(*settled, by_columns, x, w, sums)

    def by_operator(x: jax.Array, w: jax.Array, sums: jax.Array | None) -> jax.Array:
        packed = w if sums is None else jaxdml.PackedMatrix(matrix=w, sums=sums, dtype=right.dtype, k=depth)
        total = jaxdml.matrix_multiply_integer(x, a.quantization.zero_point, packed, b.quantization.zero_point)
        return known_scales.rounded(ON_CUDA, rounding, total if meaning.bias is None else total + meaning.bias)

    def general(x: jax.Array, w: jax.Array, sums: jax.Array | None) -> jax.Array:
        return otherwise(x, replace(right, array=w, sums=sums).whole() if by_columns else w)

    return known_scales.where_proved(general, left, w, sums, cpu=on_cpu, cuda=by_operator)


def quantized(quantize: Form, x: jax.Array, out: Quantization, dtype: Any, moved: bool) -> jax.Array:
    """Return ``quantize(x)``, floats as integers of ``dtype``; ``moved``: they are likely to be transposed next."""
    if not is_static(*x.shape) or not x.size or not _known(dtype, out):
        return quantize(x)
    x = lax.stop_gradient(x)  # What runs by platform has no derivative, and integers have none.
    is_kept = moved and x.ndim > 2 and str(dtype) in QUANTIZED

    def on_cpu(form: Form) -> Form:
        return partial(known_scales.stored_integers, form) if is_kept else form

    if not out.whole or x.dtype != np.float32 or not float64_quotient.are_ordinary(out.scale):
        return known_scales.where_proved(quantize, x, cpu=on_cpu(quantize))
    scale = out.scale.reshape(())
    zero = None if out.zero_point is None else np.int32(out.zero_point.reshape(()))

    def with_scale(form: Form) -> Form:
        # Within the form, or these would be traced values of the caller.
        return lambda x: form(x, jnp.asarray(scale), None if zero is None else jnp.asarray(zero), np.dtype(dtype))

    cpu, cuda = map(with_scale, (float64_quotient.quantize, float64_quotient.quantize_by_conversion))
    return known_scales.where_proved(quantize, x, cpu=on_cpu(cpu), cuda=cuda)


def kept(x: jax.Array) -> jax.Array:
    """Return 8-bit integers, stored by a CPU before they are transposed or read by windows."""
    if not is_static(*x.shape) or x.ndim < 3 or not x.size:
        return x
    return known_scales.where_proved(_itself, x, cpu=partial(known_scales.stored_integers, _itself))


def _itself(x: jax.Array) -> jax.Array:
    return x


def matrix_multiply(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> jax.Array | None:
    """Multiply matrices; ``b`` may be packed, and have a scale for each column."""
    left, right = on_device(channels_first(a.integers)), right_matrix(b.integers)
    parts = (*a.quantization[:2], *b.quantization[:2], *out[:2])
    if not is_static(*left.shape, *right.shape) or np.size(parts[0]) > 1 or np.ndim(parts[2]) > 1:
        return None
    settled = _settled(a, b, None, out, dtype, left.shape[-1], right.shape[-1])
    if settled is None:
        return None
    _, rounding = settled

    def form(on: Arithmetic, left: jax.Array, right: Any) -> jax.Array:
        return known_scales.rounded(on, rounding, jaxdml.matrix_multiply_integer(left, parts[1], right, parts[3]))

    def otherwise(left: jax.Array, right: Any) -> jax.Array:
        operands = (left, *parts[:2], right, *parts[2:4], *parts[4:])
        return jaxdml.quantized_linear_matrix_multiply(*operands, output_dtype=dtype)

    return known_scales.where_proved(otherwise, left, right, cpu=partial(form, ON_CPU), cuda=partial(form, ON_CUDA))


def add(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> Callable[..., jax.Array] | None:
    """Return what adds two arrays of integers that broadcast, given an ``Arithmetic``, or None."""
    if not _all_known(a, b, out, dtype):
        return None
    zeros = _zero(a.quantization, a.integers.dtype), _zero(b.quantization, b.integers.dtype)
    each = np.arange(-128, 128)
    by = proved_addends(a.quantization.scale, b.quantization.scale, out.scale, each - zeros[0], each - zeros[1])
    return None if by is None else partial(known_scales.add, by, zeros, _integer(out), np.dtype(dtype))


def multiply(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> Callable[..., jax.Array] | None:
    """Return what multiplies two arrays of integers that broadcast, given an ``Arithmetic``, or None."""
    if not _all_known(a, b, out, dtype):
        return None
    zeros = _zero(a.quantization, a.integers.dtype), _zero(b.quantization, b.integers.dtype)
    multipliers = proved_multipliers(a.quantization.scale, b.quantization.scale, out.scale, 255 * 255)
    rounding = multipliers is not None and Rounding(multipliers, _integer(out), np.dtype(dtype))
    return partial(known_scales.multiply, rounding, zeros) if rounding else None


def _all_known(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> bool:
    return all(_known(x.integers.dtype, x.quantization) for x in (a, b)) and _known(dtype, out)


def _placed(options: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(options[name]) for name in ("strides", "dilations", *_PADDING)}


def _known(dtype: Any, quantization: Any) -> bool:
    """Whether a scale and a zero point, of this dtype or None, are known while tracing."""
    scale, zero = quantization[:2]
    return isinstance(scale, np.ndarray) and (
        zero is None or (isinstance(zero, np.ndarray | np.generic) and zero.dtype == dtype)
    )


def _fits(part: Any, count: int) -> bool:
    """Whether a part that is known, or None, has one value or so many."""
    return part is None or (isinstance(part, np.ndarray | np.generic) and part.size in (1, count))


def _integer(quantization: Quantization) -> int:
    zero = quantization.zero_point
    return 0 if zero is None else int(np.asarray(zero).reshape(()))


def _zero(quantization: Quantization, dtype: Any) -> int:
    """Return the zero point of integers that are stored as int8."""
    return _integer(quantization) - (128 if dtype == np.uint8 else 0)


def _reach(zero_point: int) -> int:
    """Return the greatest magnitude of an int8 less its zero point."""
    return max(zero_point + 128, 127 - zero_point)
