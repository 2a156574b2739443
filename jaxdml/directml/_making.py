"""Make the class of a struct from its fields in the schema and the facts of its operator."""

import functools
import json
import textwrap
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jax import export

from jaxdml.directml._c import c_field
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._fields import OPTIONAL, Counts, Kind, Role, Scalar, ScaleBias, Size2D, kind, python_field
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import TensorSupport
from jaxdml.directml._tensors import BufferTensorDesc

_KEPT = json.loads((Path(__file__).parent / "schema.json").read_text(encoding="utf-8"))

SCHEMA: Mapping[str, Mapping[str, str]] = _KEPT["structs"]
"""For each operator the fields of its struct, in order, and the words of their kinds."""

_TEXTS: Mapping[str, str] = _KEPT["fields"]

_TYPES: Mapping[str, Any] = {
    "uint": int,
    "int": int,
    "float": float,
    "float?": float,
    "bool": bool,
    "uint[]": tuple[int, ...],
    "int[]": tuple[int, ...],
    "float[]": tuple[float, ...],
    "scale_bias?": ScaleBias | None,
    "size_2d": Size2D,
    "activation?": OperatorDesc | None,
    "activation[]": tuple[OperatorDesc, ...],
}

_WORDS: Mapping[str, str] = {
    "uint": "an unsigned integer.",
    "int": "an integer.",
    "float": "a float.",
    "float?": "a float.",
    "bool": "a bool.",
    "uint[]": "unsigned integers.",
    "int[]": "integers.",
    "float[]": "floats.",
    "scale_bias?": "a ``ScaleBias``, or a pair of floats; None for neither.",
    "size_2d": "a ``Size2D``, or a pair: the width, then the height.",
    "activation?": "the description of an activation without tensors, or None.",
    "activation[]": "descriptions of activations without tensors.",
}


def struct_name(operator: str) -> str:
    """Return the name of an operator's struct in Python: ``TopK1OperatorDesc`` for ``TOP_K1``."""
    return "".join(part.capitalize() for part in operator.split("_")) + "OperatorDesc"


def result_of(name: str, words: Mapping[str, str]) -> type[tuple[Any, ...]]:
    """Return the NamedTuple of an operator's outputs; of a single one that is never asked for, and no NamedTuple."""
    fields = [python_field(of) for of, word in words.items() if word.startswith("output")]
    return _result(name, *fields) if len(fields) > 1 else tuple


@functools.cache
def _result(name: str, *fields: str) -> type[tuple[Any, ...]]:
    result = namedtuple(f"{struct_name(name).removesuffix('OperatorDesc')}Outputs", fields)  # type: ignore[misc]
    export.register_namedtuple_serialization(result, serialized_name=f"jaxdml.directml.{result.__name__}")
    return result


def make_struct(name: str, words: Mapping[str, str], operator: Operator) -> type[OperatorDesc]:
    """Return the class of an operator's descriptions.

    Args:
      name: the operator.
      words: the fields, by their names in C, and their kinds as ``_fields`` has them.
      operator: the facts.
    """
    kinds = {python_field(of): kind(word) for of, word in words.items()}
    fields = [(of, _type(one), field(**_default(one, operator), metadata={"kind": one})) for of, one in kinds.items()]
    about = {
        "__doc__": "\n".join(_document(name, kinds, operator)),
        "__module__": "jaxdml.directml",
        "operator": operator,
        "operator_name": name,
        "result": operator.outputs or result_of(name, words),
    }
    # The types of these attributes are in _structs.pyi.
    return make_dataclass(
        struct_name(name), fields, bases=(OperatorDesc,), namespace=about, frozen=True, kw_only=True, repr=False
    )


def _type(one: Kind) -> Any:
    match one:
        case Role(several=True):
            return tuple[BufferTensorDesc, ...]
        case Role(optional=optional):
            return BufferTensorDesc | None if optional else BufferTensorDesc
        case Counts():
            return int
        case Scalar():
            return np.generic
    return _TYPES.get(one, one)


def _default(one: Kind, operator: Operator) -> dict[str, Any]:
    match one:
        case Counts():
            return {"init": False}
        case Role():
            # As a fused activation it has no tensors.
            return {"default": None} if one.optional or operator.fused_from is not None else {}
    return {"default": OPTIONAL[one]} if one in OPTIONAL else {}


def _document(name: str, kinds: Mapping[str, Kind], operator: Operator) -> Iterator[str]:
    """Yield the lines of the docstring."""
    yield from textwrap.wrap(operator.doc, 120)
    yield from ("", "Args:")
    row = operator.levels[max(operator.levels)]
    for of, one in kinds.items():
        if not isinstance(one, Counts):
            text = " ".join(_said(of, one, operator, row))
            yield from textwrap.wrap(f"{of}: {text}", 116, initial_indent="  ", subsequent_indent="    ")
    yield from (
        "",
        "Raises:",
        "  TypeError: a field is given a value of the wrong type.",
        "  InvalidDescError: a number does not fit its field.",
        "",
        "Source:",
    )
    yield f"  {', '.join(f'DML_{one}_OPERATOR_DESC' for one in (name, *operator.aliases))}."


def _said(of: str, one: Kind, operator: Operator, row: Mapping[str, TensorSupport]) -> Iterator[str]:
    """Yield the sentences about a field."""
    text = operator.fields.get(of) or _TEXTS.get(c_field(of))
    if text:
        yield text
    match one:
        case Role():
            counts, types = row[of]
            dimensions = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
            yield f"{dimensions} dimensions of {_listed(kind.name for kind in types)}{', or None' * one.optional}."
        case Scalar():
            yield f"A number of ``{one.data_type}``."
        case str() if not text:
            yield _WORDS[one]
        case type():
            yield f"{_article(one.__name__)} ``{one.__name__}``, or its number."


def _article(name: str) -> str:
    return "An" if name[0] in "AEIO" else "A"


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
