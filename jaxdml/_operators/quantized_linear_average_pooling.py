"""Check and run DML_OPERATOR_QUANTIZED_LINEAR_AVERAGE_POOLING."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments import pooling, quantized, rounding
from jaxdml._arguments.call import Call
from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels import average_pooling, integer_product
from jaxdml._placement.layout import Names, run


def quantized_linear_average_pooling(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    window: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
    start_padding: int | Sequence[int] = 0,
    end_padding: int | Sequence[int] = 0,
    include_padding: bool = False,
    dimension_numbers: str | tuple[str, str] | None = None,
    output_dtype: DTypeLike | None = None,
) -> jax.Array:
    """Average the windows of a quantized array and quantize the means, rounding once and correctly.

    ``mean(x - x_zero_point) * x_scale / output_scale`` as if in real numbers, rounded once, ties to even. Then
    ``output_zero_point`` is added, and the result is clamped. Padding stands for the real number 0. For global pooling,
    pass the spatial sizes of ``x`` as ``window``.

    The options of the spatial dimensions are one integer, or one for each of them. A scale or zero point is one value,
    or a 1-D array of one per channel, or broadcasts against ``[1, C, 1, ...]``. A Python number is converted to the
    required dtype, also if it is an argument of ``jax.jit``.

    Scales and zero points that are Python numbers or NumPy arrays are known while tracing. Rounding then takes a
    shorter way with the same bits, after a proof on the host. Pass ``jnp.asarray(scale)`` for a scale that is data.

    Args:
      x: int8 or uint8, ``[N, C, *spatial]``, with at least one spatial dimension.
      x_scale: float32, float16 or bfloat16, one value or one per channel.
      x_zero_point: dtype of ``x``, one value or one per channel; None means 0.
      output_scale: float32, float16 or bfloat16, one value or one per channel.
      output_zero_point: dtype of the output, one value or one per channel; None means 0.
      window: how many elements a window has along each spatial dimension. Static, like all that follow.
      strides: from the first element of a window to that of the next one.
      dilations: from one element of a window to the next one.
      start_padding: how many elements to add before ``x``.
      end_padding: how many elements to add after ``x``.
      include_padding: whether the mean counts the padding. If not, a window of padding alone gives the output's zero
        point.
      dimension_numbers: the order of the dimensions, as a string such as ``"NHWC"``, or one for ``x`` and one for the
        result, or as ``jax.lax.conv_general_dilated`` takes it; None means channels first.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or that of ``x`` if there is none or
        it is a Python number.

    Returns:
      ``[N, C, *spatial]``, or as ``dimension_numbers`` says, of the output's dtype. If a scale in an array is 0,
      infinite or NaN, the outputs that it scales have no meaning.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype, rank or shape.
      ValueError: an option is out of range, or a window is larger than the padded ``x``. A Python number is no zero
        point of its dtype, or as a scale is 0, subnormal, infinite or NaN. A spatial dimension along which windows
        overlap elements of another shard is sharded over an Explicit axis, or is symbolic.

    Source:
      DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC: ``InputTensor``, ``InputScaleTensor``,
      ``InputZeroPointTensor``, ``OutputScaleTensor``, ``OutputZeroPointTensor``, ``Strides``, ``WindowSize``,
      ``StartPadding``, ``EndPadding``, ``Dilations``, ``IncludePadding``. The rounding, one and three spatial
      dimensions and ``dimension_numbers`` are ours; see docs/departures.md.

    Example:
      >>> x = jnp.array([[[130, 140, 150, 160]]], jnp.uint8)
      >>> jaxdml.quantized_linear_average_pooling(x, 0.5, 128, 0.25, window=2, strides=2)
      Array([[[14, 54]]], dtype=uint8)
    """
    call = Call(
        "quantized_linear_average_pooling",
        x=x,
        x_scale=x_scale,
        x_zero_point=x_zero_point,
        output_scale=output_scale,
        output_zero_point=output_zero_point,
    )
    x = quantized.integers(call, "x")
    of_x, of_result = pooling.orders(call, x, dimension_numbers)
    options = {
        "window": window,
        "strides": strides,
        "dilations": dilations,
        "start_padding": start_padding,
        "end_padding": end_padding,
    }
    windows = pooling.windows(call, x, of_x[2:], options)
    counted: Any = include_padding
    call.static("include_padding", counted)
    if not isinstance(counted, bool | np.bool_):
        rule = f"include_padding must be True or False; got {include_padding!r}."
        call.fail(TypeError, rule, "Pass include_padding=True to count the padding.", "x")
    dtype = quantized.output_dtype(call, output_dtype, x.dtype)
    channels = tuple(size if d == of_x[1] else 1 for d, size in enumerate(x.shape))
    scales = tuple(
        pooling.by_channel(call, f"{name}_scale", np.dtype(np.float32), channels) for name in ("x", "output")
    )
    zero_points = (
        pooling.by_channel(call, f"{name}_zero_point", of, channels) for name, of in (("x", x.dtype), ("output", dtype))
    )
    greatest = integer_product.greatest_sum(windows.taps, (x, call.known("x_zero_point", x.dtype)))
    count = average_pooling.counts(windows, x.shape, bool(include_padding))
    factors = {"x_scale": scales[0], "1": None, "output_scale": scales[1]}
    multiplier = rounding.multiplier(call, factors, greatest, count)
    operands = (x, *scales, *zero_points, multiplier)
    where = pooling.layout_of(call, operands, of_x, of_result, windows)
    order = tuple(of_x[of_result.index(d)] for d in range(x.ndim))
    how: dict[str, Any] = {"windows": windows, "include_padding": bool(include_padding)}
    result: jax.Array = run(_averaged, where, *operands, dtype=dtype, order=order, **how)
    return result


def _averaged(
    x: Any,
    x_scale: Any,
    output_scale: Any,
    zx: Any,
    zero_point: Any,
    multiplier: Any,
    *,
    over: tuple[Names, ...],
    windows: Windows,
    include_padding: bool,
    dtype: np.dtype[Any],
    order: tuple[int, ...],
) -> jax.Array:
    """Average on one shard, and put the dimensions in ``order``."""
    del over
    scales = lax.stop_gradient((x_scale, output_scale))
    zx, zero = (None if zero is None else zero.astype(jnp.int32) for zero in (zx, zero_point))
    means = average_pooling.average(x, windows, scales, zx, zero, include_padding, dtype, multiplier)
    return lax.transpose(means, order)
