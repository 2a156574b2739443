"""LSTM, GRU, RNN and DynamicQuantizeLSTM: what onnx's node tests leave out."""

import jax
import numpy as np
import onnx
import pytest
from onnx import helper

import jaxdml
from jaxdml.onnx import UnsupportedModelError, load
from tests.kit import quick
from tests.onnx.floats import as_onnxruntime, by_onnxruntime, close, one_node

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
    "gru_linear_without_bias": ("GRU", operands("GRU", 1, "B", "lengths", "h"), {"linear_before_reset": 1}),
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

    gradients = jax.jit(jax.vmap(jax.grad(total)))(np.stack([given[0], given[0] * 2]))
    assert gradients.shape == (2, TIME, BATCH, INPUTS)
    assert np.isfinite(gradients).all()
    assert not gradients[:, 1:, 1].any()  # past the length of the second sequence


def quantized(directions, dtype, *left_out, by_column=False, lengths=(3, 1)):
    """Draw operands of DynamicQuantizeLSTM, with weights of 7 bits, whose products no processor saturates."""
    rng = np.random.default_rng(1)
    floats = operands("LSTM", directions, *left_out, lengths=lengths)
    middle, columns = {"uint8": 128, "int8": 0}[dtype], 4 * SIZE
    for name, rows in (("W", INPUTS), ("R", SIZE)):
        floats[name] = (rng.integers(-63, 64, (directions, rows, columns)) + middle).astype(dtype)
        shape = (directions, columns) if by_column else (directions,)
        floats[f"{name}_scale"] = rng.uniform(0.01, 0.03, shape).astype(np.float32)
        floats[f"{name}_zero_point"] = np.full(shape, middle if by_column else middle + 3, dtype)
    return floats


QUANTIZED = {
    "all_that_it_takes": (quantized(2, "uint8"), {"direction": "bidirectional", "clip": 0.7}),
    "by_column_and_nothing_to_read": (
        quantized(1, "int8", "B", by_column=True, lengths=(0, 2)),
        {"direction": "reverse", "input_forget": 1},
    ),
    "forward_with_other_functions": (
        quantized(1, "int8", "lengths", "h", "c", "P"),
        {"activations": ["HardSigmoid", "Relu", "Softsign"], "activation_alpha": [0.3]},
    ),
}


def quantized_model(inputs, *outputs, fixed=(), **attributes):
    """Return a model with the operands of these names as initializers, and what to call it with."""
    options = {"domain": "com.microsoft", "hidden_size": SIZE}
    proto, _ = one_node("DynamicQuantizeLSTM", inputs, *outputs, **options | attributes)
    declared = {value.name: value for value in proto.graph.input}
    for name in fixed:
        proto.graph.initializer.append(onnx.numpy_helper.from_array(inputs[name], name))
        proto.graph.input.remove(declared[name])
    names = {value.name for value in proto.graph.input}
    return proto, [value for name, value in inputs.items() if name in names]


FIXED = ("W", "R", "B", "W_scale", "W_zero_point", "R_scale", "R_zero_point")


@pytest.mark.parametrize("case", QUANTIZED)
def test_dynamically_quantized_networks_are_those_of_onnxruntime(case):
    inputs, attributes = QUANTIZED[case]
    fixed = [name for name in FIXED if inputs[name] is not None]
    # What no sequence reaches does not count in the range of the inputs.
    beyond = TIME if inputs["lengths"] is None else max(inputs["lengths"])
    inputs = inputs | {"X": np.concatenate([inputs["X"][:beyond], 100 * inputs["X"][beyond:]])}
    proto, given = quantized_model(inputs, "Y", "Y_h", "Y_c", fixed=fixed, **attributes)
    model = load(proto)
    assert isinstance(model.params["W"], jaxdml.PackedMatrix)
    assert isinstance(model.params["R"], jaxdml.PackedMatrix)
    close(model(*given), by_onnxruntime(proto, *given))


def test_no_answer_depends_on_the_outputs_that_are_asked_for_or_on_how_weights_are_stored():
    inputs, attributes = QUANTIZED["all_that_it_takes"]
    proto, given = quantized_model(inputs, "Y", "Y_h", fixed=FIXED, **attributes)
    wanted = by_onnxruntime(proto, *given)
    proto, given = quantized_model(inputs, "", "Y_h", fixed=FIXED, **attributes)
    close(load(proto, numerics="literal")(*given), wanted[1:])


def test_each_example_of_a_mapped_quantized_network_has_its_own_range():
    proto, (x,) = quantized_model(quantized(1, "int8", "lengths", "h", "c", "P"), "Y", fixed=FIXED)
    model = load(proto)
    both = np.stack([x, 9 * x])
    mapped = jax.jit(jax.vmap(lambda x: model.apply(model.params, x)[0]))(both)
    close(mapped, [by_onnxruntime(proto, x)[0] for x in both])


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ({}, {"hidden_size": 3}, r"W must have the shape \[1, 3, 12\], not \[1, 3, 8\]"),
        ({"R_scale": np.ones((1, 2), np.float32)}, {}, r"R_scale must have the shape \[1\] or \[1, 8\], not \[1, 2\]"),
        ({"W": np.ones((1, 8, INPUTS), np.int8)}, {}, r"W must have the shape \[1, 3, 8\], not \[1, 8, 3\]"),
    ],
)
def test_operands_of_a_quantized_network_must_fit(inputs, attributes, message):
    proto, given = quantized_model(quantized(1, "int8") | inputs, "Y", **attributes)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(load(proto).apply, {}, *given)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"direction": "sideways"}, "direction is 'sideways', not one of forward, reverse, bidirectional"),
        ({"activations": ["Sigmoid", "Cosine", "Tanh"]}, "activation 'Cosine' is not one of"),
        ({"activations": ["Sigmoid", "Tanh"]}, "it has 2 activations; each direction has 3"),
    ],
)
def test_attributes_that_no_network_has_are_refused(attributes, reason):
    proto, _ = one_node("LSTM", operands("LSTM", 1), "Y", hidden_size=SIZE, **attributes)
    with pytest.raises(UnsupportedModelError, match=reason):
        load(proto)
