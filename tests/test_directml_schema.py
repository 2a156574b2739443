"""Compare every struct with tests/directml_schema.json: fields of another project's schema, numbers of DirectML.h."""

import dataclasses
import json
from pathlib import Path

import pytest

from jaxdml.directml._c import c_field
from jaxdml.directml._fields import Role, kind_of
from jaxdml.directml.structs import STRUCTS

FILE = "tests/directml_schema.json"
KEPT = json.loads((Path(__file__).parents[1] / FILE).read_text(encoding="utf-8"))
SCHEMA, NUMBERS = KEPT["structs"], KEPT["numbers"]

PAGES = {"SCATTER": "1_0", "SCATTER_ELEMENTS": "1_0", "TOP_K": "2_0"}
"""Where DirectML's pages name another lowest level than its header. The structs say what the pages say."""


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


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_struct_has_the_number_of_the_header_and_its_lowest_level(struct):
    facts = struct.operator
    for name in (facts.name, *facts.aliases):
        number, level = NUMBERS[name]
        assert facts.number == number
        assert min(facts.levels).name == f"LEVEL_{PAGES.get(name, level)}"


def test_every_struct_has_an_entry_and_no_entry_is_left_over():
    names = {struct.operator.name for struct in STRUCTS}
    lacking, left_over = sorted(names - SCHEMA.keys()), sorted(SCHEMA.keys() - names)
    assert not lacking, f"{FILE} lacks {', '.join(lacking)}: copy the fields from the file that its origin names"
    assert not left_over, f"{FILE} has {', '.join(left_over)}, which no struct describes: remove it"
    assert names | {alias for struct in STRUCTS for alias in struct.operator.aliases} == NUMBERS.keys()


def test_the_schema_says_where_it_comes_from():
    assert KEPT["origin"].keys() >= {"project", "file", "license"}
    assert KEPT["origin_of_numbers"].keys() >= {"file", "compared_with"}
