"""Check the arguments that quantized operators share: 8-bit tensors, their scales and their zero points."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arguments.call import Call, dtype_or_none
from jaxdml._arithmetic.to_float32 import widened
from jaxdml._base.dtypes import QUANTIZED, SCALES
from jaxdml._base.shapes import Shape, broadcasts_to
from jaxdml._placement.layout import Labels


def integers(call: Call, name: str, read: Callable[[str], Any] | None = None) -> jax.Array:
    """Require an operand to be int8 or uint8, and return it as ``call.array`` does, or as ``read`` does."""
    tensor: jax.Array = (read or call.array)(name)
    advice = ""
    if jnp.issubdtype(tensor.dtype, jnp.floating):
        advice = f"Quantize it: round({name} / {name}_scale) + {name}_zero_point, clipped, as int8 or uint8."
    call.dtype(name, QUANTIZED, advice)
    return tensor


def matrix(call: Call, name: str, read: Callable[[str], Any] | None = None) -> jax.Array:
    """Return what ``integers`` does; require two dimensions or more."""
    given = integers(call, name, read)
    if given.ndim < 2:
        rule = f"{name} must have at least two dimensions; got {given.ndim}."
        call.fail(TypeError, rule, f"Add a dimension of size 1 to {name}.", name)
    return given


def output_dtype(
    call: Call,
    requested: Any,
    default: np.dtype[Any] | None = None,
    *,
    zero_point: str = "output_zero_point",
    allowed: tuple[str, ...] = QUANTIZED,
) -> np.dtype[Any]:
    """Return the output's dtype: the requested one, else that of its zero point, else ``default``.

    Args:
      call: the call that has the operand ``zero_point``.
      requested: what the caller wants, or None.
      default: None if there is no default: one of uint8 would clip negative numbers without a word.
      zero_point: the name of the output's zero point.
      allowed: the dtypes that the output may have.
    """
    given = call.operands[zero_point]
    has_dtype = given is not None and not _takes_any_dtype(given)
    inferred = call.array(zero_point).dtype if has_dtype else default
    if requested is None and inferred is None:
        rule = f"output_dtype, or the dtype of {zero_point}, must say what {call.function} returns; got neither."
        call.fail(TypeError, rule, f"Pass output_dtype='int8', or {zero_point}=np.int8(0).", zero_point)
    dtype = dtype_or_none(inferred if requested is None else requested)
    if dtype is None or str(dtype) not in allowed:
        shown, advice = repr(requested), "Pass output_dtype='int8' or 'uint8'."
        if requested is None:
            shown, advice = str(inferred), f"Pass {zero_point} as int8 or uint8."
        rule = f"the output's dtype must be one of {', '.join(allowed)}; got {shown}."
        call.fail(TypeError, rule, advice, zero_point)
    return dtype


def broadcast_parameter(call: Call, name: str, dtype: np.dtype[Any], shape: Shape, *tensors: str) -> jax.Array | None:
    """Return a scale or zero point that broadcasts to the result's shape, with its rank; None stays None.

    Args:
      call: the call that has the operand.
      name: the name of the operand.
      dtype: its dtype.
      shape: of the result.
      tensors: the operands that decide the shape, which an error shows too.
    """
    given = optional(call, name, dtype)
    if given is None:
        return None
    given = lax.squeeze(given, range(given.ndim)) if all(size == 1 for size in given.shape) else given
    if not broadcasts_to(given.shape, shape):
        rule = f"{name} must be one value, or broadcast to {list(shape)}; got {list(given.shape)}."
        call.fail(TypeError, rule, f"Pass {name} with shape ().", *tensors, name)
    return lax.expand_dims(given, range(len(shape) - given.ndim))


def broadcast_labels(x: Any, labels: Labels, shape: Shape) -> Labels:
    """Return the labels of an operand of the result's rank, or of None; None for a dimension that is broadcast."""
    sizes = () if x is None else x.shape
    return tuple(label if size == whole else None for label, size, whole in zip(labels, sizes, shape, strict=False))


def of_dtype(call: Call, name: str, dtype: np.dtype[Any]) -> jax.Array:
    """Require a scale, zero point or bias to have a dtype.

    A Python number, also a traced one, is converted to it, and a float16 or bfloat16 to float32, which is exact.
    """
    value = call.operands[name]
    if dtype == np.float32 and isinstance(value, np.ndarray | np.generic) and str(value.dtype) in SCALES:
        value = call.operands[name] = value.astype(dtype)
    if _takes_any_dtype(value) and not isinstance(value, jax.core.Tracer) and jnp.ndim(value) == 0:
        value = value.item() if isinstance(value, jax.Array) else value
        return jnp.asarray(_checked(call, name, value, dtype), dtype)
    given = call.array(name)
    accepted = (jnp.integer, jnp.floating) if dtype.kind == "f" else (jnp.integer,)
    if _takes_any_dtype(given) and any(jnp.issubdtype(given.dtype, kind) for kind in accepted):
        return lax.convert_element_type(given, dtype)
    if dtype == np.float32 and str(given.dtype) in SCALES:
        return widened(given)
    if given.dtype != dtype:
        call.fail(TypeError, f"{name} must be {dtype}; got {given.dtype}.", f"Pass {name} as {dtype}.", name)
    return given


def optional(call: Call, name: str, dtype: np.dtype[Any]) -> jax.Array | None:
    """Return what ``of_dtype`` does; None stays None, but not for a float: scales are required."""
    return None if call.operands.get(name) is None and dtype.kind != "f" else of_dtype(call, name, dtype)


def without_zeros(call: Call, values: Mapping[str, jax.Array | None]) -> dict[str, jax.Array | None]:
    """Return checked parameters, with None for a zero point that is known to be 0: nothing is corrected for it."""

    def is_zero(name: str, value: jax.Array | None) -> bool:
        known = call.known(name, value.dtype) if value is not None and name.endswith("zero_point") else None
        return known is not None and not known.any()

    return {name: None if is_zero(name, value) else value for name, value in values.items()}


def _takes_any_dtype(value: Any) -> bool:
    """Tell whether ``value`` is a Python number or an array that came from one, which JAX calls weakly typed."""
    return _is_number(value) or (isinstance(value, jax.Array) and jax.typeof(value).weak_type)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool | np.generic)


def _checked(call: Call, name: str, value: int | float, dtype: np.dtype[Any]) -> int | float:
    """Require a Python number to be a zero point of ``dtype``, or a scale that is a normal float32."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        try:
            with np.errstate(over="ignore"):
                rounded = abs(float(dtype.type(value)))
        except OverflowError:
            rounded = math.inf
        if not info.tiny <= rounded <= info.max:
            rule = f"{name} must be a finite {dtype}, not 0 and not subnormal; got {_short(value)}."
            call.fail(ValueError, rule, f"Pass a scale from {info.tiny} to {info.max} in magnitude.", name)
        return value
    bounds = np.iinfo(dtype)
    if not isinstance(value, int) or not bounds.min <= value <= bounds.max:
        rule = f"{name} must be an integer from {bounds.min} to {bounds.max}; got {_short(value)}."
        call.fail(ValueError, rule, f"Pass {name} as {dtype}.", name)
    return value


def _short(value: int | float) -> str:
    return str(value) if isinstance(value, float) or abs(value) < 2**64 else "an int of 2**64 or more in magnitude"
