"""LSTM, GRU and RNN: what onnx's node tests leave out."""

import jax
import numpy as np
import onnx
import pytest
from onnx import helper

from jaxdml.onnx import load
from tests.kit import quick
from tests.onnx.floats import as_onnxruntime, one_node

pytestmark = quick

TIME, BATCH, INPUTS, SIZE = 3, 2, 3, 2
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def operands(kind, directions, *left_out, lengths=(3, 1)):
    rng = np.random.default_rng(0)
    rows = GATES[kind] * SIZE
    shapes = {"X": (TIME, BATCH, INPUTS), "W": (directions, rows, INPUTS), "R": (directions, rows, SIZE)}
    shapes |= {"B": (directions, 2 * rows), "lengths": (BATCH,), "h": (directions, BATCH, SIZE)}
    if kind == "LSTM":
        shapes |= {"c": (directions, BATCH, SIZE), "P": (directions, 3 * SIZE)}
    drawn = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    drawn["lengths"] = np.int32(lengths)
    return {name: None if name in left_out else value for name, value in drawn.items()}


CASES = {
    "lstm_all": ("LSTM", operands("LSTM", 2), {"direction": "bidirectional", "clip": 0.5}),
    "lstm_coupled": (
        "LSTM",
        operands("LSTM", 1, "B", "lengths", "h"),
        {"direction": "reverse", "input_forget": 1, "activations": ["HardSigmoid", "Relu", "Softsign"], "clip": 2.0},
    ),
    "gru_linear": ("GRU", operands("GRU", 1), {"direction": "reverse", "linear_before_reset": 1}),
    "gru_functions": (
        "GRU",
        operands("GRU", 2, "lengths", "h"),
        {
            "direction": "bidirectional",
            "activations": ["HardSigmoid", "ScaledTanh", "Sigmoid", "Elu"],
            "activation_alpha": [0.3, 0.7, 0.9],
            "activation_beta": [0.4, 0.6],
            "clip": 0.8,
            "opset": 7,
        },
    ),
    "rnn_nothing_to_read": ("RNN", operands("RNN", 2, lengths=(0, 2)), {"direction": "bidirectional"}),
}


@pytest.mark.parametrize("case", CASES)
def test_recurrent_networks_are_those_of_onnxruntime(case):
    kind, inputs, attributes = CASES[case]
    outputs = ("Y", "Y_h", "Y_c")[: 3 if kind == "LSTM" else 2]
    proto, given = one_node(kind, inputs, *outputs, hidden_size=SIZE, **attributes)
    as_onnxruntime(proto, *given)


def test_every_function_of_a_gate_is_that_of_onnxruntime():
    functions = {
        "Affine": (0.7, 0.4),
        "Elu": (0.7,),
        "HardSigmoid": (0.7, 0.4),
        "LeakyRelu": (0.7,),
        "Relu": (),
        "ScaledTanh": (0.7, 0.4),
        "Sigmoid": (),
        "Softplus": (),
        "Softsign": (),
        "Tanh": (),
        "ThresholdedRelu": (0.7,),
    }
    proto, _ = one_node("RNN", operands("RNN", 1, "B", "lengths", "h"), "Y", hidden_size=SIZE)
    del proto.graph.node[:], proto.graph.output[:]
    for name, constants in functions.items():
        attributes = dict(zip(("activation_alpha", "activation_beta"), ([value] for value in constants), strict=False))
        node = helper.make_node("RNN", ["X", "W", "R"], [name], activations=[name], hidden_size=SIZE, **attributes)
        proto.graph.node.append(node)
        proto.graph.output.append(onnx.ValueInfoProto(name=name))
    as_onnxruntime(proto, *(value for value in operands("RNN", 1, "B", "lengths", "h").values() if value is not None))


def test_the_batch_may_come_first():
    inputs = operands("LSTM", 2)
    options = {"direction": "bidirectional", "hidden_size": SIZE}
    proto, given = one_node("LSTM", inputs, "Y", "Y_h", "Y_c", **options)
    steps, *states = load(proto)(*given)
    turned = inputs | {name: np.ascontiguousarray(inputs[name].swapaxes(0, 1)) for name in ("X", "h", "c")}
    proto, given = one_node("LSTM", turned, "Y", "Y_h", "Y_c", layout=1, **options)
    found = load(proto)(*given)
    for one, other in zip(
        found, (steps.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_recurrent_network_has_derivatives_and_maps_over_a_batch():
    proto, given = one_node("RNN", operands("RNN", 1), "Y", hidden_size=SIZE)
    model = load(proto)

    def total(x):
        return model.apply(model.params, x, *given[1:])[0].sum()

    gradients = jax.vmap(jax.grad(total))(np.stack([given[0], given[0] * 2]))
    assert gradients.shape == (2, TIME, BATCH, INPUTS)
    assert np.isfinite(gradients).all()
    assert not gradients[:, 1:, 1].any()  # past the length of the second sequence
