"""Conversions between types: Cast, CastLike, BitCast."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.values.kinds import computed, is_host
from jaxdml.onnx.values.stored import stored

SATURATING = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
"""Types whose attribute ``saturate`` says what becomes of numbers that they do not hold."""

NARROW = (*SATURATING, "float8_e8m0fnu", "float4_e2m1fn", "int2", "uint2", "int4", "uint4")
"""Types that are not converted directly, since NumPy and XLA do not know every pair of them."""


def _cast(call: NodeCall, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    return converted(call.xp, x, dtype_of(to), bool(saturate), round_mode)


def _cast_like(call: NodeCall, x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    """Convert; of ``like`` nothing but its type is read, so it does not matter how it is stored."""
    value = computed(x)
    if is_host(value):
        return converted(np, value, like.dtype, bool(saturate), round_mode)
    data, wrap = stored(value)
    return wrap(converted(jnp, data, like.dtype, bool(saturate), round_mode))


def _bit_cast(call: NodeCall, x: Any, *, to: int) -> Any:
    dtype = dtype_of(to)
    if call.xp is jnp and jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise NotImplementedError(f"BitCast to {dtype} needs jax_enable_x64: without it JAX has no such bits.")
    return x.view(dtype)


def dtype_of(to: int) -> Any:
    """Return the dtype that ONNX numbers so."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(to))


def _unknown_type(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Say why a type cannot be cast to."""
    types = onnx.TensorProto
    known = types.DataType.values()
    if node.attributes["to"] in known and node.attributes["to"] not in (types.UNDEFINED, types.STRING):
        return None
    names = dict(zip(known, types.DataType.keys(), strict=True))
    return f"type {names.get(node.attributes['to'], node.attributes['to'])} is not supported"


def converted(xp: ModuleType, x: Any, dtype: Any, saturate: bool, round_mode: str = "up") -> Any:
    """Convert an array as ``Cast`` does.

    Args:
      xp: numpy or jax.numpy.
      x: the array.
      dtype: the new one.
      saturate: whether a float8 type takes its greatest number where it does not hold one.
      round_mode: of float8_e8m0fnu.
    """
    dtype = jax.dtypes.canonicalize_dtype(dtype) if xp is jnp else dtype
    if x.dtype in (dtype, object):  # Sizes that are symbols stay so.
        return x
    if x.dtype.name in NARROW:
        x = x.astype(np.int32 if jnp.issubdtype(x.dtype, jnp.integer) else np.float32)
    if dtype.name == "float8_e8m0fnu":
        return _power_of_two(xp, x, saturate, round_mode).view(dtype)
    if saturate and dtype.name in SATURATING:
        limit = float(jnp.finfo(dtype).max)
        return xp.clip(x, -limit, limit).astype(dtype)
    if jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.integer):
        return _integers(xp, x, dtype)
    return x.astype(dtype)


def _integers(xp: ModuleType, x: Any, dtype: Any) -> Any:
    """Drop fractions and, of numbers that the type does not hold, the higher bits; what 32 bits do not hold saturates.

    ONNX leaves open what becomes of numbers that the type does not hold. This is the same on every device.
    """
    bits = max(32, 8 * dtype.itemsize)
    signed, limit = np.dtype(f"int{bits}"), 2.0 ** (bits - 1)
    x = xp.trunc(xp.where(xp.isnan(x), 0, x).astype(np.promote_types(x.dtype, np.float32)))
    if dtype == f"uint{bits}":
        x = xp.where(x >= limit, xp.minimum(x - 2 * limit, -1), x)
    result = xp.where(abs(x) < limit, x, 0).astype(signed)
    extreme = xp.where(x > 0, np.iinfo(signed).max, np.iinfo(signed).min).astype(signed)
    return xp.where(abs(x) < limit, result, extreme).astype(dtype)


def _power_of_two(xp: ModuleType, x: Any, saturate: bool, round_mode: str) -> Any:
    """Return the exponent of float8_e8m0fnu, as an integer of 8 bits."""
    bits = x.astype(np.float32).view(np.uint32)
    exponent, fraction = (bits >> 23) & 255, bits & 0x7FFFFF
    half = 0x400000
    up = {
        "up": fraction > 0,
        "down": fraction < 0,
        "nearest": (fraction > half) | ((fraction == half) & (exponent > 0)),
    }[round_mode]
    return xp.minimum(exponent + up, xp.where(exponent == 255, 255, 254 if saturate else 255)).astype(np.uint8)


TABLE: Table = {
    "BitCast": (Handler(26, _bit_cast, host=True, elementwise=True, refuses=_unknown_type),),
    "Cast": (Handler(6, _cast, host=True, elementwise=True, refuses=_unknown_type),),
    "CastLike": (Handler(15, _cast_like, raw=True, shape_only="like"),),
}
