"""Recurrent networks, against onnxruntime and the values that DxDispatch's model prints."""

import jax
import numpy as np
import pytest

from jaxdml import directml as dml
from tests.directml.calls import Call, check, onnx
from tests.kit import quick

pytestmark = quick

RNG = np.random.default_rng(0)
TIMES, BATCH, INPUTS, SIZE = 5, 3, 4, 2
LENGTHS = np.uint32([[[[5, 2, 3]]]])
DIRECTIONS = ["forward", "reverse", "bidirectional"]


def drawn(*sizes):
    return RNG.normal(size=sizes).astype("float32")


def activation(name, **numbers):
    return getattr(dml, f"Activation{name}OperatorDesc")(input_tensor=None, output_tensor=None, **numbers)


SIGMOID, TANH, RELU = activation("Sigmoid"), activation("Tanh"), activation("Relu")
SOFT, LEAKY = activation("Softsign"), activation("LeakyRelu", alpha=0.3)


def operands(direction, gates):
    """Return inputs, weights, biases and first states as ONNX takes them."""
    count = 1 + (direction == 2)
    weights = drawn(count, gates * SIZE, INPUTS), drawn(count, gates * SIZE, SIZE), drawn(count, 2 * gates * SIZE)
    return [drawn(TIMES, BATCH, INPUTS), *weights, drawn(count, BATCH, SIZE)]


def network(name, given, lengths, results, more=(), peepholes=None, tolerance=1e-5, **fields):
    """Return a call of the operands, each of which has 1 as its first sizes here, None where ONNX has none."""
    x, w, r, bias, *states = given
    shaped = [x[None], w[None], r[None], None if bias is None else bias[None, None]]
    shaped += [None if state is None else state[None] for state in (*states, *more)]
    shaped += [lengths, *([None if peepholes is None else peepholes[None, None]] if name == "LSTM" else [])]
    sequence, *lasts = results
    return Call(name, shaped, [sequence, *(last[None] for last in lasts)], fields, tolerance)


def steps(lengths):
    return None if lengths is None else lengths.reshape(-1).astype(np.int32)


@pytest.mark.parametrize("direction", range(3))
def test_simple_networks(direction):
    calls = []
    for lengths in (None, LENGTHS):
        given = x, w, r, bias, hidden = operands(direction, 1)
        of = {"direction": DIRECTIONS[direction], "hidden_size": SIZE}
        wanted = onnx("RNN", x, w, r, bias, steps(lengths), hidden, outputs=2, **of)
        functions = (TANH,) * len(w)
        calls.append(network("RNN", given, lengths, wanted, direction=direction, activation_descs=functions))
        names = ["Relu", "Softsign"][: len(w)]
        wanted = onnx("RNN", x, w, r, None, steps(lengths), None, outputs=2, activations=names, **of)
        calls.append(
            network(
                "RNN",
                [x, w, r, None, None],
                lengths,
                wanted,
                direction=direction,
                activation_descs=(RELU, SOFT)[: len(w)],
            )
        )
    check(calls)


@pytest.mark.parametrize("direction", range(3))
def test_gated_units(direction):
    calls = []
    for linear in (0, 1):
        for lengths, biased in ((None, True), (LENGTHS, False)):
            x, w, r, bias, hidden = operands(direction, 3)
            bias, hidden = (bias, hidden) if biased else (None, None)
            of = {"direction": DIRECTIONS[direction], "hidden_size": SIZE, "linear_before_reset": linear}
            wanted = onnx("GRU", x, w, r, bias, steps(lengths), hidden, outputs=2, **of)
            fields = {"direction": direction, "activation_descs": (SIGMOID, TANH) * len(w)}
            given = [x, w, r, bias, hidden]
            calls.append(network("GRU", given, lengths, wanted, linear_before_reset=linear, **fields))
    check(calls)


@pytest.mark.parametrize("direction", range(3))
def test_long_short_term_memories(direction):
    calls = []
    for lengths, peeps, clip, coupled in ((None, 1, None, 0), (LENGTHS, 0, 0.4, 0), (LENGTHS, 1, None, 1)):
        x, w, r, bias, hidden = operands(direction, 4)
        cell, peepholes = drawn(*hidden.shape), drawn(len(w), 3 * SIZE) if peeps else None
        if coupled:
            bias = hidden = cell = None
        own = {"direction": DIRECTIONS[direction], "hidden_size": SIZE, "input_forget": coupled}
        own |= {} if clip is None else {"clip": clip}
        wanted = onnx("LSTM", x, w, r, bias, steps(lengths), hidden, cell, peepholes, outputs=3, **own)
        fields = {"direction": direction, "activation_descs": (SIGMOID, TANH, TANH) * len(w)}
        fields |= {"use_clip_threshold": clip is not None, "clip_threshold": clip or 0.1}
        calls.append(
            network(
                "LSTM",
                [x, w, r, bias, hidden],
                lengths,
                wanted,
                [cell],
                peepholes,
                **fields,
                couple_input_forget=coupled,
            )
        )
    check(calls)


