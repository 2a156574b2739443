"""A quantized network as a graph of DirectML has the integers that the ONNX door and onnxruntime have."""

import jax
import numpy as np
import onnxruntime
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from numpy.lib.stride_tricks import sliding_window_view

import jaxdml.onnx
import jaxdml.reference
from benchmarks.models.net import Net
from benchmarks.models.networks import Block, Image, as_int8, mobilenet_v2
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, INT8, UINT8, CopyOperatorDesc, tensor
from tests.directml_networks import graph_of
from tests.kit import assert_same_bits, compiled, long, quick
from tests.kit.forms import forms_of
from tests.kit.meshes import COUNT, mesh_of, put

INT32 = dml.TensorDataType.INT32
LITTLE = Image((Block(1, 8), Block(6, 12, 2)), 8, 32, 16, 10)
"""Blocks of all kinds that MobileNetV2 has."""


@pytest.fixture(scope="module")
def network():
    return as_int8(mobilenet_v2(Net("little"), LITTLE))


@quick
def test_a_quantized_network_keeps_its_integers_and_its_batch_sharded(network):
    graph, owned = graph_of(network, batch=8)
    assert sum(isinstance(node, dml.OperatorNode) for node in graph.nodes) == 16
    run = dml.compile_graph(graph).initialize(owned)
    packed = [type(one).__name__ for one in run.bound.values()]
    assert set(packed) == {"PackedFilters"}
    x = np.random.default_rng(1).standard_normal((8, 3, 16, 16), np.float32)
    mesh = mesh_of("auto", x=COUNT)
    (got,) = jax.jit(run)(put(mesh, x, "x"))
    assert got.sharding.is_equivalent_to(NamedSharding(mesh, PartitionSpec("x")), got.ndim)
    session = onnxruntime.InferenceSession(network.SerializeToString())
    (judged,) = session.run(None, {session.get_inputs()[0].name: x})
    assert_same_bits(np.asarray(got).reshape(judged.shape), judged)
    (door,) = jaxdml.onnx.load(network)(x)
    assert_same_bits(door, judged)


@long
def test_weights_are_packed_for_the_constants_beside_them(network, on_gpu):
    graph, owned = graph_of(network, batch=2)
    run = dml.compile_graph(graph).initialize(owned)
    assert all(one.chain for one in run.bound.values())
    x = np.random.default_rng(1).standard_normal((2, 3, 16, 16), np.float32)
    with forms_of("cuda"):
        (got,) = compiled(run)(x)
    (judged,) = jaxdml.onnx.load(network)(x)
    assert_same_bits(np.asarray(got).reshape(judged.shape), np.asarray(judged))


PRODUCT = {
    "a_tensor": tensor(UINT8, 1, 1, 5, 32), "a_scale_tensor": tensor(FLOAT32, 1, 1, 1, 1),
    "a_zero_point_tensor": tensor(UINT8, 1, 1, 1, 1),
    "b_tensor": tensor(INT8, 1, 1, 32, 12, flags=dml.TensorFlags.OWNED_BY_DML),
    "b_scale_tensor": tensor(FLOAT32, 1, 1, 1, 12), "output_scale_tensor": tensor(FLOAT32, 1, 1, 1, 1),
    "output_zero_point_tensor": tensor(UINT8, 1, 1, 1, 1), "output_tensor": tensor(UINT8, 1, 1, 5, 12),
}  # fmt: skip
NUMBERS = {
    "a_scale_tensor": np.float32(0.02), "a_zero_point_tensor": np.uint8(3),
    "b_scale_tensor": np.linspace(0.5, 1, 12).astype(np.float32) / 64, "output_scale_tensor": np.float32(0.07),
    "output_zero_point_tensor": np.uint8(9),
}  # fmt: skip


