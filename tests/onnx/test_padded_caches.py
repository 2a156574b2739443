"""GroupQueryAttention whose steps and caches are longer than what counts."""

import numpy as np
import pytest

from tests.kit import quick
from tests.onnx.padded import check, parsed

pytestmark = quick

HEADS, GROUPS, SIZE, BUFFER = 4, 2, 16, 9
ANGLES = np.arange(40)[:, None] / 100 ** (np.arange(8) / 8)
CONSTANTS = {"cos": np.cos(ANGLES).astype(np.float32), "sin": np.sin(ANGLES).astype(np.float32)}

ATTENTION = f"com.microsoft.GroupQueryAttention<num_heads={HEADS}, kv_num_heads={GROUPS}"
PAST = f"float[B, {GROUPS}, P, {SIZE}] pk, float[B, {GROUPS}, P, {SIZE}] pv"
FIXED = PAST.replace("P", str(BUFFER))
CASES = {
    "a cache that grows": (PAST, f"y, k, v = {ATTENTION}, do_rotary=1>(q, n, n, pk, pv, ends, total, cos, sin)"),
    "a bias": (PAST, f"y, k, v = {ATTENTION}>(q, n, n, pk, pv, ends, total, , , , bias)"),
    "positions": (PAST, f"y, k, v = {ATTENTION}, do_rotary=1>(q, n, n, pk, pv, ends, total, cos, sin, at)"),
    "a buffer": (FIXED, f"y, k, v = {ATTENTION}, do_rotary=1>(q, n, n, pk, pv, ends, total, cos, sin)"),
    "scores": (FIXED, f"y, k, v, p = {ATTENTION}, qk_output=2>(q, n, n, pk, pv, ends, total)"),
    "a prompt": ("float[1] pk", f"y, k, v = {ATTENTION}>(q, n, n, , , ends, total)"),
}
CALLS = [(2, 3, 4), (3, 2, 5), (2, 4, 2)]


def draw(case, batch, step, past):
    rng = np.random.default_rng(step)
    before = {"a prompt": 0, "a buffer": BUFFER - 4, "scores": BUFFER - 4}.get(case, past)
    total = before + step
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    found = {"q": normal(batch, step, HEADS * SIZE), "n": normal(batch, step, GROUPS * SIZE)}
    found["ends"] = np.full(batch, total - 1, np.int32)
    found["ends"][0] -= 1
    found["kept"] = np.ones((batch, total), np.int32)
    found |= {"bias": normal(1, 1, step, total), "at": rng.integers(0, 9, (batch, step))}
    rows = BUFFER if case in ("a buffer", "scores") else past
    if case == "a prompt":
        return found | {"pk": np.zeros(1, np.float32)}
    return found | {name: normal(batch, GROUPS, rows, SIZE) for name in ("pk", "pv")}


@pytest.mark.parametrize("case", CASES)
def test_new_keys_follow_those_that_count(case):
    pasts, body = CASES[case]
    inputs = f"float[B, S, {HEADS * SIZE}] q, float[B, S, {GROUPS * SIZE}] n, int32[B] ends, int32[B, T] kept,"
    inputs += f" float[1, 1, S, T] bias, int64[B, S] at, {pasts}"
    shape = "s = Shape<start=1>(kept) c = Cast<to=6>(s) total = Squeeze(c)"
    outputs = body.partition(" = ")[0]
    proto = parsed(f"g ({inputs}) => ({outputs}) {{ {shape} {body} }}", CONSTANTS, com_microsoft=1)
    lengths = {"B": 3, "S": 5, "T": 9} | ({"P": 6} if pasts is PAST else {})
    check(proto, [draw(case, *sizes) for sizes in CALLS], lengths)


def test_a_cache_that_slides_has_its_true_length():
    pasts = FIXED
    inputs = f"float[B, S, {HEADS * SIZE}] q, float[B, S, {GROUPS * SIZE}] n, int32[B] ends, {pasts}"
    body = f"y, k, v = {ATTENTION}, sliding_window_cache=1, local_window_size=4>(q, n, n, pk, pv, ends, nine)"
    proto = parsed(f"g ({inputs}) => (y) {{ {body} }}", {"nine": np.int32(9)}, com_microsoft=1)
    given = draw("a buffer", 2, 3, 4)
    calls = [{name: given[name] for name in ("q", "n", "ends", "pk", "pv")}]
    check(proto, calls, {"S": 5}, refuses="what a cache of 9 rows keeps")
