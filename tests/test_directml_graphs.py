"""Graphs: what they compute, how edges reread bytes, what is bound, and every rule that a graph can break."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec

import jaxdml
from jaxdml import directml as dml
from jaxdml.directml._making import make_struct
from jaxdml.directml._operator import Operator
from jaxdml.directml._rereading import constant, reread
from jaxdml.directml._support import UP_TO_64_BITS, row
from tests.directml_descs import FLOAT16, FLOAT32, INT8, INT64, UINT8, UINT32, CopyOperatorDesc, tensor
from tests.kit import assert_same_bits, quick
from tests.kit.meshes import COUNT, mesh_of, put

INT32 = dml.TensorDataType.INT32
OWNED = dml.TensorFlags.OWNED_BY_DML
LEVELS = {dml.FeatureLevel.LEVEL_1_0: row(("input_tensor output_tensor", range(1, 9), UP_TO_64_BITS))}


def square(desc, x):
    return x * x


def refuse(desc, x):
    raise AssertionError("computed, though no output needs it")


def made_up(name, number, compute):
    operator = Operator(number, LEVELS, compute, lambda desc: iter(()), doc="Compute.")
    return make_struct(name, {"InputTensor": "input", "OutputTensor": "output"}, operator)


SquareOperatorDesc = made_up("SQUARE", 9010, square)
RefusingOperatorDesc = made_up("REFUSING", 9011, refuse)
PartsOperatorDesc = make_struct(
    "PARTS",
    {"InputCount": "count InputTensors", "InputTensors": "inputs", "OutputCount": "count OutputTensors",
     "OutputTensors": "outputs", "ExtraTensor": "output?"},
    Operator(
        9012,
        {dml.FeatureLevel.LEVEL_1_0: row(("input_tensors output_tensors extra_tensor", range(1, 9), UP_TO_64_BITS))},
        lambda desc, xs: (tuple(x + x for x in xs), None),
        lambda desc: iter(()),
        doc="Double each tensor.",
    ),
)  # fmt: skip
"""Made-up structs: what is at work is the graph."""


def squared(*sizes, **more):
    return SquareOperatorDesc(input_tensor=tensor(FLOAT32, *sizes, **more), output_tensor=tensor(FLOAT32, *sizes))


def chain(*descs):
    """Return a graph of operators one after another."""
    last = len(descs) - 1
    return dml.Graph(
        input_count=1, output_count=1, nodes=[dml.OperatorNode(desc, f"n{place}") for place, desc in enumerate(descs)],
        input_edges=[dml.InputEdge(0, 0, 0)], output_edges=[dml.OutputEdge(last, 0, 0)],
        intermediate_edges=[dml.IntermediateEdge(place, 0, place + 1, 0) for place in range(last)],
    )  # fmt: skip


ROW = tensor(INT8, 1, 1, 2, 3)
PRODUCT = dml.MatrixMultiplyIntegerOperatorDesc(
    a_tensor=ROW, b_tensor=tensor(INT8, 1, 1, 3, 4, flags=OWNED), output_tensor=tensor(INT32, 1, 1, 2, 4)
)
SCALED = dml.ElementWiseDequantizeLinearOperatorDesc(
    input_tensor=PRODUCT.output_tensor,
    scale_tensor=tensor(FLOAT32, 1, 1, 2, 4, strides=(0, 0, 0, 0)),
    output_tensor=tensor(FLOAT32, 1, 1, 2, 4),
)
QUANTIZED = dml.ElementWiseQuantizeLinearOperatorDesc(
    input_tensor=SCALED.output_tensor,
    scale_tensor=SCALED.scale_tensor,
    zero_point_tensor=tensor(UINT8, 1, 1, 2, 4, strides=(0, 0, 0, 0)),
    output_tensor=tensor(UINT8, 1, 1, 2, 4),
)
GRAPH = dml.Graph(
    input_count=3,
    output_count=2,
    nodes=[
        dml.OperatorNode(QUANTIZED, "round"),
        dml.OperatorNode(SCALED, "scale"),
        dml.OperatorNode(PRODUCT, "multiply"),
        dml.ConstantNode(np.float32(0.25), "a quarter"),
        dml.ConstantNode(np.uint8(7), "seven"),
    ],
    input_edges=[dml.InputEdge(0, 2, 0), dml.InputEdge(1, 2, 2)],
    output_edges=[dml.OutputEdge(2, 0, 1), dml.OutputEdge(0, 0, 0)],
    intermediate_edges=[
        dml.IntermediateEdge(2, 0, 1, 0),
        dml.IntermediateEdge(3, 0, 1, 1),
        dml.IntermediateEdge(1, 0, 0, 0),
        dml.IntermediateEdge(3, 0, 0, 1),
        dml.IntermediateEdge(4, 0, 0, 2),
    ],
)
A = np.array([[[[1, -2, 3], [100, 90, -80]]]], np.int8)
B = np.array([[[[5, -6, 7, 8], [1, 2, 3, 4], [-9, 8, -7, 127]]]], np.int8)
SUMS = A.astype(np.int32) @ B.astype(np.int32)
WANTED = np.clip(np.rint(SUMS * np.float32(0.25) / np.float32(0.25)) + 7, 0, 255).astype(np.uint8)


@quick
def test_a_quantized_graph_has_the_integers_of_its_operators():
    compiled = dml.compile_graph(GRAPH)
    assert compiled.inputs == (PRODUCT.a_tensor, PRODUCT.b_tensor, None)
    assert compiled.outputs == (QUANTIZED.output_tensor, PRODUCT.output_tensor)
    bound = compiled.initialize({1: B})
    for run in (bound, jax.jit(bound)):
        rounded, sums = run(A, None)
        assert_same_bits(rounded, WANTED)
        assert_same_bits(sums, SUMS)
    assert list(bound.bound) == ["Nodes[2].BTensor"]
    assert type(bound.bound["Nodes[2].BTensor"]).__name__ == "PackedMatrix"


@quick
def test_a_bound_graph_is_a_pytree():
    bound = dml.compile_graph(GRAPH).initialize({1: jnp.asarray(B)})
    rounded, _ = jax.jit(lambda graph, a: graph(a, None))(bound, A)
    assert_same_bits(rounded, WANTED)
    exported = export.export(jax.jit(lambda graph, a: (graph, graph(a, None))))(bound, A)
    passed, (rounded, _) = export.deserialize(exported.serialize()).call(bound, A)
    assert_same_bits(rounded, WANTED)
    assert passed.graph == bound.graph
    again, _ = jax.vmap(lambda a: bound(a, None))(np.stack([A, A]))
    assert_same_bits(again, np.stack([WANTED] * 2))


def test_constants_are_known():
    one, byte = tensor(FLOAT32, 1, 1, 1, 1), tensor(INT8, 1, 1, 3, 4)
    desc = dml.QuantizedLinearMatrixMultiplyOperatorDesc(
        a_tensor=ROW, a_scale_tensor=one, b_tensor=byte, b_scale_tensor=one, output_scale_tensor=one,
        output_tensor=tensor(INT8, 1, 1, 2, 4),
    )  # fmt: skip
    scales = 1, 4, 6
    known = dml.Graph(
        input_count=2, output_count=1, nodes=[dml.OperatorNode(desc), dml.ConstantNode(np.float32(0.25))],
        input_edges=[dml.InputEdge(0, 0, 0), dml.InputEdge(1, 0, 3)], output_edges=[dml.OutputEdge(0, 0, 0)],
        intermediate_edges=[dml.IntermediateEdge(1, 0, 0, place) for place in scales],
    )  # fmt: skip
    given = dataclasses.replace(
        known, input_count=3, nodes=known.nodes[:1], intermediate_edges=(),
        input_edges=(*known.input_edges, *(dml.InputEdge(2, 0, place) for place in scales)),
    )  # fmt: skip
    scale = np.full((1, 1, 1, 1), 0.25, np.float32)
    programs = [
        jax.make_jaxpr(dml.compile_graph(known))(A, B),
        jax.make_jaxpr(dml.compile_graph(given))(A, B, scale),
        jax.make_jaxpr(lambda a, b: jaxdml.quantized_linear_matrix_multiply(
            a, scale, None, b, scale, None, scale, None, output_dtype=np.int8))(A, B),
    ]  # fmt: skip
    as_known, as_given, want = (sorted(re.findall(r"= ([a-z]\w+)", str(one).replace("jit", ""))) for one in programs)
    assert as_known == want
    assert len(as_given) > len(as_known)


def test_what_no_output_needs_is_not_computed():
    refusing = RefusingOperatorDesc(input_tensor=tensor(FLOAT32, 4), output_tensor=tensor(FLOAT32, 4))
    graph = chain(squared(4), squared(4))
    graph = dataclasses.replace(
        graph, nodes=(*graph.nodes, dml.OperatorNode(refusing)),
        intermediate_edges=(*graph.intermediate_edges, dml.IntermediateEdge(0, 0, 2, 0)),
    )  # fmt: skip
    (got,) = dml.compile_graph(graph)(np.arange(4, dtype=np.float32))
    assert_same_bits(got, np.arange(4, dtype=np.float32) ** 4)


@quick
def test_graphs_pass_through_transformations():
    run = dml.compile_graph(chain(squared(8), squared(8)))
    x = np.linspace(-2, 2, 8, dtype=np.float32)
    np.testing.assert_allclose(jax.grad(lambda x: run(x)[0].sum())(x), 4 * x**3, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(run)(np.stack([x, -x]))[0], np.stack([x, -x]) ** 4, rtol=1e-6)
    exported = export.deserialize(export.export(jax.jit(run))(jax.ShapeDtypeStruct((8,), np.float32)).serialize())
    np.testing.assert_allclose(exported.call(x)[0], x**4, rtol=1e-6)
    mesh = mesh_of("auto", x=COUNT)
    (sharded,) = run(put(mesh, x, "x"))
    assert sharded.sharding.spec == PartitionSpec("x")
    np.testing.assert_allclose(sharded, x**4, rtol=1e-6)


def test_arrays_of_tensors_have_an_edge_each():
    one, two = tensor(FLOAT32, 2), tensor(FLOAT32, 3)
    parts = PartsOperatorDesc(input_tensors=[one, two], output_tensors=[one, two])
    graph = dml.Graph(
        input_count=2, output_count=2, nodes=[dml.OperatorNode(parts)],
        input_edges=[dml.InputEdge(1, 0, 0), dml.InputEdge(0, 0, 1)],
        output_edges=[dml.OutputEdge(0, 1, 0), dml.OutputEdge(0, 0, 1)],
    )  # fmt: skip
    three, four = dml.compile_graph(graph)(np.float32([1, 2, 3]), np.float32([4, 5]))
    assert_same_bits(three, np.float32([2, 4, 6]))
    assert_same_bits(four, np.float32([8, 10]))


def seen(data, wanted):
    """Return what NumPy sees in bytes."""
    flat = np.frombuffer(data.ljust(wanted.size_in_bytes, b"\0"), wanted.data_type.dtype)
    if wanted.strides is None:
        return flat[: int(np.prod(wanted.sizes))].reshape(wanted.sizes)
    strides = [stride * flat.itemsize for stride in wanted.strides]
    return np.lib.stride_tricks.as_strided(flat, wanted.sizes, strides)


REREAD = {
    "the same": (tensor(FLOAT32, 2, 3), tensor(FLOAT32, 2, 3)),
    "other sizes": (tensor(FLOAT32, 2, 3), tensor(FLOAT32, 1, 6)),
    "fewer elements": (tensor(INT8, 7), tensor(INT8, 2, 3)),
    "more elements": (tensor(INT8, 5), tensor(INT8, 8)),
    "a broadcast": (tensor(FLOAT32, 1, 8, 1, 1), tensor(FLOAT32, 1, 8, 2, 2, strides=(8, 1, 0, 0))),
    "transposed": (tensor(UINT8, 2, 4), tensor(UINT8, 4, 2, strides=(1, 4))),
    "packed from strides": (tensor(UINT8, 4, 2, strides=(1, 4)), tensor(UINT8, 2, 4)),
    "both with strides": (tensor(UINT8, 4, 2, strides=(1, 4)), tensor(UINT8, 2, 2, strides=(4, 2))),
    "the same width": (tensor(FLOAT32, 3), tensor(UINT32, 3)),
    "narrower": (tensor(FLOAT32, 3), tensor(UINT8, 4, 3)),
    "wider": (tensor(UINT8, 12), tensor(FLOAT32, 3)),
    "wider than what is there": (tensor(FLOAT16, 3), tensor(FLOAT32, 2)),
}


@pytest.mark.parametrize("name", REREAD)
def test_an_edge_rereads_bytes_as_numpy_does(name):
    held, wanted = REREAD[name]
    data = np.random.default_rng(3).integers(1, 100, held.size_in_bytes, np.uint8).tobytes()
    assert held.size_in_bytes == wanted.size_in_bytes
    values = seen(data, held)
    # What no element holds is lost on the way: it is 0.
    kept = np.zeros(len(data) // values.itemsize, values.dtype)
    seen_there = np.lib.stride_tricks.as_strided(kept, values.shape, values.strides)
    seen_there[...] = values
    want = seen(kept.tobytes(), wanted)
    for given in (values, jnp.asarray(values)):
        assert_same_bits(reread(given, held, wanted), want)
    assert_same_bits(constant(data, wanted), seen(data, wanted))
    packed = dataclasses.replace(wanted, strides=None, total_tensor_size_in_bytes=None)
    copies = (
        CopyOperatorDesc(input_tensor=held, output_tensor=held),
        CopyOperatorDesc(input_tensor=wanted, output_tensor=packed),
    )
    (got,) = dml.compile_graph(chain(*copies))(np.frombuffer(data, values.dtype) if held.strides else values)
    assert_same_bits(got, want)


def test_one_input_is_read_in_two_ways():
    first = squared(2, 3)
    second = squared(3, 2, strides=(1, 3))
    graph = dml.Graph(
        input_count=1, output_count=2, nodes=[dml.OperatorNode(first), dml.OperatorNode(second)],
        input_edges=[dml.InputEdge(0, 0, 0), dml.InputEdge(0, 1, 0)],
        output_edges=[dml.OutputEdge(0, 0, 0), dml.OutputEdge(1, 0, 1)],
    )  # fmt: skip
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    straight, transposed = dml.compile_graph(graph)(x)
    assert_same_bits(straight, x * x)
    assert_same_bits(transposed, (x * x).T)


GATHER = dml.GatherElementsOperatorDesc(
    input_tensor=tensor(FLOAT32, 4), indices_tensor=tensor(INT64, 4), output_tensor=tensor(FLOAT32, 4), axis=0
)


def gathers(**fields):
    return dml.Graph(**{
        "input_count": 2, "output_count": 1, "nodes": [dml.OperatorNode(GATHER)],
        "input_edges": [dml.InputEdge(0, 0, 0), dml.InputEdge(1, 0, 1)], "output_edges": [dml.OutputEdge(0, 0, 0)],
        **fields,
    })  # fmt: skip


def test_indices_of_numpy_keep_64_bits():
    x, index = np.float32([10, 20, 30, 40]), np.array([-1, 2**40, 0, 1], np.int64)
    want = np.float32([40, 40, 10, 20])
    (got,) = dml.compile_graph(gathers())(x, index)
    assert_same_bits(got, want)
    owned = dataclasses.replace(GATHER, indices_tensor=tensor(INT64, 4, flags=OWNED))
    bound = dml.compile_graph(gathers(nodes=[dml.OperatorNode(owned)])).initialize({1: index})
    assert_same_bits(bound(x)[0], want)
    known = gathers(
        input_count=1, nodes=[dml.OperatorNode(GATHER), dml.ConstantNode(index)],
        input_edges=[dml.InputEdge(0, 0, 0)], intermediate_edges=[dml.IntermediateEdge(1, 0, 0, 1)],
    )  # fmt: skip
    assert_same_bits(dml.compile_graph(known)(x)[0], want)
    wide = CopyOperatorDesc(input_tensor=tensor(INT64, 4), output_tensor=tensor(INT64, 4))
    with pytest.raises(TypeError, match=r"^jaxdml.*CompiledGraph: Inputs\[0\] is INT64, which JAX has only with"):
        dml.compile_graph(chain(wide))(index)
    narrow = CopyOperatorDesc(input_tensor=tensor(INT32, 8), output_tensor=tensor(INT32, 8))
    with pytest.raises(TypeError, match=r"^jaxdml.*CompiledGraph: Nodes\[1\].InputTensor is INT64, which JAX has"):
        dml.compile_graph(chain(narrow, wide))(np.zeros(8, np.int32))


REFUSED = {
    "owned and not bound": (
        lambda graph: graph(A, B, None),
        "CompiledGraph: Inputs[1] must be bound by initialize, since DML_TENSOR_FLAG_OWNED_BY_DML is set.",
    ),
    "too few": (lambda graph: graph.initialize({1: B})(A), "CompiledGraph: the inputs must be 2; got 1."),
    "wrong sizes": (
        lambda graph: graph.initialize({1: B})(A[..., :2], None),
        "CompiledGraph: Inputs[0] must have the sizes [1, 1, 2, 3]; got [1, 1, 2, 2].",
    ),
    "not owned": (
        lambda graph: graph.initialize({0: A, 1: B}),
        "CompiledGraph: initialize must be given what is DML_TENSOR_FLAG_OWNED_BY_DML: Inputs[1].",
    ),
    "none owned": (
        lambda graph: dml.compile_graph(chain(squared(4))).initialize({0: A}),
        "CompiledGraph: initialize must be given what is DML_TENSOR_FLAG_OWNED_BY_DML: none.",
    ),
    "a wrong type": (
        lambda graph: graph.initialize({1: B.astype(np.uint8)}),
        "CompiledGraph: Inputs[1] must be int8; got uint8.",
    ),
    "changed since": (
        lambda graph: jax.tree.map(lambda x: x[..., :1], graph.initialize({1: B}))(A, None),
        "CompiledGraph: Nodes[2].BTensor must be bound as int8[1, 1, 3, 4]; got ",
    ),
    "no graph": (lambda graph: dml.compile_graph("graph"), "compile_graph: graph must be a Graph; got 'graph'."),
    "no description": (
        lambda graph: dml.OperatorNode(3),
        "OperatorNode: desc must be the description of an operator; got 3.",
    ),
    "no data": (lambda graph: dml.ConstantNode([1]), "ConstantNode: data must be bytes or a NumPy array; got [1]."),
    "no index": (lambda graph: dml.InputEdge(0, 0.5, 0), "InputEdge: ToNodeIndex must be an integer; got 0.5."),
    "no node": (
        lambda graph: dml.Graph(input_count=0, output_count=0, nodes=[PRODUCT]),
        "Graph: nodes[0] must be an OperatorNode or a ConstantNode; got ",
    ),
    "no edges": (
        lambda graph: dml.Graph(input_count=0, output_count=0, nodes=[], input_edges=3),
        "Graph: input_edges must be a sequence; got 3.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_type_is_refused_with_its_place(name):
    call, said = REFUSED[name]
    with pytest.raises(TypeError) as caught:
        call(dml.compile_graph(GRAPH))
    assert str(caught.value).split("\n  ")[0].startswith(f"jaxdml.directml.{said}")


def with_edges(**kinds):
    """Return the graph with some edges changed: a kind, and what is at which place; None takes one away."""
    changed = {}
    for kind, places in kinds.items():
        edges = dict(enumerate(getattr(GRAPH, kind))) | places
        changed[kind] = [edge for edge in edges.values() if edge]
    return dataclasses.replace(GRAPH, **changed)


def with_nodes(places):
    nodes = dict(enumerate(GRAPH.nodes)) | {place: dml.OperatorNode(desc, "other") for place, desc in places.items()}
    return dataclasses.replace(GRAPH, nodes=list(nodes.values()))


Edge = dml.IntermediateEdge
BROKEN = {
    "a node that is wrong by itself": (
        with_nodes({2: dataclasses.replace(PRODUCT, b_tensor=tensor(INT8, 1, 3, 4, flags=OWNED))}),
        "Nodes[2] 'other'.BTensor.DimensionCount must be 4, as in ATensor; got 3.",
    ),
    "an input there is not": (
        with_edges(input_edges={0: dml.InputEdge(3, 2, 0)}),
        "InputEdges[0].GraphInputIndex must be less than 3, InputCount; got 3.",
    ),
    "an output there is not": (
        with_edges(output_edges={0: dml.OutputEdge(2, 0, 2)}),
        "OutputEdges[0].GraphOutputIndex must be less than 2, OutputCount; got 2.",
    ),
    "a node there is not": (
        with_edges(intermediate_edges={0: Edge(5, 0, 6, 0)}),
        "IntermediateEdges[0].FromNodeIndex must be less than 5, NodeCount; got 5.",
        "IntermediateEdges[0].ToNodeIndex must be less than 5, NodeCount; got 6.",
    ),
    "a place there is not": (
        with_edges(input_edges={0: dml.InputEdge(0, 2, 4)}, output_edges={0: dml.OutputEdge(2, 1, 1)}),
        "InputEdges[0].ToNodeInputIndex must be less than 4, the number of inputs of Nodes[2] 'multiply'; got 4.",
        "OutputEdges[0].FromNodeOutputIndex must be less than 1, the number of outputs of Nodes[2] 'multiply'; got 1.",
    ),
    "an edge into a constant": (
        with_edges(intermediate_edges={0: Edge(2, 0, 3, 0)}),
        "IntermediateEdges[0].ToNodeInputIndex must be less than 0, the number of inputs of Nodes[3] 'a quarter'; "
        "got 0.",
    ),
    "an input without an edge": (
        with_edges(input_edges={0: None}),
        "Nodes[2] 'multiply'.ATensor must have one edge that leads to it; got none.",
    ),
    "an input with two edges": (
        with_edges(intermediate_edges={5: Edge(3, 0, 1, 1)}),
        "Nodes[1] 'scale'.ScaleTensor must have one edge that leads to it; got IntermediateEdges[1], "
        "IntermediateEdges[5].",
    ),
    "an edge to what is left out": (
        with_edges(intermediate_edges={5: Edge(4, 0, 1, 2)}),
        "Nodes[1] 'scale'.ZeroPointTensor is nullptr, so no edge must lead to it; got IntermediateEdges[5].",
    ),
    "an input edge to what is left out": (
        with_edges(input_edges={2: dml.InputEdge(1, 1, 2)}),
        "Nodes[1] 'scale'.ZeroPointTensor is nullptr, so no edge must lead to it; got InputEdges[2].",
    ),
    "an output without an edge": (
        with_edges(output_edges={0: None}),
        "Outputs[1] must have one edge that leads to it; got none.",
    ),
    "an output with two edges": (
        with_edges(output_edges={2: dml.OutputEdge(1, 0, 1)}),
        "Outputs[1] must have one edge that leads to it; got OutputEdges[0], OutputEdges[2].",
    ),
    "an output that is constant": (
        with_edges(output_edges={0: dml.OutputEdge(3, 0, 1)}),
        "OutputEdges[0].FromNodeIndex must be that of an operator; got the constant Nodes[3] 'a quarter'.",
    ),
    "sizes that disagree": (
        with_nodes({1: dataclasses.replace(SCALED, **{
            name: tensor(kind, 1, 1, 2, 5)
            for name, kind in (("input_tensor", INT32), ("scale_tensor", FLOAT32), ("output_tensor", FLOAT32))
        })}),
        "IntermediateEdges[0] must begin at 40 bytes, as many as Nodes[1] 'other'.InputTensor has; got 32 bytes.",
        "IntermediateEdges[1] must begin at 40 bytes, as many as Nodes[1] 'other'.ScaleTensor has; got 4 bytes.",
        "IntermediateEdges[2] must begin at 32 bytes, as many as Nodes[0] 'round'.InputTensor has; got 40 bytes.",
    ),
    "a constant that is too short": (
        with_edges(intermediate_edges={1: Edge(4, 0, 1, 1)}),
        "IntermediateEdges[1] must begin at 4 bytes, as many as Nodes[1] 'scale'.ScaleTensor has; got 1 bytes.",
    ),
    "an owned tensor that is computed": (
        with_nodes({1: dataclasses.replace(SCALED, input_tensor=tensor(INT32, 1, 1, 2, 4, flags=OWNED))}),
        "IntermediateEdges[0] must not lead to a tensor with DML_TENSOR_FLAG_OWNED_BY_DML, which comes from an input; "
        "got Nodes[1] 'other'.InputTensor.",
    ),
    "one input that is owned and not, and has two sizes": (
        with_edges(input_edges={0: dml.InputEdge(1, 2, 0)}),
        "InputEdges[1] must lead to 8 bytes, as InputEdges[0], which begins at the same input; got 12 bytes of "
        "Nodes[2] 'multiply'.BTensor.",
        "InputEdges[1] must agree in DML_TENSOR_FLAG_OWNED_BY_DML with InputEdges[0], which begins at the same input; "
        "got DML_TENSOR_FLAG_OWNED_BY_DML of Nodes[2] 'multiply'.BTensor.",
    ),
    "a cycle": (
        dml.Graph(
            input_count=0, output_count=1, nodes=[dml.OperatorNode(squared(4), name) for name in ("one", "two")],
            output_edges=[dml.OutputEdge(1, 0, 0)], intermediate_edges=[Edge(0, 0, 1, 0), Edge(1, 0, 0, 0)],
        ),
        re.compile(
            r"IntermediateEdges must have no cycle; got Nodes\[(\d)\] '\w+' -> Nodes\[(?!\1)\d\] '\w+' -> "
            r"Nodes\[\1\] '\w+'\."
        ),
    ),
    "an output that is left out": (
        dml.Graph(
            input_count=1, output_count=1,
            nodes=[dml.OperatorNode(PartsOperatorDesc(input_tensors=[ROW], output_tensors=[ROW])),
                   dml.OperatorNode(squared(4))],
            input_edges=[dml.InputEdge(0, 0, 0)], output_edges=[dml.OutputEdge(0, 1, 0)],
            intermediate_edges=[Edge(0, 1, 1, 0)],
        ),
        "OutputEdges[0] must begin at an output that is described; got Nodes[0].ExtraTensor.",
        "IntermediateEdges[0] must begin at an output that is described; got Nodes[0].ExtraTensor.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@quick
def test_every_broken_rule_is_named(name):
    graph, *said = BROKEN[name]
    with pytest.raises(dml.InvalidDescError) as caught:
        dml.compile_graph(graph)
    lines = [str(one) for one in caught.value.violations]
    if isinstance(said[0], re.Pattern):
        assert said[0].fullmatch(lines[0])
        assert len(lines) == 1
    else:
        assert lines == said
    count = "a rule" if len(said) == 1 else f"{len(said)} rules"
    assert caught.value.subject == f"the graph breaks {count} at feature level 6_4."


def test_a_graph_is_a_value():
    assert dataclasses.replace(GRAPH) == GRAPH
    assert hash(dataclasses.replace(GRAPH)) == hash(GRAPH)
    assert dml.compile_graph(GRAPH) == dml.compile_graph(dataclasses.replace(GRAPH))
    assert dml.ConstantNode(np.arange(4).reshape(2, 2).T).data == np.array([0, 2, 1, 3]).tobytes()
    with pytest.raises(dml.InvalidDescError, match="InputCount must be between 0 and 4294967295"):
        dataclasses.replace(GRAPH, input_count=-1)
    with pytest.raises(ValueError, match=r"^jaxdml.directml.compile_graph: feature_level must be one of LEVEL_1_0, "):
        dml.compile_graph(GRAPH, "6.2")
    assert dml.compile_graph(GRAPH, 0x6200).feature_level is dml.FeatureLevel.LEVEL_6_2
