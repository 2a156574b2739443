"""Attention. It computes in float32, and rounds once."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from jaxdml._networks.attention import merge_heads, probabilities, products, split_heads, weighted, within
from jaxdml._networks.caches import tensor_scatter
from jaxdml.directml._enums import MultiheadAttentionMaskType as Mask
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing
from jaxdml.directml.operators._attention_constraints import (
    SOURCES,
    STACKS,
    grouped,
    heads_of,
    masked,
    room_of,
    source_of,
)

_INPUTS = (
    *("query_tensor", "key_tensor", "value_tensor", *STACKS, "bias_tensor", "mask_tensor", "attention_bias_tensor"),
    *("past_key_tensor", "past_value_tensor", "past_sequence_lengths_tensor"),
)


def _new(desc: Any, given: Mapping[str, Any], part: str) -> Any:
    """Return queries, keys or values as ``[batch, heads, length, size]``; None if there are only those of the past."""
    name = source_of(desc, part)
    if name is None:
        return None
    if name in STACKS:
        return given[name][:, :, :, SOURCES[part][name]].transpose(0, 2, 1, 3)
    return split_heads(_last(given[name], 3), heads_of(desc)[part])


def _last(x: Any, count: int) -> Any:
    """Return an array with this many dimensions; further ones before them have size 1, and so have missing ones."""
    return x.reshape(((1,) * count + x.shape)[-count:])


def _scores(desc: Any, q: Any, k: Any) -> Any:
    return products(q.astype(jnp.float32), k.astype(jnp.float32)) * jnp.float32(desc.scale)


def _results(desc: Any, weights: Any, counted: Any, k: Any, v: Any) -> tuple[Any, ...]:
    """Return what weights make of values, with heads side by side, and all keys and values."""
    y = merge_heads(weighted(weights, counted.astype(jnp.float32))).astype(v.dtype)
    outputs = desc.output_tensor, desc.output_present_key_tensor, desc.output_present_value_tensor
    return tuple(
        None if tensor is None else part.reshape(tensor.sizes) for tensor, part in zip(outputs, (y, k, v), strict=True)
    )


def _attention(desc: Any, *inputs: Any) -> Any:
    given = dict(zip(_INPUTS, inputs, strict=False))
    q, k, v = (_new(desc, given, part) for part in SOURCES)
    if (bias := given["bias_tensor"]) is not None:
        width = q.shape[1] * q.shape[3]
        biases = jnp.split(bias.reshape(-1), (width, 2 * width))
        q, k, v = (
            x if x is None else x + own.reshape(1, x.shape[1], 1, -1) for x, own in zip((q, k, v), biases, strict=True)
        )
    k, v = (
        jnp.concatenate([x for x in (None if past is None else _last(past, 4), new) if x is not None], axis=2)
        for past, new in ((given["past_key_tensor"], k), (given["past_value_tensor"], v))
    )
    x = _scores(desc, q, k)
    if desc.mask_type != Mask.NONE:
        seen = _seen(desc.mask_type, given["mask_tensor"], q.shape[0], k.shape[2])
        x = x + jnp.where(seen, 0, jnp.float32(desc.mask_filter_value))
    if (relative := given["attention_bias_tensor"]) is not None:
        x = x + _last(relative, 4).astype(jnp.float32)
    return _results(desc, probabilities(x, x != -jnp.inf), v, k, v)


def _seen(kind: int, mask: Any, batch: int, keys: int) -> Any:
    """Return which keys are not masked, as booleans that broadcast to the scores."""
    if kind == Mask.BOOLEAN:
        return _last(mask, 4) != 0
    numbers = mask.reshape(-1)
    return within(keys, numbers[:batch], numbers[batch:] if kind == Mask.KEY_SEQUENCE_END_START else None)


def _grouped_attention(desc: Any, *inputs: Any) -> Any:
    """Write new keys and values behind those of before, and let each query see those up to its own."""
    given = dict(zip(_INPUTS, inputs, strict=True))
    q, k, v = (_new(desc, given, part) for part in SOURCES)
    before = given["past_sequence_lengths_tensor"].reshape(-1)
    k, v = (
        tensor_scatter(
            jnp.zeros((*new.shape[:2], room_of(desc), new.shape[3]), new.dtype) if past is None else _last(past, 4),
            *(new, before),
            axis=2,
        )
        for past, new in ((given["past_key_tensor"], k), (given["past_value_tensor"], v))
    )
    ends = before[:, None] + 1 + jnp.arange(q.shape[2])[None]
    seen = jnp.arange(k.shape[2])[None, None] < ends[..., None]
    # A product with 0 would spread what is not finite in rows that no query sees.
    counted = jnp.where(seen[:, -1][:, None, :, None], v, 0)
    return _results(desc, probabilities(_scores(desc, q, k), seen[:, None]), counted, k, v)


def _levels(first: str, *more: tuple[str, ...]) -> Any:
    def group(names: str, counts: str, types: str = "F") -> tuple[str, str, str]:
        return names, f"{first} {types}", f"{first} {counts}"

    return growing(
        f"{first} 3-5",
        ("query_tensor key_tensor value_tensor output_tensor", f"{first} F"),
        group(" ".join(STACKS), "5"),
        group("bias_tensor", "1-5"),
        group("mask_tensor", "1-5", "INT32"),
        group("attention_bias_tensor past_key_tensor past_value_tensor", "4-5"),
        group("output_present_key_tensor output_present_value_tensor", "4-5"),
        *(group(*one) for one in more),
    )


_FIELDS: Mapping[str, str] = {
    "bias_tensor": "is added to queries, keys and values, for which it has one part each.",
    "attention_bias_tensor": "is added to the scores.",
    "past_key_tensor": "keys that come before the new ones.",
    "past_value_tensor": "values that come before the new ones.",
    "output_present_key_tensor": "all keys.",
    "output_present_value_tensor": "all values.",
    "scale": "by which products of queries and keys are multiplied.",
    "mask_filter_value": "is added to the scores of masked keys.",
}

OPERATORS: Mapping[str, Operator] = {
    "MULTIHEAD_ATTENTION": Operator(
        *(164, _levels("6_1"), _attention, masked),
        doc="Compute ``softmax(Scale * Q @ K.T + AttentionBias + mask) @ V`` for each head.",
        fields=_FIELDS,
    ),
    "MULTIHEAD_ATTENTION1": Operator(
        *(172, _levels("6_3", ("past_sequence_lengths_tensor", "1-5", "INT32")), _grouped_attention, grouped),
        doc=(
            "Compute ``softmax(Scale * Q @ K.T) @ V`` for each head of the queries. "
            "Consecutive ones share a head of keys and values, and a query sees the keys up to its own."
        ),
        fields={
            **_FIELDS,
            "past_key_tensor": "the keys of before, with room for new ones; None for room alone.",
            "past_value_tensor": "the values of before, with room for new ones.",
            "past_sequence_lengths_tensor": "how many keys each row has before the new ones.",
        },
    ),
}
