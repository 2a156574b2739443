"""The types of all structs, for type checkers, are those of the table of fields.

``python -m tests.test_directml_stub`` writes jaxdml/directml/_structs.pyi.
"""

import inspect
from dataclasses import fields
from pathlib import Path

from jaxdml import directml as dml
from jaxdml.directml import _structs
from jaxdml.directml._fields import Counts, Role, Scalar, kind_of

FILE = Path(_structs.__file__).with_suffix(".pyi")

HEAD = '''"""The types of the structs, written by tests/test_directml_stub.py."""

from collections.abc import Sequence
from typing import Any

from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._enums import *
from jaxdml.directml._fields import ScaleBias, Size2D
from jaxdml.directml._tables import OperatorType
from jaxdml.directml._tensors import BufferTensorDesc

__all__: list[str]

def struct_of(operator_type: OperatorType) -> type[OperatorDesc]: ...
'''

TYPES = {
    "uint": ("int", "int"),
    "int": ("int", "int"),
    "float": ("float", "float"),
    "float?": ("float", "float"),
    "bool": ("bool", "bool"),
    "uint[]": ("Sequence[int]", "tuple[int, ...]"),
    "int[]": ("Sequence[int]", "tuple[int, ...]"),
    "float[]": ("Sequence[float]", "tuple[float, ...]"),
    "scale_bias?": ("ScaleBias | tuple[float, float] | None", "ScaleBias | None"),
    "size_2d": ("Size2D | tuple[int, int]", "Size2D"),
    "activation?": ("OperatorDesc | None", "OperatorDesc | None"),
    "activation[]": ("Sequence[OperatorDesc]", "tuple[OperatorDesc, ...]"),
}
"""For each kind of field that has no class: what it is given, and what it is."""


def types(kind):
    """Return the type that a field is given, and the type that it has."""
    match kind:
        case Role(several=True):
            return "Sequence[BufferTensorDesc]", "tuple[BufferTensorDesc, ...]"
        case Role():
            return ("BufferTensorDesc | None",) * 2 if kind.optional else ("BufferTensorDesc",) * 2
        case Counts():
            return "int", "int"
        case Scalar():
            return "float", "Any"
    return TYPES.get(kind) or (f"{kind.__name__} | int", kind.__name__)


def written():
    """Yield the text of the stub, in parts."""
    yield HEAD
    for struct in map(_structs.struct_of, dml.OperatorType):
        given = inspect.signature(struct).parameters
        arguments, attributes = [], []
        for one in fields(struct):
            taken, held = types(kind_of(one))
            attributes.append(f"    {one.name}: {held}\n")
            if one.name in given:
                # Only the description of a fused activation lacks tensors that are not optional.
                left_out = given[one.name].default is not inspect.Parameter.empty
                taken += " | None" if left_out and "None" not in taken and one.default is None else ""
                arguments.append(f"{one.name}: {taken}{' = ...' if left_out else ''}")
        yield f"\nclass {struct.__name__}(OperatorDesc):\n{''.join(attributes)}"
        yield f"    def __init__(self, *, {', '.join(arguments)}) -> None: ...\n"
    for name in _structs.__all__:
        struct = getattr(_structs, name)
        if struct.__name__ != name:
            yield f"\n{name} = {struct.__name__}\n"


def test_the_stub_has_the_types_of_the_table():
    assert FILE.read_text(encoding="utf-8") == "".join(written()), "run python -m tests.test_directml_stub"


if __name__ == "__main__":
    FILE.write_text("".join(written()), encoding="utf-8")
