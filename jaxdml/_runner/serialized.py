"""Read a serialized graph of DirectML, a FlatBuffer, as a graph; nothing in it is executed."""

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flatbuffers import number_types
from flatbuffers.table import Table

from jaxdml import directml as dml
from jaxdml._runner.text import refuse
from jaxdml.directml._c import c_field
from jaxdml.directml._fields import Counts, kind_of
from jaxdml.directml._structs import struct_of

LARGEST_FILE = 2**30
MOST_ELEMENTS = 2**16
"""Elements of a list in a graph: nodes, sizes, strides, names, attributes."""


class FlatTable(NamedTuple):
    """A table of a FlatBuffer, whose fields are numbered."""

    table: Any

    def _field(self, slot: int) -> int:
        """Return where a field is, counted from the table, or 0 if the table does not have it."""
        found: int = self.table.Offset(4 + 2 * slot)
        return found

    def number(self, slot: int, kind: Any) -> Any:
        """Return a number; one of 0 is not stored."""
        at = self._field(slot)
        return self.table.Get(kind, self.table.Pos + at) if at else 0

    def place(self, slot: int) -> int:
        """Return where what a field points at begins, or 0."""
        at = self._field(slot)
        return self.table.Indirect(self.table.Pos + at) if at else 0

    def at(self, kind: Any, place: int) -> Any:
        """Return a number at a place of the buffer."""
        return self.table.Get(kind, place)

    def beneath(self, slot: int) -> "FlatTable":
        """Return a table that a field points at."""
        place = self.place(slot)
        if not place:
            raise ValueError(f"a table has no field {slot}")
        return self._other(place)

    def _other(self, place: int) -> "FlatTable":
        return FlatTable(type(self.table)(self.table.Bytes, place))

    def text(self, slot: int) -> str:
        """Return a string, or an empty one."""
        at = self._field(slot)
        return self.table.String(self.table.Pos + at).decode() if at else ""

    def bytes(self, slot: int) -> bytes:
        """Return a list of bytes."""
        at = self.place(slot)
        count = self.at(number_types.UOffsetTFlags, at)
        if at + 4 + count > len(self.table.Bytes):
            raise ValueError(f"{count} bytes, of which only {len(self.table.Bytes) - at - 4} are there")
        return bytes(self.table.Bytes[at + 4 : at + 4 + count])

    def numbers(self, slot: int, kind: Any) -> tuple[Any, ...] | None:
        """Return a list of numbers of 32 bits, or None."""
        return tuple(self.at(kind, at) for at in self._elements(slot)) if self._field(slot) else None

    def tables(self, slot: int) -> list["FlatTable"]:
        """Return a list of tables."""
        return [self._other(self.table.Indirect(at)) for at in self._elements(slot)]

    def texts(self, slot: int) -> list[str]:
        """Return a list of strings."""
        return [self.table.String(at).decode() for at in self._elements(slot)]

    def _elements(self, slot: int) -> range:
        """Return where the elements of a list are, each of four bytes."""
        at = self._field(slot)
        count = self.table.VectorLen(at) if at else 0
        if count > MOST_ELEMENTS:
            raise ValueError(f"a list of {count} elements; at most {MOST_ELEMENTS} are read")
        begin = self.table.Vector(at) if count else 0
        return range(begin, begin + 4 * count, 4)


@dataclass(frozen=True)
class SerializedGraph:
    """A graph with its names.

    Attributes:
      graph: the graph; its last inputs are weights.
      inputs: the names of its inputs, in order.
      outputs: the names of its outputs, in order.
      weights: the file of each input that is a weight.
    """

    graph: dml.Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[int, Path]

    def owned(self, described: Sequence[dml.BufferTensorDesc | None]) -> dict[int, np.ndarray]:
        """Return the weights, read from their files."""
        found = {}
        for index, file in self.weights.items():
            desc = described[index]
            if desc is None:
                continue
            if not file.is_file():
                refuse(self.inputs[index], "must have its bytes in a file", repr(file.name))
            data, dtype = np.fromfile(file, np.uint8), np.dtype(desc.data_type.dtype)
            size = int(np.prod(desc.sizes)) * dtype.itemsize
            if len(data) < size:
                refuse(self.inputs[index], f"must have {size} bytes in {file.name}", len(data))
            found[index] = data[:size].view(dtype).reshape(desc.sizes)
        return found


