"""Make records of a model's graphs: names are checked, calls of the model's own functions are expanded."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from jaxdml.onnx import nodes
from jaxdml.onnx._errors import must_be_text, unsupported
from jaxdml.onnx._graph import Graph, Node, TensorType, domain_named
from jaxdml.onnx.reading.external import Folder
from jaxdml.onnx.reading.order import in_order
from jaxdml.onnx.reading.schemas import constant_of, importing, misused, plain, size_name, type_of, type_of_output
from jaxdml.onnx.reading.scopes import Attribute, Function, Names, Parts, Scope
from jaxdml.onnx.reading.tensors import array, dense

MAX_DEPTH = 32
"""Graphs within graphs, and calls of functions within functions, at most."""

ASSUMED = {"": onnx.defs.onnx_opset_version()}
"""Versions of domains that are not imported; of others it is 1."""

MAX_NODES = 2**20
"""Nodes of a model at most, its functions expanded: a few functions can make 2**100 nodes."""


class Reader:
    """Reads one model.

    Args:
      folder: where external data may lie.
      functions: those that the model defines, by domain, name and overload.
      size: bytes of the model's file, where it has functions.
      remarks: where to note, as keys, what the file leaves open and how it is read.
    """

    def __init__(
        self,
        folder: Folder,
        functions: Mapping[tuple[str, str, str], Function],
        size: int,
        remarks: dict[str, None],
    ):
        self._folder = folder
        self._functions = functions
        self._size = size
        self._remarks = remarks
        self._names = Names()
        self._count = 0

    def model(self, proto: onnx.GraphProto, opsets: Mapping[str, int], overridable: bool) -> Graph:
        """Return the model's graph.

        Args:
          proto: the graph.
          opsets: the version of each domain that the model imports.
          overridable: whether the caller may override initializers that are listed as inputs.
        """
        graph = self._graph(proto, Scope({}, (), opsets), overridable)
        return replace(graph, remarks=tuple(self._remarks))

    def _graph(self, proto: onnx.GraphProto, outer: Scope, overridable: bool = False) -> Graph:
        if outer.depth > MAX_DEPTH:
            raise unsupported(f"graphs stand within graphs more than {MAX_DEPTH} deep.")
        stored = [(tensor.name, tensor) for tensor in proto.initializer]
        stored += [(tensor.values.name, tensor) for tensor in proto.sparse_initializer]
        initializers = {name for name, _ in stored}
        must_be_text(*initializers)
        made = (name for node in proto.node for name in node.output if name)
        defined = frozenset([*(value.name for value in proto.input), *initializers, *made])
        names = ChainMap[str, str]({}, *(outer.names.maps if isinstance(outer.names, ChainMap) else [outer.names]))
        scope = replace(outer, names=names, defined=(defined, *outer.defined), targets={}, depth=outer.depth + 1)
        parts = Parts()
        optional: list[TensorType] = []
        inputs: list[TensorType] = []
        for value in proto.input:
            kind = replace(type_of(value), name=self._names.define(value.name, scope, "an input"))
            (optional if value.name in initializers else inputs).append(kind)
        listed = set(names.maps[0])
        for name, tensor in stored:
            if name not in listed:
                self._names.define(name, scope, "an initializer")
            listed.discard(name)
            parts.constants[names[name]] = self._tensor(tensor, f"initializer '{name}'")
        self._nodes(proto.node, scope, parts)
        outputs = tuple(
            replace(type_of_output(value), name=self._names.made(value.name, scope)) for value in proto.output
        )
        symbols = {
            names[value.name]: tuple(size_name(size.dim_param) for size in value.type.tensor_type.shape.dim)
            for value in (*proto.value_info, *proto.output)
            if value.name in names
        }
        may_be_given = tuple(optional) if overridable else ()
        return Graph(tuple(inputs), outputs, parts.constants, tuple(parts.nodes), may_be_given, symbols=symbols)

    def _nodes(self, protos: Sequence[onnx.NodeProto], scope: Scope, parts: Parts) -> None:
        own = scope.names.maps[0] if isinstance(scope.names, ChainMap) else scope.names
        for proto in in_order(protos, own, scope.calls[-1] if scope.calls else "a graph"):
            must_be_text(proto.op_type, proto.domain, proto.name, proto.overload, *proto.input, *proto.output)
            self._count += 1
            if self._count > MAX_NODES:
                raise unsupported(f"the model has more than {MAX_NODES} nodes, its functions expanded.")
            label = self._names.label(scope.prefix + (proto.name or next(filter(None, proto.output), "unnamed")))
            what = f"node {proto.op_type} '{label}'"
            inputs = tuple(self._names.read(name, scope, what) for name in proto.input)
            domain = domain_named(proto.domain)
            attributes = self._attributes(proto.attribute, scope, what, of_many=domain == "ai.onnx.ml")
            function = self._functions.get((domain, proto.op_type, proto.overload))
            if function:
                self._call(function, proto, inputs, attributes, label, scope, parts)
                continue
            opset = importing(domain, self._imported(domain, proto.op_type, scope.opsets), what)
            rule = misused(proto, domain, opset, {name: entry.type for name, entry in attributes.items()})
            if rule:
                raise unsupported(f"{what}, domain '{domain or 'ai.onnx'}', opset {opset}: {rule}.")
            outputs = tuple(self._names.define(name, scope, what) if name else name for name in proto.output)
            values = {name: entry.value for name, entry in attributes.items()}
            if (domain, proto.op_type) == ("", "Constant"):
                parts.constants[outputs[0]] = constant_of(values, what)
            else:
                parts.nodes.append(Node(proto.op_type, domain, opset, label, inputs, outputs, values))

    def _imported(self, domain: str, op_type: str, opsets: Mapping[str, int]) -> Mapping[str, int]:
        """Return the versions of domains, one of a domain that is not imported but has this operator among them."""
        known = (domain, op_type) in nodes.OPERATORS or onnx.defs.has(op_type, domain)
        if domain in opsets or domain not in nodes.TABLES or not known:
            return opsets
        version = ASSUMED.get(domain, 1)
        self._remarks[f"Domain '{domain or 'ai.onnx'}' is not imported; it is read as version {version}."] = None
        return {**opsets, domain: version}

    def _call(
        self,
        function: Function,
        proto: onnx.NodeProto,
        inputs: tuple[str, ...],
        attributes: Mapping[str, Attribute],
        label: str,
        scope: Scope,
        parts: Parts,
    ) -> None:
        """Put the nodes of a function in the place of its call."""
        called, what, opsets = function
        if what in scope.calls:
            raise unsupported(f"{what} calls itself.", *(f"called by {other}" for other in reversed(scope.calls)))
        if len(scope.calls) >= MAX_DEPTH:
            raise unsupported(f"the model's functions call one another more than {MAX_DEPTH} deep.")
        if len(inputs) > len(called.input) or len(proto.output) > len(called.output):
            rule = f"node '{label}' calls {what} with {len(inputs)} inputs and {len(proto.output)} outputs"
            raise unsupported(f"{rule}; it has {len(called.input)} and {len(called.output)}.")
        names = dict.fromkeys(called.input, "") | dict(zip(called.input, inputs, strict=False))
        wanted = [
            (own, self._names.define(name, scope, f"node '{label}'"))
            for own, name in zip(called.output, proto.output, strict=False)
            if name
        ]
        targets = {own: name for own, name in wanted if own not in names}
        defaults = self._attributes(called.attribute_proto, Scope({}, (), opsets), what)
        defined = frozenset(name for node in called.node for name in node.output if name)
        inner = Scope(
            names,
            (defined, *scope.defined),
            opsets,
            {**defaults, **attributes},
            targets,
            (*scope.calls, what),
            f"{label}/",
            scope.depth,
        )
        self._nodes(called.node, inner, parts)
        for own, name in wanted:
            if self._names.made(own, inner) != name:
                # The function returns one of its inputs.
                opset = onnx.defs.onnx_opset_version()
                copy = self._names.label(f"{label}/{own}")
                parts.nodes.append(Node("Identity", "", opset, copy, (inner.names[own],), (name,)))

    def _attributes(
        self, protos: Iterable[onnx.AttributeProto], scope: Scope, what: str, of_many: bool = False
    ) -> dict[str, Attribute]:
        found: dict[str, Attribute] = {}
        for proto in protos:
            must_be_text(proto.name, proto.ref_attr_name)
            if proto.name in found:
                raise unsupported(f"{what} has attribute '{proto.name}' twice.")
            if not proto.ref_attr_name:
                listed = _listed(proto) if of_many else None
                value = self._value(proto, scope, what) if listed is None else listed
                found[proto.name] = Attribute(proto.type, value)
                continue
            if scope.given is None:
                rule = f"{what}: attribute '{proto.name}' refers to attribute '{proto.ref_attr_name}' of a function"
                raise unsupported(f"{rule}, and stands in none.")
            given = scope.given.get(proto.ref_attr_name)
            if given and given.type != proto.type:
                rule = f"{what}: attribute '{proto.name}' refers to '{proto.ref_attr_name}', which has another type."
                raise unsupported(rule)
            if given:
                found[proto.name] = given
        return found

    def _value(self, proto: onnx.AttributeProto, scope: Scope, what: str) -> Any:
        kinds = onnx.AttributeProto
        whose = f"attribute '{proto.name}' of {what}"
        if proto.type in (kinds.FLOAT, kinds.INT, kinds.STRING, kinds.FLOATS, kinds.INTS, kinds.STRINGS):
            return plain(onnx.helper.get_attribute_value(proto))
        if proto.type == kinds.TENSOR and proto.HasField("t"):
            return self._tensor(proto.t, whose)
        if proto.type == kinds.SPARSE_TENSOR and proto.HasField("sparse_tensor"):
            return self._tensor(proto.sparse_tensor, whose)
        if proto.type == kinds.TYPE_PROTO and proto.HasField("tp"):
            return None  # Of an Optional without an element: nothing needs its type.
        if proto.type == kinds.GRAPH and proto.HasField("g"):
            return self._graph(proto.g, scope)
        known = proto.type in kinds.AttributeType.values()
        name = kinds.AttributeType.Name(proto.type) if known else proto.type
        raise unsupported(f"{whose} has type {name}, which is not supported, or no value of it.")

    def _tensor(self, proto: onnx.TensorProto | onnx.SparseTensorProto, what: str) -> np.ndarray:
        if isinstance(proto, onnx.SparseTensorProto):
            return dense(proto, self._folder, what)
        values = array(proto, self._folder, what)
        if self._functions and proto.data_location != onnx.TensorProto.EXTERNAL:
            # Each call of a function has the tensors among its attributes again.
            self._folder.take("the model's own file", values.nbytes, self._size, what)
        return values


def _listed(proto: onnx.AttributeProto) -> Any:
    """Return a list of numbers as an array, which takes a tenth of the time and memory, and texts each once.

    None for anything else. There may be millions.
    """
    if proto.type == onnx.AttributeProto.INTS:
        return np.fromiter(proto.ints, np.int64, len(proto.ints))
    if proto.type == onnx.AttributeProto.FLOATS:
        return np.fromiter(proto.floats, np.float32, len(proto.floats))
    if proto.type == onnx.AttributeProto.STRINGS:
        texts = {text: plain(text) for text in set(proto.strings)}
        return tuple(map(texts.__getitem__, proto.strings))
    return None
