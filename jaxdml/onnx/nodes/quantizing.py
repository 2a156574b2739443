"""Quantize and dequantize."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml._base.dtypes import QUANTIZED, SCALES
from jaxdml.onnx._graph import Node
from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes._handler import SCALING, Handler, NodeCall, Table
from jaxdml.onnx.nodes._small_floats import SMALL_FLOATS, from_small_floats, to_small_floats
from jaxdml.onnx.values.kinds import (
    Blocks,
    Dequantized,
    Pending,
    Quantization,
    channels_first,
    computed,
)
from jaxdml.onnx.values.stored import Reordered, stored, stored_axis

_NARROW = {"int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8}
"""Integers of fewer than 8 bits, and what they are computed in."""

ELEMENT_TYPES = {
    0: None,
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    25: "uint2",
    26: "int2",
}
"""ONNX's numbers of the dtypes that QuantizeLinear may return; 0 is none."""

_FLOATS = {0: None, 1: np.float32, 10: np.float16, 16: jnp.bfloat16}
"""ONNX's numbers of the dtypes of real numbers; 0 stands for that of the scale."""


def quantization(scale: Any, zero_point: Any, axis: int, block_size: int, rank: int) -> Quantization:
    """Return how integers of a rank stand for real numbers; any scale of one element serves all."""
    if zero_point is not None and str(zero_point.dtype) in _NARROW:
        zero_point = zero_point.astype(_NARROW[str(zero_point.dtype)])
    if np.prod(scale.shape) == 1 and not block_size:
        return Quantization(_scalar(scale), None if zero_point is None else _scalar(zero_point))
    return Quantization(scale, zero_point, axis % max(rank, 1), block_size)


def _scalar(value: Any) -> Any:
    return value.reshape(()) if value.ndim else value


