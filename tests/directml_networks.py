"""Write a quantized network, which onnxruntime's quantizer has made, as a graph of DirectML."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from jaxdml import directml as dml

OWNED = dml.TensorFlags.OWNED_BY_DML


class Builder:
    """Collects the nodes and edges of a graph, by the names that an ONNX model has for its values."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.edges: dict[str, list[Any]] = {"input_edges": [], "output_edges": [], "intermediate_edges": []}
        self.sources: dict[str, tuple[int, dml.BufferTensorDesc]] = {}
        self.owned: dict[int, np.ndarray] = {}
        self.inputs = 0

    def tensor(self, dtype: Any, *sizes: int, **more: Any) -> dml.BufferTensorDesc:
        return dml.BufferTensorDesc(dml.TensorDataType[np.dtype(dtype).name.upper()], sizes, **more)

    def constant(self, value: np.ndarray, *sizes: int, **more: Any) -> tuple[int, dml.BufferTensorDesc]:
        """Add a constant node; return it with its description."""
        self.nodes.append(dml.ConstantNode(value))
        return len(self.nodes) - 1, self.tensor(value.dtype, *sizes, **more)

    def weight(self, value: np.ndarray) -> tuple[None, dml.BufferTensorDesc, int]:
        """Add an input of the graph that is owned."""
        self.owned[self.inputs] = value
        self.inputs += 1
        return None, self.tensor(value.dtype, *value.shape, flags=OWNED), self.inputs - 1

    def node(self, output: str, struct: Any, output_tensor: dml.BufferTensorDesc, reads: dict[str, Any], **fields: Any):
        """Add an operator: for each input field where it comes from, or None."""
        index = len(self.nodes)
        for place, read in enumerate(reads.values()):
            if read is None:
                continue
            source, _, *graph_input = read
            if graph_input:
                self.edges["input_edges"].append(dml.InputEdge(graph_input[0], index, place))
            else:
                self.edges["intermediate_edges"].append(dml.IntermediateEdge(source, 0, index, place))
        tensors = {name: read and read[1] for name, read in reads.items()}
        self.nodes.append(dml.OperatorNode(struct(**tensors, output_tensor=output_tensor, **fields), output))
        self.sources[output] = index, output_tensor


