"""GroupQueryAttention of com.microsoft: attention with a cache of keys and values, as language models use it.

Of each row of the batch ``seqlens_k`` says how many keys are valid after the step. Values in the cache beyond these are
never used. So a step whose cache and mask have a fixed length is one program for all tokens.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from jaxdml._base.shapes import is_static
from jaxdml._networks.attention import capped, merge_heads, probabilities, products, rotated, split_heads, weighted
from jaxdml._networks.caches import on_shards_of_rows, tensor_scatter
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._quantized_cache import bits_of, refuses, restored, stored
from jaxdml.onnx.nodes._sizes import refusal


class _Rows(NamedTuple):
    """How many keys each row of the batch has: before the step, and after it."""

    before: Any
    after: Any


class _Cache(NamedTuple):
    """Keys and values to attend to, and to return.

    Attributes:
      keys: as stored, ``[batch, groups, length, size]``.
      values: likewise.
      positions: of the keys in the sequence, ``[length]`` or ``[batch, length]``.
      valid: which keys there are, ``[batch, length]``.
      present: keys and values to return.
    """

    keys: Any
    values: Any
    positions: Any
    valid: Any
    present: tuple[Any, Any]


def group_query_attention(
    call: NodeCall,
    query: Any,
    key: Any,
    value: Any,
    past_key: Any,
    past_value: Any,
    seqlens_k: Any,
    total_sequence_length: np.ndarray,
    cos_cache: Any = None,
    sin_cache: Any = None,
    position_ids: Any = None,
    attention_bias: Any = None,
    head_sink: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    q_norm_weight: Any = None,
    k_norm_weight: Any = None,
    query_seqlens: Any = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    causal: int = 1,
    do_rotary: int = 0,
    k_norm_epsilon: float | None = None,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    local_window_size: int = -1,
    q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> tuple[Any, ...]:
    """Write new keys and values to the cache, and attend to those that are valid and in the window."""
    total = int(total_sequence_length.reshape(()))
    q, k, v = _heads(query, key, value, num_heads, kv_num_heads)
    if q_norm_weight is not None:
        own = (qk_norm_epsilon if epsilon is None else epsilon for epsilon in (q_norm_epsilon, k_norm_epsilon))
        q, k = (_normal(*of) for of in zip((q, k), (q_norm_weight, k_norm_weight), own, strict=True))
    length = q.shape[2]
    rows = _rows(seqlens_k.reshape(-1).astype(jnp.int32), query_seqlens, length)
    if do_rotary:
        positions = _positions(rows, length) if position_ids is None else position_ids
        tables = [jaxdml.gather(table, positions, axis=0) for table in (cos_cache, sin_cache)]
        q, k = (rotated(x, *tables, interleaved=bool(rotary_interleaved)) if x.shape[2] else x for x in (q, k))
    size, bits = q.shape[3], [bits_of(kind, kv_cache_bit_width) for kind in (k_quant_type, v_quant_type)]
    k, v = stored(k, k_scale, bits[0]), stored(v, v_scale, bits[1])
    past = None if past_key is None else (past_key, past_value)
    if past is not None and past_key.shape[3] != k.shape[3]:
        raise ValueError(f"the heads of the cache have the size {past_key.shape[3]}, those of the queries {k.shape[3]}")
    window = local_window_size if local_window_size >= 0 else None
    cache = _sliding(k, v, past, rows, window) if sliding_window_cache else _linear(k, v, past, rows, total)
    keys, values = restored(cache.keys, k_scale, bits[0], size), restored(cache.values, v_scale, bits[1], size)
    x = capped(products(q, keys) * np.float32(scale or q.shape[-1] ** -0.5), softcap)
    if attention_bias is not None:
        missing = keys.shape[2] - attention_bias.shape[-1]
        x = x + jnp.pad(attention_bias, [(0, 0)] * 3 + [(0, missing)]).astype(x.dtype)
    visible = _visible(cache, rows, length, causal=bool(causal), window=window)
    p = probabilities(x, visible, _sink(head_sink, smooth_softmax))
    # A product with 0 would spread what is not finite in rows that are not valid.
    values = jnp.where(cache.valid[:, None, :, None], values, 0).astype(x.dtype)
    y = merge_heads(weighted(p, values).astype(q.dtype))
    shown = {1: jnp.where(visible, x, 0), 2: p}.get(qk_output)
    return (y, *cache.present, None if shown is None else shown[..., :total].astype(q.dtype))


def _heads(query: Any, key: Any, value: Any, heads: int, groups: int) -> tuple[Any, Any, Any]:
    """Return queries, keys and values as ``[batch, heads, length, size]``; they may come side by side."""
    if key is None:
        size = query.shape[-1] // (heads + 2 * groups)
        query, key, value = jnp.split(query, (heads * size, (heads + groups) * size), axis=-1)
    return split_heads(query, heads), split_heads(key, groups), split_heads(value, groups)


def _normal(x: Any, weight: Any, epsilon: float) -> Any:
    """Divide each head by the root of its mean square."""
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + epsilon) * weight).astype(x.dtype)


def _rows(last: Any, new: Any, length: int) -> _Rows:
    """Return how many keys there are. A row that is shorter than the step is a first prompt, padded at its end."""
    after = last + 1
    return _Rows(jnp.maximum(after - length, 0) if new is None else after - new.astype(jnp.int32), after)


def _positions(rows: _Rows, length: int) -> Any:
    return rows.before[:, None] + jnp.arange(length)


def _linear(k: Any, v: Any, past: Any, rows: _Rows, total: int) -> _Cache:
    """Keep the key of each position in the row of that number; what does not fit is not kept."""
    past = past or tuple(new[:, :, :0] for new in (k, v))
    before, new = past[0].shape[2], k.shape[2]
    if is_static(before, new) and (total < new or before < total != before + new):
        rule = f"total_sequence_length must be {before + new}, or between {new} and {before}, the length of the cache"
        raise refusal(f"{rule}; got {total}.")
    room = max(total, before)
    added = [(0, 0), (0, 0), (0, room - before), (0, 0)]
    keys, values = (_written(jnp.pad(old, added), new, rows.before) for old, new in zip(past, (k, v), strict=True))
    places = jnp.arange(room)
    return _Cache(keys, values, places, places < rows.after[:, None], (keys, values))


def _written(cache: Any, new: Any, starts: Any) -> Any:
    """Write rows from each start on. No new rows: the keys are those of another layer."""
    return tensor_scatter(cache, new.astype(cache.dtype), starts, axis=2) if new.shape[2] else cache


def _sliding(k: Any, v: Any, past: Any, rows: _Rows, window: int | None) -> _Cache:
    """Keep the last keys from row 0 on: as many as fit, and when they fit no more, those of a window."""
    length = k.shape[2]
    room, step = past[0].shape[2], past[0].shape[2] - (window or 1) + 1

    def kept(count: Any) -> Any:
        return jnp.where(count <= room, count, count - step * -(-(count - room) // step))

    first = rows.before - kept(rows.before)
    old = jnp.arange(room)
    positions = jnp.concatenate((first[:, None] + old, _positions(rows, length)), axis=1)
    valid = jnp.concatenate((old < kept(rows.before)[:, None], _positions(rows, length) < rows.after[:, None]), axis=1)
    keys, values = (jnp.concatenate(both, axis=2) for both in zip(past, (k, v), strict=True))
    # The rows to return, by their places in what is joined above.
    wanted = (rows.after - kept(rows.after))[:, None] + old
    places = jnp.where(wanted < rows.before[:, None], wanted - first[:, None], room + wanted - rows.before[:, None])
    places = jnp.clip(places, 0, room + length - 1)
    present = tuple(jax.vmap(lambda x, at: x[:, at])(x, on_shards_of_rows(x, places)) for x in (keys, values))
    return _Cache(keys, values, positions, valid, (present[0], present[1]))


def _visible(cache: _Cache, rows: _Rows, length: int, *, causal: bool, window: int | None) -> Any:
    """Return which keys each query sees, ``[batch, 1, queries, keys]``: those up to its own, in the window."""
    ends = rows.after[:, None, None]
    if causal:
        ends = jnp.minimum(_positions(rows, length)[..., None] + 1, ends)
    positions = cache.positions if cache.positions.ndim == 1 else cache.positions[:, None]
    seen = cache.valid[:, None] & (positions < ends)
    return (seen if window is None else seen & (positions >= ends - window))[:, None]


def _sink(head_sink: Any, smooth: int) -> Any:
    if head_sink is not None:
        return head_sink.astype(jnp.float32).reshape(-1, 1, 1)
    return jnp.float32(0) if smooth == 1 else None


def _refuses(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    if node.attributes.get("sliding_window_cache") and not (len(node.inputs) > 3 and node.inputs[3]):
        return "sliding_window_cache needs a past"
    return refuses(node)


TABLE: Table = {
    "GroupQueryAttention": (
        Handler(
            1, group_query_attention, static="total_sequence_length", optional="key value past_*", refuses=_refuses
        ),
    ),
}