def dequantize_linear(
    call: NodeCall,
    x: Any,
    x_scale: Any,
    x_zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Any:
    """Return integers with what they mean; floats only where a node wants floats, or if they are small floats."""
    if isinstance(x, jaxdml.PackedBlocks):
        call.note((call.node.name,), f"packed, {x.bits} bits")
        return Blocks(x, transposed=axis % 2 == 1)
    x_scale, x_zero_point = channels_first(x_scale), channels_first(x_zero_point)
    if narrow := _NARROW.get(str(x.dtype)):
        x = type(x)(x.array.astype(narrow)) if isinstance(x, Reordered) else x.astype(narrow)
    dtype = _FLOATS[output_dtype] or x_scale.dtype
    stands_for = quantization(as_float32(x_scale), x_zero_point, axis, block_size, x.ndim)
    if str(x.dtype) in SMALL_FLOATS:
        return from_small_floats(x, stands_for, dtype)
    if not call.exact:
        return Dequantized(x, stands_for, np.dtype(dtype)).floats()
    name = (call.node.name,)
    call.note(name, "integers")
    return Dequantized(x, stands_for, np.dtype(dtype), lambda: call.note(name, "float"))


def pack_matrix(
    x: Any, x_scale: Any, x_zero_point: Any, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> jaxdml.PackedBlocks | None:
    """Pack a matrix of fewer than 8 bits with a scale for each block, which are along its rows or its columns."""
    blocks = tuple(-(-size // (block_size or 1)) if d == axis % 2 else size for d, size in enumerate(x.shape))
    words = str(x.dtype) in _NARROW and block_size > 0 and block_size % (32 // jnp.iinfo(x.dtype).bits) == 0
    if not words or x.ndim != 2 or 0 in x.shape:
        return None
    if x_scale.shape != blocks or str(x_scale.dtype) not in SCALES:
        return None
    if output_dtype or (x_zero_point is not None and (x_zero_point.shape != blocks or x_zero_point.dtype != x.dtype)):
        return None
    arrays: list[Any] = [None if a is None else jnp.asarray(a.T if axis % 2 else a) for a in (x, x_scale, x_zero_point)]
    return jaxdml.prepack_blocks(*arrays, block_size=block_size)


def quantize_linear(
    call: NodeCall,
    x: Any,
    y_scale: Any,
    y_zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """Round real numbers once: by the integer operator that they are pending for, or as floats.

    Of integers the quotients are float32, whatever ``precision`` says.
    """
    y_scale, y_zero_point = channels_first(y_scale), channels_first(y_zero_point)
    wanted = y_zero_point.dtype if y_zero_point is not None else ELEMENT_TYPES[output_dtype] or "uint8"
    narrow = _NARROW.get(str(wanted))
    dtype = np.dtype(narrow or wanted)
    out = quantization(as_float32(y_scale), y_zero_point, axis, block_size, x.ndim)
    if str(dtype) in SMALL_FLOATS:
        return to_small_floats(x, out, dtype, _FLOATS[precision] or y_scale.dtype, bool(saturate))
    if call.exact and out.per_tensor and narrow is None and str(dtype) in QUANTIZED:
        result = _rounded_once(call, x, out, dtype)
        if result is not None:
            call.note((call.node.name,), f"rounds {x.nodes[-1]}" if isinstance(x, Pending) else "a table")
            return result
    # Scales of blocks have the shape that ONNX gives them.
    x = channels_first(x) if block_size else computed(x)
    data, wrap = stored(x)
    axis, blocks = stored_axis(x, out.axis), block_size or None
    result = jaxdml.quantize_linear(data, *out[:2], axis=axis, block_size=blocks, output_dtype=dtype)
    if narrow is None:
        return wrap(result)
    limits = jnp.iinfo(wanted)
    return wrap(jnp.clip(result, int(limits.min), int(limits.max)).astype(wanted))


def as_float32(scale: Any) -> Any:
    """Return a scale as float32, which holds it."""
    return scale if scale.dtype == np.float32 else scale.astype(np.float32)


def _rounded_once(call: NodeCall, x: Any, out: Quantization, dtype: Any) -> Any:
    """Return the integers that a value means, or None where it is floats."""
    if isinstance(x, Dequantized) and rounded_once.is_simple(x):
        return rounded_once.mapped(x, out, dtype)
    if not isinstance(x, Pending):
        return None
    result = x.quantized(out, dtype)
    if isinstance(result, str):
        call.note(x.nodes, f"float: {result}")
        return None
    return result


_dynamic_quantize_linear = jax.jit(jaxdml.dynamic_quantize_linear)
"""Not inlined: all nodes of one shape share a function of the program."""


def dynamic_quantize_linear(call: NodeCall, x: Any) -> tuple[Any, ...]:
    """Quantize with a range that covers the values."""
    data, wrap = stored(computed(x))
    result = _dynamic_quantize_linear(data)
    return wrap(result.output), result.scale, result.zero_point


_STORED = frozenset({"int8", "uint8", "int16", "uint16", "int32", *_NARROW, *SMALL_FLOATS})


def refuses_quantize(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Refuse types that are not stored here."""
    dtype = dtypes.get(node.inputs[2]) if len(node.inputs) > 2 else None
    asked = node.attributes.get("output_dtype", 0)
    if (dtype is not None and str(dtype) not in _STORED) or asked not in ELEMENT_TYPES:
        return f"it quantizes to {asked if dtype is None else dtype}, which is {_NEITHER}"
    return None


def refuses_dequantize(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Refuse types that are not stored here."""
    known = (dtypes[name] for position, name in enumerate(node.inputs) if position != 1 and name in dtypes)
    wrong = next((dtype for dtype in known if str(dtype) not in _STORED), None)
    return f"it dequantizes {wrong}, which is {_NEITHER}" if wrong else None


_NEITHER = "no integer of 2 to 32 bits and no float8 or float4"


TABLE: Table = {
    "QuantizeLinear": (Handler(10, quantize_linear, raw=True, constant=SCALING, refuses=refuses_quantize),),
    "DequantizeLinear": (
        Handler(
            10,
            dequantize_linear,
            raw=True,
            constant=SCALING,
            optional="x_scale",
            refuses=refuses_dequantize,
            packs=pack_matrix,
        ),
    ),
    "DynamicQuantizeLinear": (Handler(11, dynamic_quantize_linear, raw=True),),
}
