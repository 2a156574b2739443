"""Layers of com.microsoft with quantized weights, which onnxruntime's quantizers make of fused transformers.

Products of integers are exact, and scaled once. What follows, the attention and the normalization, are floats.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

import jaxdml
from jaxdml.onnx._graph import Node
from jaxdml.onnx._stored import on_device
from jaxdml.onnx._values import channels_first
from jaxdml.onnx.nodes._handler import Call, Handler, Table
from jaxdml.onnx.nodes.attention import attention, merge_heads, split_heads
from jaxdml.onnx.nodes.microsoft import matrix_multiply_integer_to_float
from jaxdml.onnx.nodes.normalization import layer_normalization


def quantized_attention(
    call: Call,
    input: Any,
    weight: Any,
    bias: Any,
    input_scale: Any,
    weight_scale: Any,
    mask_index: Any = None,
    input_zero_point: Any = None,
    weight_zero_point: Any = None,
    past: Any = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[jax.Array, jax.Array]:
    """Project to queries, keys and values by one product of integers, and attend."""
    scales = input_scale, weight_scale, input_zero_point, weight_zero_point
    projected = matrix_multiply_integer_to_float(call, input, weight, *scales, bias)
    q, k, v = (split_heads(part, num_heads) for part in jnp.split(projected, 3, axis=-1))
    before = (None, None) if past is None else tuple(on_device(channels_first(past)))
    length = k.shape[2] + (0 if past is None else past.shape[3])
    added = None
    if mask_index is not None:
        seen = _seen(on_device(channels_first(mask_index)), q.shape[0], length)
        added = jnp.where(seen, 0, mask_filter_value).astype(q.dtype)
    result, k, v, _ = attention(call, q, k, v, added, *before, is_causal=unidirectional, scale=scale or None)
    return merge_heads(result), jnp.stack((k, v))


def _seen(mask: jax.Array, batch: Any, length: Any) -> jax.Array:
    """Return which keys each query may see, as ``[batch, 1, queries or 1, keys]``.

    A mask has a number for each key, or for each query and key. Or it says where the keys of each row of the batch end,
    and then, if it is twice as long, where they begin.
    """
    if mask.ndim == 1:
        places = jnp.arange(length)
        ends = places < mask[:batch, None]
        seen = ends if mask.shape[0] == batch else ends & (places >= mask[batch:, None])
        return seen[:, None, None]
    if mask.ndim > 3:
        raise NotImplementedError(f"a mask of {mask.ndim} dimensions is not supported, as in onnxruntime on CPUs")
    return (mask > 0)[:, None, None] if mask.ndim == 2 else (mask > 0)[:, None]


def quantized_embedding(
    call: Call,
    input_ids: Any,
    segment_ids: Any,
    word_embedding: Any,
    position_embedding: Any,
    segment_embedding: Any,
    gamma: Any,
    beta: Any,
    mask: Any,
    word_scale: Any,
    position_scale: Any,
    segment_scale: Any,
    gamma_scale: Any,
    beta_scale: Any,
    word_zero_point: Any,
    position_zero_point: Any,
    segment_zero_point: Any,
    gamma_zero_point: Any,
    beta_zero_point: Any,
    *,
    epsilon: float = 1e-12,
) -> tuple[jax.Array, jax.Array]:
    """Add the embeddings of words, of positions and of segments, and normalize the sum; count what the mask keeps."""

    def floats(integers: Any, scale: Any, zero_point: Any) -> jax.Array:
        return jaxdml.dequantize_linear(integers, scale.reshape(()), zero_point.reshape(()))

    # Only what is read is dequantized.
    total = floats(jaxdml.gather(word_embedding, input_ids, axis=0), word_scale, word_zero_point)
    total += floats(position_embedding[: input_ids.shape[1]], position_scale, position_zero_point)
    if segment_ids is not None:
        total += floats(jaxdml.gather(segment_embedding, segment_ids, axis=0), segment_scale, segment_zero_point)
    affine = floats(gamma, gamma_scale, gamma_zero_point), floats(beta, beta_scale, beta_zero_point)
    result, *_ = layer_normalization(call, total, *affine, epsilon=epsilon)
    kept = jnp.zeros(input_ids.shape[:1], jnp.int32) if mask is None else (mask == 1).sum(1, dtype=jnp.int32)
    return result, kept


def _refuses_attention(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attributes.get(name):
            return f"{name} is not supported"
    return None


TABLE: Table = {
    "QAttention": (
        Handler(1, quantized_attention, raw=True, constant=(3, 4, 6, 7), refuses=_refuses_attention, matrix=1),
    ),
    "QEmbedLayerNormalization": (
        Handler(1, quantized_embedding, constant=tuple(range(8, 18)), optional=(1, 4, 7, 10, 15)),
    ),
}
