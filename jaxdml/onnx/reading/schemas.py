"""What ONNX says of nodes and of values, as far as it can be checked before anything runs."""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import onnx

from jaxdml.onnx._errors import must_be_text, unsupported
from jaxdml.onnx._graph import TensorType
from jaxdml.onnx.reading.tensors import MOST_BYTES, MOST_DIMENSIONS, dtype_of

OLDEST_OPSET = 7
"""Of ai.onnx. Before it, operators broadcast in other ways."""

_WRAPPED = {"optional_type": "optional", "sequence_type": "sequence"}
_WITHIN = ((), ("optional",), ("sequence",), ("optional", "sequence"))

_CONSTANTS = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}


def importing(domain: str, opsets: Mapping[str, int], what: str) -> int:
    """Return the version of a domain that a node has, if it is one that can be run."""
    opset = opsets.get(domain)
    if opset is None:
        rule = f"{what} is of domain '{domain or 'ai.onnx'}', of which no version is imported."
        raise unsupported(rule, f"Imported: {', '.join(repr(name or 'ai.onnx') for name in opsets) or 'nothing'}.")
    if not 0 < opset < 2**31:
        raise unsupported(f"{what} is of domain '{domain or 'ai.onnx'}' in version {opset}.", "The file may be broken.")
    newest = onnx.defs.onnx_opset_version()
    if domain == "" and not OLDEST_OPSET <= opset <= newest:
        rule = f"the model's opset is {opset}; {OLDEST_OPSET} to {newest} are supported with onnx {onnx.__version__}."
        advice = "Install a newer onnx." if opset > newest else "Convert it, as with onnx.version_converter."
        raise unsupported(rule, f"{what} is the first node of it.", advice)
    return opset


def misused(proto: onnx.NodeProto, domain: str, opset: int, types: Mapping[str, int]) -> str | None:
    """Say what of a node contradicts its schema: how many inputs and outputs there are, of what type attributes are.

    Args:
      proto: the node.
      domain: its domain.
      opset: the version of the domain.
      types: of its attributes, by name.
    """
    schema = _schema(proto.op_type, opset, domain)
    if schema is None:
        return None
    for what, names, (least, most) in (
        ("inputs", proto.input, schema.inputs),
        ("outputs", proto.output, schema.outputs),
    ):
        if not least <= len(names) <= most:
            return f"it has {len(names)} {what}; {least} to {most} are expected"
    wrong = [
        f"'{name}' is {onnx.AttributeProto.AttributeType.Name(kind)} instead of {schema.types[name].name}"
        for name, kind in types.items()
        if name in schema.types and schema.types[name].value != kind
    ]
    wrong += [f"'{name}' is missing" for name in schema.required if name not in types]
    return f"attribute {', '.join(wrong)}" if wrong else None


class _Schema(NamedTuple):
    """What is asked of a schema; onnx makes the attributes anew each time."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]
    types: Mapping[str, Any]
    required: tuple[str, ...]


@lru_cache(maxsize=1024)  # What files name may be anything.
def _schema(op_type: str, opset: int, domain: str) -> _Schema | None:
    """Return the schema of a node, or None: whether there is such an operator is asked of the table of operators."""
    try:
        found = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    if found.deprecated:
        return None
    types = {name: attribute.type for name, attribute in found.attributes.items()}
    required = tuple(name for name, attribute in found.attributes.items() if attribute.required)
    return _Schema((found.min_input, found.max_input), (found.min_output, found.max_output), types, required)


def plain(value: Any) -> Any:
    """Return the value of an attribute with texts for bytes and tuples for lists."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(plain(item) for item in value)
    return value


def constant_of(attributes: Mapping[str, Any], what: str) -> np.ndarray:
    """Return what a Constant makes."""
    if len(attributes) == 1:
        [(name, value)] = attributes.items()
        if name in ("value", "sparse_value"):
            return value
        if name in _CONSTANTS:
            return np.asarray(value, _CONSTANTS[name])
    found = ", ".join(attributes) or "nothing"
    raise unsupported(f"{what} holds {found}; it must hold one of value, sparse_value, {', '.join(_CONSTANTS)}.")


_UNNAMED = ("any", "dynamic", "dynamic_dimension", "none", "unknown")
"""What exporters write, in any case, where a size has no name; "?", "*" and "-1" have no letter."""


def size_name(name: str) -> str | None:
    """Return the name of a dimension, or None where it says only that the size is not known."""
    letters = any(map(str.isalpha, name))
    return name if letters and name.strip("_<>").lower() not in _UNNAMED else None


def type_of_output(value: onnx.ValueInfoProto) -> TensorType:
    """Return what a graph declares of an output; of texts and of maps nodes make arrays of numbers, or are refused."""
    kind = value.type.WhichOneof("value")
    texts = value.type.tensor_type.elem_type == onnx.TensorProto.STRING
    if texts or (kind == "sequence_type" and value.type.sequence_type.elem_type.HasField("map_type")):
        return type_of(onnx.ValueInfoProto(name=value.name))
    return type_of(value)


def type_of(value: onnx.ValueInfoProto) -> TensorType:
    """Return what a graph declares of an input or output."""
    must_be_text(value.name)
    what = f"'{value.name}', an input or output of a graph,"
    within: list[str] = []
    declared, kind = value.type, value.type.WhichOneof("value")
    while kind in _WRAPPED and len(within) < 3:
        within.append(_WRAPPED[kind])
        declared = getattr(declared, kind).elem_type
        kind = declared.WhichOneof("value")
    if kind not in (None, "tensor_type") or tuple(within) not in _WITHIN:
        written = " of ".join([*within, *([kind.removesuffix("_type")] if kind else [])])
        raise unsupported(f"{what} is a {written}; tensors, sequences of them and optionals of both are supported.")
    tensor = declared.tensor_type
    dtype = dtype_of(tensor.elem_type, what) if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return TensorType(value.name, dtype, None, tuple(within))
    must_be_text(*(size.dim_param for size in tensor.shape.dim))
    # Some exporters write -1 for a size that is not known.
    shape = tuple(
        (size.dim_value if size.dim_value >= 0 else None) if size.HasField("dim_value") else size_name(size.dim_param)
        for size in tensor.shape.dim
    )
    known = math.prod(size for size in shape if isinstance(size, int) and size)
    if len(shape) > MOST_DIMENSIONS or known * (dtype.itemsize if dtype else 1) > MOST_BYTES:
        raise unsupported(f"{what} is declared larger than any array can be.", "The file may be broken.")
    return TensorType(value.name, dtype, shape, tuple(within))
