"""Attention, and what stands around it, over sequences and caches that are longer than what counts."""

import numpy as np
import pytest

from tests.kit import long, quick
from tests.onnx.padded import check, parsed, together

pytestmark = quick

H, HEADS = 8, 2
RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


CONSTANTS = {
    **{f"i{number}": np.array([number]) for number in (0, 1, 2)},
    "n0": np.array(0),
    "n1": np.array(1),
    "apart": np.array([0, 0, HEADS, H // HEADS]),
    "pairs": np.array([0, 0, HEADS, 2, H // HEADS]),
    "w": floats(H, 3 * H),
    "bias": floats(3 * H),
    "narrow": floats(H, 2 * H + 4),
    "row": floats(H),
    "rows": floats(6, H),
    "words": floats(9, H),
    "few": floats(6, H),
    "segments": floats(2, H),
    "cos": floats(16, 2),
    "sin": floats(16, 2),
    "bytes": RNG.integers(0, 255, (H, 3 * H)).astype(np.uint8),
    "table": RNG.integers(0, 255, (9, H)).astype(np.uint8),
    "small": np.float32(0.02),
    "zero": np.uint8(120),
    "other": np.uint8(99),
    "blocks": RNG.integers(0, 255, (9, 8)).astype(np.uint8),
    "scales": np.abs(floats(9, 1)),
    "gate": np.float32(0.3),
}
CALLS = [(2, 3, 4, 2), (3, 5, 2, 4), (4, 6, 5, 3)]
LENGTHS = {"B": 4, "L": 6, "K": 5, "P": 4}
CACHE = f"B, {HEADS}, P, {H // HEADS}"
INPUTS = f"float[B, L, {H}] x, float[B, K, {H}] u, float[{CACHE}] pk, float[{CACHE}] pv, float[2, {CACHE}] past"
INPUTS += ", int64[B, L] ids, int32[B, L] kept, float[L, L] added, int64[B] ends"


def draw(b, n, k, p):
    rng = np.random.default_rng(n)
    shapes = {"x": (b, n, H), "u": (b, k, H), "added": (n, n)}
    shapes |= dict.fromkeys(("pk", "pv"), (b, HEADS, p, H // HEADS)) | {"past": (2, b, HEADS, p, H // HEADS)}
    found = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    found |= {"ids": rng.integers(0, 5, (b, n)), "kept": (rng.random((b, n)) < 0.7).astype(np.int32)}
    found["kept"][:, 0] = 1
    found["ends"] = rng.integers(1, n + 1, b)
    order = ("x", "u", "pk", "pv", "past", "ids", "kept", "added", "ends")
    return {name: found[name] for name in order}


def check_of(bodies, calls=CALLS, opset=18, **options):
    body, outputs = together(bodies)
    proto = parsed(f"g ({INPUTS}) => ({outputs}) {{ {body} }}", CONSTANTS, opset=opset, com_microsoft=1)
    check(proto, [draw(*sizes) for sizes in calls], LENGTHS, **options)


A, MS = "Attention<q_num_heads=2, kv_num_heads=2", "com.microsoft."
STANDARD = {
    "self": f"y = {A}>(x, x, x)",
    "cross": f"y = {A}>(x, u, u)",
    "causal": f"y = {A}, is_causal=1>(x, x, x)",
    "with a past": f"y, z, w0 = {A}, is_causal=1>(x, x, x, , pk, pv)",
    "a mask of floats": f"y, a, b, z = {A}, qk_matmul_output_mode=3>(x, x, x, added)",
    "a mask of bools": "m = Cast<to=9>(kept) o = Unsqueeze(m, i1) q = Unsqueeze(o, i1)"
    f" y = {A}, softcap=2.0>(x, x, x, q)",
    "heads apart": "a = Reshape(x, apart) b = Transpose<perm=[0, 2, 1, 3]>(a) y = Attention(b, b, b)",
    "of other keys": f"y = {A}, is_causal=1>(x, u, u)",
}
NEWER = {
    "lengths of keys": f"y = {A}, is_causal=1>(x, x, x, , , , ends)",
    "windows": f"y = {A}, left_window_size=1, right_window_size=1>(x, x, x)",
    "a narrow mask": f"m = Slice(added, i0, i1, i1) y = {A}>(x, x, x, m)",
}
MICROSOFT = {
    "projected": f"y = {MS}Attention<num_heads=2>(x, w, bias)",
    "of other widths": f"y = {MS}Attention<num_heads=2, qkv_hidden_sizes=[8, 8, 4]>(x, narrow)",
    "with a past": f"y, z = {MS}Attention<num_heads=2, unidirectional=1>(x, w, bias, , past)",
    "with a mask": f"y = {MS}Attention<num_heads=2, mask_filter_value=-500.0>(x, w, bias, kept)",
    "with ends": f"e = Cast<to=6>(ends) y = {MS}Attention<num_heads=2>(x, w, bias, e)",
    "with the end of one": "a = Gather(x, i0) e = Cast<to=6>(ends) f = Slice(e, i0, i1)"
    f" y = {MS}Attention<num_heads=2>(a, w, bias, f)",
    "multi-head": "a = Unsqueeze(added, i0) b = Unsqueeze(a, i0)"
    f" y = {MS}MultiHeadAttention<num_heads=2>(x, x, x, bias, , b)",
    "multi-head of others": f"y, k, v, z = {MS}MultiHeadAttention<num_heads=2>(x, u, u)",
    "multi-head with a past": f"y, z, w0 = {MS}MultiHeadAttention<num_heads=2, unidirectional=1>"
    "(x, x, x, , , , pk, pv)",
    "multi-head with a mask": f"y = {MS}MultiHeadAttention<num_heads=2>(x, x, x, , kept)",
    "keys with heads apart": f"y = {MS}MultiHeadAttention<num_heads=2>(x, pk, pv)",
    "packed keys": "a = Concat<axis=2>(u, u) b = Reshape(a, pairs) c = Transpose<perm=[0, 1, 2, 3, 4]>(b)"
    f" y = {MS}MultiHeadAttention<num_heads=2>(x, c)",
    "of integers": "qx = QuantizeLinear(x, small, zero)"
    f" y, z = {MS}QAttention<num_heads=2>(qx, bytes, bias, small, small, kept, zero, other)"
    f" a, w0 = {MS}QAttention<num_heads=2>(qx, bytes, bias, small, small, , zero, other, past)",
}
AROUND = {
    "skip": f"y, a, b, z = {MS}SkipLayerNormalization(x, x, row, row, row)",
    "skip of rows": "r = Slice(rows, i0, l) l = Shape<start=1, end=2>(x)"
    f" y = {MS}SkipSimplifiedLayerNormalization(x, r, row)",
    "simplified": "y = SimplifiedLayerNormalization(x, row)",
    "embeddings": f"y, z, s = {MS}EmbedLayerNormalization(i, , words, few, , row, row, k)"
    " k = Cast<to=6>(kept) i = Cast<to=6>(ids)",
    "embeddings at positions": "i = Cast<to=6>(ids) t = Mod(i, two) two = Cast<to=6>(i2)"
    f" y, z = {MS}EmbedLayerNormalization(i, t, words, few, segments, row, row, , i)",
    "embeddings of integers": "i = Cast<to=6>(ids) k = Cast<to=6>(kept) g = Gather(table, n0)"
    f" y, z = {MS}QEmbedLayerNormalization(i, , table, table, , g, g, k, small, small, small, small, small,"
    " zero, zero, zero, zero, zero)",
    "rotated": f"y = {MS}RotaryEmbedding<num_heads=2>(x, ids, cos, sin)"
    f" z = {MS}RotaryEmbedding<num_heads=2>(x, n1, cos, sin)",
    "added": f"y = {MS}BiasAdd(x, row, x)",
    "blocks": f"y = {MS}GatherBlockQuantized<block_size=16, bits=4>(blocks, ids, scales)",
    "integers": f"q = QuantizeLinear(x, small, zero) y = {MS}QLinearAdd(q, small, zero, q, gate, other, small, zero)"
    f" z = {MS}QLinearSigmoid(q, small, zero, small, zero)",
    "a choice": "q = QuantizeLinear(x, small, zero) m = Cast<to=9>(kept) o = Unsqueeze(m, i2)"
    f" y = {MS}QLinearWhere(o, q, small, zero, q, gate, other, small, zero)",
}


def test_no_query_sees_a_key_that_does_not_count():
    check_of(STANDARD.values(), opset=23)
    check_of(NEWER.values(), opset=24)


def test_attention_of_microsoft():
    check_of(MICROSOFT.values())


@long
def test_what_stands_around_attention():
    check_of(AROUND.values())


def test_rotations():
    body = "c = Gather(cos, ids) s = Gather(sin, ids) y = RotaryEmbedding<num_heads=2>(x, c, s)"
    check_of([body, "y = RotaryEmbedding<num_heads=2>(x, cos, sin, ids)"], opset=23)


REFUSED = {
    "Attention 'y_0' needs to know the result": "t = Transpose<perm=[0, 2, 1]>(x)"
    " y = Attention<q_num_heads=1, kv_num_heads=1>(t, t, t)",
    "Skip": "t = Transpose<perm=[0, 2, 1]>(x) r = ReduceMax<keepdims=0>(added, i0)"
    f" y = {MS}SkipLayerNormalization(t, t, r)",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_lengths_of_what_is_multiplied_are_refused(reason):
    check_of([REFUSED[reason]], CALLS[:1], opset=23, refuses=reason)
