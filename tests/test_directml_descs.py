"""Descriptions as values: DirectML's numbers, C initializers, tables, JSON, and what no field holds."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, INT8, UINT8, broken, tensor
from tests.structs import STRUCTS, VALID, changed

NAMES = {name: number for struct in STRUCTS.values() for name, number in struct.names.items()}


def test_the_numbers_are_directmls():
    types = "UNKNOWN FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8 FLOAT64 UINT64 INT64 UINT4 INT4"
    assert " ".join(kind.name for kind in dml.TensorDataType) == types
    assert [kind.value for kind in dml.TensorDataType] == list(range(14))
    assert [(one.name, one.value) for one in dml.AxisDirection] == [("INCREASING", 0), ("DECREASING", 1)]
    assert {flag.name: flag.value for flag in (dml.TensorFlags.NONE, *dml.TensorFlags)} == {
        "NONE": 0,
        "OWNED_BY_DML": 1,
    }
    assert {name: dml.OperatorType[name].value for name in NAMES} == NAMES
    levels = "1_0 2_0 2_1 3_0 3_1 4_0 4_1 5_0 5_1 5_2 6_0 6_1 6_2 6_3 6_4"
    assert " ".join(level.label for level in dml.FeatureLevel) == levels
    for level in dml.FeatureLevel:
        major, minor = level.label.split("_")
        assert level.value == int(major) << 12 | int(minor) << 8


@pytest.mark.parametrize("kind", list(dml.TensorDataType)[1:12])
def test_a_data_type_has_its_dtype(kind):
    assert kind.dtype.name == kind.name.lower()
    assert kind.bits == 8 * kind.dtype.itemsize


@pytest.mark.parametrize(
    ("sizes", "strides", "data_type", "size"),
    [
        ((1, 1, 3, 4), None, "FLOAT32", 48),
        ((3,), None, "INT8", 4),
        ((5,), None, "FLOAT16", 12),
        ((2, 3), (8, 1), "FLOAT32", 44),
        ((2, 3), (0, 1), "FLOAT64", 24),
        ((1000, 1000), (0, 0), "UINT16", 4),
        ((7,), None, "UINT4", 4),
        ((9,), None, "INT4", 8),
        ((3, 0), None, "FLOAT32", 0),
        ((3, 0), (4, 1), "FLOAT32", 0),
        ((), None, "UINT8", 4),
    ],
)
def test_a_tensor_has_directmls_size(sizes, strides, data_type, size):
    described = dml.BufferTensorDesc(dml.TensorDataType[data_type], sizes, strides)
    assert described.size_in_bytes == described.least_size_in_bytes == size


def test_a_given_size_stays():
    assert tensor(FLOAT32, 2, total_tensor_size_in_bytes=100).size_in_bytes == 100
    assert tensor(FLOAT32, 2, total_tensor_size_in_bytes=0).size_in_bytes == 0
    assert dataclasses.replace(tensor(FLOAT32, 2), sizes=(3,)).size_in_bytes == 12


def test_descriptions_are_values():
    for desc in VALID.values():
        same = dataclasses.replace(desc)
        assert same == desc
        assert hash(same) == hash(desc)
    given = dml.BufferTensorDesc(1, np.array([1, 2]), [np.int64(2), 1], 1)
    assert given == tensor(FLOAT32, 1, 2, strides=(2, 1), flags=dml.TensorFlags.OWNED_BY_DML)
    with pytest.raises(dataclasses.FrozenInstanceError):
        given.sizes = (3,)
    assert dml.ScatterElementsOperatorDesc is dml.ScatterOperatorDesc


@pytest.mark.parametrize("operator", VALID)
def test_fields_are_the_structs_in_order(operator):
    assert " ".join(field.name for field in dataclasses.fields(VALID[operator])) == STRUCTS[operator].fields


def test_repr_is_a_c_initializer():
    owned = tensor(UINT8, 2, 3, strides=(4, 1), flags=dml.TensorFlags.OWNED_BY_DML, guaranteed_base_offset_alignment=32)
    assert repr(owned) == (
        "DML_BUFFER_TENSOR_DESC{.DataType = DML_TENSOR_DATA_TYPE_UINT8, .Flags = DML_TENSOR_FLAG_OWNED_BY_DML, "
        ".DimensionCount = 2, .Sizes = {2, 3}, .Strides = {4, 1}, .TotalTensorSizeInBytes = 8, "
        ".GuaranteedBaseOffsetAlignment = 32}"
    )
    scale = tensor(FLOAT32, 1)
    desc = dml.QuantizedLinearMatrixMultiplyOperatorDesc(
        a_tensor=owned, a_scale_tensor=scale, b_tensor=owned, b_scale_tensor=scale, output_scale_tensor=scale,
        output_tensor=owned,
    )  # fmt: skip
    lines = repr(desc).splitlines()
    assert lines[:4] == [
        "DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC{",
        f"  .ATensor = {owned!r},",
        f"  .AScaleTensor = {scale!r},",
        "  .AZeroPointTensor = nullptr,",
    ]
    assert lines[-1] == "}"
    assert "  .AxisDirection = DML_AXIS_DIRECTION_DECREASING," in repr(VALID["TOP_K1"]).splitlines()
    assert "  .K = 2," in repr(VALID["TOP_K"]).splitlines()
    assert ".Flags = DML_TENSOR_FLAG_NONE, " in repr(scale)


def test_describe_prints_the_tensors_as_a_table(capsys):
    desc = changed(
        "QUANTIZED_LINEAR_MATRIX_MULTIPLY", b_zero_point_tensor=None, a_tensor=tensor(UINT8, 3, 4, strides=(4, 1))
    )
    assert dml.describe(desc) is None
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY"]
    assert ["tensor", "role", "data", "type", "sizes", "strides", "bytes", "flags"] in lines
    assert ["ATensor", "input", "UINT8", "[3,", "4]", "[4,", "1]", "12", "NONE"] in lines
    assert ["BZeroPointTensor", "optional", "input", "-", "-", "-", "-", "-"] in lines
    assert ["OutputTensor", "output", "UINT8", "[1,", "2,", "3,", "5]", "packed", "32", "NONE"] in lines
    dml.describe(VALID["TOP_K1"])
    printed = capsys.readouterr().out
    assert "OutputIndexTensor" in printed
    assert printed.endswith("Axis = 3\nK = 2\nAxisDirection = DML_AXIS_DIRECTION_DECREASING\n")
    with pytest.raises(TypeError, match=r"^jaxdml\.directml\.describe: desc must be the description of an operator"):
        dml.describe(tensor(UINT8, 1))


@pytest.mark.parametrize("operator", VALID)
def test_every_operator_goes_to_json_and_back(operator):
    desc = VALID[operator]
    written = dml.to_json(desc)
    assert written["Type"] == f"DML_OPERATOR_{operator}"
    assert dml.from_json(json.loads(json.dumps(written))) == desc


numbers = st.integers(0, 2**32 - 1)
tensors = st.lists(numbers, max_size=9).flatmap(
    lambda sizes: st.builds(
        dml.BufferTensorDesc,
        st.sampled_from(dml.TensorDataType),
        st.just(sizes),
        st.none() | st.lists(st.integers(0, 9), min_size=max(len(sizes), 1), max_size=max(len(sizes), 1)),
        st.sampled_from([dml.TensorFlags.NONE, dml.TensorFlags.OWNED_BY_DML]),
        st.none() | st.integers(1, 2**64 - 1),
        numbers,
    )
)


def kinds_of_tensors(role):
    """Return what draws the field of a role: a tensor, several, or none where they are optional."""
    drawn = st.lists(tensors, max_size=2) if role.several else tensors
    return st.none() | drawn if role.optional else drawn


@given(st.sampled_from(list(VALID)), st.data())
def test_anything_described_goes_to_json_and_back(operator, draw):
    desc = VALID[operator]
    drawn_by = {name: kinds_of_tensors(role) for name, role in desc.roles().items()}
    counted = {field.name for field in dataclasses.fields(desc) if not field.init}
    drawn_by |= {name: numbers for name, value in desc.scalars.items() if type(value) is int and name not in counted}
    fields = {name: draw.draw(strategy, name) for name, strategy in drawn_by.items()}
    drawn = dataclasses.replace(desc, **fields)
    assert dml.from_json(json.loads(json.dumps(dml.to_json(drawn)))) == drawn


def test_json_is_what_dxdispatch_has_in_its_models():
    desc = changed("TOP_K1", input_tensor=tensor(FLOAT32, 1, 1, 3, 4, strides=(16, 16, 4, 1), flags=1))
    assert dml.to_json(desc) == {
        "Type": "DML_OPERATOR_TOP_K1",
        "Desc": {
            "InputTensor": {
                "DataType": "FLOAT32",
                "Sizes": [1, 1, 3, 4],
                "Strides": [16, 16, 4, 1],
                "Flags": ["DML_TENSOR_FLAG_OWNED_BY_DML"],
            },
            "OutputValueTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 2]},
            "OutputIndexTensor": {"DataType": "UINT32", "Sizes": [1, 1, 3, 2]},
            "Axis": 3,
            "K": 2,
            "AxisDirection": "DML_AXIS_DIRECTION_DECREASING",
        },
    }
    assert "BZeroPointTensor" not in dml.to_json(
        changed("QUANTIZED_LINEAR_MATRIX_MULTIPLY", b_zero_point_tensor=None)
    )["Desc"]  # fmt: skip


LONG = {
    "Type": "DML_TENSOR_TYPE_BUFFER",
    "Desc": {
        "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "Flags": "DML_TENSOR_FLAG_NONE", "DimensionCount": 4,
        "Sizes": [1, 1, 3, 4], "Strides": [], "TotalTensorSizeInBytes": 0, "GuaranteedBaseOffsetAlignment": 0,
    },
}  # fmt: skip
FIELDS = dml.to_json(VALID["TOP_K1"])["Desc"]


@pytest.mark.parametrize(
    "written",
    [
        {"type": "TOP_K1", "desc": FIELDS},
        {"type": "DML_OPERATOR_TOP_K1", "desc": {**FIELDS, "AxisDirection": "DECREASING"}, "executionFlags": []},
        {"type": "TOP_K1", **FIELDS, "dmlCompileType": "DmlCompileGraph", "bindings": {}, "executionFlags": "NONE"},
        {"Type": "TOP_K1", "Desc": {**FIELDS, "InputTensor": LONG}},
        {"Type": "TOP_K1", "Desc": {**FIELDS, "InputTensor": {"Type": "BUFFER", **LONG["Desc"], "Flags": []}}},
        {"Type": "TOP_K1", "Desc": {**FIELDS, "InputTensor": {**LONG["Desc"], "Flags": ["NONE"]}}},
    ],
)
def test_every_spelling_of_dxdispatch_is_read(written):
    read = dml.from_json(written)
    assert (read, read.input_tensor) == (VALID["TOP_K1"], VALID["TOP_K1"].input_tensor)


def test_the_capital_spelling_comes_first():
    assert dml.from_json({"type": "TOP_K", "Type": "TOP_K1", "Desc": FIELDS}) == VALID["TOP_K1"]


def test_scatter_may_be_named_by_its_alias():
    written = dml.to_json(VALID["SCATTER"])
    assert dml.from_json({**written, "Type": "DML_OPERATOR_SCATTER_ELEMENTS"}) == VALID["SCATTER"]


TENSOR_FIELDS = "DataType, Sizes, Strides, Flags, DimensionCount, TotalTensorSizeInBytes, GuaranteedBaseOffsetAlignment"
UNREADABLE = {
    "type": ({"Desc": FIELDS}, [f"Type must be one of {', '.join(dml.OperatorType.__members__)}; got None."]),
    "desc": ({"Type": "TOP_K1", "Desc": []}, ["Desc must be an object; got []."]),
    "null": ({"Type": "TOP_K1", "Desc": {**FIELDS, "InputTensor": None}},
        ["InputTensor must be an object; got None."]),
    "many": (
        {"Type": "TOP_K1", "Desc": {
            "InputTensor": {"DataType": "float32", "Size": [1]}, "OutputValueTensor": FIELDS["OutputValueTensor"],
            "OutputIndexTensor": {"DataType": "UINT32", "Sizes": [1, -2]}, "Axis": "3", "K": True, "Kind": 1,
            "AxisDirection": 0,
        }},
        [
            "Kind is none of InputTensor, OutputValueTensor, OutputIndexTensor, Axis, K, AxisDirection; got 1.",
            f"InputTensor.Size is none of {TENSOR_FIELDS}; got [1].",
            "InputTensor.DataType must be one of UNKNOWN, FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, "
            "FLOAT64, UINT64, INT64, UINT4, INT4; got 'float32'.",
            "InputTensor.Sizes is required; got nothing.",
            "OutputIndexTensor.Sizes[1] must be an integer from 0 to 4294967295; got -2.",
            "Axis must be an integer from 0 to 4294967295; got '3'.",
            "K must be an integer from 0 to 4294967295; got True.",
            "AxisDirection must be one of INCREASING, DECREASING; got 0.",
        ],
    ),
    "missing": ({"Type": "SCATTER", "Desc": {}},
        [f"{name} is required; got nothing."
            for name in ("InputTensor", "IndicesTensor", "UpdatesTensor", "OutputTensor", "Axis")]),
    "count": ({"Type": "TOP_K1", "Desc": {**FIELDS, "InputTensor": {**LONG["Desc"], "DimensionCount": 3}}},
        ["InputTensor.DimensionCount must be 4, the length of Sizes; got 3."]),
    "sizes": ({"Type": "TOP_K1", "Desc": {**FIELDS, "InputTensor": {**LONG["Desc"], "Sizes": 4}}},
        ["InputTensor.Sizes must be a list; got 4."]),
    "too large": (
        {"Type": "TOP_K1", "Desc": {**FIELDS, "Axis": 2**32, "K": 2**40, "OutputIndexTensor": {
            "DataType": "INT8", "Sizes": [1, 2**32], "Strides": [2**33], "TotalTensorSizeInBytes": 2**64,
            "GuaranteedBaseOffsetAlignment": 2**32,
        }}},
        [
            "OutputIndexTensor.Sizes[1] must be an integer from 0 to 4294967295; got 4294967296.",
            "OutputIndexTensor.Strides[0] must be an integer from 0 to 4294967295; got 8589934592.",
            "OutputIndexTensor.TotalTensorSizeInBytes must be an integer from 0 to 18446744073709551615; "
            "got 18446744073709551616.",
            "OutputIndexTensor.GuaranteedBaseOffsetAlignment must be an integer from 0 to 4294967295; got 4294967296.",
            "Axis must be an integer from 0 to 4294967295; got 4294967296.",
            "K must be an integer from 0 to 4294967295; got 1099511627776.",
        ],
    ),
    "beside desc": ({"Type": "TOP_K1", "Desc": FIELDS, "Axes": 3, "Axis": 1, 7: 8},
        ["7 must not stand beside Desc; got 8.", "Axes must not stand beside Desc; got 3.",
            "Axis must not stand beside Desc; got 1."]),
    "beside the desc of a tensor": (
        {"Type": "TOP_K1", "Desc": {**FIELDS, "InputTensor": {**LONG, "Strides": [2]}, "K": -1}},
        ["InputTensor.Strides must not stand beside Desc; got [2].",
            "K must be an integer from 0 to 4294967295; got -1."]),
    "beside the type": ({"type": "TOP_K1", **FIELDS, "Bindings": {}},
        ["Bindings is none of InputTensor, OutputValueTensor, OutputIndexTensor, Axis, K, AxisDirection; got {}."]),
    "no name": ({"Type": "TOP_K1", "Desc": {**FIELDS, 3: 4}},
        ["3 is none of InputTensor, OutputValueTensor, OutputIndexTensor, Axis, K, AxisDirection; got 4."]),
    "tensor type": ({"Type": "TOP_K1", "Desc": {**FIELDS, "InputTensor": {**LONG, "Type": "INVALID"}}},
        ["InputTensor.Type must be DML_TENSOR_TYPE_BUFFER; got 'INVALID'."]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_json_that_is_no_description_is_refused_with_every_reason(name):
    written, reasons = UNREADABLE[name]
    with pytest.raises(dml.InvalidDescError) as caught:
        dml.from_json(written)
    assert str(caught.value).split("\n  ")[1:] == reasons


def test_what_is_no_object_is_refused():
    with pytest.raises(TypeError, match=r"^jaxdml\.directml\.from_json: value must be a dict; got 'TOP_K1'"):
        dml.from_json("TOP_K1")
    with pytest.raises(TypeError, match=r"^jaxdml\.directml\.to_json: desc must be the description of an operator"):
        dml.to_json(tensor(UINT8, 1))


WRONG = {
    "data type": (lambda: dml.BufferTensorDesc(99, (1,)), dml.InvalidDescError,
        "DataType must be one of UNKNOWN (0), FLOAT32 (1), FLOAT16 (2), UINT32 (3), UINT16 (4), UINT8 (5), INT32 (6), "
        "INT16 (7), INT8 (8), FLOAT64 (9), UINT64 (10), INT64 (11), UINT4 (12), INT4 (13); got 99."),
    "data type by name": (lambda: dml.BufferTensorDesc("FLOAT32", (1,)), TypeError,
        "jaxdml.directml.BufferTensorDesc: DataType must be a TensorDataType, or its number; got 'FLOAT32'."),
    "size": (lambda: tensor(FLOAT32, -1), dml.InvalidDescError,
        "Sizes[0] must be between 0 and 4294967295, as an unsigned integer; got -1."),
    "sizes": (lambda: dml.BufferTensorDesc(FLOAT32, 4), TypeError,
        "jaxdml.directml.BufferTensorDesc: Sizes must be a sequence of integers; got 4."),
    "text": (lambda: dml.BufferTensorDesc(FLOAT32, "12"), TypeError,
        "jaxdml.directml.BufferTensorDesc: Sizes must be a sequence of integers; got '12'."),
    "float": (lambda: tensor(FLOAT32, 1.0), TypeError,
        "jaxdml.directml.BufferTensorDesc: Sizes[0] must be an integer; got 1.0."),
    "strides": (lambda: tensor(FLOAT32, 1, strides=(2**32,)), dml.InvalidDescError,
        "Strides[0] must be between 0 and 4294967295, as an unsigned integer; got 4294967296."),
    "total": (lambda: tensor(FLOAT32, 1, total_tensor_size_in_bytes=2**64), dml.InvalidDescError,
        "TotalTensorSizeInBytes must be between 0 and 18446744073709551615, as an unsigned integer; "
        "got 18446744073709551616."),
    "flags": (lambda: tensor(FLOAT32, 1, flags=2), dml.InvalidDescError,
        "Flags must be one of NONE (0), OWNED_BY_DML (1); got 2."),
    "axis direction": (lambda: changed("TOP_K1", axis_direction=2), dml.InvalidDescError,
        "AxisDirection must be one of INCREASING (0), DECREASING (1); got 2."),
    "k": (lambda: changed("TOP_K1", k=True), TypeError,
        "jaxdml.directml.TopK1OperatorDesc: K must be an integer; got True."),
    "axis": (lambda: changed("TOP_K1", axis=-1), dml.InvalidDescError,
        "Axis must be between 0 and 4294967295, as an unsigned integer; got -1."),
    "tensor": (lambda: changed("TOP_K1", input_tensor=None), TypeError,
        "jaxdml.directml.TopK1OperatorDesc: InputTensor must be a BufferTensorDesc; got None."),
    "many": (lambda: changed("TOP_K1", axis=-1, k=2**32, axis_direction=5), dml.InvalidDescError,
        "AxisDirection must be one of INCREASING (0), DECREASING (1); got 5."),
    "no operator": (dml.OperatorDesc, TypeError,
        "jaxdml.directml.OperatorDesc: it describes no operator; use a class that is derived from it."),
    "optional tensor": (lambda: changed("QUANTIZED_LINEAR_MATRIX_MULTIPLY", a_zero_point_tensor=3), TypeError,
        "jaxdml.directml.QuantizedLinearMatrixMultiplyOperatorDesc: AZeroPointTensor must be a BufferTensorDesc; "
        "got 3."),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_no_field_holds_is_refused(name):
    make, error, said = WRONG[name]
    with pytest.raises(error) as caught:
        make()
    if name == "many":
        assert [one.field for one in caught.value.violations] == ["Axis", "K", "AxisDirection"]
    assert str(caught.value).split("\n  ")[-1] == said


def test_sizes_that_are_too_large_together_are_for_compile_operator_to_judge():
    described = tensor(INT8, *[2**32 - 1] * 4)
    assert described.size_in_bytes == 2**64 - 1
    assert repr(described)
    said = "UpdatesTensor.Sizes must give at most 4294967295 elements; got 2**64 or more."
    assert said in broken(changed("SCATTER", updates_tensor=described))
