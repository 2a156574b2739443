"""Attention: no query sees a key that does not count, and new keys follow where those before them truly end."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from jaxdml._networks.attention import merge_heads, split_heads
from jaxdml.onnx.nodes import fused_attention
from jaxdml.onnx.nodes.bounded._fitting import fitted, must_not_have_lengths, stretched
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.nodes.bounded.joining import joined
from jaxdml.onnx.nodes.microsoft import matrix_multiply_integer_to_float
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, bounds, same, true
from jaxdml.onnx.values.promises import equal

Sizes = tuple[Any, ...]


def _with_past(task: Task, past: Value, new: Any, sizes: Sizes) -> tuple[Any, Sizes]:
    """Put keys or values ``[batch, heads, length, size]`` behind those of before; return their sizes, too."""
    if past is None:
        return new, sizes
    batch, heads, before, size = sizes_of(past)
    batch = equal(task.call.node, batch, sizes[0])
    old, new = (
        array(fitted(bounded(x, own), (batch, *own[1:]))) for x, own in ((inner(past), sizes_of(past)), (new, sizes))
    )
    return joined([old, new], 2, [before, sizes[2]]), (batch, heads, before + sizes[2], size)


def attention(
    task: Task,
    Q: Value,
    K: Value,
    V: Value,
    attn_mask: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    nonpad_kv_seqlen: Value = None,
) -> tuple[Value, ...]:
    """Attend, with what may be seen as a mask."""
    node = task.call.node
    packed = Q.ndim == 3
    batch = equal(node, *(sizes_of(x)[0] for x in (Q, K, V)))
    heads = [task.attribute(name) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    parts = []
    for x, count in zip((Q, K, V), heads, strict=True):
        own = (batch, *sizes_of(x)[1:])
        if isinstance(own[-1], Length):
            raise LengthError(f"the result for sizes {list(own)}")
        value = array(fitted(x, own))
        parts.append((split_heads(value, count), (batch, count, own[1], own[2] // count)) if packed else (value, own))
    (q, of_q), (k, of_k), (v, of_v) = parts
    new = equal(node, of_k[2], of_v[2])
    k, of_k = _with_past(task, past_key, k, (*of_k[:2], new, of_k[3]))
    v, of_v = _with_past(task, past_value, v, (*of_v[:2], new, of_v[3]))
    queries, keys = of_q[2], equal(node, of_k[2], of_v[2])
    offset: Any = 0 if past_key is None else true(sizes_of(past_key)[2])
    valid = None
    if nonpad_kv_seqlen is not None:
        valid = array(fitted(nonpad_kv_seqlen, (batch,))).reshape(-1, 1, 1, 1)
        offset = valid - true(queries)
    rows, columns = jnp.arange(q.shape[2])[:, None] + offset, jnp.arange(k.shape[2])
    left, right = (task.attribute(name) for name in ("left_window_size", "right_window_size"))
    right = min((size for size in (right, 0 if task.attribute("is_causal") else -1) if size >= 0), default=-1)
    seen = columns < true(keys)
    seen = seen if valid is None else seen & (columns < valid)
    seen = seen if left < 0 else seen & (rows - columns <= left)
    seen = seen if right < 0 else seen & (columns - rows <= right)
    mask = seen if attn_mask is None else _limited(task, attn_mask, seen, (batch, of_q[1], queries, keys))
    Y, *_, scores = task.compute(q, k, v, mask, is_causal=0, left_window_size=-1, right_window_size=-1)
    of_y = (batch, queries, of_q[1] * of_v[3]) if packed else (batch, of_q[1], queries, of_v[3])
    results = merge_heads(Y) if packed else Y, k, v, scores
    return tuple(map(bounded, results, (of_y, of_k, of_v, (batch, of_q[1], queries, keys))))


def _limited(task: Task, mask: Value, seen: Any, sizes: Sizes) -> Any:
    """Return a mask in which what may not be seen is hidden; it may have fewer columns than there are keys."""
    own = sizes_of(mask)
    wanted = (*sizes[4 - len(own) : -1], own[-1])
    found = array(stretched(mask, wanted))
    fill: Any = False if found.dtype == jnp.bool_ else -jnp.inf
    missing = bounds(sizes)[-1] - found.shape[-1]
    if missing > 0:
        found = jnp.pad(found, [(0, 0)] * (found.ndim - 1) + [(0, missing)], constant_values=fill)
    found = found[..., : bounds(sizes)[-1]]
    seen = seen & (jnp.arange(found.shape[-1]) < true(own[-1]))
    return jnp.where(seen, found, jnp.asarray(fill, found.dtype))


def _attended(
    task: Task, parts: Sequence[Any], of_q: Sizes, keys: Any, mask: Value, bias: Value
) -> tuple[Value, Value]:
    """Attend as the operators of com.microsoft do; return the result and the scores."""
    batch, heads, queries, _ = of_q
    if mask is not None:
        given = sizes_of(mask)
        if mask.ndim == 1 and (isinstance(batch, Length) or isinstance(given[0], Length)):
            given = (equal(task.call.node, batch, *given),)
        elif mask.ndim > 1:
            given = (batch, *given[1:-1], given[-1] if same(given[-1], 1) else keys)
        mask = fused_attention.seen(array(fitted(mask, given)), *bounds((batch, keys)))
    sizes = (batch, heads, queries, keys)
    options = {name: task.attribute(name) for name in ("mask_filter_value", "scale", "unidirectional")}
    bias = None if bias is None else array(stretched(bias, sizes))
    result, scores = fused_attention.attend(tuple(parts), mask, bias, counts=(true(queries), true(keys)), **options)
    return bounded(result, (batch, queries, result.shape[-1])), bounded(scores, sizes)


def _of_length(x: Value, batch: Any, length: Any) -> Any:
    """Return queries, keys or values with these sizes: three, or more if they are packed or have their heads apart."""
    if x is None:
        return None
    sizes = sizes_of(x)
    apart = len(sizes) == 4
    must_not_have_lengths([bounded(inner(x), [sizes[1], sizes[3]] if apart else sizes[2:])])
    return array(fitted(x, (batch, sizes[1], length, sizes[3]) if apart else (batch, length, *sizes[2:])))


def multi_head_attention(
    task: Task,
    query: Value,
    key: Value = None,
    value: Value = None,
    bias: Value = None,
    key_padding_mask: Value = None,
    attention_bias: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    *others: Value,
) -> tuple[Value, ...]:
    """Attend to keys and values, which may be packed or have their heads apart."""
    node = task.call.node
    given = [x for x in (query, key, value) if x is not None]
    batch = equal(node, *(sizes_of(x)[0] for x in given))
    queries = sizes_of(query)[1]
    of_keys = queries if key is None else equal(node, *(sizes_of(x)[2 if x.ndim == 4 else 1] for x in given[1:]))
    arrays = [
        _of_length(x, batch, length) for x, length in zip((query, key, value), (queries, of_keys, of_keys), strict=True)
    ]
    heads = task.attribute("num_heads")
    q, k, v = fused_attention.heads_of(arrays[0], arrays[1], arrays[2], None if bias is None else array(bias), heads)
    of_q = (batch, heads, queries, q.shape[3])
    k, of_k = _with_past(task, past_key, k, (batch, heads, of_keys, k.shape[3]))
    v, of_v = _with_past(task, past_value, v, (batch, heads, of_keys, v.shape[3]))
    result, scores = _attended(task, (q, k, v), of_q, of_k[2], key_padding_mask, attention_bias)
    return result, bounded(k, of_k), bounded(v, of_v), bounded(inner(scores).astype(q.dtype), sizes_of(scores))


def attention_layer(
    task: Task,
    x: Value,
    weights: Value,
    bias: Value = None,
    mask: Value = None,
    past: Value = None,
    added: Value = None,
    *others: Value,
) -> tuple[Value, ...]:
    """Project to queries, keys and values by one product, and attend."""
    must_not_have_lengths((weights, bias, bounded(inner(x), sizes_of(x)[2:])))
    heads, widths = task.attribute("num_heads"), task.attribute("qkv_hidden_sizes")
    bias = None if bias is None else array(bias)
    parts = fused_attention.projected(array(x), array(weights), bias, heads, widths)
    return _layer(task, parts, sizes_of(x), mask, past, added)


def quantized_attention(
    task: Task,
    x: Value,
    weight: Value,
    bias: Value,
    x_scale: Value,
    weight_scale: Value,
    mask: Value = None,
    x_zero: Value = None,
    weight_zero: Value = None,
    past: Value = None,
) -> tuple[Value, ...]:
    """Project by one product of integers, and attend."""
    must_not_have_lengths((weight, bias, bounded(inner(x), sizes_of(x)[2:])))
    scales = x_scale, weight_scale, x_zero, weight_zero
    product = matrix_multiply_integer_to_float(task.call, inner(x), weight, *scales, bias)
    parts = tuple(split_heads(part, task.attribute("num_heads")) for part in jnp.split(product, 3, axis=-1))
    return _layer(task, parts, sizes_of(x), mask, past, None)


def _layer(task: Task, parts: Any, sizes: Sizes, mask: Value, past: Value, added: Value) -> tuple[Value, ...]:
    q, k, v = parts
    batch, length, _ = sizes
    before = [None, None] if past is None else [bounded(each, sizes_of(past)[1:]) for each in array(past)]
    k, of_k = _with_past(task, before[0], k, (batch, k.shape[1], length, k.shape[3]))
    v, _ = _with_past(task, before[1], v, (batch, v.shape[1], length, v.shape[3]))
    result, _ = _attended(task, (q, k, v), (batch, q.shape[1], length, q.shape[3]), of_k[2], mask, added)
    return result, bounded(jnp.stack((k, v)), (2, *of_k)) if k.shape == v.shape else None


RULES: Rules = {"Attention": attention}

MICROSOFT: Rules = {
    "Attention": attention_layer,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": quantized_attention,
}
"""Of the domain com.microsoft."""
