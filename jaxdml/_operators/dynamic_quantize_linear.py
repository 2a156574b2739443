"""Check and run DML_OPERATOR_DYNAMIC_QUANTIZE_LINEAR."""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.typing import ArrayLike

from jaxdml._arguments.call import Call
from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._arithmetic.to_float32 import widened
from jaxdml._base.dtypes import QUANTIZED, SCALES
from jaxdml._kernels.quantization import quantize_by_range, scale_and_zero_point
from jaxdml._placement.layout import Layout, Names, layout, on_shards


class DynamicQuantization(NamedTuple):
    """Hold what ``dynamic_quantize_linear`` returns.

    Attributes:
      output: the quantized values, shaped like ``x``.
      scale: float32, one value.
      zero_point: dtype of ``output``, one value.
    """

    output: jax.Array
    scale: jax.Array
    zero_point: jax.Array


export.register_namedtuple_serialization(DynamicQuantization, serialized_name="jaxdml.DynamicQuantization")


def dynamic_quantize_linear(
    x: ArrayLike, *, output_dtype: Literal["uint8", "int8"] = "uint8", axis_name: str | tuple[str, ...] | None = None
) -> DynamicQuantization:
    """Quantize to 8 bits with a scale and a zero point that cover the range of the values.

    With ``low = min(0, min(x))`` and ``high = max(0, max(x))``, the scale is ``fl(fl(high - low) / 255)``, or 1 if that
    range is 0. The zero point is ``clamp(rint(fl(0 - fl(low / scale))))``, and the output is what ``quantize_linear``
    returns for the two. ``fl`` rounds to float32. These are the bits of NumPy, on every device.

    NaNs do not count for the range, and give the zero point. If the range is infinite, so is the scale, and all
    elements give the zero point, which is that of 0. There is one range for the whole array, and under ``jax.vmap`` one
    for each example.

    Args:
      x: float32, float16 or bfloat16 of any shape; the last two are converted to float32 first. An empty array has the
        range 0.
      output_dtype: ``"uint8"``, or ``"int8"``, for which output and zero point are 128 less. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that ``x`` is sharded over, or a tuple of axes. ``x`` is then a
        block of an array, and the range is that of the whole array. Static.

    Returns:
      ``DynamicQuantization(output, scale, zero_point)``. ``scale`` and ``zero_point`` have the shape ``()``. All
      derivatives are zero.

    Raises:
      TypeError: ``x`` is not an array or has another dtype, or ``output_dtype`` is no string.
      ValueError: ``output_dtype`` is another dtype, or ``axis_name`` names no mesh axes.

    Source:
      DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC. The page does not widen the range to 0; see docs/departures.md.

    Example:
      >>> output, scale, zero_point = jaxdml.dynamic_quantize_linear(jnp.array([0.0, 255.0, -255.0, 3.0]))
      >>> output, scale
      (Array([128, 255,   0, 130], dtype=uint8), Array(2., dtype=float32))
    """
    call = Call("dynamic_quantize_linear", x=x)
    x = call.array("x")
    call.dtype("x", SCALES)
    call.choice("output_dtype", output_dtype, QUANTIZED)
    names = call.axis_names(axis_name)
    labels = tuple(range(x.ndim))
    fail = partial(call.fail, ValueError, advice="")
    of_range = layout([(x, labels)], (), dict.fromkeys(labels, ()), 1, fail)
    of_output = layout([(x, labels), (x, ()), (x, ())], labels, {}, 1, fail)  # The last two are of one value.
    return _quantize(x, output_dtype, names, of_range, of_output)


@partial(jax.jit, static_argnums=(1, 2, 3, 4), inline=True)
def _quantize(
    x: jax.Array, output_dtype: str, names: Names, of_range: Layout, of_output: Layout
) -> DynamicQuantization:
    over = (*names, *(name for axes in of_range.over for name in axes))
    scale, zero_point = on_shards(partial(_range, over=over), of_range, x)
    output = on_shards(_quantized, of_output, x, scale, zero_point)
    if output_dtype == "int8":
        output, zero_point = (with_flipped_sign(of, output_dtype) for of in (output, zero_point))
    return DynamicQuantization(output, scale, zero_point)


def _range(x: jax.Array, *, over: Names) -> tuple[jax.Array, jax.Array]:
    return scale_and_zero_point(widened(x), over)


def _quantized(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
    return quantize_by_range(x, scale, zero_point.astype(jnp.int32), np.dtype("uint8"))
