"""Attention, against onnxruntime."""

import jax
import numpy as np
import pytest

from tests.directml.calls import Call, check
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime, one_node

pytestmark = quick

RNG = np.random.default_rng(0)
BATCH, QUERIES, KEYS, PAST, HEADS, SIZE, OWN = 2, 3, 4, 2, 2, 4, 3
NAMES = (
    *("query", "key", "value", "stacked_query_key", "stacked_key_value", "stacked_query_key_value"),
    *("bias", "mask", "attention_bias", "past_key", "past_value", "past_sequence_lengths"),
)


def drawn(*sizes):
    return RNG.normal(size=sizes).astype("float32")


def microsoft(kind, operands, outputs=3, **attributes):
    proto, given = one_node(kind, operands, *"xyz"[:outputs], domain="com.microsoft", **attributes)
    return by_onnxruntime(proto, *given)


def by_heads(q, k, v, mask=None, bias=None, relative=None, past=(None, None), **attributes):
    operands = {"q": q, "k": k, "v": v, "b": bias, "m": mask, "r": relative, "pk": past[0], "pv": past[1]}
    return microsoft("MultiHeadAttention", operands, num_heads=HEADS, **attributes)


def attention(wanted, kind=0, scale=0.5, filler=-10000.0, tolerance=1e-5, **tensors):
    inputs = [tensors.get(name) for name in NAMES[:-1]]
    fields = {"scale": scale, "mask_filter_value": filler, "head_count": HEADS, "mask_type": kind}
    return Call("MULTIHEAD_ATTENTION", inputs, [*wanted, *[None] * (3 - len(wanted))], fields, tolerance)


def operands(own=OWN, queries=QUERIES, keys=KEYS):
    q, k = drawn(BATCH, queries, HEADS * SIZE), drawn(BATCH, keys, HEADS * SIZE)
    return q, k, drawn(BATCH, keys, HEADS * own)


def test_parts_biases_and_what_is_added():
    q, k, v = operands()
    bias, relative = drawn(HEADS * (2 * SIZE + OWN)), drawn(BATCH, HEADS, QUERIES, KEYS)
    both = by_heads(q, k, v, bias=bias, relative=relative, scale=0.5)
    plain = by_heads(q, k, v, scale=0.25)
    check(
        [
            attention(both, query=q, key=k, value=v, bias=bias, attention_bias=relative),
            attention([plain[0][None]], scale=0.25, query=q[None], key=k[None], value=v[None]),
        ]
    )


def stacked(*parts):
    return np.stack([part.reshape(*part.shape[:2], HEADS, SIZE) for part in parts], 3)


def test_stacks():
    q, k, v = operands(SIZE, KEYS)
    bias = drawn(3 * HEADS * SIZE)
    wanted, (biased, *_) = by_heads(q, k, v, scale=0.5), by_heads(q, k, v, bias=bias, scale=0.5)
    check(
        [
            attention(wanted, stacked_query_key=stacked(q, k), value=v),
            attention(wanted, query=q, stacked_key_value=stacked(k, v)),
            attention(wanted, stacked_query_key_value=stacked(q, k, v)),
            attention([biased], stacked_query_key_value=stacked(q, k, v), bias=bias.reshape(1, 1, -1)),
        ]
    )


def test_keys_and_values_of_the_past():
    q, k, v = operands(SIZE)
    past = drawn(BATCH, HEADS, PAST, SIZE), drawn(BATCH, HEADS, PAST, SIZE)
    bias = drawn(3 * HEADS * SIZE)
    wanted = by_heads(q, k, v, past=past, bias=bias, scale=0.5)
    alone = by_heads(q, *past, scale=0.5)
    of_past = {"past_key": past[0], "past_value": past[1]}
    check(
        [
            attention(wanted, query=q, key=k, value=v, bias=bias, **of_past),
            attention([alone[0], *past], query=q, **of_past),
            attention([alone[0]], query=q, past_key=past[0][None], past_value=past[1][None]),
        ]
    )


