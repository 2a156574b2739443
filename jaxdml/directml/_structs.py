"""The classes of all descriptions of operators. Their types stand in _structs.pyi."""

from collections.abc import Mapping

from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._making import SCHEMA, make_struct, struct_name
from jaxdml.directml._tables import OperatorType
from jaxdml.directml.operators import OPERATORS

DESCS: Mapping[OperatorType, type[OperatorDesc]] = {
    OperatorType(operator.number): make_struct(name, SCHEMA[name], operator) for name, operator in OPERATORS.items()
}
"""The class of each operator's descriptions."""

for _type, _struct in DESCS.items():
    _struct.operator_type = _type
    for _name in (_struct.operator_name, *_struct.operator.aliases):
        globals()[struct_name(_name)] = _struct

__all__ = [name for name in sorted(globals()) if name.endswith("OperatorDesc") and name != "OperatorDesc"]
