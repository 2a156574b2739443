"""Read models: files are data, and every size is checked before memory is taken."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from jaxdml.onnx._errors import unsupported
from jaxdml.onnx._graph import DOMAINS, Graph, Node, TensorType

MAX_DEPTH = 32
"""Graphs within graphs, at most."""


def read(model: Any) -> tuple[onnx.ModelProto, Path | None]:
    """Return a model as a protobuf and the folder that its external data may lie in."""
    if isinstance(model, onnx.ModelProto):
        return model, None
    if isinstance(model, bytes | bytearray | memoryview):
        return _parsed(bytes(model)), None
    if not isinstance(model, str | os.PathLike):
        raise TypeError(
            f"jaxdml.onnx.load: model is {type(model).__name__}.\n  Give a path, the bytes of a file or an onnx.ModelProto."
        )
    path = Path(model)
    return _parsed(path.read_bytes()), path.parent


def _parsed(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf has several classes for it
        raise unsupported(
            f"this is no ONNX model: {error}.", "The file may be truncated, or of another format."
        ) from None
    return model


def graph_of(model: onnx.ModelProto, folder: Path | None) -> Graph:
    """Return a model's graph as records."""
    if not model.HasField("graph"):
        raise unsupported("the model has no graph.", "The file may be truncated, or of another format.")
    opsets = {DOMAINS.get(entry.domain, entry.domain): entry.version for entry in model.opset_import}
    return _graph(model.graph, opsets, folder, frozenset(), 0)


def _graph(
    graph: onnx.GraphProto, opsets: dict[str, int], folder: Path | None, outer: frozenset[str], depth: int
) -> Graph:
    if depth > MAX_DEPTH:
        raise unsupported(f"graphs stand within graphs more than {MAX_DEPTH} deep.")
    constants = {tensor.name: array(tensor, folder) for tensor in graph.initializer}
    if graph.sparse_initializer:
        raise unsupported("sparse initializers are not supported.", "Store them as dense ones.")
    inputs = tuple(_type(value) for value in graph.input if value.name not in constants)
    made = {value.name for value in inputs} | set(constants)
    nodes: list[Node] = []
    for number, proto in enumerate(graph.node):
        domain = DOMAINS.get(proto.domain, proto.domain)
        label = proto.name or next(filter(None, proto.output), f"node {number}")
        for name in filter(None, proto.input):
            if name not in made and name not in outer:
                rule = f"node {proto.op_type} '{label}' reads '{name}', which nothing before it makes."
                raise unsupported(rule, "Initializers may be missing, or the nodes are not in order or form a cycle.")
        for name in filter(None, proto.output):
            if name in made:
                raise unsupported(f"node {proto.op_type} '{label}' makes '{name}', which exists already.")
        known = outer | made
        attributes = {a.name: _attribute(a, opsets, folder, known, depth) for a in proto.attribute}
        made |= set(filter(None, proto.output))
        if (domain, proto.op_type) == ("", "Constant"):
            constants[proto.output[0]] = _constant(attributes, label)
            continue
        nodes.append(
            Node(
                proto.op_type, domain, opsets.get(domain, 0), label, tuple(proto.input), tuple(proto.output), attributes
            )
        )
    outputs = tuple(_type(value) for value in graph.output)
    for value in outputs:
        if value.name not in made and value.name not in outer:
            raise unsupported(f"output '{value.name}' is made by no node.")
    return Graph(inputs, outputs, constants, tuple(nodes))


def _attribute(
    proto: onnx.AttributeProto, opsets: dict[str, int], folder: Path | None, outer: frozenset[str], depth: int
) -> Any:
    kinds = onnx.AttributeProto
    if proto.type == kinds.TENSOR:
        return array(proto.t, folder)
    if proto.type == kinds.GRAPH:
        return _graph(proto.g, opsets, folder, outer, depth + 1)
    if proto.type in (kinds.FLOAT, kinds.INT, kinds.STRING, kinds.FLOATS, kinds.INTS, kinds.STRINGS):
        return _plain(onnx.helper.get_attribute_value(proto))
    name = kinds.AttributeType.Name(proto.type)
    raise unsupported(f"attribute '{proto.name}' has type {name}, which is not supported.")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(_plain(item) for item in value)
    return value


def _constant(attributes: dict[str, Any], label: str) -> np.ndarray:
    dtypes = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    for name, value in attributes.items():
        if name == "value":
            return value
        if name in dtypes:
            return np.asarray(value, dtypes[name])
    raise unsupported(f"Constant '{label}' has no value that is supported, only {', '.join(attributes) or 'none'}.")


def _type(value: onnx.ValueInfoProto) -> TensorType:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return TensorType(value.name, None, None)
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type) if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return TensorType(value.name, dtype, None)
    shape = tuple(size.dim_value if size.HasField("dim_value") else size.dim_param or None for size in tensor.shape.dim)
    return TensorType(value.name, dtype, shape)


def array(tensor: onnx.TensorProto, folder: Path | None) -> np.ndarray:
    """Return a tensor's values, if its bytes are as many as its shape says."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        if folder is None:
            rule = f"tensor '{tensor.name}' lies in another file, and the model was not given as a path."
            raise unsupported(rule, "Give the path of the model's file.")
        onnx.load_external_data_for_tensor(tensor, str(folder))
    return numpy_helper.to_array(tensor)
