"""What the values and the nodes of a model are called, so that nothing hides anything."""

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx

from jaxdml.onnx._errors import unsupported
from jaxdml.onnx._graph import Node


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


class Attribute(NamedTuple):
    """An attribute of a node as the file has it."""

    type: int
    value: Any


@dataclass(frozen=True)
class Scope:
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
    given: Mapping[str, Attribute] | None = None
    targets: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    prefix: str = ""
    depth: int = 0


@dataclass
class Parts:
    """What a graph is made of, as far as it is read."""

    constants: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)


class Names:
    """Gives every value and every node a name of its own."""

    def __init__(self) -> None:
        self._labels: set[str] = set()
        self._new_names: set[str] = set()
        self._count = 0

    def define(self, name: str, scope: Scope, what: str) -> str:
        """Return what the records call a name that is new in the scope."""
        if not name:
            raise unsupported(f"{what} of a graph has no name.")
        own = scope.names.maps[0] if isinstance(scope.names, ChainMap) else scope.names
        if name in own:
            raise unsupported(f"{what} makes '{name}', which exists already.", "Every value needs a name of its own.")
        taken = scope.prefix or name in self._new_names or any(name in defined for defined in scope.defined[1:])
        own[name] = scope.targets.get(name) or (self._new(scope.prefix + name, scope) if taken else name)
        return own[name]

    def _new(self, name: str, scope: Scope) -> str:
        new = name
        while new in self._new_names or any(new in defined for defined in scope.defined):
            self._count += 1
            new = f"{name} #{self._count}"
        self._new_names.add(new)
        return new

    def read(self, name: str, scope: Scope, what: str) -> str:
        """Return what the records call a name that is read; an input that is left out has none."""
        if not name:
            return name
        found = scope.names.get(name)
        if found is not None:
            return found
        rule = f"{what} reads '{name}', which nothing makes."
        raise unsupported(rule, "An initializer or a node may be missing: the file may be broken.")

    def made(self, name: str, scope: Scope) -> str:
        """Return what the records call an output of a graph or of a function."""
        found = scope.names.get(name)
        if found is None:
            raise unsupported(f"output '{name}' of a graph is made by no node.", "A node may be missing.")
        return found

    def label(self, name: str) -> str:
        """Return a name for a node that no other node has."""
        label = name
        while label in self._labels:
            self._count += 1
            label = f"{name} #{self._count}"
        self._labels.add(label)
        return label
