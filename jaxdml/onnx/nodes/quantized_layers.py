"""Layers of com.microsoft with quantized weights, which onnxruntime's quantizers make of fused transformers.

Products of integers are exact, and scaled once. What follows, the attention and the normalization, are floats.
"""

from typing import Any

import jax
import jax.numpy as jnp

import jaxdml
from jaxdml._networks.attention import split_heads
from jaxdml.onnx.nodes._handler import SCALING, Handler, NodeCall, Table
from jaxdml.onnx.nodes.fused_attention import attend, embed, refuses_attention, seen, with_past
from jaxdml.onnx.nodes.microsoft import matrix_multiply_integer_to_float
from jaxdml.onnx.values.kinds import channels_first
from jaxdml.onnx.values.stored import on_device


def quantized_attention(
    call: NodeCall,
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
    k, v = with_past(None if past is None else on_device(channels_first(past)), k, v)
    mask = None if mask_index is None else seen(on_device(channels_first(mask_index)), q.shape[0], k.shape[2])
    options: dict[str, Any] = {"mask_filter_value": mask_filter_value, "scale": scale, "unidirectional": unidirectional}
    result, _ = attend((q, k, v), mask, None, **options)
    return result, jnp.stack((k, v))


def quantized_embedding(
    call: NodeCall,
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
    words = floats(jaxdml.gather(word_embedding, input_ids, axis=0), word_scale, word_zero_point)
    positions = floats(position_embedding[: input_ids.shape[1]], position_scale, position_zero_point)
    segments = None
    if segment_ids is not None:
        segments = floats(jaxdml.gather(segment_embedding, segment_ids, axis=0), segment_scale, segment_zero_point)
    affine = floats(gamma, gamma_scale, gamma_zero_point), floats(beta, beta_scale, beta_zero_point)
    return embed(call, words, positions, segments, affine, mask, epsilon)[:2]


TABLE: Table = {
    "QAttention": (
        Handler(1, quantized_attention, raw=True, constant=SCALING, refuses=refuses_attention, matrices="weight"),
    ),
    "QEmbedLayerNormalization": (Handler(1, quantized_embedding, constant=SCALING, optional="segment_* mask"),),
}
