"""Programs of PyDirectML: names, defaults and traps of the module, and networks against onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from jaxdml.directml import InvalidDescError
from jaxdml.directml import pydirectml as dml
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime, one_node

pytestmark = quick

RNG = np.random.default_rng(0)
FLOAT32, OWNED = dml.TensorDataType.FLOAT32, dml.TensorFlags.OWNED_BY_DML


class Program:
    """A graph that is built and computed with few words."""

    def __init__(self):
        self.device = dml.Device()
        self.builder = dml.GraphBuilder(self.device)
        self.bindings = []

    def input(self, data, *more, sizes=None):
        flags = [one for one in more if isinstance(one, dml.TensorFlags)]
        strides = [one for one in more if isinstance(one, list)]
        desc = dml.TensorDesc(FLOAT32, *flags, list(sizes or np.shape(data)), *strides)
        tensor = dml.input_tensor(self.builder, len(self.bindings), desc)
        self.bindings.append(dml.Binding(tensor, data))
        return tensor

    def compute(self, *outputs):
        model = self.builder.build(dml.ExecutionFlags.NONE, list(outputs))
        return [np.array(one) for one in self.device.compute(model, self.bindings, list(outputs))]


def drawn(*sizes):
    return RNG.normal(size=sizes).astype(np.float32)


def test_a_network_of_convolutions_pools_and_a_product():
    of = {"w1": drawn(4, 1, 5, 5), "b1": drawn(4), "p": drawn(1, 4, 1, 1), "w2": drawn(3, 4, 3, 3), "m": drawn(48, 10)}
    x = drawn(1, 1, 8, 8)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[2] * 4),
        helper.make_node("Add", ["c1", "p"], ["a1"]),
        helper.make_node("Relu", ["a1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["m1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["m1", "w2"], ["c2"], pads=[1] * 4),
        helper.make_node("Tanh", ["c2"], ["t2"]),
        helper.make_node("Flatten", ["t2"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in of.items()],
    )
    (wanted,) = by_onnxruntime(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), x)
    program = Program()
    image = program.input(x)
    w1, b1 = program.input(of["w1"], OWNED), program.input(of["b1"], OWNED, sizes=(1, 4, 1, 1))
    # One number for each channel, repeated by strides of 0.
    repeated = program.input(of["p"], [4, 1, 0, 0], sizes=(1, 4, 8, 8))
    y = dml.convolution(image, w1, b1, start_padding=[2, 2], end_padding=[2, 2])
    y = dml.max_pooling(dml.activation_relu(dml.add(y, repeated)), [2, 2], [2, 2]).values
    tanh = dml.FusedActivation(dml.OperatorType.ACTIVATION_TANH)
    w2 = program.input(of["w2"], OWNED)
    y = dml.convolution(y, w2, start_padding=[1, 1], end_padding=[1, 1], fused_activation=tanh)
    flat = dml.reinterpret(y, FLOAT32, [1, 1, 1, 48], None)
    y = dml.activation_soft_max(dml.gemm(flat, program.input(of["m"], OWNED, sizes=(1, 1, 48, 10))))
    (found,) = program.compute(y)
    np.testing.assert_allclose(found.reshape(1, 10), wanted, rtol=1e-5, atol=1e-6)


def test_operators_of_python():
    a, b = drawn(1, 1, 2, 3), drawn(1, 1, 2, 3) + 4
    program = Program()
    x, y = program.input(a), program.input(b)
    moved = x * 1
    alias = moved
    moved += y
    moved -= 2
    moved *= y
    moved /= 4
    assert moved is alias
    pairs = {
        "x + y": (x + y, a + b),
        "x - y": (x - y, a - b),
        "x * y": (x * y, a * b),
        "x / y": (x / y, a / b),
        "x % y": (x % y, np.fmod(a, b)),
        "-x": (-x, -a),
        "x + 2": (x + 2, a + 2),
        "2 + x": (2 + x, a + 2),
        "x - 2": (x - 2, a - 2),
        "2 - x": (2 - x, 2 - a),
        "x * 2": (x * 2, a * 2),
        "2 * x": (2 * x, a * 2),
        "y / 2": (y / 2, b / 2),
        "2 / y": (2 / y, 2 / b),
        "in place": (moved, (a + b - 2) * b / 4),
    }
    found = program.compute(*(one for one, _ in pairs.values()))
    for name, result, (_, wanted) in zip(pairs, found, pairs.values(), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6, err_msg=name)
    with pytest.raises(TypeError):
        x % 2
    with pytest.raises(TypeError):
        x %= 2
    with pytest.raises(TypeError):
        2 % x
    with pytest.raises(TypeError):
        x + "2"


def test_functions():
    x, other = drawn(1, 3, 4, 6), drawn(1, 3, 4, 6)
    per_channel = [np.abs(drawn(1, 3, 1, 1)) for _ in range(4)]
    places = np.array([[[[2, 0, 1]]]], np.uint32)
    program = Program()
    a, b = program.input(x), program.input(other)
    mean, variance, scale, bias = (program.input(one) for one in per_channel)
    index = dml.input_tensor(program.builder, 6, dml.TensorDesc(dml.TensorDataType.UINT32, [1, 1, 1, 3]))
    program.bindings.append(dml.Binding(index, places.view(np.float32)))
    m, v, s, o = per_channel
    relu = dml.FusedActivation(dml.OperatorType.ACTIVATION_RELU)
    elu = dml.FusedActivation(dml.OperatorType.ACTIVATION_ELU, 0.5)
    centered = x - x.mean((2, 3), keepdims=True)
    normal = centered / np.sqrt(x.var((2, 3), keepdims=True) + 1e-3)
    pooled = dml.max_pooling(a, [2, 2], output_indices=True)
    assert dml.max_pooling(a, [2, 2]).indices is None
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    mvn = dml.mean_variance_normalization
    root = x / np.sqrt((x**2).mean((2, 3), keepdims=True) + 1e-3)
    lrn = x / (1 + 0.1 / 1 * x**2) ** 0.5
    pairs = {
        "add": (dml.add(a, b, relu), np.maximum(x + other, 0)),
        "elu": (dml.add(a, b, elu), np.where(x + other > 0, x + other, 0.5 * np.expm1(x + other))),
        "subtract": (dml.subtract(a, b), x - other),
        "multiply": (dml.multiply(a, b), x * other),
        "divide": (dml.divide(a, b), x / other),
        "sigmoid": (dml.activation_sigmoid(a), 1 / (1 + np.exp(-x))),
        "tanh": (dml.activation_tanh(a), np.tanh(x)),
        "identity": (dml.activation_identity(a), x),
        "linear": (dml.activation_linear(a, 2, 3), 2 * x + 3),
        "average": (dml.average_pooling(a, [1, 1], [2, 2], [0, 0], [0, 0], False), windows.mean((-1, -2))),
        "greatest": (pooled.values, windows.max((-1, -2))),
        "batch": (
            dml.batch_normalization(a, mean, variance, scale, bias, True, 0.1),
            s * (x - m) / np.sqrt(v + 0.1) + o,
        ),
        "mean and variance": (mvn(a, scale, bias, [2, 3], True, 1e-3), s * normal + o),
        "fused": (mvn(a, None, None, [2, 3], True, 1e-3, relu), np.maximum(normal, 0)),
        "newer": (mvn(a, None, None, [2, 3], True, True, 1e-3, relu), np.maximum(normal, 0)),
        "no mean": (mvn(a, axes=[2, 3], normalize_mean=False, epsilon=1e-3), root),
        "mean alone": (mvn(a, axes=[2, 3], normalize_variance=False, epsilon=1e-3), centered),
        "response": (dml.local_response_normalization(a, True, 1, 0.1, 0.5, 1.0), lrn),
        "padding": (
            dml.padding(a, dml.PaddingMode.EDGE, 0, [0, 0, 1, 0], [0, 0, 0, 2]),
            np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)], "edge"),
        ),
        "slice": (dml.slice(a, [0, 0, 0, 1], [1, 3, 4, 5], [1, 1, 2, -2]), x[:, :, ::2, 5:0:-2]),
        "scale": (dml.value_scale_2d(a, 2, [1, 2, 3]), 2 * x + np.float32([1, 2, 3]).reshape(1, 3, 1, 1)),
        "upsampled": (dml.up_sample_2d(a, dml.Size2D(2, 3), dml.NEAREST_NEIGHBOR), x.repeat(3, 2).repeat(2, 3)),
        "join": (dml.join([a, b, a], 2), np.concatenate([x, other, x], 2)),
        "gather": (dml.gather(a, index, 1, 1), x[:, [2, 0, 1]]),
        "gather two": (dml.gather(a, index, 2, 2), x[:, :, [[2, 0, 1]]].reshape(3, 1, 3, 6)),
    }
    found = program.compute(pooled.indices, *(one for one, _ in pairs.values()))
    flat = x.reshape(-1)[found[0].view(np.uint32)]
    np.testing.assert_array_equal(flat, windows.max((-1, -2)))
    for name, result, (_, wanted) in zip(pairs, found[1:], pairs.values(), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5, err_msg=name)


def test_transposes_and_output_sizes():
    program = Program()
    a, b, c = drawn(1, 1, 2, 3), drawn(1, 1, 4, 2), drawn(1, 1, 3, 4)
    product = dml.gemm(
        *(program.input(one) for one in (a, b, c)), dml.MatrixTransform.TRANSPOSE, dml.MatrixTransform.TRANSPOSE, 2, 3
    )
    x, w = program.input(drawn(1, 2, 3, 3)), program.input(drawn(2, 1, 2, 2))
    backward = {"direction": dml.ConvolutionDirection.BACKWARD, "strides": [2, 2]}
    larger = dml.convolution(x, w, **backward, output_sizes=[1, 1, 7, 6])
    assert larger.get_output_desc().sizes == [1, 1, 7, 6]
    found, grown = program.compute(product, larger)
    np.testing.assert_allclose(found, 2 * np.swapaxes(a, 2, 3) @ np.swapaxes(b, 2, 3) + 3 * c, rtol=1e-5)
    assert not grown[:, :, 6].any()
    with pytest.raises(RuntimeError, match="output_sizes"):
        dml.convolution(x, w, **backward)


@pytest.mark.parametrize("options", dml.OutputOptions)
def test_gated_units(options):
    x, w, r, bias, hidden = drawn(4, 3, 5), drawn(1, 6, 5), drawn(1, 6, 2), drawn(1, 12), drawn(1, 3, 2)
    operands = {"x": x, "w": w, "r": r, "b": bias, "lengths": None, "h": hidden}
    proto, given = one_node("GRU", operands, "all", "last", hidden_size=2, linear_before_reset=1)
    wanted = by_onnxruntime(proto, *given)
    program = Program()
    tensors = [program.input(one[None]) for one in (x, w, r, bias[None], hidden)]
    kinds = dml.OperatorType.ACTIVATION_SIGMOID, dml.OperatorType.ACTIVATION_TANH
    functions = [dml.FusedActivation(kind) for kind in kinds]
    made = dml.gru(*tensors, None, functions, dml.RecurrentNetworkDirection.FORWARD, True, options)
    both = (made.sequence, wanted[0]), (made.single, wanted[1][None])
    assert [one is None for one, _ in both] == [options == 2, options == 1]
    asked = [(one, array) for one, array in both if one is not None]
    for found, array in zip(program.compute(*(one for one, _ in asked)), [array for _, array in asked], strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-6)


def test_descriptions_have_the_forms_of_the_constructor():
    plain = dml.TensorDesc(FLOAT32, [1, 2, 3, 4])
    assert (plain.data_type, plain.flags, plain.strides) == (FLOAT32, dml.TensorFlags.NONE, None)
    assert (plain.sizes, plain.total_tensor_size_in_bytes, plain.guaranteed_base_offset_alignment) == (
        [1, 2, 3, 4],
        96,
        0,
    )
    assert repr(plain) == "dml.TensorDesc of type 1 and shape [1,2,3,4] with flags 0"
    assert dml.TensorDesc(FLOAT32, OWNED, [1, 2]).flags == OWNED
    assert dml.TensorDesc(data_type=FLOAT32, flags=OWNED, sizes=[1, 2]).flags == OWNED
    assert dml.TensorDesc(FLOAT32, [2, 2], [0, 1]).total_tensor_size_in_bytes == 8
    full = dml.TensorDesc(FLOAT32, OWNED, [2, 2], [2, 1], 64, 16)
    assert (full.strides, full.total_tensor_size_in_bytes, full.guaranteed_base_offset_alignment) == ([2, 1], 64, 16)


def test_names():
    assert repr(dml.Device(True, True)) == "dml.Device on GPU"
    assert repr(dml.Device(use_gpu=False)) == "dml.Device on CPU"
    # Of members with one name the last enumeration's is exported.
    assert dml.NONE is dml.ExecutionFlags.NONE
    assert dml.FORWARD is dml.ConvolutionDirection.FORWARD
    assert dml.CONVOLUTION is dml.OperatorType.CONVOLUTION
    assert dml.OperatorType.INVALID == 0
    assert max(dml.OperatorType) <= 96
    size = dml.Size2D(2, 3)
    assert (size.width, size.height) == (2, 3)


def test_what_cannot_be_bound_or_built():
    program = Program()
    x = program.input(drawn(1, 1, 1, 4))
    y = dml.activation_relu(x)
    with pytest.raises(RuntimeError, match="one of its inputs"):
        program.compute(x)
    model = program.builder.build(dml.ExecutionFlags.NONE, [y])
    with pytest.raises(RuntimeError, match="input 0 of the graph is not bound"):
        program.device.compute(model, [None], [y])
    with pytest.raises(RuntimeError, match="input 0 of the graph has 16 bytes; 8 are bound"):
        program.device.compute(model, [dml.Binding(x, np.zeros(2))], [y])
    assert program.device.compute(model, program.bindings, [None]) == []
    with pytest.raises(RuntimeError, match="one GraphBuilder"):
        dml.add(y, Program().input(drawn(1, 1, 1, 4)))
    other = Program()
    half = dml.input_tensor(other.builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT16, [1, 1, 1, 4]))
    other.bindings.append(dml.Binding(half, np.zeros(2)))
    with pytest.raises(RuntimeError, match="PyDirectML returns no FLOAT16"):
        other.compute(dml.activation_relu(half))
    wrong = Program()
    a, b = wrong.input(drawn(1, 1, 2, 3)), wrong.input(drawn(1, 1, 2, 2))
    with pytest.raises(InvalidDescError, match="BTensor"):
        wrong.compute(dml.gemm(a, b))
