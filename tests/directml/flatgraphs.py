"""Write serialized graphs of DirectML with the library flatbuffers, table by table."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import flatbuffers

ACTIVATION, ACTIVATIONS, UINT, ULONG, INT, FLOAT, UINTS, INTS, FLOATS, SCALE_BIAS, SIZE, UNION, BOOL = range(1, 14)


class Node(NamedTuple):
    """A node: an operator, or a constant with the name of a file or with bytes."""

    kind: str
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    tensors: Sequence[Sequence[Any]] = ((), ())
    attributes: Sequence[tuple[str, int, Any]] = ()
    data: Any = None
    union: int = 1


def written(nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """Return the bytes of a graph."""
    b = flatbuffers.Builder(0)
    each = [_node(b, place, node) for place, node in enumerate(nodes)]
    lists = _offsets(b, each), _texts(b, inputs), _texts(b, outputs)
    b.Finish(_table(b, [("offset", one) for one in lists]))
    return bytes(b.Output())


def _table(b: Any, fields: Sequence[tuple[str, Any]]) -> int:
    b.StartObject(len(fields))
    for slot, (kind, value) in enumerate(fields):
        if value is None:
            continue
        if kind == "offset":
            b.PrependUOffsetTRelativeSlot(slot, value, 0)
        elif kind == "byte":
            b.PrependUint8Slot(slot, value, 0)
        else:
            b.PrependUint64Slot(slot, value, 0)
    return b.EndObject()


def _offsets(b: Any, each: Sequence[int]) -> int:
    b.StartVector(4, len(each), 4)
    for one in reversed(each):
        b.PrependUOffsetTRelative(one)
    return b.EndVector()


def _texts(b: Any, each: Sequence[str]) -> int:
    return _offsets(b, [b.CreateString(one) for one in each])


def _numbers(b: Any, kind: int, each: Sequence[Any]) -> int:
    b.StartVector(4, len(each), 4)
    for one in reversed(each):
        {UINTS: b.PrependUint32, INTS: b.PrependInt32, FLOATS: b.PrependFloat32}[kind](one)
    return b.EndVector()


def _node(b: Any, place: int, node: Node) -> int:
    if node.data is None:
        desc, kind = _operator(b, node) if node.union else None, node.union
    elif isinstance(node.data, str):
        name = _table(b, [("offset", b.CreateString(node.data))])
        desc, kind = _table(b, [("byte", 1), ("offset", name)]), 2
    else:
        raw = _table(b, [("offset", b.CreateByteVector(node.data))])
        desc, kind = _table(b, [("byte", 2), ("offset", raw)]), 2
    name, inputs, outputs = b.CreateString(f"node {place}"), _texts(b, node.inputs), _texts(b, node.outputs)
    return _table(b, [("byte", kind), ("offset", desc), *(("offset", one) for one in (name, inputs, outputs))])


def _operator(b: Any, node: Node) -> int:
    described = [_offsets(b, [_tensor(b, *one) for one in part]) for part in node.tensors]
    attributes = _offsets(b, [_attribute(b, *one) for one in node.attributes])
    kind = b.CreateString(f"DML_OPERATOR_{node.kind}")
    return _table(b, [("offset", one) for one in (kind, *described, attributes)])


def _tensor(b: Any, kind: str, sizes: Sequence[int], size: int, strides: Sequence[int] | None = None) -> int:
    own = b.CreateString(kind), _numbers(b, UINTS, sizes), None if strides is None else _numbers(b, UINTS, strides)
    return _table(b, [*(("offset", one) for one in own), ("long", size)])


def _attribute(b: Any, name: str, kind: int, value: Any) -> int:
    return _table(b, [("offset", b.CreateString(name)), ("byte", kind), ("offset", _value(b, kind, value))])


def _value(b: Any, kind: int, value: Any) -> int | None:
    if value is None:
        return None
    if kind == ACTIVATION:
        return _activation(b, *value)
    if kind == ACTIVATIONS:
        return _table(b, [("offset", _offsets(b, [_activation(b, *one) for one in value]))])
    if kind in (UINTS, INTS, FLOATS):
        return _table(b, [("offset", _numbers(b, kind, value))])
    if kind == UNION:
        return _table(b, [("byte", 1), ("offset", _struct(b, 8, [(b.PrependUint64, int.from_bytes(value, "little"))]))])
    if kind in (SCALE_BIAS, SIZE):
        prepend = b.PrependFloat32 if kind == SCALE_BIAS else b.PrependUint32
        return _struct(b, 8, [(prepend, one) for one in reversed(value)])
    write = {UINT: b.PrependUint32, ULONG: b.PrependUint64, INT: b.PrependInt32, FLOAT: b.PrependFloat32}
    return _struct(b, 8, [(write.get(kind, b.PrependUint8), value)])


def _struct(b: Any, align: int, parts: Sequence[Any]) -> int:
    b.Prep(align, align)
    for prepend, value in parts:
        prepend(value)
    return b.Offset()


def _activation(b: Any, kind: str, attributes: Sequence[tuple[str, int, Any]]) -> int:
    each = _offsets(b, [_attribute(b, *one) for one in attributes])
    return _table(b, [("offset", b.CreateString(f"DML_OPERATOR_{kind}")), ("offset", each)])
