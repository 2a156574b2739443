"""DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._base.dtypes import QUANTIZED
from jaxdml._base.shapes import Shape, broadcast, broadcasts_to
from jaxdml._lowerings import quantized_linear_matrix_multiply as lowering
from jaxdml._operators._arguments import Call


def quantized_linear_matrix_multiply(
    a: Any,
    a_scale: Any,
    a_zero_point: Any,
    b: Any,
    b_scale: Any,
    b_zero_point: Any,
    output_scale: Any,
    output_zero_point: Any = None,
    *,
    output_dtype: Any = None,
    implementation: str | None = None,
) -> jax.Array:
    """Multiply two quantized matrices and quantize the product, rounding once and correctly.

    ``quantize(dequantize(a) @ dequantize(b))`` with ``dequantize(v) = (v - zero_point) * scale`` and
    ``quantize(v) = clamp(round(v / scale) + zero_point)``, as if in real numbers: every output is the correctly
    rounded one, ties to even, for all finite nonzero scales and any depth K.

    A scale or zero point is one value, or one per row of ``a`` or of the output, or one per column of ``b``: of
    shape ``()``, ``(1,)``, 1-D of that length, or anything that broadcasts to ``[..., M, 1]`` (``a``, output) or
    ``[..., 1, N]`` (``b``), where ``...`` are the result's leading dimensions. A Python number takes the dtype wanted.

    Args:
      a: int8 or uint8, ``[..., M, K]``.
      a_scale: float32, one value or one per row.
      a_zero_point: dtype of ``a``, one value or one per row; None means 0.
      b: int8 or uint8, ``[..., K, N]``. Leading dimensions broadcast against those of ``a``.
      b_scale: float32, one value or one per column.
      b_zero_point: dtype of ``b``, one value or one per column; None means 0.
      output_scale: float32, one value or one per row.
      output_zero_point: dtype of the output, one value or one per row; None means 0.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or of ``a`` without one. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      ``[..., M, N]`` of the output's dtype. A scale that is 0, infinite or NaN gives values without meaning.

    Raises:
      TypeError: an argument is no array or has a wrong dtype, rank or shape.
      ValueError: ``implementation`` is unknown, or a Python number is no zero point of its dtype.

    Source:
      DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC: ``ATensor``, ``AScaleTensor``, ``AZeroPointTensor``,
      ``BTensor``, ``BScaleTensor``, ``BZeroPointTensor``, ``OutputScaleTensor``, ``OutputZeroPointTensor``. The
      rounding and the broadcasting of leading dimensions are ours; see docs/departures.md.

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
    )
    a, b = _matrix(call, "a"), _matrix(call, "b")
    *_, m, k = a.shape
    *_, b_k, n = b.shape
    if k != b_k:
        rule = f"the last dimension of a, {k}, must be the last but one of b; got {b_k}."
        call.fail(TypeError, rule, "Transpose a or b, so that they share K.", "a", "b")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    if batch is None:
        rule = f"leading dimensions must broadcast; got {list(a.shape[:-2])} and {list(b.shape[:-2])}."
        call.fail(TypeError, rule, "Give a and b equal leading dimensions.", "a", "b")
    dtype = _output_dtype(call, output_dtype, a.dtype)
    rows, columns = (*batch, m, 1), (*batch, 1, n)
    scales = tuple(
        _parameter(call, f"{name}_scale", np.dtype("float32"), shape)
        for name, shape in (("a", rows), ("b", columns), ("output", rows))
    )
    zero_points = tuple(
        None if call.operands[f"{name}_zero_point"] is None else _parameter(call, f"{name}_zero_point", of, shape)
        for name, of, shape in (("a", a.dtype, rows), ("b", b.dtype, columns), ("output", dtype, rows))
    )
    call.implementation(implementation, lowering.METHODS)
    a, b = (lax.reshape(x, (1,) * (len(rows) - x.ndim) + x.shape) for x in (a, b))
    return _multiply(a, b, scales, zero_points, dtype, implementation)


def _matrix(call: Call, name: str) -> jax.Array:
    matrix = call.array(name)
    call.dtype(name, QUANTIZED)
    if matrix.ndim < 2:
        rule = f"{name} must have at least two dimensions; got {matrix.ndim}."
        call.fail(TypeError, rule, f"Add a dimension of size 1 to {name}.", name)
    return matrix


def _output_dtype(call: Call, requested: Any, dtype_of_a: np.dtype[Any]) -> np.dtype[Any]:
    zero_point = call.operands["output_zero_point"]
    inferred = dtype_of_a if zero_point is None or _is_number(zero_point) else call.array("output_zero_point").dtype
    try:
        dtype = np.dtype(inferred if requested is None else requested)
    except TypeError:
        dtype = None
    if dtype is None or str(dtype) not in QUANTIZED:
        shown = inferred if requested is None else repr(requested)
        rule = f"the output's dtype must be one of {', '.join(QUANTIZED)}; got {shown}."
        call.fail(
            TypeError,
            rule,
            "Pass output_dtype='uint8', or an output_zero_point of that dtype.",
            "output_zero_point",
        )
    return dtype


def _parameter(call: Call, name: str, dtype: np.dtype[Any], shape: Shape) -> jax.Array:
    """Return a scale or zero point with the rank of the result, ``shape`` being its largest shape."""
    given = _number(call, name, dtype) if _is_number(call.operands[name]) else call.array(name)
    if given.dtype != dtype:
        rule = f"{name} must be {dtype}; got {given.dtype}."
        call.fail(TypeError, rule, f"Pass {name} as {dtype}.", name)
    per_row = shape[-1] == 1 and name[0] != "b"
    aligned = (*given.shape, 1) if per_row and given.ndim == 1 else given.shape
    if not broadcasts_to(aligned, shape):
        kind = f"one per row, {shape[-2]}," if per_row else f"one per column, {shape[-1]},"
        rule = f"{name} must be one value, or {kind} or broadcast to {list(shape)}; got {list(given.shape)}."
        call.fail(TypeError, rule, f"Reshape {name} to {list(shape)}.", "a", "b", name)
    return lax.reshape(given, (1,) * (len(shape) - len(aligned)) + aligned)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool | np.generic)


def _number(call: Call, name: str, dtype: np.dtype[Any]) -> jax.Array:
    """Give a Python number the dtype that is wanted, as JAX does with its weak types."""
    value = call.operands[name]
    if dtype.kind != "f":
        bounds = np.iinfo(dtype)
        if not isinstance(value, int) or not bounds.min <= value <= bounds.max:
            rule = f"{name} must be a whole number from {bounds.min} to {bounds.max}; got {value}."
            call.fail(ValueError, rule, f"Pass {name} as {dtype}.", name)
    return jnp.asarray(value, dtype)


@partial(jax.jit, static_argnums=(4, 5), inline=True)
def _multiply(
    a: jax.Array,
    b: jax.Array,
    scales: tuple[jax.Array, jax.Array, jax.Array],
    zero_points: tuple[jax.Array | None, jax.Array | None, jax.Array | None],
    dtype: np.dtype[Any],
    implementation: str | None,
) -> jax.Array:
    fixed = lax.stop_gradient(scales)
    a_zero_point, b_zero_point, output_zero_point = zero_points
    return lowering.multiply((a, a_zero_point), (b, b_zero_point), fixed, output_zero_point, dtype, implementation)