def test_masks():
    q, k, v = operands()
    lengths, windows = np.int32([[3, 1]]), np.int32([[3, 4], [1, 2]])
    keys, pairs = np.int32([[1, 0, 1, 0], [1, 1, 0, 1]]), RNG.integers(0, 2, (BATCH, QUERIES, KEYS), np.int32)
    pairs[0, 1] = 0  # No key at all: as if all were seen.
    inside = np.int32([[0, 1, 1, 0], [0, 0, 1, 1]])
    long = np.int32([3, 1, 0, 3, 6, 0, 4, 8])
    given = {"query": q, "key": k, "value": v}

    def by(mask, **more):
        return by_heads(q, k, v, mask, scale=0.5, **more)[:1]

    check(
        [
            attention(by(lengths[0]), 1, mask=lengths, **given),
            attention(by(inside), 2, mask=windows, **given),
            attention(by(lengths[0]), 3, mask=long, **given),
            attention(by(keys), 4, mask=keys[:, None, None], **given),
            attention(by(pairs), 4, mask=pairs[None, :, None] * 7, **given),
            attention(by(keys, mask_filter_value=-1.0), 4, filler=-1.0, mask=keys[:, None, None], **given),
            attention(by_heads(q, k, v, scale=0.5)[:1], 1, mask=np.int32([[9, 4]]), **given),
        ]
    )


def test_a_row_of_nothing_is_0():
    q, k, v = operands()
    (wanted,) = by_heads(q, k, v, np.int32([4, 4]), scale=0.5)[:1]
    wanted[1] = 0
    check([attention([wanted], 1, filler=-np.inf, query=q, key=k, value=v, mask=np.int32([[4, 0]]))])


def test_halves_are_rounded_once():
    q, k, v = (one.astype(np.float16) for one in operands())
    wide = by_heads(*(one.astype(np.float32) for one in (q, k, v)), scale=0.5)
    check([attention([wide[0].astype(np.float16)], query=q, key=k, value=v, tolerance=1e-3)])


def grouped(wanted, tensors, heads, groups):
    fields = {"scale": 0.5, "mask_filter_value": 0.0, "query_head_count": heads, "key_value_head_count": groups}
    inputs = [tensors.get(name) for name in NAMES]
    return Call("MULTIHEAD_ATTENTION1", inputs, wanted, fields | {"mask_type": 0}, 1e-5)


def test_groups_with_a_cache():
    heads, groups, size, room = 4, 2, 8, 7
    calls = []
    for length, before in ((3, np.int32([0, 0])), (1, np.int32([5, 2]))):
        q, k, v = (drawn(BATCH, length, count * size) for count in (heads, groups, groups))
        # onnxruntime returns 0 for what is not valid.
        valid = (np.arange(room) < before[:, None])[:, None, :, None]
        past = [drawn(BATCH, groups, room, size) * valid for _ in range(2)]
        operands = {"q": q, "k": k, "v": v, "pk": past[0], "pv": past[1]}
        operands |= {"last": before + length - 1, "total": np.int32([max(before) + length])}
        wanted = microsoft("GroupQueryAttention", operands, num_heads=heads, kv_num_heads=groups, scale=0.5)
        given = {"query": q, "key": k, "value": v, "past_key": past[0], "past_value": past[1]}
        calls.append(grouped(wanted, given | {"past_sequence_lengths": before}, heads, groups))
        if not before.any():
            # Of a prompt the cache may hold nothing else.
            fresh = [np.zeros_like(one) for one in past]
            for one, new in zip(fresh, (k, v), strict=True):
                one[:, :, :length] = new.reshape(BATCH, length, groups, size).transpose(0, 2, 1, 3)
            given = {"query": q, "key": k, "value": v, "past_sequence_lengths": before.reshape(1, 1, -1)}
            calls.append(grouped([wanted[0], *fresh], given, heads, groups))
            calls.append(grouped([wanted[0], None, None], given, heads, groups))
    check(calls)


def test_rows_beyond_the_cache_do_not_count():
    q, k, v = (drawn(1, 1, 8) for _ in range(3))
    past = np.full((1, 1, 3, 8), np.nan, np.float32)
    present = [np.concatenate([one[:, None], past[:, :, 1:]], 2) for one in (k, v)]
    given = {"query": q, "key": k, "value": v, "past_key": past, "past_value": past}
    check([grouped([v, *present], given | {"past_sequence_lengths": np.int32([0])}, 1, 1)])


def test_gradients_are_those_of_torch_also_mapped():
    torch = pytest.importorskip("torch")
    parts = [np.stack(pair) for pair in zip(operands(SIZE), operands(SIZE), strict=True)]
    run = attention([parts[0][0]], query=parts[0][0], key=parts[1][0], value=parts[2][0]).operator

    def loss(q, k, v):
        return (run(q, k, v, *[None] * 8).output_tensor ** 2).sum()

    found = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1, 2))))(*parts)
    given = [torch.from_numpy(part).requires_grad_() for part in parts]
    q, k, v = (one.unflatten(-1, (HEADS, SIZE)).transpose(2, 3) for one in given)
    (torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.5) ** 2).sum().backward()
    for one, other in zip(found, given, strict=True):
        np.testing.assert_allclose(one, other.grad, rtol=1e-4, atol=1e-5)
