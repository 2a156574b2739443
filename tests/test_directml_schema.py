"""Compare every struct with tests/directml_schema.json: fields of another project's schema, numbers of DirectML.h."""

import json
from pathlib import Path

import pytest

from jaxdml.directml._c import c_field
from jaxdml.directml._fields import python_field
from jaxdml.directml._making import SCHEMA
from jaxdml.directml._structs import struct_of
from jaxdml.directml._tables import OperatorType

FILE = "tests/directml_schema.json"
KEPT = json.loads((Path(__file__).parents[1] / FILE).read_text(encoding="utf-8"))
COPY, NUMBERS = KEPT["structs"], KEPT["numbers"]

PAGES = {"SCATTER": "1_0", "SCATTER_ELEMENTS": "1_0", "TOP_K": "2_0"}
"""Where DirectML's pages name another lowest level than its header. The structs say what the pages say."""

TYPES = {
    "input": "tensor_desc",
    "indices": "tensor_desc",
    "output": "tensor_desc",
    "inputs": "tensor_desc_array",
    "outputs": "tensor_desc_array",
    "int": "int",
    "float": "float",
    "uint[]": "uint_array",
    "int[]": "int_array",
    "float[]": "float_array",
    "scale_bias": "scale_bias",
    "size_2d": "size_2d",
    "scalar": "scalar_union",
    "activation": "operator_desc",
    "activation[]": "operator_desc_array",
}
"""What the schema calls our kinds of fields. It lists a count, an enumeration and, but for one, a BOOL as a UINT."""


def listed(fields):
    """List fields as the schema does: kind, type, name, and whether it is optional."""
    for name, words in fields.items():
        word = words.split()[0].removesuffix("?")
        role = {"inp": "input_tensor", "ind": "input_tensor", "out": "output_tensor"}.get(word[:3], "attribute")
        yield [role, TYPES.get(word, "uint"), name, words.endswith("?")]


def test_the_table_has_every_struct_of_the_schema():
    assert SCHEMA.keys() == COPY.keys()
    assert len(SCHEMA) == 178


@pytest.mark.parametrize("name", SCHEMA)
def test_a_struct_has_the_fields_of_the_schema_in_its_order(name):
    wanted = [[role, "uint" if kind == "bool" else kind, field, optional] for role, kind, field, optional in COPY[name]]
    assert list(listed(SCHEMA[name])) == wanted, f"{name} in jaxdml/directml/schema.json differs from {FILE}"
    assert [c_field(python_field(field)) for field in SCHEMA[name]] == list(SCHEMA[name])


STRUCTS = tuple(map(struct_of, OperatorType))


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_struct_has_the_number_of_the_header_and_its_lowest_level(struct):
    for name in (struct.operator_name, *struct.operator.aliases):
        number, level = NUMBERS[name]
        assert struct.operator.number == number
        assert min(struct.operator.levels).name == f"LEVEL_{PAGES.get(name, level)}"


def test_every_struct_that_the_header_numbers_is_in_the_table():
    aliases = {alias for struct in STRUCTS for alias in struct.operator.aliases}
    assert NUMBERS.keys() - aliases == SCHEMA.keys() - {"RNN_ZERO"}, "RNN_ZERO has no number in the header"
    assert sorted({number for number, _ in NUMBERS.values()}) == list(range(1, 178))


def test_the_schema_says_where_it_comes_from():
    assert KEPT["origin"].keys() >= {"project", "file", "license"}
    assert KEPT["origin_of_numbers"].keys() >= {"file", "compared_with"}
