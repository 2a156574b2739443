"""Operators on quantized values: each means real numbers that are rounded once.

They serve groups of nodes that dequantize, compute and quantize, and the operators of com.microsoft. Operands are
``Dequantized`` values of 8-bit integers with one scale, unless it is said otherwise. ``out`` and ``dtype`` say how to
store the result.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml._base.dtypes import QUANTIZED
from jaxdml._base.shapes import is_static
from jaxdml._networks import limbs, projection, quantized_sums
from jaxdml._networks.normalization import normalized_integers
from jaxdml._networks.packed_projections import Projection, Sum
from jaxdml._networks.softmax import BEYOND, normalized_exponentials
from jaxdml.onnx.integers import tables
from jaxdml.onnx.values.kinds import (
    Dequantized,
    Projected,
    Quantization,
    alike,
    channels_first,
    channels_last,
    right_matrix,
)
from jaxdml.onnx.values.stored import ChannelsLast, HeadsFirst, Transposed, on_device, stored_axis


def has_8_bits(value: Any) -> bool:
    """Whether a value is dequantized from 8-bit integers."""
    return (
        isinstance(value, Dequantized) and str(value.integers.dtype) in QUANTIZED and not value.quantization.block_size
    )


def is_simple(value: Any) -> bool:
    """Whether a value is dequantized from 8-bit integers with one scale."""
    return has_8_bits(value) and value.quantization.per_tensor


def mapped(x: Dequantized, out: Quantization, dtype: Any, real: tables.Real = tables.identity) -> Any:
    """Apply a real function to every element; None where a scale or zero point is not known while tracing."""
    if real is tables.identity and x.quantization.same_as(out) and x.integers.dtype == dtype:
        return x.integers
    if not (tables.known(x.quantization) and tables.known(out)):
        return None
    entries = tables.table(real, x.quantization, x.integers.dtype, out, dtype)
    if isinstance(x.integers, Projected) and not x.integers.heads and not tables.is_identity(entries, x.integers.dtype):
        return projection.looked_up(x.integers.product, entries)
    return tables.look_up(entries, x.integers)


def add(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> Any:
    """Add two arrays, which broadcast."""
    if isinstance(a.integers, np.ndarray):
        a, b = b, a
    if isinstance(a.integers, Projected) and (summed := _summed(a, b, out, dtype)):
        return summed
    (first, second), wrap = alike(a.integers, b.integers)
    is_reordered = wrap is ChannelsLast or (wrap is HeadsFirst and b.ndim > a.ndim - 2)
    if isinstance(b.integers, np.ndarray) and not is_reordered:
        second = b.integers  # It stays known.
    operands = (first, *a.quantization[:2], second, *b.quantization[:2])
    return wrap(quantized_sums.add(*operands, *out[:2], output_dtype=dtype))


def _summed(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> Projected | None:
    """Add a vector to a product that is not computed yet; None if its matrix is not packed for that."""
    scaled = (a.quantization, a.integers.dtype), (b.quantization, b.integers.dtype), (out, dtype)
    first, second, result = (
        (each.scale, np.zeros((), of) if each.zero_point is None else each.zero_point) for each, of in scaled
    )
    added = Sum(*first, b.integers, *second, *result)
    if added.dtype != dtype or not projection.is_packed_with(a.integers.product, added):
        return None
    return Projected(a.integers.product._replace(added=added))


def multiply(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> Any:
    """Multiply two arrays, which broadcast."""
    a, b = (b, a) if _is_number(a) else (a, b)
    if _is_number(b) and b.ndim <= a.ndim and tables.known(a.quantization) and tables.known(out):
        # Often the scale of the result is that of the array times the number, and then the integers are the same.
        number = tables.fraction(b.quantization.scale) * (
            int(b.integers.item()) - tables.integer(b.quantization.zero_point)
        )
        table = tables.table(lambda value: value * number, a.quantization, a.integers.dtype, out, dtype)
        if tables.is_identity(table, a.integers.dtype):
            return a.integers
    (first, second), wrap = alike(a.integers, b.integers)
    products = centred(first, a.quantization) * centred(second, b.quantization)
    scales = a.quantization.scale, b.quantization.scale
    return wrap(jaxdml.requantize(products, *scales, *out[:2], output_dtype=dtype))


def _is_number(x: Dequantized) -> bool:
    """Whether it is one number that is known while tracing."""
    return isinstance(x.integers, np.ndarray) and x.integers.size == 1 and tables.known(x.quantization)


def centred(integers: jax.Array, quantization: Quantization) -> jax.Array:
    """Return integers minus their zero point, as int32."""
    zero = quantization.zero_point
    widened = integers.astype(jnp.int32)
    return widened if zero is None else widened - jnp.asarray(zero).astype(jnp.int32)


def concatenate(operands: Sequence[Dequantized], axis: int, out: Quantization, dtype: Any) -> Any:
    """Requantize arrays and join them; None where a scale is not known while tracing."""
    parts = [mapped(x, out, dtype) for x in operands]
    if any(part is None for part in parts):
        return None
    axis %= operands[0].ndim
    if axis == 1 and all(isinstance(part, ChannelsLast) for part in parts):
        return ChannelsLast(jnp.concatenate([part.array for part in parts], -1))
    return jnp.concatenate([on_device(channels_first(part)) for part in parts], axis)


def convolution(
    x: Dequantized, w: Dequantized, bias: Any, out: Quantization, dtype: Any, options: dict[str, Any]
) -> ChannelsLast:
    """Convolve. ``w`` may have a scale for each output channel; ``bias`` is int32 in units of both scales, or None."""
    operands = (channels_last(x.integers), *x.quantization[:2], filters(w.integers), *w.quantization[:2], bias)
    result = jaxdml.quantized_linear_convolution(
        *operands, *out[:2], output_dtype=dtype, dimension_numbers=orders(x.ndim), **options
    )
    return ChannelsLast(result)


def convolution_to_float(
    x: Dequantized, w: Dequantized, bias: Any, scale: Any, options: dict[str, Any]
) -> ChannelsLast:
    """Convolve, add the bias as integers, and multiply by a scale in float32."""
    operands = (channels_last(x.integers), x.quantization.zero_point, filters(w.integers), w.quantization.zero_point)
    sums = jaxdml.convolution_integer(*operands, dimension_numbers=orders(x.ndim), **options)
    sums = sums if bias is None else sums + on_device(bias)
    per_tensor = np.size(scale) == 1
    return ChannelsLast(jaxdml.dequantize_linear(sums, scale, axis=None if per_tensor else sums.ndim - 1))


def filters(w: Any) -> jax.Array | jaxdml.PackedFilters:
    """Return the filters of a convolution, packed if they are."""
    return w if isinstance(w, jaxdml.PackedFilters) else on_device(channels_first(w))


def orders(rank: int) -> tuple[str, str, str]:
    """Return the orders of dimensions of images, filters and results: channels last, filters as ONNX has them."""
    spatial = "DHW"[5 - rank :]
    return f"N{spatial}C", f"OI{spatial}", f"N{spatial}C"


def average_pooling(x: Dequantized, out: Quantization, dtype: Any, options: dict[str, Any]) -> ChannelsLast:
    """Average the windows."""
    order = orders(x.ndim)[0]
    result = jaxdml.quantized_linear_average_pooling(
        channels_last(x.integers), *x.quantization[:2], *out[:2], output_dtype=dtype, dimension_numbers=order, **options
    )
    return ChannelsLast(result)


def matrix_multiply(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any, bias: Any = None) -> Any:
    """Multiply matrices. ``b`` may have a scale for each column; ``bias`` is as for ``convolution``."""
    scaled = {"a": a.quantization, "b": b.quantization, "output": out}
    parameters = {f"{name}_scale": each.scale for name, each in scaled.items()}
    parameters |= {f"{name}_zero_point": each.zero_point for name, each in scaled.items()}
    # The right operand follows the left one, since scores, which are large, are left operands. Scales and zero points
    # with a dimension for heads are in ONNX's order; then both operands are, too.
    by_matrix = all(np.ndim(parameter) < 3 for parameter in parameters.values())
    heads_first = isinstance(a.integers, HeadsFirst) and b.ndim == a.ndim and by_matrix
    first, second = alike(a.integers, b.integers)[0] if heads_first else (a.integers, b.integers)
    left = on_device(channels_first(first))
    parameters |= {"output_dtype": np.dtype(dtype), "bias": bias}
    if isinstance(second, Projection) and left.ndim > 1:
        return Projected(projection.Product(left, second, parameters))
    result = jaxdml.quantized_linear_matrix_multiply(left, b=right_matrix(second), **parameters)
    return HeadsFirst(result) if heads_first else result


def matrix_multiply_to_float(a: Dequantized, b: Dequantized, bias: Any = None) -> jax.Array:
    """Multiply matrices to float32. ``b`` may have a scale for each column."""
    left, right = on_device(channels_first(a.integers)), right_matrix(b.integers)
    return jaxdml.matrix_multiply_integer_to_float(left, *a.quantization[:2], right, *b.quantization[:2], bias)


def transposed(b: Any, swapped: bool) -> Any:
    """Return the right matrix of ``Gemm``: ``b``, or its transpose if ``swapped``."""
    if not swapped:
        return b
    return b.matrix if isinstance(b, Transposed) else jnp.swapaxes(on_device(channels_first(b)), -1, -2)


def mean(total: jax.Array, count: jax.Array, most: int, x: Quantization, out: Quantization, dtype: Any) -> Any:
    """Divide sums of integers by counts that are not known while tracing; None where scales are not, or out of range.

    Args:
      total: int32, sums of integers minus their zero point.
      count: int32, from 1 to ``most``; it broadcasts against the sums.
      most: a bound.
      x: what the integers mean.
      out: how to store the result.
      dtype: of the result.
    """
    if not (tables.known(x) and tables.known(out)):
        return None
    ratio = tables.fraction(x.scale) / tables.fraction(out.scale)
    sides = (2 * 255 * most * ratio.numerator, (2 * int(BEYOND) + 1) * most * ratio.denominator)
    if 255 * most >= 2**31 or any(side.bit_length() > 62 for side in sides):
        return None
    magnitude, number = (jnp.abs(each).astype(jnp.uint32) for each in (total, count))
    # As in ``softmax._estimated``: the quotient is the floor of the estimate or one more.
    estimate = magnitude.astype(jnp.float32) * (float(ratio) / number.astype(jnp.float32))
    lower = jnp.minimum(jnp.floor(estimate), BEYOND).astype(jnp.uint32)
    half = limbs.product(limbs.times(limbs.of((number, 0)), ratio.denominator), 2 * lower + 1)
    up = limbs.exceeds(limbs.times(limbs.of((magnitude, 1)), ratio.numerator), half, or_equals=lower & 1 == 1)
    rounded = (lower + up.astype(jnp.uint32)).astype(jnp.int32)
    limits = np.iinfo(dtype)
    result = jnp.where(total < 0, -rounded, rounded) + tables.integer(out.zero_point)
    return jnp.clip(result, int(limits.min), int(limits.max)).astype(dtype)


def softmax(
    x: Dequantized, axes: Sequence[int], out: Quantization, dtype: Any, counts: tuple[Any, Any] | None = None
) -> Any:
    """Normalize exponentials over some axes, in integers; None where a scale or size is not known while tracing.

    Args:
      x: what to normalize.
      axes: over which.
      out: how to store the result.
      dtype: of the result.
      counts: which elements count, and of how many that are added up: the bits depend on it. None where all do.
    """
    if not (tables.known(x.quantization) and tables.known(out)):
        return None
    # Of an axis that is out of range NumPy makes an error.
    heads_first = isinstance(x.integers, HeadsFirst) and counts is None and all(-x.ndim <= d < x.ndim for d in axes)
    if heads_first:
        axes = tuple(stored_axis(x.integers, axis % x.ndim) for axis in axes)
    whole = x.integers.array if heads_first else on_device(channels_first(x.integers))
    if not is_static(*(whole.shape[axis] for axis in axes)):
        return None
    scales = tables.fraction(x.quantization.scale), tables.fraction(out.scale)
    quotients = normalized_exponentials(whole, axes, *scales, counts)
    if quotients is None:
        return None
    limits = np.iinfo(dtype)
    result = jnp.clip(quotients + tables.integer(out.zero_point), int(limits.min), int(limits.max)).astype(dtype)
    return HeadsFirst(result) if heads_first else result


def layer_normalization(
    x: Dequantized, axes: Sequence[int], epsilon: float, scale: Any, bias: Any, out: Quantization, dtype: Any
) -> Any:
    """Normalize over some axes in float32, and round that; None where a scale or size is not known while tracing.

    Args:
      x: what to normalize.
      axes: over which.
      epsilon: what is added to the variance.
      scale: float32, broadcasts against ``x``.
      bias: the same, or None.
      out: how to store the result.
      dtype: of the result.
    """
    if not (tables.known(x.quantization) and tables.known(out)):
        return None
    whole = on_device(channels_first(x.integers))
    if not is_static(*(whole.shape[axis] for axis in axes)):
        return None
    in_units = epsilon / float(x.quantization.scale) ** 2
    zero_point = tables.integer(out.zero_point)
    return normalized_integers(whole, axes, in_units, scale, bias, float(out.scale), zero_point, dtype)
