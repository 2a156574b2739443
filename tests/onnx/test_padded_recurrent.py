"""Recurrent networks on sequences, and batches, that are longer than what counts."""

import numpy as np
import pytest

from tests.kit import quick
from tests.onnx.padded import check, parsed

pytestmark = quick

INPUTS, SIZE = 3, 2


def weights(gates, directions):
    rng = np.random.default_rng(gates)
    shapes = {"w": (INPUTS,), "r": (SIZE,)}
    found = {name: rng.normal(size=(directions, gates * SIZE, *rest)) for name, rest in shapes.items()}
    found |= {"b": rng.normal(size=(directions, 2 * gates * SIZE)), "p": rng.normal(size=(directions, 3 * SIZE))}
    return {name: value.astype(np.float32) for name, value in found.items()}


CASES = {
    "outputs alone": ("y = LSTM<hidden_size=2>(x, w, r, b)", "y", 4, 1),
    "the last states": ("y, h, c = LSTM<hidden_size=2>(x, w, r, b)", "y, h, c", 4, 1),
    "both directions": (
        'y, h, c = LSTM<hidden_size=2, direction="bidirectional">(x, w, r, b, lengths, first, second, p)',
        "y, h, c",
        4,
        2,
    ),
    "backwards": ('y, h = GRU<hidden_size=2, direction="reverse">(x, w, r, b, , first)', "y, h", 3, 1),
    "forwards with lengths": ("y, h = GRU<hidden_size=2>(x, w, r, b, lengths)", "y, h", 3, 1),
    "the batch first": (
        "t = Transpose<perm=[1, 0, 2]>(x) u = Transpose<perm=[1, 0, 2]>(first)"
        " y, h = RNN<hidden_size=2, layout=1>(t, w, r, b, , u)",
        "y, h",
        1,
        1,
    ),
}
CALLS = [(2, 3), (5, 2), (6, 4)]


def given(time, batch, directions):
    rng = np.random.default_rng(time)
    x, *states = (rng.normal(size=shape) for shape in ((time, batch, INPUTS), *[(directions, batch, SIZE)] * 2))
    lengths = rng.integers(0, time + 1, batch).astype(np.int32)
    lengths[0] = time
    floats = {"x": x, "first": states[0], "second": states[1]}
    return {"lengths": lengths} | {name: value.astype(np.float32) for name, value in floats.items()}


def inputs(directions):
    states = ", ".join(f"float[{directions}, B, {SIZE}] {name}" for name in ("first", "second"))
    return f"float[T, B, {INPUTS}] x, int32[B] lengths, {states}"


@pytest.mark.parametrize("name", CASES)
def test_sequences_end_where_they_do(name):
    body, outputs, gates, directions = CASES[name]
    proto = parsed(f"g ({inputs(directions)}) => ({outputs}) {{ {body} }}", weights(gates, directions))
    check(proto, [given(*sizes, directions) for sizes in CALLS], {"T": 6, "B": 4})


QUANTIZED = {"forward": ("y", ""), "bidirectional": ("y, h, c", "lengths, first, second")}


@pytest.mark.parametrize("direction", QUANTIZED)
def test_what_does_not_count_is_in_no_range(direction):
    """Inputs are quantized together, and the states of a batch: one element changes all integers."""
    outputs, states = QUANTIZED[direction]
    directions = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.integers(-60, 60, (directions, INPUTS, 4 * SIZE)).astype(np.int8),
        "r": rng.integers(-60, 60, (directions, SIZE, 4 * SIZE)).astype(np.int8),
        "scale": np.full(directions, 0.02, np.float32),
        "zero": np.zeros(directions, np.int8),
    }
    body = f"{outputs} = com.microsoft.DynamicQuantizeLSTM<hidden_size=2, direction={direction!r}>"
    body += f"(x, w, r, , {states or ', , '}, , scale, zero, scale, zero)"
    text = f"g ({inputs(directions)}) => ({outputs}) {{ {body} }}".replace("'", '"')
    proto = parsed(text, constants, com_microsoft=1)
    calls = [given(*sizes, directions) for sizes in CALLS]
    check(proto, calls, {"T": 6, "B": 4})
    check(proto, calls[:1], {"T": 6})
