"""Models that versions of XLA's CPU backend compute wrong unless the door sees to it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec
from onnx import ValueInfoProto, helper, numpy_helper

import jaxdml.onnx
from jaxdml._networks.along_axes import softmax
from tests.onnx.sessions import session

FLOAT = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32))


class Graph:
    """Collects nodes; arrays become initializers."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def __call__(self, kind, *inputs, **attributes):
        names = [value if isinstance(value, str) else self.initializer(value) for value in inputs]
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def initializer(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def model(self, shape):
        """Return a model of ``x`` and of one number ``s``, whose last node gives the output."""
        declared = [helper.make_tensor_value_info(name, FLOAT, size) for name, size in (("x", shape), ("s", [1]))]
        result = [ValueInfoProto(name=self.nodes[-1].output[0])]
        graph = helper.make_graph(self.nodes, "ground", declared, result, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def drawn(shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


# Weights that are one number


def filled(graph, shape):
    return graph("ConstantOfShape", np.int64(shape), value=numpy_helper.from_array(np.float32([0.5])))


def expanded_known(graph, shape):
    return graph("Expand", graph("Reshape", filled(graph, [1, 1]), np.int64([1])), np.int64(shape))


def expanded_parameter(graph, shape):
    return graph("Expand", np.float32([0.5]), np.int64(shape))


def expanded_input(graph, shape):
    return graph("Expand", "s", np.int64(shape))


def tiled_input(graph, shape):
    return graph("Tile", graph("Reshape", "s", np.int64([1] * len(shape))), np.int64(shape))


def scaled(graph, shape):
    return graph("Mul", filled(graph, shape), "s")


def parameter(graph, shape):
    return graph.initializer(np.full(shape, 0.5, np.float32))


WEIGHTS = [filled, expanded_known, expanded_parameter, expanded_input, tiled_input, scaled, parameter]


def product(graph, weight):
    graph("ReduceSum", graph("MatMul", "x", weight(graph, [256, 32])), np.int64([1]))
    return [8, 16, 256]


def rows(graph, weight):
    graph("ReduceSum", graph("Gemm", "x", weight(graph, [32, 256]), transB=1), np.int64([1]))
    return [128, 256]


def sum_of_products(graph, weight):
    graph("ReduceMax", graph("Einsum", weight(graph, [32, 256]), "x", equation="nk,bmk->bmn"), axes=[1])
    return [8, 16, 256]


def convolution(graph, weight):
    graph("GlobalAveragePool", graph("Conv", "x", weight(graph, [64, 64, 1, 1])))
    return [2, 64, 16, 16]


def transposed_convolution(graph, weight):
    made = graph("ConvTranspose", "x", weight(graph, [64, 64, 2, 2]), strides=[2, 2])
    graph("GlobalMaxPool", made)
    return [2, 64, 8, 8]


def recurrence(graph, weight):
    states = graph.initializer(np.zeros((1, 32, 32), np.float32))
    made = ["x", weight(graph, [1, 32, 64]), states]
    graph.nodes.append(helper.make_node("RNN", made, ["h"], hidden_size=32, activations=["Relu"]))
    graph("ReduceSum", "h", np.int64([0]))
    return [16, 8, 64]


READERS = [rows, sum_of_products, convolution, transposed_convolution, recurrence]
CASES = [
    *((product, weight) for weight in WEIGHTS),
    *((reader, weight) for reader in READERS for weight in (filled, expanded_input)),
]


def judged(reader, weight):
    """Return a model, its inputs, and onnxruntime's answer."""
    graph = Graph()
    shape = reader(graph, weight)
    model, inputs = graph.model(shape), {"x": drawn(shape), "s": np.float32([0.5])}
    (want,) = session(model)(**inputs).values()
    return jaxdml.onnx.load(model), inputs, want


@pytest.mark.parametrize(("reader", "weight"), CASES)
def test_weights_that_are_one_number_are_read_right(reader, weight):
    model, inputs, want = judged(reader, weight)
    np.testing.assert_array_equal(model(**inputs)[0], want)


@pytest.mark.parametrize("reader", [product, convolution])
def test_parameters_that_are_closed_over_are_read_right(reader):
    model, inputs, want = judged(reader, parameter)
    found = jax.jit(lambda *given: model.apply(model.params, *given))(*inputs.values())
    np.testing.assert_array_equal(found[0], want)


def transformed_by_vmap(apply, x, s):
    return jax.jit(jax.vmap(apply, (0, None)))(x[None], s)


def transformed_by_export(apply, x, s):
    artifact = export.export(jax.jit(apply), platforms=("cpu", "cuda", "tpu"))(x, s)
    return export.deserialize(artifact.serialize()).call(x, s)


def transformed_by_shard_map(apply, x, s):
    mesh = jax.make_mesh((1,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = {"in_specs": (PartitionSpec("batch"), PartitionSpec()), "out_specs": PartitionSpec("batch")}
    return jax.jit(jax.shard_map(apply, mesh=mesh, **specs))(x, s)


@pytest.mark.parametrize("way", [transformed_by_vmap, transformed_by_export, transformed_by_shard_map])
@pytest.mark.parametrize("weight", [filled, expanded_input])
def test_such_weights_can_be_transformed(weight, way):
    model, inputs, want = judged(product, weight)
    found = way(lambda x, s: model.apply({}, x, s)[0], *map(jnp.asarray, inputs.values()))
    np.testing.assert_array_equal(np.reshape(found, want.shape), want)


def test_such_a_weight_has_a_derivative():
    model, inputs, _ = judged(product, expanded_input)
    found = jax.jit(jax.grad(lambda s: model.apply({}, inputs["x"], s)[0].sum()))(jnp.float32([0.5]))
    np.testing.assert_array_equal(found, [32 * inputs["x"].sum()])


# Windows of a product that leave elements over

POOLS = {
    "MaxPool": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "AveragePool": {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 0, 0]},
    "LpPool": {"kernel_shape": [2, 2], "strides": [2, 2]},
}


def pooled(kind, sizes=None):
    """Return a model that pools a product, of these sizes if they differ from its input's, and what it is to answer."""
    graph, shape = Graph(), (2, 30, 30, 8) if kind == "AveragePool" else (2, 31, 31, 8)
    channels_first = graph("Transpose", graph("Relu", graph("MatMul", "x", drawn((8, 32), 1))), perm=[0, 3, 1, 2])
    graph(kind, channels_first, **POOLS[kind])
    model, inputs = graph.model(sizes or shape), {"x": drawn(shape), "s": np.zeros(1, np.float32)}
    (want,) = session(model)(**inputs).values()
    return jaxdml.onnx.load(model), inputs, want


@pytest.mark.parametrize("kind", POOLS)
def test_windows_that_leave_elements_over_are_read_right(kind):
    model, inputs, want = pooled(kind)
    np.testing.assert_allclose(model(**inputs)[0], want, rtol=1e-6)


def test_so_are_windows_of_symbolic_sizes():
    model, inputs, want = pooled("MaxPool", ["n", "h", "w", 8])
    sizes = export.symbolic_shape("n, h, w, 8", constraints=("h >= 2", "w >= 2"))
    params = dict(model.params)
    artifact = export.export(jax.jit(model.apply))(params, jax.ShapeDtypeStruct(sizes, np.float32), inputs["s"])
    np.testing.assert_array_equal(artifact.call(params, *inputs.values())[0], want)


# Softmax of numbers so large that a difference may be one of roundings


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("scaled", [False, True])
def test_equal_activations_are_equally_likely(kind, scaled):
    graph, shape = Graph(), (1, 50, 13, 13)
    if scaled:
        mean = graph("Mul", graph("ReduceSum", "x", np.int64([2, 3])), np.float32(1 / 169))
    else:
        mean = graph("GlobalAveragePool", "x")
    graph(kind, mean, axis=1)
    model = jaxdml.onnx.load(graph.model(shape))
    compiled = jax.jit(model.apply)
    for exponent in range(3, 21):
        image = np.random.default_rng(exponent).uniform(0.9, 1.1, (1, 1, 13, 13)) * 10.0**exponent
        x = np.broadcast_to(image.astype(np.float32), shape)
        found = compiled(dict(model.params), x, np.zeros(1, np.float32))[0]
        np.testing.assert_allclose(found, 1 / 50 if kind == "Softmax" else -np.log(50), rtol=1e-5)


def test_the_greatest_has_its_derivative():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32))
    for differentiated in (jax.jacobian, jax.hessian):
        ours, usual = (
            jax.jit(differentiated(lambda x, f=f: f(x)[0, 0]))(x) for f in (lambda x: softmax(x, (1,)), jax.nn.softmax)
        )
        np.testing.assert_allclose(ours, usual, atol=1e-6)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_of_an_infinity_minus_itself_there_is_no_number(infinite):
    assert np.isnan(softmax(jnp.full(2, infinite, np.float32), (0,))).all()
