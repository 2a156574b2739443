"""Compare the fields of every struct with the schema of another project, which tests/directml_schema.json keeps."""

import dataclasses
import json
from pathlib import Path

import pytest

from jaxdml.directml._c import c_field
from jaxdml.directml._fields import Role, kind_of
from jaxdml.directml.structs import STRUCTS

FILE = "tests/directml_schema.json"
KEPT = json.loads((Path(__file__).parents[1] / FILE).read_text(encoding="utf-8"))
SCHEMA = KEPT["structs"]


def kind_and_type(kind):
    """Return what the schema says of a kind of field. Of our structs it lists a BOOL and an enumeration as a UINT."""
    if isinstance(kind, Role):
        role = "output_tensor" if kind.output else "input_tensor"
        return role, "tensor_desc_array" if kind.several else "tensor_desc"
    return "attribute", "uint_array" if kind == tuple[int, ...] else "uint"


def listed(struct):
    """List the fields of a struct as the schema does: kind, type, name, and whether it is optional."""
    kinds = {c_field(one.name): kind_of(one) for one in dataclasses.fields(struct)}
    return [[*kind_and_type(kind), name, isinstance(kind, Role) and kind.optional] for name, kind in kinds.items()]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_struct_has_the_fields_of_the_schema_in_its_order(struct):
    file = f"{struct.__module__.replace('.', '/')}.py"
    assert listed(struct) == SCHEMA.get(struct.operator.name), f"{struct.__name__} in {file} differs from {FILE}"


def test_every_struct_has_an_entry_and_no_entry_is_left_over():
    names = {struct.operator.name for struct in STRUCTS}
    lacking, left_over = sorted(names - SCHEMA.keys()), sorted(SCHEMA.keys() - names)
    assert not lacking, f"{FILE} lacks {', '.join(lacking)}: copy the fields from the file that its origin names"
    assert not left_over, f"{FILE} has {', '.join(left_over)}, which no struct describes: remove it"


def test_the_schema_says_where_it_comes_from():
    assert KEPT["origin"].keys() >= {"project", "file", "license"}
