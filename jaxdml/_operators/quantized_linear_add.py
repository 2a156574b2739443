"""Check and run DML_OPERATOR_ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments import quantized
from jaxdml._arguments.call import Call
from jaxdml._base.shapes import Shape, broadcast
from jaxdml._kernels import quantized_sum
from jaxdml._kernels.requantization import Addends, Terms, proved_sum, proved_terms
from jaxdml._placement.layout import Labels, Names, layout, run


def quantized_linear_add(
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike | None,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike | None,
    output_scale: ArrayLike,
    output_zero_point: ArrayLike | None = None,
    *,
    output_dtype: DTypeLike | None = None,
) -> jax.Array:
    """Add two quantized arrays and quantize the sum, rounding once and correctly.

    ``((a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale) / output_scale`` as if in real numbers, rounded
    once, ties to even. Then ``output_zero_point`` is added, and the result is clamped. That holds for all finite
    nonzero scales, however far apart.

    Scales and zero points that are Python numbers or NumPy arrays are known while tracing. Rounding then takes a
    shorter way with the same bits, after a proof on the host. Pass ``jnp.asarray(scale)`` for a scale that is data. The
    way is shorter still if ``b`` is a NumPy array too that is broadcast, as a bias is.

    Args:
      a: int8 or uint8. ``a`` and ``b`` broadcast as in ``jnp.add``.
      a_scale: float32, float16 or bfloat16, one value, or an array that broadcasts to the result's shape, like all that
        follow. A Python number is converted to the required dtype, also if it is an argument of ``jax.jit``.
      a_zero_point: dtype of ``a``; None means 0.
      b: int8 or uint8.
      b_scale: float32, float16 or bfloat16.
      b_zero_point: dtype of ``b``; None means 0.
      output_scale: float32, float16 or bfloat16.
      output_zero_point: dtype of the output; None means 0.
      output_dtype: int8 or uint8; None means the dtype of ``output_zero_point``, or that of ``a`` if there is none or
        it is a Python number. Static.

    Returns:
      The sum, of the output's dtype. If a scale in an array is 0, infinite or NaN, the outputs that it scales have no
      meaning.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype or shape.
      ValueError: a Python number is no zero point of its dtype, or as a scale is 0, subnormal, infinite or NaN. ``a``
        and ``b`` are sharded over different Explicit axes.

    Source:
      DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC: ``ATensor``, ``AScaleTensor``, ``AZeroPointTensor``,
      ``BTensor``, ``BScaleTensor``, ``BZeroPointTensor``, ``OutputScaleTensor``, ``OutputZeroPointTensor``. The
      rounding and the broadcasting are ours; see docs/departures.md.

    Example:
      >>> a, b = jnp.array([130, 140], jnp.uint8), jnp.array([3, 4], jnp.int8)
      >>> jaxdml.quantized_linear_add(a, 0.5, 128, b, 0.25, None, 0.5, 10)
      Array([14, 24], dtype=uint8)
    """
    call = Call(
        "quantized_linear_add",
        a=a,
        a_scale=a_scale,
        a_zero_point=a_zero_point,
        b=b,
        b_scale=b_scale,
        b_zero_point=b_zero_point,
        output_scale=output_scale,
        output_zero_point=output_zero_point,
    )
    a, b = quantized.integers(call, "a"), quantized.integers(call, "b")
    shape = broadcast(a.shape, b.shape)
    if shape is None:
        rule = f"a and b must broadcast; got {list(a.shape)} and {list(b.shape)}."
        call.fail(TypeError, rule, "Give a and b equal shapes.", "a", "b")
    dtype = quantized.output_dtype(call, output_dtype, a.dtype)
    dtypes = {"a": a.dtype, "b": b.dtype, "output": dtype}
    kinds = {f"{name}_scale": np.dtype(np.float32) for name in dtypes}
    kinds |= {f"{name}_zero_point": of for name, of in dtypes.items()}
    operands = [
        *(lax.expand_dims(x, range(len(shape) - x.ndim)) for x in (a, b)),
        *(quantized.broadcast_parameter(call, name, of, shape, "a", "b") for name, of in kinds.items()),
    ]
    known = _known(call, dtypes, shape)
    labels = tuple(f"dimension {d}" for d in range(len(shape)))
    proof: list[tuple[Any, Labels]] = [(known.factors if isinstance(known, Addends) else None, (None, None))]
    if isinstance(known, Terms):
        proof = [(known.factor, ()), (known.terms, quantized.broadcast_labels(known.terms, labels, shape))]
    where = layout(
        [
            *((x, quantized.broadcast_labels(x, labels, shape)) for x in operands),
            *proof,
        ],
        result=labels,
        combined={},
        deciding=2,
        fail=lambda rule: call.fail(ValueError, rule, "Reshard a or b with jax.sharding.reshard.", "a", "b"),
    )
    result: jax.Array = run(_added, where, *operands, known, dtype=dtype)
    return result


def _known(call: Call, dtypes: Mapping[str, np.dtype[Any]], shape: Shape) -> Addends | Terms | None:
    """Return what a short formula is proved to round every sum with, if scales and zero points are known.

    If ``b`` is known too, and broadcast, as a bias is, its terms may be known.
    """
    scales = [call.known(f"{name}_scale", np.float32) for name in dtypes]
    zero_points = [call.known(f"{name}_zero_point", dtype) for name, dtype in dtypes.items()]
    known = [part for part in (*scales, *zero_points) if part is not None]
    if len(known) < 6 or any(part.size != 1 for part in known[:5]):
        return None
    parts, zeros, last = [part.item() for part in known[:3]], [part.item() for part in known[3:5]], known[5]
    b = call.known("b", dtypes["b"])
    of_rank = None if b is None else b.reshape((1,) * (len(shape) - b.ndim) + b.shape)
    if of_rank is not None and of_rank.shape != shape and last.size == 1:
        terms = proved_terms(parts, (*zeros, last.item()), [*dtypes.values()], of_rank)
        if terms is not None:
            return terms
    return proved_sum(parts, zeros, [dtypes["a"], dtypes["b"]])


def _added(
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    output_scale: Any,
    za: Any,
    zb: Any,
    zero_point: Any,
    known: Addends | Terms | None,
    *,
    over: tuple[Names, ...],
    dtype: np.dtype[Any],
) -> jax.Array:
    """Add on one shard."""
    del over
    scales = lax.stop_gradient((a_scale, b_scale, output_scale))
    return quantized_sum.add(a, b, scales, za, zb, zero_point, dtype, known)
