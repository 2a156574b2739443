"""Check and run DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY."""

from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.sizes import at_most
from jaxdml._base.shapes import broadcast, is_static
from jaxdml._lowerings import requantization
from jaxdml._lowerings.integer_product import METHODS, ONLY_ON, longest
from jaxdml._operators import _packing, _quantization
from jaxdml._operators._arguments import Call
from jaxdml._sharding import integer_product
from jaxdml._sharding.layout import Labels, Layout, axis_size, layout, on_shards


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
    axis_name: Any = None,
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

    Args:
      a: int8 or uint8, ``[..., M, K]``. If K is symbolic, in ``jax.export``, its constraints must bound it by 33,025.
      a_scale: float32, one value or one per row.
      a_zero_point: dtype of ``a``, one value or one per row; None means 0.
      b: int8 or uint8, ``[..., K, N]``, or what ``jaxdml.prepack`` returns for it, which is faster. Leading dimensions
        broadcast against those of ``a``.
      b_scale: float32, one value or one per column.
      b_zero_point: dtype of ``b``, one value or one per column; None means 0.
      output_scale: float32, one value or one per row.
      output_zero_point: dtype of the output, one value or one per row; None means 0.
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
    names = call.axis_names(axis_name)
    a, b = _quantization.matrix(call, "a"), _packing.right_matrix(call, "b", axis_size(names))
    *_, m, k = a.shape
    *_, b_k, n = b.shape
    if k != b_k:
        rule = f"the last dimension of a, {k}, must be the last but one of b; got {b_k}."
        call.fail(TypeError, rule, "Transpose a or b, so that they share K.", "a", "b")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    if batch is None:
        rule = f"leading dimensions must broadcast; got {list(a.shape[:-2])} and {list(b.shape[:-2])}."
        call.fail(TypeError, rule, "Give a and b equal leading dimensions.", "a", "b")
    dtype = _quantization.output_dtype(call, output_dtype, a.dtype)
    rows, columns = (*batch, m, 1), (*batch, 1, n)
    scales = tuple(
        _quantization.parameter(call, f"{name}_scale", np.dtype("float32"), shape)
        for name, shape in (("a", rows), ("b", columns), ("output", rows))
    )
    zero_points = tuple(
        None
        if call.operands[f"{name}_zero_point"] is None
        else _quantization.parameter(call, f"{name}_zero_point", of, shape)
        for name, of, shape in (("a", a.dtype, rows), ("b", b.dtype, columns), ("output", dtype, rows))
    )
    deepest = longest((a, zero_points[0]), (b, zero_points[1])) // axis_size(names)
    if not is_static(k) and not at_most(k, deepest):
        rule = f"K must be known to be at most {deepest} if it is symbolic; got {k}."
        call.fail(ValueError, rule, f"Pass constraints=['{k} <= {deepest}'] to jax.export.symbolic_shape.", "a", "b")
    refusal = call.implementation(implementation, METHODS, only_on=ONLY_ON)
    (matrix, *sums), b_tree = jax.tree.flatten(b)
    rank = len(rows)
    matrices = (_with_rank(x, rank) for x in (a, matrix))
    operands = (*matrices, *scales, *zero_points, *(_with_rank(x, rank - 1) for x in sums))
    batch_labels = tuple(f"batch dimension {d}" for d in range(len(batch)))
    of_b = [("columns", "K"), ("columns",)] if sums else [("K", "columns")]
    labels = ("rows", "K"), of_b[0], *(("rows", "columns"),) * 6, *of_b[1:]
    sizes = dict(zip(batch_labels, batch, strict=True)) | {"rows": m, "columns": n}
    where = layout(
        [(x, _labels(x, (*batch_labels, *of), sizes)) for x, of in zip(operands, labels, strict=True)],
        result=(*batch_labels, "rows", "columns"),
        combined={"K": names},
        deciding=2,
        fail=lambda rule: call.fail(ValueError, rule, "Reshard a or b with jax.sharding.reshard.", "a", "b"),
    )
    return _multiply(operands, b_tree, dtype, implementation, refusal, where)


def _with_rank(x: jax.Array, rank: int) -> jax.Array:
    return lax.expand_dims(x, range(rank - x.ndim))


def _labels(x: jax.Array | None, labels: Labels, sizes: Mapping[Hashable, int]) -> Labels:
    """Return the labels of an operand; None for a dimension that is broadcast to the result."""
    shape = () if x is None else x.shape
    each = zip(labels, shape, strict=False)
    return tuple(label if label == "K" or size == sizes[label] else None for label, size in each)


@partial(jax.jit, static_argnums=(1, 2, 3, 4, 5), inline=True)
def _multiply(
    operands: tuple[jax.Array | None, ...],
    b_tree: jax.tree_util.PyTreeDef,
    dtype: np.dtype[Any],
    implementation: str | None,
    refusal: str,
    where: Layout,
) -> jax.Array:
    def part(a: Any, matrix: Any, sa: Any, sb: Any, so: Any, za: Any, zb: Any, zo: Any, *of_columns: Any) -> jax.Array:
        b = jax.tree.unflatten(b_tree, (matrix, *of_columns))
        sums = integer_product.multiply((a, za), (b, zb), implementation, refusal, where.over[0])
        wide = None if zo is None else zo.astype(jnp.int32)
        return requantization.requantize(sums, lax.stop_gradient((sa, sb, so)), wide, dtype, refusal)

    return on_shards(part, where, *operands)
