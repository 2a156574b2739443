"""Attention and rotary embeddings."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx

import jaxdml
from jaxdml._networks.along_axes import softmax
from jaxdml._networks.attention import merge_heads, products, rotated, split_heads, weighted, without_unseen
from jaxdml.onnx._graph import Graph
from jaxdml.onnx.nodes._body_arity import of_functions
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.values.kinds import channels_first
from jaxdml.onnx.values.stored import on_device

PADDED_SINCE = 24
"""From this version on a mask may have fewer columns than there are keys."""


def attention(
    call: NodeCall,
    Q: Any,
    K: Any,
    V: Any,
    attn_mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    nonpad_kv_seqlen: Any = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Any, ...]:
    """Compute softmax(Q K^T) V; a row that may see no key is 0."""
    packed = Q.ndim == 3
    if packed:
        Q, K, V = (
            split_heads(value, heads) for value, heads in ((Q, q_num_heads), (K, kv_num_heads), (V, kv_num_heads))
        )
    if past_key is not None:
        K, V = jnp.concatenate((past_key, K), axis=2), jnp.concatenate((past_value, V), axis=2)
    raw = scores(Q, K, Q.shape[-1] ** -0.5 if scale is None else scale)
    capped = softcap * jnp.tanh(raw / softcap) if softcap else raw
    offset: Any = 0 if past_key is None else past_key.shape[2]
    if nonpad_kv_seqlen is not None:
        nonpad_kv_seqlen = nonpad_kv_seqlen.reshape(-1, 1, 1, 1)
        offset = nonpad_kv_seqlen - Q.shape[2]
    if attn_mask is not None and call.node.opset >= PADDED_SINCE:
        attn_mask = _padded(attn_mask, K.shape[2])
    right = min((size for size in (right_window_size, 0 if is_causal else -1) if size >= 0), default=-1)
    bias = _bias(raw, attn_mask, offset, left_window_size, right, nonpad_kv_seqlen)
    hidden = bias == -jnp.inf
    # What is hidden may be NaN, such as rows of a cache that were never written.
    biased = jnp.where(hidden, -jnp.inf, capped + bias)
    probabilities = _softmax(biased, hidden, softmax_precision).astype(Q.dtype)
    Y = weighted(probabilities, without_unseen(V, ~hidden)).astype(Q.dtype)
    return merge_heads(Y) if packed else Y, K, V, (raw, capped, biased, probabilities)[qk_matmul_output_mode]


def scores(Q: Any, K: Any, scale: float) -> Any:
    """Multiply queries with keys, each with the root of the scale."""
    root = np.sqrt(scale).astype(Q.dtype)
    return products(Q * root, K * root).astype(Q.dtype)


def _padded(mask: Any, length: Any) -> Any:
    missing = length - mask.shape[-1]
    fill = False if mask.dtype == jnp.bool_ else -np.inf
    return jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=fill)


def _bias(raw: Any, mask: Any, offset: Any, left: int, right: int, valid: Any) -> Any:
    """Return what is added to the scores: -inf where a key may not be seen."""
    rows = jnp.arange(raw.shape[-2]).reshape(-1, 1) + offset
    columns = jnp.arange(raw.shape[-1])
    bias = jnp.zeros(raw.shape[-2:], raw.dtype)
    allowed = [
        *([rows - columns <= left] if left >= 0 else ()),
        *([columns - rows <= right] if right >= 0 else ()),
        *([columns < valid] if valid is not None else ()),
    ]
    if mask is not None and mask.dtype == jnp.bool_:
        allowed.append(mask)
    elif mask is not None:
        bias = bias + mask.astype(raw.dtype)
    for condition in allowed:
        bias = jnp.where(condition, bias, -jnp.inf)
    return bias


def _softmax(biased: Any, hidden: Any, precision: int | None) -> Any:
    """Normalize rows. Rows without a key are 0, and so are their derivatives."""
    nothing = jnp.all(hidden, axis=-1, keepdims=True)
    biased = jnp.where(nothing, 0, biased).astype(_dtype(precision, biased.dtype))
    return jnp.where(nothing, 0, softmax(biased, (-1,)))


def _dtype(precision: int | None, default: Any) -> Any:
    if precision is None:
        return default
    return jax.dtypes.canonicalize_dtype(onnx.helper.tensor_dtype_to_np_dtype(precision))


def flex_attention(
    call: NodeCall,
    Q: Any,
    K: Any,
    V: Any,
    *,
    prob_mod: Graph | None = None,
    scale: float | None = None,
    score_mod: Graph | None = None,
    softmax_precision: int | None = None,
) -> jax.Array:
    """Compute softmax(Q K^T) V, with graphs that change the scores and the probabilities."""
    dtype = _dtype(softmax_precision, jnp.promote_types(Q.dtype, jnp.float32))
    values = scores(Q, K, Q.shape[-1] ** -0.5 if scale is None else scale).astype(dtype)
    if score_mod is not None:
        values = _changed(call, score_mod, values)
    probabilities = softmax(values, (-1,))
    if prob_mod is not None:
        probabilities = _changed(call, prob_mod, probabilities)
    return weighted(probabilities, V.astype(dtype)).astype(V.dtype)


def _changed(call: NodeCall, graph: Graph, values: Any) -> Any:
    return on_device(channels_first(call.body(graph, [values])[0]))


def rotary_embedding(
    call: NodeCall,
    X: Any,
    cos_cache: Any,
    sin_cache: Any,
    position_ids: Any = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> jax.Array:
    """Rotate pairs of the first elements of each head by angles that depend on the position."""
    heads = split_heads(X, num_heads) if X.ndim == 3 else X
    pairs = (rotary_embedding_dim or heads.shape[-1]) // 2
    cos, sin = (
        (cache if position_ids is None else jaxdml.gather(cache, position_ids, axis=0))[..., :pairs]
        for cache in (cos_cache, sin_cache)
    )
    Y = rotated(heads, cos, sin, interleaved=bool(interleaved))
    return merge_heads(Y) if X.ndim == 3 else Y


PREVIEW: Table = {"FlexAttention": (Handler(1, flex_attention, refuses=of_functions),)}
"""Of the domain ai.onnx.preview."""

TABLE: Table = {
    "Attention": (Handler(23, attention),),
    "RotaryEmbedding": (Handler(23, rotary_embedding),),
}
