"""Check and run DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments import products
from jaxdml._arguments.call import Call, dtype_or_none
from jaxdml._arithmetic.to_float32 import widened
from jaxdml._base.dtypes import SCALES
from jaxdml._base.shapes import Shape, broadcasts_to
from jaxdml._kernels import float_scaling
from jaxdml._kernels.float_scaling import Scaling
from jaxdml._kernels.integer_product import PackedMatrix

_DTYPES = "float32", "float16", "bfloat16"


def matrix_multiply_integer_to_float(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike | None,
    b: ArrayLike | PackedMatrix,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike | None,
    bias: ArrayLike | None = None,
    *,
    output_dtype: DTypeLike = "float32",
    axis_name: str | tuple[str, ...] | None = None,
    implementation: str | None = None,
) -> jax.Array:
    """Multiply two quantized matrices, and return real numbers as floats.

    With ``total = (a - a_zero_point) @ (b - b_zero_point)``, the exact integer for any depth K, the result is
    ``float(total) * (a_scale * b_scale) + bias`` in IEEE 754's float32: the total, both products and the sum are each
    rounded to the nearest float32, ties to even. So the bits are the same on every device.

    A scale or zero point is one value, of shape ``()`` or ``(1,)``, or a vector: for ``a`` one value per row, for ``b``
    one per column. Other shapes must broadcast to ``[..., M, 1]`` (``a``) or ``[..., 1, N]`` (``b``), where ``...`` are
    the result's leading dimensions. A Python number is converted to the required dtype, also if it is an argument of
    ``jax.jit``.

    Args:
      a: int8 or uint8, ``[..., M, K]``. If K is symbolic, in ``jax.export``, its constraints must bound it by 33,025.
      a_scale: float32, float16 or bfloat16, one value or one per row.
      a_zero_point: dtype of ``a``, one value or one per row; None means 0.
      b: int8 or uint8, ``[..., K, N]``, or what ``jaxdml.prepack`` returns for it, which is faster. Leading dimensions
        broadcast against those of ``a``.
      b_scale: float32, float16 or bfloat16, one value or one per column.
      b_zero_point: dtype of ``b``, one value or one per column; None means 0.
      bias: float32, float16 or bfloat16 that broadcasts to the result, so a vector has one value per column. None adds
        nothing.
      output_dtype: float32, float16 or bfloat16. To the last two the float32 result is rounded once more. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that K is sharded over, or a tuple of axes. ``a`` and ``b`` are
        then blocks of matrices, and every shard gets the result for the whole of K. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      ``[..., M, N]`` of ``output_dtype``. It is differentiable in ``a_scale``, ``b_scale`` and ``bias``, as if nothing
      were rounded. Every NaN has the bits of ``jnp.nan``.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype, rank or shape.
      ValueError: ``implementation`` is unknown. A zero point is a Python number that its dtype cannot hold. A scale is
        a Python number that is 0, subnormal, infinite or NaN. K is symbolic and not bounded.
      NotImplementedError: the program is lowered for a platform without the forced ``implementation``.

    Source:
      DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC: ``ATensor``, ``AScaleTensor``, ``AZeroPointTensor``,
      ``BTensor``, ``BScaleTensor``, ``BZeroPointTensor``, ``BiasTensor``. The page gives no formula; see
      docs/departures.md.

    Example:
      >>> a, b = jnp.array([[11, 7]], jnp.uint8), jnp.array([[1], [2]], jnp.int8)
      >>> jaxdml.matrix_multiply_integer_to_float(a, 0.5, 12, b, 0.5, None, 1.0)
      Array([[-1.75]], dtype=float32)
    """
    call = Call(
        "matrix_multiply_integer_to_float",
        a=a,
        a_scale=a_scale,
        a_zero_point=a_zero_point,
        b=b,
        b_scale=b_scale,
        b_zero_point=b_zero_point,
        bias=bias,
    )
    given = products.matrices(call, axis_name)
    dtype = _float_dtype(call, output_dtype)
    scales = products.parameters(call, given, a_scale=np.float32, b_scale=np.float32)
    zeros = products.parameters(call, given, a_zero_point=given.a.dtype, b_zero_point=given.b.dtype)
    added = _bias(call, (*given.batch, given.a.shape[-2], given.b.shape[-1]))
    parameters = *zeros.values(), *scales.values(), added
    return products.multiply(call, given, implementation, _scaled, *parameters, dtype=dtype)


def _float_dtype(call: Call, requested: Any) -> np.dtype[Any]:
    """Return the output's dtype."""
    call.static("output_dtype", requested)
    dtype = None if requested is None else dtype_or_none(requested)
    if dtype is None or str(dtype) not in _DTYPES:
        rule = f"output_dtype must be one of {', '.join(_DTYPES)}; got {requested!r}."
        call.fail(TypeError, rule, "Pass output_dtype='float32', and convert the result.", "a", "b")
    return dtype


def _bias(call: Call, shape: Shape) -> jax.Array | None:
    """Return the bias with the rank of the result, or None.

    Args:
      call: the call that has the operand ``bias``.
      shape: that of the result.
    """
    if call.operands["bias"] is None:
        return None
    given = call.array("bias")
    if given.weak_type and jnp.issubdtype(given.dtype, jnp.number) and not jnp.iscomplexobj(given):
        given = lax.convert_element_type(given, jnp.float32)
    if str(given.dtype) not in SCALES:
        call.fail(TypeError, f"bias must be float32; got {given.dtype}.", "Pass bias as float32.", "bias")
    given = widened(given)
    if not broadcasts_to(given.shape, shape):
        rule = f"bias must broadcast to {list(shape)}, the shape of the result; got {list(given.shape)}."
        advice = f"Pass one value, or {shape[-1]}: one for each column."
        call.fail(TypeError, rule, advice, "a", "b", "bias")
    return lax.expand_dims(given, range(len(shape) - given.ndim))


def _scaled(sums: Any, *by: Any, dtype: np.dtype[Any]) -> jax.Array:
    return float_scaling.to_float(sums, Scaling(*by), dtype)