def read(file: Path) -> SerializedGraph:
    """Return the graph in a file; refuse one that is no such graph, or whose lists are too long."""
    if file.stat().st_size > LARGEST_FILE:
        refuse("file", f"must have at most {LARGEST_FILE} bytes", file.stat().st_size)
    data = bytearray(file.read_bytes())
    try:
        table = Table(data, 0)
        return _graph(FlatTable(Table(data, table.Indirect(0))), file.parent)
    except (struct.error, ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        if isinstance(error, dml.InvalidDescError):
            raise
        refuse("file", "must be a serialized graph of DirectML", f"{type(error).__name__}: {error}"[:200])


_OPERATOR, _CONSTANT = 1, 2
_NAMED = 1
_UNSAFE = re.compile(r'[\\/"|<>:?*]')


def _graph(root: FlatTable, folder: Path) -> SerializedGraph:
    inputs, outputs = root.texts(1), root.texts(2)
    nodes: list[Any] = []
    weights: dict[int, Path] = {}
    ends: dict[str, tuple[int | None, int]] = {name: (None, place) for place, name in enumerate(inputs)}
    entering: list[dml.InputEdge] = []
    intermediate: list[dml.IntermediateEdge] = []
    for table in root.tables(0):
        name, node = table.text(2), table.beneath(1)
        results = table.texts(4)
        if table.number(0, number_types.Uint8Flags) == _CONSTANT:
            if node.number(0, number_types.Uint8Flags) == _NAMED:
                stored = node.beneath(1).text(0)
                weights[len(inputs)] = folder / f"{_UNSAFE.sub('_', stored)}.bin"
                ends |= {result: (None, len(inputs)) for result in results}
                inputs.append(stored)
            else:
                ends |= {result: (len(nodes), 0) for result in results}
                nodes.append(dml.ConstantNode(node.beneath(1).bytes(0), name))
            continue
        if table.number(0, number_types.Uint8Flags) != _OPERATOR:
            raise ValueError(f"node {name!r} is neither an operator nor a constant")
        read_names = table.texts(3)
        begins = [ends[one] if one else None for one in read_names]
        owned = [begin is not None and begin[0] is None and begin[1] in weights for begin in begins]
        desc = _desc(node, read_names, owned, results)
        index = len(nodes)
        for place, begin in enumerate(begins):
            if begin is not None:
                source, of = begin
                if source is None:
                    entering.append(dml.InputEdge(of, index, place))
                else:
                    intermediate.append(dml.IntermediateEdge(source, of, index, place))
        ends |= {result: (index, place) for place, result in enumerate(results) if result}
        nodes.append(dml.OperatorNode(desc, name))
    output_edges = []
    for place, name in enumerate(outputs):
        node_index, of = ends[name]
        if node_index is None:
            raise ValueError(f"output {name!r} is an input")
        output_edges.append(dml.OutputEdge(node_index, of, place))
    graph = dml.Graph(
        input_count=len(inputs),
        output_count=len(outputs),
        nodes=tuple(nodes),
        input_edges=tuple(entering),
        intermediate_edges=tuple(intermediate),
        output_edges=tuple(output_edges),
    )
    return SerializedGraph(graph, tuple(inputs), tuple(outputs), weights)


def _desc(node: FlatTable, inputs: list[str], owned: list[bool], outputs: list[str]) -> dml.OperatorDesc:
    """Return the description of an operator: names that are empty leave tensors out."""
    struct_type = struct_of(dml.OperatorType[node.text(0).removeprefix("DML_OPERATOR_")])
    described = {False: iter(node.tables(1)), True: iter(node.tables(2))}
    names = {False: list(zip(inputs, owned, strict=True)), True: [(one, False) for one in outputs]}
    given: dict[str, Any] = {}
    for field, role in struct_type.roles().items():
        waiting = names[role.output]
        taken = [waiting.pop(0) for _ in range(len(waiting) if role.several else min(1, len(waiting)))]
        tensors = [_tensor(next(described[role.output]), of) if one else None for one, of in taken]
        given[field] = tuple(tensors) if role.several else next(iter(tensors), None)
    attributes = {one.text(0): one for one in node.tables(3)}
    return struct_type(**given, **_attributes(struct_type, attributes, given))


def _attributes(struct_type: Any, found: Mapping[str, FlatTable], given: Mapping[str, Any]) -> dict[str, Any]:
    wanted = [one for one in fields(struct_type) if one.name not in given and not isinstance(kind_of(one), Counts)]
    values = {one.name: _value(found[c_field(one.name)]) for one in wanted if c_field(one.name) in found}
    for one in wanted:
        if kind_of(one) == "bool" and one.name in values:
            values[one.name] = bool(values[one.name])
        if isinstance(values.get(one.name), bytes):
            dtype = np.dtype(dml.TensorDataType(values[kind_of(one).data_type]).dtype)
            values[one.name] = np.frombuffer(values[one.name], dtype, 1)[0]
    return values


_UINT, _FLOAT = number_types.Uint32Flags, number_types.Float32Flags
_LISTS = {7: _UINT, 8: number_types.Int32Flags, 9: _FLOAT}
_NUMBERS = {3: _UINT, 4: number_types.Uint64Flags, 5: number_types.Int32Flags, 6: _FLOAT, 13: number_types.Uint8Flags}
_PAIRS = {10: _FLOAT, 11: _UINT}
_ACTIVATION, _ACTIVATIONS, _UNION = 1, 2, 12


def _value(attribute: FlatTable) -> Any:
    """Return the value of an attribute, or None; numbers and pairs stand where the field points."""
    kind, at = attribute.number(1, number_types.Uint8Flags), attribute.place(2)
    readers: dict[int, Any] = {
        _ACTIVATION: lambda: _activation(attribute.beneath(2)),
        _ACTIVATIONS: lambda: tuple(map(_activation, attribute.beneath(2).tables(0))),
        _UNION: lambda: bytes(attribute.table.Bytes[(place := attribute.beneath(2).place(1)) : place + 8]),
        **{key: lambda: attribute.beneath(2).numbers(0, _LISTS[kind]) or () for key in _LISTS},
        **{key: lambda: attribute.at(_NUMBERS[kind], at) for key in _NUMBERS},
        **{key: lambda: tuple(attribute.at(_PAIRS[kind], place) for place in (at, at + 4)) for key in _PAIRS},
    }
    return readers[kind]() if at else None


def _activation(table: FlatTable) -> dml.OperatorDesc:
    struct_type = struct_of(dml.OperatorType[table.text(0).removeprefix("DML_OPERATOR_")])
    tensors = dict.fromkeys(struct_type.roles())
    found = {one.text(0): one for one in table.tables(1)}
    return struct_type(**tensors, **_attributes(struct_type, found, tensors))


def _tensor(table: FlatTable, owned: bool) -> dml.BufferTensorDesc:
    flags = dml.TensorFlags.OWNED_BY_DML if owned else dml.TensorFlags.NONE
    kind = dml.TensorDataType[table.text(0).removeprefix("DML_TENSOR_DATA_TYPE_")]
    lists = table.numbers(1, number_types.Uint32Flags) or (), table.numbers(2, number_types.Uint32Flags)
    return dml.BufferTensorDesc(kind, *lists, flags, table.number(3, number_types.Uint64Flags))
