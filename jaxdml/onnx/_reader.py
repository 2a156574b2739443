"""Make records of a model's graphs: names are checked, calls of the model's own functions are expanded."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import onnx

from jaxdml.onnx._errors import must_be_text, unsupported
from jaxdml.onnx._external import Folder
from jaxdml.onnx._graph import DOMAINS, Graph, Node, TensorType
from jaxdml.onnx._schemas import constant_of, importing, misused, plain, type_of
from jaxdml.onnx._tensors import array

MAX_DEPTH = 32
"""Graphs within graphs, and calls of functions within functions, at most."""

MAX_NODES = 2**20
"""Nodes of a model at most, its functions expanded: a few functions can make 2**100 nodes."""


class Function(NamedTuple):
    """A function that the model defines.

    Attributes:
      proto: its definition.
      what: its name for errors.
      opsets: the version of each domain that it imports.
    """

    proto: onnx.FunctionProto
    what: str
    opsets: Mapping[str, int]


class _Attribute(NamedTuple):
    type: int
    value: Any


@dataclass(frozen=True)
class _Scope:
    """Where nodes stand.

    Attributes:
      names: what may be read here: names in the file, and what the records call them.
      defined: by graph, this one first: what nodes make at any place of it.
      opsets: the version of each domain.
      given: attributes of the call of the function whose nodes these are; None outside of functions.
      targets: what the records call the outputs of that function.
      calls: functions whose calls led here.
      prefix: of new names.
      depth: how many graphs this one stands in.
    """

    names: MutableMapping[str, str]
    defined: tuple[frozenset[str], ...]
    opsets: Mapping[str, int]
    given: Mapping[str, _Attribute] | None = None
    targets: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    prefix: str = ""
    depth: int = 0


@dataclass
class _Parts:
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)


class Reader:
    """Reads one model.

    Args:
      folder: where external data may lie.
      functions: those that the model defines, by domain, name and overload.
      size: bytes of the model's file, where it has functions.
    """

    def __init__(self, folder: Folder, functions: Mapping[tuple[str, str, str], Function], size: int):
        self._folder = folder
        self._functions = functions
        self._size = size
        self._labels: set[str] = set()
        self._names: set[str] = set()
        self._count = 0
        self._fresh = 0

    def model(self, proto: onnx.GraphProto, opsets: Mapping[str, int], overridable: bool) -> Graph:
        """Return the model's graph.

        Args:
          proto: the graph.
          opsets: the version of each domain that the model imports.
          overridable: whether the caller may override initializers that are listed as inputs.
        """
        return self._graph(proto, _Scope({}, (), opsets), overridable)

    def _graph(self, proto: onnx.GraphProto, outer: _Scope, overridable: bool = False) -> Graph:
        if outer.depth > MAX_DEPTH:
            raise unsupported(f"graphs stand within graphs more than {MAX_DEPTH} deep.")
        if proto.sparse_initializer:
            raise unsupported("sparse initializers are not supported.", "Store them as dense ones.")
        initializers = {tensor.name for tensor in proto.initializer}
        must_be_text(*initializers)
        made = (name for node in proto.node for name in node.output if name)
        defined = frozenset([*(value.name for value in proto.input), *initializers, *made])
        names = ChainMap[str, str]({}, *(outer.names.maps if isinstance(outer.names, ChainMap) else [outer.names]))
        scope = replace(outer, names=names, defined=(defined, *outer.defined), targets={}, depth=outer.depth + 1)
        parts = _Parts()
        optional, inputs = [], []
        for value in proto.input:
            kind = replace(type_of(value), name=self._define(value.name, scope, "an input"))
            (optional if value.name in initializers else inputs).append(kind)
        listed = set(names.maps[0])
        for tensor in proto.initializer:
            if tensor.name not in listed:
                self._define(tensor.name, scope, "an initializer")
            listed.discard(tensor.name)
            parts.constants[names[tensor.name]] = self._tensor(tensor, f"initializer '{tensor.name}'")
        self._nodes(proto.node, scope, parts)
        outputs = tuple(replace(type_of(value), name=self._made(value.name, scope)) for value in proto.output)
        return Graph(
            tuple(inputs), outputs, parts.constants, tuple(parts.nodes), tuple(optional) if overridable else ()
        )

    def _define(self, name: str, scope: _Scope, what: str) -> str:
        """Return what the records call a name that is new in the scope."""
        if not name:
            raise unsupported(f"{what} of a graph has no name.")
        own = scope.names.maps[0] if isinstance(scope.names, ChainMap) else scope.names
        if name in own:
            raise unsupported(f"{what} makes '{name}', which exists already.", "Every value needs a name of its own.")
        taken = scope.prefix or name in self._names or any(name in defined for defined in scope.defined[1:])
        own[name] = scope.targets.get(name) or (self._new(scope.prefix + name, scope) if taken else name)
        return own[name]

    def _new(self, name: str, scope: _Scope) -> str:
        new = name
        while new in self._names or any(new in defined for defined in scope.defined):
            self._fresh += 1
            new = f"{name} #{self._fresh}"
        self._names.add(new)
        return new

    def _read(self, name: str, scope: _Scope, what: str) -> str:
        if not name:
            return name
        found = scope.names.get(name)
        if found is not None:
            return found
        if any(name in defined for defined in scope.defined):
            rule = f"{what} reads '{name}', which only a later node makes."
            raise unsupported(rule, "The nodes are not in order, or form a cycle. Sort them before the model is saved.")
        rule = f"{what} reads '{name}', which nothing makes."
        raise unsupported(rule, "An initializer or a node may be missing: the file may be broken.")

    def _made(self, name: str, scope: _Scope) -> str:
        found = scope.names.get(name)
        if found is None:
            raise unsupported(f"output '{name}' of a graph is made by no node.", "A node may be missing.")
        return found

    def _nodes(self, protos: Iterable[onnx.NodeProto], scope: _Scope, parts: _Parts) -> None:
        for proto in protos:
            must_be_text(proto.op_type, proto.domain, proto.name, proto.overload, *proto.input, *proto.output)
            self._count += 1
            if self._count > MAX_NODES:
                raise unsupported(f"the model has more than {MAX_NODES} nodes, its functions expanded.")
            label = self._label(scope.prefix + (proto.name or next(filter(None, proto.output), "unnamed")))
            what = f"node {proto.op_type} '{label}'"
            inputs = tuple(self._read(name, scope, what) for name in proto.input)
            attributes = self._attributes(proto.attribute, scope, what)
            domain = DOMAINS.get(proto.domain, proto.domain)
            function = self._functions.get((domain, proto.op_type, proto.overload))
            if function:
                self._call(function, proto, inputs, attributes, label, scope, parts)
                continue
            opset = importing(domain, scope.opsets, what)
            rule = misused(proto, domain, opset, {name: entry.type for name, entry in attributes.items()})
            if rule:
                raise unsupported(f"{what}, domain '{domain or 'ai.onnx'}', opset {opset}: {rule}.")
            outputs = tuple(self._define(name, scope, what) if name else name for name in proto.output)
            values = {name: entry.value for name, entry in attributes.items()}
            if (domain, proto.op_type) == ("", "Constant"):
                parts.constants[outputs[0]] = constant_of(values, what)
            else:
                parts.nodes.append(Node(proto.op_type, domain, opset, label, inputs, outputs, values))

    def _label(self, name: str) -> str:
        label = name
        while label in self._labels:
            self._fresh += 1
            label = f"{name} #{self._fresh}"
        self._labels.add(label)
        return label

    def _call(
        self,
        function: Function,
        proto: onnx.NodeProto,
        inputs: tuple[str, ...],
        attributes: Mapping[str, _Attribute],
        label: str,
        scope: _Scope,
        parts: _Parts,
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
            (own, self._define(name, scope, f"node '{label}'"))
            for own, name in zip(called.output, proto.output, strict=False)
            if name
        ]
        targets = {own: name for own, name in wanted if own not in names}
        defaults = self._attributes(called.attribute_proto, _Scope({}, (), opsets), what)
        defined = frozenset(name for node in called.node for name in node.output if name)
        inner = _Scope(
            names,
            (defined, *scope.defined),
            opsets,
            defaults | attributes,
            targets,
            (*scope.calls, what),
            f"{label}/",
            scope.depth,
        )
        self._nodes(called.node, inner, parts)
        for own, name in wanted:
            if self._made(own, inner) != name:
                # The function returns one of its inputs.
                opset = onnx.defs.onnx_opset_version()
                copy = f"{label}/{own}"
                parts.nodes.append(Node("Identity", "", opset, self._label(copy), (inner.names[own],), (name,), {}))

    def _attributes(self, protos: Iterable[onnx.AttributeProto], scope: _Scope, what: str) -> dict[str, _Attribute]:
        found: dict[str, _Attribute] = {}
        for proto in protos:
            must_be_text(proto.name, proto.ref_attr_name)
            if proto.name in found:
                raise unsupported(f"{what} has attribute '{proto.name}' twice.")
            if not proto.ref_attr_name:
                found[proto.name] = _Attribute(proto.type, self._value(proto, scope, what))
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

    def _value(self, proto: onnx.AttributeProto, scope: _Scope, what: str) -> Any:
        kinds = onnx.AttributeProto
        whose = f"attribute '{proto.name}' of {what}"
        if proto.type in (kinds.FLOAT, kinds.INT, kinds.STRING, kinds.FLOATS, kinds.INTS, kinds.STRINGS):
            return plain(onnx.helper.get_attribute_value(proto))
        if proto.type == kinds.TENSOR and proto.HasField("t"):
            return self._tensor(proto.t, whose)
        if proto.type == kinds.GRAPH and proto.HasField("g"):
            return self._graph(proto.g, scope)
        known = proto.type in kinds.AttributeType.values()
        name = kinds.AttributeType.Name(proto.type) if known else proto.type
        raise unsupported(f"{whose} has type {name}, which is not supported, or no value of it.")

    def _tensor(self, proto: onnx.TensorProto, what: str) -> np.ndarray:
        values = array(proto, self._folder, what)
        if self._functions and proto.data_location != onnx.TensorProto.EXTERNAL:
            # Each call of a function has the tensors among its attributes again.
            self._folder.take("the model's own file", values.nbytes, self._size, what)
        return values