def product(left_out=(), given=()):
    """Return the graph of a product: its numbers are constants, but those that are left out, or given in a call."""
    fields = [name for name in PRODUCT if name not in (*left_out, "output_tensor")]
    desc = dml.QuantizedLinearMatrixMultiplyOperatorDesc(**{name: PRODUCT[name] for name in (*fields, "output_tensor")})
    # Inputs are counted in the order of the struct, also those that are left out.
    places = [name for name in PRODUCT if name != "b_zero_point_tensor"]
    places.insert(places.index("output_scale_tensor"), "b_zero_point_tensor")
    inputs = ["a_tensor", "b_tensor", *given]
    constants = [name for name in fields if name not in inputs]
    return dml.Graph(
        input_count=len(inputs), output_count=1,
        nodes=[dml.OperatorNode(desc), *(dml.ConstantNode(NUMBERS[name]) for name in constants)],
        input_edges=[dml.InputEdge(index, 0, places.index(name)) for index, name in enumerate(inputs)],
        output_edges=[dml.OutputEdge(0, 0, 0)],
        intermediate_edges=[
            dml.IntermediateEdge(1 + node, 0, 0, places.index(name)) for node, name in enumerate(constants)
        ],
    )  # fmt: skip


@pytest.mark.parametrize("left_out", [(), ("a_zero_point_tensor",), ("output_zero_point_tensor",)])
def test_a_matrix_is_packed_for_the_constants_beside_it(left_out, on_gpu):
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (1, 1, 5, 32), np.uint8), rng.integers(-128, 128, (1, 1, 32, 12), np.int8)
    bound = dml.compile_graph(product(left_out)).initialize({1: b})
    (packed,) = bound.bound.values()
    assert packed.chain.first.shape == packed.sums.shape
    known = {name.removesuffix("_tensor"): value for name, value in NUMBERS.items() if name not in left_out}
    options = {"a_zero_point": None, "b_zero_point": None, "output_dtype": "uint8", **known}
    wanted = jaxdml.reference.quantized_linear_matrix_multiply(a, b=b, **options)
    with forms_of("cuda"):
        (got,) = compiled(bound)(a)
        of_one = jax.vmap(lambda a, b: jaxdml.quantized_linear_matrix_multiply(a, b=b, **options))
        mapped = compiled(of_one)(a, packed)
    assert_same_bits(got, wanted)
    assert_same_bits(mapped, wanted)


@pytest.mark.parametrize("constant", [True, False])
def test_filters_are_packed_for_a_bias_that_is_constant(constant, on_gpu):
    one, image = tensor(FLOAT32, 1, 1, 1, 1), tensor(UINT8, 1, 3, 2, 2)
    convolve = dml.QuantizedLinearConvolutionOperatorDesc(
        input_tensor=image, input_scale_tensor=one, filter_scale_tensor=one, output_scale_tensor=one,
        filter_tensor=tensor(INT8, 4, 3, 1, 1, flags=dml.TensorFlags.OWNED_BY_DML),
        bias_tensor=tensor(INT32, 1, 4, 1, 1), output_tensor=tensor(UINT8, 1, 4, 2, 2), strides=[1, 1],
        dilations=[1, 1], start_padding=[0, 0], end_padding=[0, 0], group_count=1,
    )  # fmt: skip
    # Of the inputs 0 is the image, 1 its scale, 3 the filters, 4 their scale, 6 the bias, 7 the scale of the output.
    numbers = {1: np.float32(0.5), 4: np.float32(0.25), 7: np.float32(2)}
    if constant:
        numbers[6] = np.int32([1, -2, 3, 4])
    graph = dml.Graph(
        input_count=3, output_count=1,
        nodes=[dml.OperatorNode(convolve), *map(dml.ConstantNode, numbers.values())],
        input_edges=[dml.InputEdge(0, 0, 0), dml.InputEdge(1, 0, 3), *([] if constant else [dml.InputEdge(2, 0, 6)])],
        output_edges=[dml.OutputEdge(0, 0, 0)],
        intermediate_edges=[dml.IntermediateEdge(1 + node, 0, 0, place) for node, place in enumerate(numbers)],
    )  # fmt: skip
    (packed,) = dml.compile_graph(graph).initialize({1: np.ones((4, 3, 1, 1), np.int8)}).bound.values()
    assert bool(packed.chain) == constant


