"""The classes of all descriptions of operators, each made when it is first asked for: to make all takes long.

Their types stand in _structs.pyi.
"""

import functools
from collections.abc import Mapping

from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._making import SCHEMA, make_struct, result_of, struct_name
from jaxdml.directml._tables import OperatorType
from jaxdml.directml.operators import OPERATORS

_TYPES: Mapping[str, OperatorType] = {
    struct_name(alias): OperatorType(operator.number)
    for name, operator in OPERATORS.items()
    for alias in (name, *operator.aliases)
}

__all__ = sorted(_TYPES)  # noqa: PLE0605  # It is a list.


for _name, _operator in OPERATORS.items():
    if not _operator.outputs:
        result_of(
            _name, SCHEMA[_name]
        )  # An exported program that returns it may be read before the class is asked for.


@functools.cache
def struct_of(operator_type: OperatorType) -> type[OperatorDesc]:
    """Return the class of an operator's descriptions."""
    name = operator_type.name
    struct = make_struct(name, SCHEMA[name], OPERATORS[name])
    struct.operator_type = operator_type
    return struct


def __getattr__(name: str) -> type[OperatorDesc]:
    if name not in _TYPES:
        raise AttributeError(f"module 'jaxdml.directml' has no attribute {name!r}")
    return struct_of(_TYPES[name])