def test_directions_have_functions_of_their_own():
    x, w, r, bias, hidden = operands(2, 3)
    names = ["Sigmoid", "Tanh", "Sigmoid", "LeakyRelu"]
    of = {"direction": "bidirectional", "hidden_size": SIZE, "activations": names, "activation_alpha": [0.3]}
    wanted = onnx("GRU", x, w, r, bias, None, hidden, outputs=2, **of)
    fields = {"direction": 2, "activation_descs": (SIGMOID, TANH, SIGMOID, LEAKY), "linear_before_reset": 0}
    check([network("GRU", [x, w, r, bias, hidden], None, wanted, **fields)])


def test_halves_are_rounded_once():
    x, w, r, bias, hidden = (one.astype(np.float16) for one in operands(0, 1))
    wide = (one.astype(np.float32) for one in (x, w, r, bias))
    wanted = onnx("RNN", *wide, None, hidden.astype(np.float32), outputs=2, hidden_size=SIZE)
    halves = [one.astype(np.float16) for one in wanted]
    fields = {"direction": 0, "activation_descs": (TANH,)}
    check([network("RNN", [x, w, r, bias, hidden], None, halves, tolerance=1e-3, **fields)])


def test_lengths_beyond_the_times_and_of_nothing():
    x, w, r, bias, hidden = operands(1, 1)
    wanted = onnx("RNN", x, w, r, bias, np.int32([5, 0, 2]), hidden, outputs=2, direction="reverse", hidden_size=SIZE)
    fields = {"direction": 1, "activation_descs": (TANH,)}
    check([network("RNN", [x, w, r, bias, hidden], np.uint32([[[[2**32 - 1, 0, 2]]]]), wanted, **fields)])


def test_the_model_of_dxdispatch():
    x = np.arange(1, 33, dtype=np.float32).reshape(1, 1, 8, 4)
    w = (1 + 0.4 * np.arange(40)).astype(np.float32).reshape(1, 2, 5, 4)
    r = np.full((1, 2, 5, 5), 0.3, np.float32)
    fields = {"direction": 2, "activation_descs": (activation("Elu", alpha=0.5), activation("Elu", alpha=3.5))}
    # Its single output: of one time, from states of 0.
    wanted = np.einsum("bi,dhi->dbh", x[0, 0], w[0])[None]
    (found,) = check([Call("RNN", [x, w, r, None, None, None], [None, wanted], fields, 1e-5)])
    single = np.asarray(found.output_single_tensor).reshape(-1)
    np.testing.assert_allclose(single[:5], [18, 34, 50, 66, 82], rtol=1e-6)
    np.testing.assert_allclose(single[-5:], [1173.2, 1368.4, 1563.6, 1758.8, 1954], rtol=1e-6)
    np.testing.assert_allclose(single.sum(), 46624, rtol=1e-6)


def test_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")
    x, w, r, bias, _ = operands(0, 4)
    sequence, single = (np.zeros((times, 1, BATCH, SIZE), np.float32) for times in (TIMES, 1))
    fields = {"direction": 0, "activation_descs": (SIGMOID, TANH, TANH), "clip_threshold": 0.0}
    fields |= {"use_clip_threshold": 0, "couple_input_forget": 0}
    given = [x[None], w[None], r[None], bias[None, None], *[None] * 4]
    run = Call("LSTM", given, [sequence, single, single], fields).operator

    def loss(x, w, r, bias):
        return run(x, w, r, bias, *[None] * 4).output_sequence_tensor.sum()

    found = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(*given[:4])
    network = torch.nn.LSTM(INPUTS, SIZE)
    inputs = torch.from_numpy(x).requires_grad_()

    def in_torchs_order(gates):
        i, o, f, c = np.split(gates, 4)
        return np.concatenate([i, f, c, o])

    halves = np.split(bias[0], 2)
    with torch.no_grad():
        for own, gates in zip(network.parameters(), (w[0], r[0], *halves), strict=True):
            own.copy_(torch.from_numpy(in_torchs_order(gates)))
    network(inputs)[0].sum().backward()
    np.testing.assert_allclose(found[0][0], inputs.grad, rtol=1e-5, atol=1e-6)
    gates = found[1][0, 0], found[2][0, 0], *np.split(np.asarray(found[3][0, 0, 0]), 2)
    for own, of_gates in zip(network.parameters(), gates, strict=True):
        np.testing.assert_allclose(in_torchs_order(np.asarray(of_gates)), own.grad, rtol=1e-5, atol=1e-6)
