"""Names and values as C has them."""

import enum
import functools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

_PREFIXES = {"TensorFlags": "DML_TENSOR_FLAG_", "OperatorType": "DML_OPERATOR_"}
"""The enumerations whose prefix is not their own name, and that prefix."""


@functools.cache
def c_prefix(enumeration: type[enum.IntEnum | enum.IntFlag]) -> str:
    """Return what the members of an enumeration begin with: ``DML_AXIS_DIRECTION_`` for ``AxisDirection``."""
    name = enumeration.__name__
    words = re.sub("(?<!^)(?=[A-Z])", "_", name)
    return _PREFIXES.get(name, f"DML_{words.upper()}_")


def c_name(member: enum.IntEnum | enum.IntFlag) -> str:
    """Return the name of an enumeration's member: ``DML_TENSOR_FLAG_NONE``."""
    return f"{c_prefix(type(member))}{member.name}"


@functools.cache
def c_field(name: str) -> str:
    """Return the name of a field: ``InputTensor`` for ``input_tensor``."""
    return "".join("ROI" if part == "roi" else part.capitalize() for part in name.split("_"))


def scalar_member(dtype: np.dtype[Any]) -> tuple[str, np.dtype[Any]]:
    """Return the member of ``DML_SCALAR_UNION`` that holds a number of a dtype, and the dtype of that member."""
    held = np.dtype("uint16") if dtype == np.float16 else dtype
    return held.name.capitalize().replace("Uint", "UInt"), held


def shortest(number: float) -> float:
    """Return the shortest decimal that is rounded to the same ``FLOAT``."""
    return float(str(np.float32(number)))


def c_value(value: object) -> object:
    """Return the value of a field as an initializer has it."""
    match value:
        case None:
            return "nullptr"
        case bool():
            return str(value).upper()
        case enum.IntEnum():
            return c_name(value)
        case tuple():
            return c_list(map(c_value, value))
        case np.generic():
            member, held = scalar_member(value.dtype)
            return f"{{.{member} = {value.view(held)}}}"
    return shortest(value) if isinstance(value, float) else value


def c_list(parts: Iterable[object]) -> str:
    """Return a list as an initializer has it."""
    return "{" + ", ".join(map(str, parts)) + "}"
