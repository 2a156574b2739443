"""Attention, embeddings and rotations of com.microsoft on floats."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from jaxdml._networks.along_axes import softmax
from jaxdml._networks.attention import merge_heads, products, rotated, split_heads, weighted, within, without_unseen
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes.normalization import layer_normalization

Parts = tuple[Any, Any, Any]
"""Queries, keys and values, ``[batch, heads, length, size]``."""


def attend(
    parts: Parts,
    mask: Any,
    bias: Any,
    *,
    mask_filter_value: float,
    scale: float,
    unidirectional: int,
    counts: tuple[Any, Any] | None = None,
) -> tuple[Any, Any]:
    """Return softmax(Q K^T) V with its heads side by side, and the scores.

    A mask is a number that is added to the scores of masked keys. So a row of which all keys are masked sees all.

    Args:
      parts: queries, keys and values.
      mask: which keys each query may see, booleans that broadcast to the scores; or None.
      bias: is added to the scores; or None.
      mask_filter_value: what a mask adds.
      scale: of the scores; 0 for that of the size of a head.
      unidirectional: whether a query does not see the keys after it.
      counts: how many queries and keys count, where there may be more; None where all do.
    """
    q, k, v = parts
    x = products(q, k) * np.float32(scale or q.shape[-1] ** -0.5)
    added = jnp.zeros((), x.dtype) if mask is None else jnp.where(mask, 0, mask_filter_value).astype(x.dtype)
    queries, keys = counts or x.shape[-2:]
    rows, places = jnp.arange(x.shape[-2])[:, None], jnp.arange(x.shape[-1])
    if unidirectional and x.shape[-2] > 1:
        # onnxruntime lets the last query see all keys, also where there are more keys than queries.
        later = (places > rows + keys - queries) & (rows < queries - 1)
        added = jnp.where(later, jnp.finfo(x.dtype).min, added)
    x = x + added if bias is None else x + added + bias.astype(x.dtype)
    if counts is not None:
        x, v = jnp.where(places < keys, x, -jnp.inf), without_unseen(v, (places < keys)[None])
    return merge_heads(weighted(softmax(x, (-1,)), v.astype(x.dtype)).astype(q.dtype)), x


def seen(mask: jax.Array, batch: Any, length: Any) -> jax.Array | None:
    """Return which keys each query may see, as ``[batch, 1, queries or 1, keys]``.

    A mask has a number for each key, or for each query and key. Or it says where the keys of each row of the batch end,
    and then, if it is twice as long, where they begin; if it is longer, its first part says where they end.
    """
    if mask.ndim == 1:
        return within(length, mask[:batch], mask[batch:] if mask.shape[0] == 2 * batch else None)
    if mask.ndim > 3:
        raise NotImplementedError(f"a mask of {mask.ndim} dimensions is not supported, as in onnxruntime on CPUs")
    if mask.ndim == 2 and mask.shape[1] == 1 and length != 1:
        return None  # It takes the place of a mask.
    return (mask > 0)[:, None, None] if mask.ndim == 2 else (mask > 0)[:, None]


def with_past(past: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """Put keys and values behind those of before, if there are such."""
    return (k, v) if past is None else (jnp.concatenate((past[0], k), axis=2), jnp.concatenate((past[1], v), axis=2))


def projected(input: Any, weights: Any, bias: Any, heads: int, sizes: Sequence[int]) -> Parts:
    """Return queries, keys and values as one product; ``sizes`` are their widths, or none if these are equal."""
    product = jnp.matmul(input, weights, precision=lax.Precision.HIGHEST)
    product = product if bias is None else product + bias
    third = product.shape[-1] // 3
    first, second, _ = sizes or (third, third, third)
    q, k, v = (split_heads(part, heads) for part in jnp.split(product, (first, first + second), axis=-1))
    return q, k, v


def attention_layer(
    call: NodeCall,
    input: Any,
    weights: Any,
    bias: Any = None,
    mask_index: Any = None,
    past: Any = None,
    attention_bias: Any = None,
    past_sequence_length: Any = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] = (),
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[jax.Array, Any]:
    """Project to queries, keys and values by one product, and attend."""
    q, k, v = projected(input, weights, bias, num_heads, qkv_hidden_sizes)
    k, v = with_past(past, k, v)
    mask = None if mask_index is None else seen(mask_index, q.shape[0], k.shape[2])
    options: dict[str, Any] = {"mask_filter_value": mask_filter_value, "scale": scale, "unidirectional": unidirectional}
    result, _ = attend((q, k, v), mask, attention_bias, **options)
    return result, jnp.stack((k, v)) if k.shape == v.shape else None


def heads_of(query: Any, key: Any, value: Any, bias: Any, heads: int) -> Parts:
    """Return queries, keys and values with a bias, and with their heads apart."""
    query, key, value = _side_by_side(query, key, value)
    if bias is not None:
        width = query.shape[-1]
        of_query, of_key, of_value = jnp.split(bias, (width, 2 * width))
        query = query + of_query
        # Keys that have their heads apart are ready.
        key, value = (key + of_key, value + of_value) if key.ndim == 3 else (key, value)
    q, k, v = (x if x.ndim == 4 else split_heads(x, heads) for x in (query, key, value))
    return q, k, v


def multi_head_attention(
    call: NodeCall,
    query: Any,
    key: Any = None,
    value: Any = None,
    bias: Any = None,
    key_padding_mask: Any = None,
    attention_bias: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    past_sequence_length: Any = None,
    cache_indirection: Any = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Any, ...]:
    """Attend; the scores are returned with what is added to them, before they are normalized."""
    q, k, v = heads_of(query, key, value, bias, num_heads)
    k, v = with_past(None if past_key is None else (past_key, past_value), k, v)
    mask = None if key_padding_mask is None else seen(key_padding_mask, q.shape[0], k.shape[2])
    options: dict[str, Any] = {"mask_filter_value": mask_filter_value, "scale": scale, "unidirectional": unidirectional}
    result, x = attend((q, k, v), mask, attention_bias, **options)
    return result, k, v, x.astype(q.dtype)


def _side_by_side(query: Any, key: Any, value: Any) -> Parts:
    """Return queries, keys and values, which may be packed for each head."""
    if query.ndim == 5:  # [batch, length, heads, 3, size]
        query, key, value = (query[:, :, :, part].reshape(*query.shape[:2], -1) for part in range(3))
    elif key.ndim == 5:  # [batch, length, heads, 2, size]
        key, value = (key[:, :, :, part].reshape(*key.shape[:2], -1) for part in range(2))
    return query, key, value


def rotary_embedding(
    call: NodeCall,
    input: Any,
    position_ids: Any,
    cos_cache: Any,
    sin_cache: Any,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> jax.Array:
    """Rotate pairs by the angles of positions, or of all that follow one position. ``scale`` has no effect."""
    width = 2 * cos_cache.shape[-1]
    heads = num_heads if num_heads or input.ndim == 4 else input.shape[-1] // width
    x = input if input.ndim == 4 else split_heads(input, heads)
    if position_ids.size == 1:
        position_ids = position_ids.reshape(1, 1) + jnp.arange(x.shape[2])
    pairs = (rotary_embedding_dim or x.shape[-1]) // 2
    cos, sin = (jaxdml.gather(table, position_ids, axis=0)[..., :pairs] for table in (cos_cache, sin_cache))
    y = rotated(x, cos, sin, interleaved=bool(interleaved))
    return y if input.ndim == 4 else merge_heads(y)


def embed(
    call: NodeCall,
    words: Any,
    positions: Any,
    segments: Any,
    affine: tuple[Any, Any],
    mask: Any,
    epsilon: float,
) -> tuple[Any, Any, Any]:
    """Add embeddings and normalize the sum; count what the mask keeps of each row; return the sum, too."""
    total = words + positions if segments is None else words + positions + segments
    result, *_ = layer_normalization(call, total, *affine, epsilon=epsilon)
    kept = jnp.zeros(words.shape[:1], jnp.int32) if mask is None else (mask == 1).sum(1, dtype=jnp.int32)
    return result, kept, total


def embed_layer_normalization(
    call: NodeCall,
    input_ids: Any,
    segment_ids: Any,
    word_embedding: Any,
    position_embedding: Any,
    segment_embedding: Any,
    gamma: Any,
    beta: Any,
    mask: Any = None,
    position_ids: Any = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Any, Any, Any]:
    """Add the embeddings of words, of positions and of segments, and normalize the sum."""
    rows = position_embedding[: input_ids.shape[1]]
    positions = rows if position_ids is None else jaxdml.gather(position_embedding, position_ids, axis=0)
    segments = None
    if segment_embedding is not None:
        segments = segment_embedding[0]
        if segment_ids is not None:
            segments = jaxdml.gather(segment_embedding, segment_ids, axis=0)
    words = jaxdml.gather(word_embedding, input_ids, axis=0)
    return embed(call, words, positions, segments, (gamma, beta), mask, epsilon)


def refuses_attention(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Refuse what onnxruntime does not have on CPUs either."""
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attributes.get(name):
            return f"{name} is not supported"
    return None


def _refuses_shared_cache(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    return "a cache of more than its keys is not supported" if any(node.inputs[8:]) else None


TABLE: Table = {
    "Attention": (Handler(1, attention_layer, refuses=refuses_attention),),
    "EmbedLayerNormalization": (Handler(1, embed_layer_normalization, optional="segment_ids segment_embedding"),),
    "MultiHeadAttention": (Handler(1, multi_head_attention, refuses=_refuses_shared_cache),),
    "RotaryEmbedding": (Handler(1, rotary_embedding),),
}
