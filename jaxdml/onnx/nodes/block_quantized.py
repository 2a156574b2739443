"""Matrices of few bits with a scale for each block: products with them, and reading their rows.

Where they are initializers, they are packed when a model is loaded: see ``running/packing.py``.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from jaxdml._base.dtypes import SCALES
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.values.kinds import channels_first
from jaxdml.onnx.values.stored import on_device

_BLOCK_TYPES: Mapping[int, tuple[Any, Any, int]] = MappingProxyType(
    {2: (jnp.uint2, jnp.int2, 0xAA), 4: (jnp.uint4, jnp.int4, 0x88), 8: (jnp.uint8, jnp.int8, 0x80)}
)
"""By number of bits: the unsigned and the signed type, and the bytes that make the one of the other."""


def unpacked(data: Any, bits: int, *, signed: bool) -> jax.Array:
    """Return the elements that bytes hold along their last axis, the first in the lowest bits.

    Args:
      data: uint8.
      bits: of an element: 2, 4 or 8.
      signed: whether the unsigned elements are made signed, by subtracting half of their range.
    """
    unsigned, narrow, flip = _BLOCK_TYPES[bits]
    data = jnp.asarray(data)
    elements = lax.bitcast_convert_type(data ^ np.uint8(flip) if signed else data, narrow if signed else unsigned)
    return elements if bits == 8 else elements.reshape(*data.shape[:-1], -1)


_STORED = "uint8", "int4", "uint4"
"""What holds the elements of a matrix."""


def pack_weights(
    B: Any, scales: Any, zero_points: Any, *, block_size: int, bits: int = 4, K: int | None = None, **_: Any
) -> jaxdml.PackedBlocks | None:
    """Pack what stands for a matrix ``[N, K]``; None where it can only be computed as it is written.

    Args:
      B: uint8 that hold the elements of each row, or int4 or uint4 ``[N, K]``.
      scales: of each block of a row.
      zero_points: packed as ``B``, or None.
      block_size: how many elements share a scale.
      bits: of an element.
      K: the length of a row, where it is not that of ``B``.
    """
    is_packed, n = B.dtype == np.uint8, len(B) if B.ndim > 1 else 0
    stored = math.prod(B.shape[1:]) * (8 // bits if is_packed else 1)
    width = stored if K is None else K
    # What does not fit is an error, or another layout, when it is computed as it is written.
    if not (n and block_size > 0 and block_size % 16 == 0 and 0 < width <= stored and str(scales.dtype) in SCALES):
        return None
    if str(B.dtype) not in _STORED:
        return None
    blocks = -(-width // block_size)
    zeros = n * (-(-blocks * bits // 8) if is_packed else blocks)
    alike = zero_points is None or (zero_points.dtype == B.dtype and zero_points.size == zeros)
    if scales.size != n * blocks or not alike:
        return None

    def elements(array: Any) -> jax.Array:
        rows = np.ascontiguousarray(array).reshape(n, -1)
        return unpacked(rows, bits, signed=zero_points is None) if is_packed else jnp.asarray(rows)

    rows = elements(B)[:, :width]
    scale = jnp.asarray(scales).reshape(n, -1)
    zero = None if zero_points is None else elements(zero_points)[:, :blocks].T
    return jaxdml.prepack_blocks(rows.T, scale.T, zero, block_size=block_size)


def matmul_nbits(
    call: NodeCall,
    A: Any,
    B: Any,
    scales: Any = None,
    zero_points: Any = None,
    g_idx: Any = None,
    bias: Any = None,
    *,
    K: int,
    N: int,
    block_size: int,
    accuracy_level: int = 0,
    bits: int = 4,
    weight_prepacked: int = 0,
) -> Any:
    """Multiply by the transposed matrix, in float32 whatever ``accuracy_level`` would permit."""
    a = on_device(channels_first(A))
    bias = None if bias is None else on_device(channels_first(bias))
    if isinstance(B, jaxdml.PackedBlocks):
        call.note((call.node.name,), f"matrix_multiply_block_quantized, {bits} bits")
        result = jaxdml.matrix_multiply_block_quantized(a, B)
        return result if bias is None else result + bias
    if N == 0 or K == 0:
        return jnp.zeros((*a.shape[:-1], N), a.dtype) + (0 if bias is None else bias)
    parts = (None if part is None else on_device(channels_first(part)) for part in (B, scales, zero_points, g_idx))
    matrix = _as_floats(*parts, shape=(N, K), block_size=block_size, bits=bits)
    wide = jnp.promote_types(a.dtype, jnp.float32)
    product = jnp.matmul(a.astype(wide), matrix.T, precision=lax.Precision.HIGHEST)
    return (product if bias is None else product + bias).astype(a.dtype)


def _as_floats(
    data: Any, scales: Any, zero_points: Any, groups: Any, *, shape: tuple[int, int], block_size: int, bits: int
) -> jax.Array:
    """Return the matrix ``[N, K]`` that arrays stand for, which may be traced."""
    n, k = shape
    elements = unpacked(data.reshape(n, -1), bits, signed=False)[:, :k].astype(jnp.float32)
    scale = scales.reshape(n, -1).astype(jnp.float32)
    zero: Any = jnp.full_like(scale, 2 ** (bits - 1))
    if zero_points is not None:
        packed = zero_points.dtype == jnp.uint8
        given = unpacked(zero_points.reshape(n, -1), bits, signed=False) if packed else zero_points.reshape(n, -1)
        zero = given[:, : scale.shape[1]].astype(jnp.float32)
    group = jnp.arange(k) // block_size if groups is None else groups[:k]
    return (elements - zero[:, group]) * scale[:, group]


def gather_block_quantized(
    call: NodeCall,
    data: Any,
    indices: Any,
    scales: Any = None,
    zero_points: Any = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> jax.Array:
    """Read slices of the floats that the data stand for: of a packed table these alone. Out of range they are 0."""
    indices = on_device(channels_first(indices))
    if isinstance(data, jaxdml.PackedBlocks):
        count = data.shape[1]
        rows = data.columns(jnp.where(indices < 0, indices + count, indices))
        return _or_zero(rows, indices, count, 0)
    data, scales = (on_device(channels_first(array)) for array in (data, scales))
    axis, is_packed = axis_of(gather_axis, data.ndim), data.dtype == jnp.uint8
    signed = str(data.dtype).startswith("i")

    def elements(array: Any) -> jax.Array:
        array = on_device(channels_first(array))
        return (unpacked(array, bits, signed=False) if is_packed else array).astype(jnp.int8 if signed else jnp.uint8)

    zero = jnp.full(scales.shape, 2 ** (bits - 1), jnp.uint8) if is_packed else None
    if zero_points is not None:
        zero = elements(zero_points)[..., : scales.shape[-1]]
    floats = jaxdml.dequantize_linear(elements(data), scales, zero, axis=quantize_axis, block_size=block_size)
    return _or_zero(jaxdml.gather(floats, indices, axis=axis), indices, floats.shape[axis], axis)


def _or_zero(found: Any, indices: Any, count: int, axis: int) -> jax.Array:
    """Replace slices of indices out of range by 0."""
    inside = (indices >= -count) & (indices < count)
    return jnp.where(inside.reshape(*inside.shape, *[1] * (found.ndim - axis - inside.ndim)), found, 0)


def matmul_bnb4(
    call: NodeCall,
    A: Any,
    B: Any,
    absmax: Any,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,
) -> jax.Array:
    """Multiply by a matrix of 4-bit floats with a scale for each block of its elements, row after row."""
    places = jnp.stack((B >> 4, B & 15), axis=-1).reshape(-1)[: N * K].astype(jnp.int32)
    scale = jnp.repeat(absmax.astype(jnp.float32), block_size)[: N * K]
    matrix = (jnp.asarray(_FLOATS[quant_type])[places] * scale).reshape(N, K)
    right = matrix.T if transB else matrix.reshape(K, N)
    return jnp.matmul(A.astype(jnp.float32), right, precision=lax.Precision.HIGHEST).astype(A.dtype)


_FP4 = (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334),
    *(-0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
_FLOATS = tuple(np.asarray(values, np.float32) for values in ((*_FP4, *(-x for x in _FP4)), _NF4))
"""What 4 bits mean, by the attribute ``quant_type``."""


def _refuses(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    if node.attributes.get("weight_prepacked"):
        return "weight_prepacked is a layout of one device"
    if node.attributes.get("bits", 4) not in _BLOCK_TYPES:
        return f"bits is {node.attributes['bits']}, and must be 2, 4 or 8"
    return None


def pack_rows(
    data: Any,
    scales: Any,
    zero_points: Any,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> jaxdml.PackedBlocks | None:
    """Pack a table of rows, as they most often are."""
    of_rows = data.ndim == 2 and gather_axis in (0, -2) and quantize_axis in (1, -1)
    return pack_weights(data, scales, zero_points, block_size=block_size, bits=bits) if of_rows else None


TABLE: Table = {
    "GatherBlockQuantized": (
        Handler(1, gather_block_quantized, raw=True, optional="scales", refuses=_refuses, packs=pack_rows),
    ),
    "MatMulBnb4": (Handler(1, matmul_bnb4),),
    "MatMulNBits": (Handler(1, matmul_nbits, raw=True, optional="scales", refuses=_refuses, packs=pack_weights),),
}