def test_a_matrix_is_packed_for_any_numbers_where_a_call_gives_one(on_gpu):
    b = np.ones((1, 1, 32, 12), np.int8)
    for name in NUMBERS:
        (packed,) = dml.compile_graph(product(given=[name])).initialize({1: b}).bound.values()
        assert packed.chain == ()


@quick
def test_channels_that_are_stored_last_are_seen_where_they_are_described():
    x, w, y = tensor(UINT8, 2, 3, 5, 5), tensor(INT8, 4, 3, 3, 3), tensor(INT32, 2, 4, 3, 3)
    convolve = dml.ConvolutionIntegerOperatorDesc(
        input_tensor=x, filter_tensor=w, output_tensor=y, strides=[1, 1], dilations=[1, 1], start_padding=[0, 0],
        end_padding=[0, 0], group_count=1,
    )  # fmt: skip
    scale = dml.ElementWiseDequantizeLinearOperatorDesc(
        input_tensor=y,
        scale_tensor=tensor(FLOAT32, 2, 4, 3, 3, strides=(0, 1, 0, 0)),
        output_tensor=tensor(FLOAT32, 2, 4, 3, 3),
    )
    flat = tensor(INT32, 8, 9)
    scales = np.float32([0.5, 1, 2, 4])
    graph = dml.Graph(
        input_count=2, output_count=3,
        nodes=[dml.OperatorNode(convolve), dml.OperatorNode(scale), dml.ConstantNode(scales),
               dml.OperatorNode(CopyOperatorDesc(input_tensor=flat, output_tensor=flat))],
        input_edges=[dml.InputEdge(0, 0, 0), dml.InputEdge(1, 0, 2)],
        output_edges=[dml.OutputEdge(0, 0, 0), dml.OutputEdge(1, 0, 1), dml.OutputEdge(3, 0, 2)],
        intermediate_edges=[dml.IntermediateEdge(0, 0, 1, 0), dml.IntermediateEdge(2, 0, 1, 1),
                            dml.IntermediateEdge(0, 0, 3, 0)],
    )  # fmt: skip
    rng = np.random.default_rng(2)
    image, filters = rng.integers(0, 256, x.sizes, np.uint8), rng.integers(-128, 128, w.sizes, np.int8)
    sums, scaled, copied = dml.compile_graph(graph)(image, filters)
    want = np.einsum(
        "nchwij,mcij->nmhw", sliding_window_view(image.astype(np.int32), (3, 3), (2, 3)), filters.astype(np.int32)
    )
    assert_same_bits(sums, want.astype(np.int32))
    assert_same_bits(copied, want.astype(np.int32).reshape(8, 9))
    assert_same_bits(scaled, want.astype(np.float32) * scales[:, None, None])


def test_one_filter_of_one_element_is_no_scale():
    one, image = tensor(FLOAT32, 1, 1, 1, 1), tensor(UINT8, 1, 1, 2, 2)
    convolve = dml.QuantizedLinearConvolutionOperatorDesc(
        input_tensor=image, input_scale_tensor=one, filter_tensor=tensor(INT8, 1, 1, 1, 1), filter_scale_tensor=one,
        bias_tensor=tensor(INT32, 1, 1, 1, 1), output_scale_tensor=one, output_tensor=image, strides=[1, 1],
        dilations=[1, 1], start_padding=[0, 0], end_padding=[0, 0], group_count=1,
    )  # fmt: skip
    values = {1: np.float32(0.5), 3: np.int8(3), 4: np.float32(1), 6: np.int32(-2), 7: np.float32(0.5)}
    graph = dml.Graph(
        input_count=1, output_count=1,
        nodes=[dml.OperatorNode(convolve), *map(dml.ConstantNode, values.values())],
        input_edges=[dml.InputEdge(0, 0, 0)], output_edges=[dml.OutputEdge(0, 0, 0)],
        intermediate_edges=[dml.IntermediateEdge(1 + node, 0, 0, place) for node, place in enumerate(values)],
    )  # fmt: skip
    (got,) = dml.compile_graph(graph)(np.uint8([[[[1, 2], [0, 100]]]]))
    assert_same_bits(got, np.uint8([[[[1, 4], [0, 255]]]]))
