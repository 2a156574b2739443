"""Caches of keys and values that hold integers: int8, or 4 bits, of which a byte holds two, the lower bits first."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from jaxdml.onnx._graph import Node

_LARGEST = {4: 7, 8: 127}
"""By the number of bits."""

_TYPES = "NONE", "PER_TENSOR", "PER_CHANNEL"


def stored(x: Any, scale: Any, bits: int) -> Any:
    """Return what a cache holds of keys or values ``[batch, groups, length, size]``; ``bits`` is 0 for the floats.

    Args:
      x: floats.
      scale: float32, of one element, or ``[1, groups, 1, size]``.
      bits: of an element: 4 or 8.
    """
    if not bits:
        return x
    largest = _LARGEST[bits]
    integers = jnp.clip(jnp.rint(x.astype(jnp.float32) / _broadcast(scale)), -largest - 1, largest)
    if bits == 8:
        return integers.astype(jnp.int8)
    nibbles = (integers + 8).astype(jnp.uint8)
    missing = nibbles.shape[-1] % 2
    pairs = jnp.pad(nibbles, [(0, 0)] * 3 + [(0, missing)]).reshape(*nibbles.shape[:-1], -1, 2)
    return pairs[..., 0] | pairs[..., 1] << 4


def restored(cache: Any, scale: Any, bits: int, size: int) -> Any:
    """Return the floats that a cache stands for, ``[batch, groups, length, size]``."""
    if not bits:
        return cache
    if bits == 4:
        halves = jnp.stack((cache & 15, cache >> 4), axis=-1).reshape(*cache.shape[:-1], -1)[..., :size]
        return (halves.astype(jnp.float32) - 8) * _broadcast(scale)
    return cache.astype(jnp.float32) * _broadcast(scale)


def bits_of(kind: str, bits: int) -> int:
    """Return how many bits an element of a cache takes, by the attributes of the node; 0 for floats."""
    return 0 if kind == "NONE" else bits


def width(size: int, attributes: Mapping[str, Any]) -> int:
    """Return how long the last dimension of a node's caches is for heads of a size."""
    is_packed = bits_of(attributes.get("k_quant_type", "NONE"), attributes.get("kv_cache_bit_width", 0)) == 4
    return -(-size // 2) if is_packed else size


def refuses(node: Node) -> str | None:
    """Say why a node's caches cannot be stored as its attributes say."""
    attributes = node.attributes
    kinds = [attributes.get(f"{name}_quant_type", "NONE") for name in "kv"]
    for name, kind, place in zip("kv", kinds, (12, 13), strict=True):
        if kind not in _TYPES:
            return f"{name}_quant_type {kind!r} is none of {', '.join(_TYPES)}"
        if kind != "NONE" and not "".join(node.inputs[place : place + 1]):
            return f"a quantized cache needs {name}_scale"
    bits = attributes.get("kv_cache_bit_width", 0)
    if kinds != ["NONE", "NONE"] and bits not in _LARGEST:
        return f"kv_cache_bit_width is {bits}, and must be 4 or 8"
    return None


def _broadcast(scale: Any) -> Any:
    return scale.astype(jnp.float32) if scale.ndim == 4 else scale.astype(jnp.float32).reshape(1, 1, 1, -1)
