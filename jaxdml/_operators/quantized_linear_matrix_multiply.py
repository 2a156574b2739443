"""Check and run DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY."""

from __future__ import annotations

import jax
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments import products, quantized, rounding
from jaxdml._arguments.call import Call
from jaxdml._arguments.chains import chained
from jaxdml._kernels.integer_product import PackedMatrix
from jaxdml._kernels.requantization import requantize


def quantized_linear_matrix_multiply(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike | None,
    b: ArrayLike | PackedMatrix,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike | None,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    bias: ArrayLike | None = None,
    output_dtype: DTypeLike | None = None,
    axis_name: str | tuple[str, ...] | None = None,
    implementation: str | None = None,
) -> jax.Array:
    """Multiply two quantized matrices and quantize the product, rounding once and correctly.

    ``quantize(dequantize(a) @ dequantize(b))`` with ``dequantize(v) = (v - zero_point) * scale`` and
    ``quantize(v) = clamp(round(v / scale) + zero_point)``, as if in real numbers: every output is the correctly
    rounded one, ties to even, for all finite nonzero scales and any depth K.

    A scale or zero point is one value, of shape ``()`` or ``(1,)``, or a vector. For ``a`` and the output the vector
    has one value per row, for ``b`` one per column. Other shapes must broadcast to ``[..., M, 1]`` (``a``, output) or
    ``[..., 1, N]`` (``b``), where ``...`` are the result's leading dimensions. A Python number is converted to the
    required dtype, also if it is an argument of ``jax.jit``.

    Scales and zero points that are Python numbers or NumPy arrays are known while tracing. Rounding then takes a
    shorter way with the same bits, after a proof on the host. Pass ``jnp.asarray(scale)`` for a scale that is data.

    Args:
      a: int8 or uint8, ``[..., M, K]``. If K is symbolic, in ``jax.export``, its constraints must bound it by 33,025.
      a_scale: float32, float16 or bfloat16, one value or one per row.
      a_zero_point: dtype of ``a``, one value or one per row; None means 0.
      b: int8 or uint8, ``[..., K, N]``, or what ``jaxdml.prepack`` returns for it, which is faster. Leading dimensions
        broadcast against those of ``a``.
      b_scale: float32, float16 or bfloat16, one value or one per column.
      b_zero_point: dtype of ``b``, one value or one per column; None means 0.
      output_scale: float32, float16 or bfloat16, one value or one per row.
      output_zero_point: dtype of the output, one value or one per row; None means 0.
      bias: int32, one value or one per column, in units of ``a_scale * b_scale``, added to the sums; None means 0. The
        sum with it need not fit int32.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or that of ``a`` if there is none or
        it is a Python number. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that K is sharded over, or a tuple of axes. ``a`` and ``b`` are
        then blocks of matrices, and every shard gets the result for the whole of K. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      ``[..., M, N]`` of the output's dtype. If a scale in an array is 0, infinite or NaN, the outputs that it scales
      have no meaning.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype, rank or shape.
      ValueError: ``implementation`` is unknown. A zero point is a Python number that its dtype cannot hold. A scale is
        a Python number that is 0, subnormal, infinite or NaN. K is symbolic and not bounded.
      NotImplementedError: the program is lowered for a platform without the forced ``implementation``.

    Source:
      DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC: ``ATensor``, ``AScaleTensor``, ``AZeroPointTensor``,
      ``BTensor``, ``BScaleTensor``, ``BZeroPointTensor``, ``OutputScaleTensor``, ``OutputZeroPointTensor``. The
      rounding, ``bias`` and the broadcasting of leading dimensions are ours; see docs/departures.md.

    Example:
      >>> a, b = jnp.array([[100, 28]], jnp.uint8), jnp.array([[3], [-4]], jnp.int8)
      >>> jaxdml.quantized_linear_matrix_multiply(a, 0.5, 128, b, 0.25, None, 2.0, 10)
      Array([[30]], dtype=uint8)
    """
    call = Call(
        "quantized_linear_matrix_multiply",
        a=a,
        a_scale=a_scale,
        a_zero_point=a_zero_point,
        b=b,
        b_scale=b_scale,
        b_zero_point=b_zero_point,
        output_scale=output_scale,
        output_zero_point=output_zero_point,
        **({} if bias is None else {"bias": bias}),
    )
    given = products.matrices(call, axis_name)
    dtype = quantized.output_dtype(call, output_dtype, given.a.dtype)
    scales = products.parameters(call, given, a_scale=np.float32, b_scale=np.float32, output_scale=np.float32)
    zeros = {"a_zero_point": given.a.dtype, "b_zero_point": given.b.dtype, "output_zero_point": dtype}
    za, zb, zo, added = products.parameters(call, given, **zeros, bias=np.int32).values()
    greatest = rounding.greatest_sum(call, given.terms, a=given.a, b=given.b)
    multiplier, rank = rounding.multiplier(call, scales, greatest), len(given.batch) + 1
    multiplier = chained(multiplier, call, ("a", "b"), given.a, dtype, rank, greatest)
    parameters = za, zb, *scales.values(), added, zo, multiplier
    return products.multiply(call, given, implementation, requantize, *parameters, dtype=dtype)
