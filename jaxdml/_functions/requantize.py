"""Round int32 sums of products to 8 bits."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments import quantized, rounding
from jaxdml._arguments.call import Call
from jaxdml._kernels import requantization
from jaxdml._kernels.integer_sums import of_total
from jaxdml._placement.layout import Names, layout, run
from jaxdml._placement.materialized import materialized


def requantize(
    x: ArrayLike,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    output_dtype: DTypeLike | None = None,
) -> jax.Array:
    """Scale int32 sums of products to 8 bits, rounding once and correctly.

    ``clamp(round(x * a_scale * b_scale / output_scale) + output_zero_point)`` as if in real numbers, ties to even, for
    all finite nonzero scales. It is what ``quantized_linear_matrix_multiply`` does with its sums, for sums of your own:
    ``quantized_linear_matrix_multiply`` of ``a`` and ``b`` is ``requantize`` of ``matrix_multiply_integer``.

    Args:
      x: int32.
      a_scale: float32, float16 or bfloat16, one value, or an array that broadcasts to the shape of ``x``, like all that
        follow.
      b_scale: float32, float16 or bfloat16.
      output_scale: float32, float16 or bfloat16.
      output_zero_point: dtype of the output; None means 0.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, which then must have one. Static.

    Returns:
      An array with the shape of ``x``. If a scale in an array is 0, infinite or NaN, the outputs that it scales have no
      meaning.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype or shape. Nothing says the dtype of the output.
      ValueError: a zero point is a Python number that its dtype cannot hold. A scale is a Python number that is 0,
        subnormal, infinite or NaN.

    Source:
      The last step of DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC; DirectML has no operator for it alone.

    Example:
      >>> jaxdml.requantize(jnp.array([-100, 3, 5, 7]), 0.5, 0.5, 0.5, np.uint8(10))
      Array([ 0, 12, 12, 14], dtype=uint8)
    """
    call = Call(
        "requantize",
        x=x,
        a_scale=a_scale,
        b_scale=b_scale,
        output_scale=output_scale,
        output_zero_point=output_zero_point,
    )
    x = call.array("x")
    call.dtype("x", ("int32",))
    dtype = quantized.output_dtype(call, output_dtype)
    names = "a_scale", "b_scale", "output_scale"
    scales = {name: quantized.broadcast_parameter(call, name, np.dtype(np.float32), x.shape, "x") for name in names}
    zero = quantized.broadcast_parameter(call, "output_zero_point", dtype, x.shape, "x")
    multiplier = rounding.multiplier(call, scales, 2**31 - 1)
    operands = (x, *scales.values(), zero, multiplier)
    labels = tuple(range(x.ndim))
    leaves = jax.tree.leaves(operands, is_leaf=lambda leaf: leaf is None)
    where = layout(
        [(leaf, quantized.broadcast_labels(leaf, labels, x.shape)) for leaf in leaves],
        result=labels,
        combined={},
        deciding=1,
        fail=partial(call.fail, ValueError, advice=""),
    )
    result: jax.Array = run(_rounded, where, *operands, dtype=dtype)
    return result if multiplier is None else materialized(result)


def _rounded(
    x: Any,
    a_scale: Any,
    b_scale: Any,
    output_scale: Any,
    zero_point: Any,
    multiplier: Any,
    *,
    over: tuple[Names, ...],
    dtype: np.dtype[Any],
) -> jax.Array:
    """Round on one shard."""
    del over
    return requantization.requantize(
        of_total(x), a_scale, b_scale, output_scale, None, zero_point, multiplier, dtype=dtype
    )
