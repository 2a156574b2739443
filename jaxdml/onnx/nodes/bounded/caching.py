"""GroupQueryAttention with caches and steps that are longer than what counts."""

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.nodes._sizes import resized
from jaxdml.onnx.nodes.bounded._fitting import fitted, must_not_have_lengths, stretched
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, limits, true
from jaxdml.onnx.values.promises import at_most, equal


def group_query_attention(
    task: Task,
    query: Value,
    key: Value,
    value: Value,
    past_key: Value,
    past_value: Value,
    seqlens_k: Value,
    total_sequence_length: np.ndarray,
    *others: Value,
) -> tuple[Value, ...]:
    """Write new keys and values where those before them end: of each row of the batch, as many as are new."""
    node = task.call.node
    names = task.call.handler.names(7 + len(others))
    of = dict(
        zip(names, (query, key, value, past_key, past_value, seqlens_k, total_sequence_length, *others), strict=True)
    )
    given = {name: x for name, x in of.items() if x is not None}
    news: list[str] = [name for name in ("query", "key", "value") if name in given]
    pasts: list[str] = [name for name in ("past_key", "past_value") if name in given]
    rows: list[str] = [name for name in ("seqlens_k", "query_seqlens", "position_ids") if name in given]
    own = (*news, *pasts, *rows, "total_sequence_length", "attention_bias")
    must_not_have_lengths(x for name, x in given.items() if name not in own)
    batch = equal(node, *(sizes_of(given[name])[0] for name in (*news, *pasts, *rows)))
    length = equal(node, *(sizes_of(given[name])[1] for name in news))
    before = equal(node, *(sizes_of(given[name])[2] for name in pasts)) if pasts else 0
    if task.attribute("sliding_window_cache") and any(isinstance(size, Length) for size in (length, before)):
        raise LengthError(f"what a cache of {before} rows keeps")
    (total,) = total_sequence_length.reshape(-1).tolist()
    if isinstance(before, Length) or not before:
        room = before + length
        total = equal(node, total, room)
    else:
        at_most(node, total, before)
        room = before
    for name in news:
        of[name] = inner(fitted(of[name], (batch, length, *sizes_of(of[name])[2:])))
    for name in pasts:
        sizes = (batch, sizes_of(of[name])[1], before, *sizes_of(of[name])[3:])
        of[name] = masked(fitted(of[name], sizes), sizes, 0, (2,))
    for name in rows:
        sizes = (batch, *([length] if name == "position_ids" else sizes_of(of[name])[1:]))
        of[name] = masked(fitted(of[name], sizes), sizes, 0)
    heads = task.attribute("num_heads")
    if "attention_bias" in given:
        of["attention_bias"] = inner(stretched(of["attention_bias"], (batch, heads, length, total)))
    after = array(of["seqlens_k"]).reshape(-1).astype(jnp.int32) + 1
    new = array(of["query_seqlens"]) if "query_seqlens" in given else jnp.minimum(after, true(length))
    of["total_sequence_length"] = np.asarray(limits(room).bound)
    operands = [*of.values(), *[None] * (len(task.call.handler.names(17)) - len(of))]
    operands[16] = new
    y, keys, values, *shown = task.compute(*operands)
    end = (after - new.reshape(-1)).reshape(-1, 1, 1, 1) + true(length)
    results = [bounded(y, (batch, length, y.shape[2]))]
    for made, cache in zip((keys, values), ("past_key", "past_value"), strict=True):
        # What follows the new rows stays as it was.
        new_rows = jnp.arange(made.shape[2]).reshape(-1, 1) < end
        kept = jnp.where(new_rows, made, resized(array(of[cache]), made.shape)) if pasts else made
        results.append(bounded(kept, (batch, made.shape[1], room, made.shape[3])))
    return *results, *(None if x is None else bounded(x, (batch, heads, length, total)) for x in shown)


MICROSOFT: Rules = {"GroupQueryAttention": group_query_attention}
"""Of the domain com.microsoft."""