def graph_of(model: onnx.ModelProto, batch: int) -> tuple[dml.Graph, dict[int, np.ndarray]]:
    """Return the graph and its owned inputs, by their indices. Its last input is the image."""
    build, values = Builder(), {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    (image,) = model.graph.input
    shape = batch, *(one.dim_value for one in image.type.tensor_type.shape.dim[1:])
    for node in model.graph.node:
        names, attributes = list(node.input), {one.name: helper.get_attribute_value(one) for one in node.attribute}
        add = _ADDED[node.op_type]
        add(build, node.output[0], names, values, attributes, shape)
    last = build.nodes[-1]
    build.edges["output_edges"].append(dml.OutputEdge(len(build.nodes) - 1, 0, 0))
    assert isinstance(last, dml.OperatorNode)
    for place, edge in enumerate(build.edges["input_edges"]):
        if edge.graph_input_index == _IMAGE:
            build.edges["input_edges"][place] = dml.InputEdge(build.inputs, edge.to_node_index, 0)
    return dml.Graph(input_count=build.inputs + 1, output_count=1, nodes=build.nodes, **build.edges), build.owned


_IMAGE = 2**20
"""The index of the image until the weights are counted."""
ONE = 1, 1, 1, 1


def _one(build: Builder, value: np.ndarray, sizes: Any = ONE) -> Any:
    return build.constant(value, *ONE) if sizes == ONE else build.constant(value, *sizes, strides=(0,) * len(sizes))


def _quantize(build: Builder, output: str, names: Any, values: Any, attributes: Any, shape: Any) -> None:
    x = None, build.tensor(np.float32, *shape), _IMAGE
    reads = {"input_tensor": x, "scale_tensor": _one(build, values[names[1]], shape)}
    reads["zero_point_tensor"] = _one(build, values[names[2]], shape)
    dtype = values[names[2]].dtype
    build.node(output, dml.ElementWiseQuantizeLinearOperatorDesc, build.tensor(dtype, *shape), reads)


def _dequantize(build: Builder, output: str, names: Any, values: Any, attributes: Any, shape: Any) -> None:
    x = build.sources[names[0]]
    sizes = x[1].sizes
    reads = {"input_tensor": x, "scale_tensor": _one(build, values[names[1]], sizes)}
    reads["zero_point_tensor"] = _one(build, values[names[2]], sizes)
    build.node(output, dml.ElementWiseDequantizeLinearOperatorDesc, build.tensor(np.float32, *sizes), reads)


def _convolve(build: Builder, output: str, names: Any, values: Any, attributes: Any, shape: Any) -> None:
    pads, strides = attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1])
    x, w = build.sources[names[0]], values[names[3]]
    window = [x[1].sizes[d + 2] + pads[d] + pads[d + 2] - w.shape[d + 2] for d in (0, 1)]
    sizes = x[1].sizes[0], len(w), *(reach // stride + 1 for reach, stride in zip(window, strides, strict=True))
    given, groups = [values[name] for name in (*names[1:3], *names[4:])], attributes.get("group", 1)
    padding = {"start_padding": pads[:2], "end_padding": pads[2:]}
    _convolved(build, output, x, w, given, sizes, strides=strides, group_count=groups, **padding)


def _gemm(build: Builder, output: str, names: Any, values: Any, attributes: Any, shape: Any) -> None:
    """A Gemm of weights that are stored transposed is a convolution with one window."""
    x, w = build.sources[names[0]], values[names[3]][:, :, None, None]
    given = [values[name] for name in (*names[1:3], *names[4:6], *names[7:9], names[6])]
    padding = {"start_padding": [0, 0], "end_padding": [0, 0]}
    _convolved(build, output, x, w, given, (x[1].sizes[0], len(w), 1, 1), strides=[1, 1], group_count=1, **padding)


def _convolved(build: Builder, output: str, x: Any, w: Any, given: Any, sizes: Any, **fields: Any) -> None:
    x_scale, x_zero, w_scale, w_zero, y_scale, y_zero, bias = given
    channels = 1, len(w), 1, 1
    reads = {
        "input_tensor": x,
        "input_scale_tensor": _one(build, x_scale),
        "input_zero_point_tensor": _one(build, x_zero),
        "filter_tensor": build.weight(w),
        "filter_scale_tensor": build.constant(w_scale, *(channels if w_scale.size > 1 else ONE)),
        "filter_zero_point_tensor": build.constant(w_zero, *(channels if w_zero.size > 1 else ONE)),
        "bias_tensor": build.constant(bias, *channels),
        "output_scale_tensor": _one(build, y_scale),
        "output_zero_point_tensor": _one(build, y_zero),
    }
    described = build.tensor(y_zero.dtype, *sizes)
    build.node(output, dml.QuantizedLinearConvolutionOperatorDesc, described, reads, dilations=[1, 1], **fields)


def _add(build: Builder, output: str, names: Any, values: Any, attributes: Any, shape: Any) -> None:
    fields = "a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "output_scale", "output_zero_point"
    reads = {
        f"{field}_tensor": build.sources[name] if name in build.sources else _one(build, values[name])
        for field, name in zip(fields, names, strict=True)
    }
    described = reads["a_tensor"][1]
    build.node(output, dml.ElementWiseQuantizedLinearAddOperatorDesc, described, reads)


def _pool(build: Builder, output: str, names: Any, values: Any, attributes: Any, shape: Any) -> None:
    x = build.sources[names[0]]
    parameters = "input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor"
    reads = {"input_tensor": x} | {
        field: _one(build, values[name]) for field, name in zip(parameters, names[1:], strict=True)
    }
    described = build.tensor(np.uint8, *x[1].sizes[:2], 1, 1)
    whole = dict.fromkeys(("strides", "dilations"), (1, 1)) | dict.fromkeys(("start_padding", "end_padding"), (0, 0))
    whole |= {"window_size": x[1].sizes[2:], "include_padding": False}
    build.node(output, dml.QuantizedLinearAveragePoolingOperatorDesc, described, reads, **whole)


def _pass(build: Builder, output: str, names: Any, values: Any, attributes: Any, shape: Any) -> None:
    build.sources[output] = build.sources[names[0]]


_ADDED = {
    "QuantizeLinear": _quantize,
    "QLinearConv": _convolve,
    "QLinearAdd": _add,
    "QLinearGlobalAveragePool": _pool,
    "Flatten": _pass,
    "QGemm": _gemm,
    "DequantizeLinear": _dequantize,
    "Identity": _pass,
}
