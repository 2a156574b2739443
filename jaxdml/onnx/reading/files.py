"""Read models: files are data, and every size is checked before memory is taken."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
import onnx.shape_inference

from jaxdml._base import errors
from jaxdml.onnx._errors import must_be_text, unsupported
from jaxdml.onnx._graph import Graph, domain_named
from jaxdml.onnx.reading.external import Folder
from jaxdml.onnx.reading.order import sort_nodes
from jaxdml.onnx.reading.reader import ASSUMED, Reader
from jaxdml.onnx.reading.scopes import Function

FIRST_OVERRIDABLE = 4
"""From this IR version on, an initializer that is also listed as an input is a default; before it, all are listed."""


def read(model: Any) -> tuple[onnx.ModelProto, Path | None]:
    """Return a model as a protobuf and the folder that its external data may lie in."""
    if isinstance(model, onnx.ModelProto):
        return model, None
    if isinstance(model, bytes | bytearray | memoryview):
        return _parsed(bytes(model)), None
    if not isinstance(model, str | os.PathLike):
        rule = f"model is {errors.describe(model)}."
        raise TypeError(errors.compose("onnx.load", rule, "Give a path, the bytes of a file or an onnx.ModelProto."))
    path = Path(model)
    return _parsed(path.read_bytes()), path.parent


def _parsed(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf has several classes for it
        rule = f"this is no ONNX model: {str(error).rstrip('.') or type(error).__name__}."
        raise unsupported(rule, "The file may be truncated, or of another format.") from None
    return model


def kinds(model: onnx.ModelProto) -> frozenset[tuple[str, str]]:
    """Return the operators of all nodes by domain and name, but functions of the model and Constant."""
    parts = (model.graph, *model.functions)
    found = {(domain_named(node.domain), node.op_type) for part in parts for node in _nodes(part)}
    own = {(domain_named(called.domain), called.name) for called in model.functions}
    return frozenset(found - own - {("", "Constant")})


def graph_of(model: onnx.ModelProto, folder: Path | None, reads: type[Reader] = Reader) -> Graph:
    """Return a model's graph as records, as a class of readers reads it."""
    if not model.HasField("graph"):
        raise unsupported("the model has no graph.", "The file may be truncated, or of another format.")
    if model.ir_version > onnx.IR_VERSION:
        newest = f"the installed onnx {onnx.__version__} reads up to {onnx.IR_VERSION}"
        rule = f"the model has IR version {model.ir_version}; {newest}."
        raise unsupported(rule, "Install a newer onnx, or save the model with an older IR version.")
    remarks: dict[str, None] = {}
    opsets = _opsets(model.opset_import, "the model", remarks)
    functions = _functions(model, opsets, remarks)
    size = model.ByteSize() if functions else 0
    reader = reads(Folder(folder), functions, size, remarks)
    return reader.model(model.graph, opsets, model.ir_version >= FIRST_OVERRIDABLE)


def _functions(
    model: onnx.ModelProto, imported: Mapping[str, int], remarks: dict[str, None]
) -> Mapping[tuple[str, str, str], Function]:
    found: dict[tuple[str, str, str], Function] = {}
    for proto in model.functions:
        must_be_text(proto.name, proto.domain, proto.overload, *proto.input, *proto.output)
        domain = domain_named(proto.domain)
        what = f"the model's function '{proto.name}' of domain '{domain or 'ai.onnx'}'"
        key = domain, proto.name, proto.overload
        if key in found:
            raise unsupported(f"{what} is there twice.", "Give each its own name or overload.")
        for names in (proto.input, proto.output):
            if len(set(names)) < len(names) or "" in names:
                raise unsupported(f"{what} has an input or output without a name, or two of one name.")
        # A domain that a function does not import has the version that the model imports.
        opsets = {**imported, **_opsets(proto.opset_import, what, remarks)}
        found[key] = Function(proto, what, opsets)
    return found


def _opsets(imports: Any, what: str, remarks: dict[str, None]) -> Mapping[str, int]:
    """Return the version of each domain; no node need be of a domain that is imported."""
    found: dict[str, int] = {}
    for entry in imports:
        must_be_text(entry.domain)
        domain = domain_named(entry.domain)
        if found.get(domain, entry.version) != entry.version:
            versions = f"in versions {found[domain]} and {entry.version}; the last counts, as in onnxruntime"
            remarks[f"{what[0].upper()}{what[1:]} imports domain '{domain or 'ai.onnx'}' {versions}."] = None
        found[domain] = entry.version
    return found


def expanded(model: onnx.ModelProto, kind: tuple[str, str]) -> onnx.ModelProto:
    """Put the nodes that define an operator, as ONNX gives them, in the place of nodes of this domain and operator."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    # onnx's inliner does not know that they are one domain.
    opsets = {kind[0]: ASSUMED.get(kind[0], 1), **_opsets(model.opset_import, "the model", {})}
    del changed.opset_import[:]
    changed.opset_import.extend(onnx.helper.make_opsetid(*entry) for entry in opsets.items())
    for part in _nodes(changed.graph):
        part.domain = domain_named(part.domain)
    for node in _nodes(changed.graph):
        if (node.domain, node.op_type) == kind:
            _with_defaults(node)
    for graph_or_function in (changed.graph, *changed.functions):
        sort_nodes(graph_or_function)  # What onnx makes of the types of values needs it.
    try:
        typed = onnx.shape_inference.infer_shapes(changed)
        typed.graph.value_info.extend(_types_in_bodies(typed.graph))
        return onnx.inliner.inline_selected_functions(typed, [kind], False, True)
    except Exception as error:  # onnx documents none
        raise unsupported(
            f"onnx cannot expand {kind[1]}: {error}.", "The nodes may contradict their schemas."
        ) from None


def _types_in_bodies(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return types of values in inner graphs, where onnx does not look; none of names that two types share."""
    found: dict[str, onnx.ValueInfoProto | None] = {}
    for inner in _bodies(graph):
        stored = [onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in inner.initializer]
        for value in (*inner.input, *inner.output, *inner.value_info, *stored):
            other = found.setdefault(value.name, value)
            if other and other.type.tensor_type.elem_type != value.type.tensor_type.elem_type:
                found[value.name] = None
    return [value for value in found.values() if value is not None]


def _bodies(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for attribute in (attribute for node in graph.node for attribute in node.attribute if attribute.HasField("g")):
        yield attribute.g
        yield from _bodies(attribute.g)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    yield from graph.node
    for inner in _bodies(graph):
        yield from inner.node


def _with_defaults(node: onnx.NodeProto) -> None:
    """Give a node the attributes that it leaves out, which onnx does not do before it expands it."""
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in onnx.defs.get_schema(node.op_type, node.domain).attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)
