"""The table of operators: every struct has all its parts, and a made-up struct proves each kind of field."""

import dataclasses
import json
import pathlib
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import directml as dml
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike
from jaxdml.directml._enums import OF_FIELDS
from jaxdml.directml._fields import OPTIONAL, python_field
from jaxdml.directml._making import make_struct
from jaxdml.directml._operator import Operator, activated
from jaxdml.directml._reading import struct_from_json
from jaxdml.directml._structs import struct_of
from jaxdml.directml._support import growing
from tests.directml_descs import FLOAT32, CopyOperatorDesc, broken, tensor
from tests.kit import assert_same_bits
from tests.structs import VALID

LEVEL = dml.FeatureLevel
INT64 = dml.TensorDataType.INT64
ROOT = pathlib.Path(jaxdml.__file__).parent
PAGES = ROOT.parent / "docs" / "operators"
STRUCTS = tuple(map(struct_of, dml.OperatorType))


def lacking(struct):
    """Name every part that the facts of a struct lack, or have too much."""
    operator, roles = struct.operator, struct.roles()
    outputs = [one for one, role in roles.items() if role.output]
    missing = [
        f"levels[{level.name}]: {one}"
        for level, row in operator.levels.items()
        for one in sorted(roles.keys() ^ row.keys())
    ]
    if not (operator.doc[:1].isupper() and operator.doc.endswith(".")):
        missing.append("doc: a sentence")
    missing += [f"doc: the option {option}" for option in operator.options if f"``{option}``" not in operator.doc]
    if len(outputs) > 1 and operator.outputs and len(operator.outputs._fields) != len(outputs):
        missing.append(f"outputs: {len(outputs)} fields")
    return missing + [
        f"optional_from: {one} is not optional"
        for one in operator.optional_from
        if not (one in roles and roles[one].optional)
    ]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_struct_has_all_its_parts(struct):
    assert lacking(struct) == []
    described = re.findall(r"^  (\w+):", struct.__doc__.partition("Args:")[2].partition("Raises:")[0], re.M)
    assert described == [one.name for one in dataclasses.fields(struct) if one.init]
    assert max(map(len, struct.__doc__.splitlines())) <= 120
    assert struct_of(struct.operator_type) is struct
    assert getattr(dml, struct.__name__) is struct
    assert struct.__name__ in dml.__all__


@pytest.mark.parametrize("name", VALID)
def test_a_struct_of_a_function_has_a_page(name):
    struct = type(VALID[name])
    pages = [page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")]
    (page,) = [page for page in pages if f".. autoclass:: jaxdml.directml.{struct.__name__}\n" in page]
    rows = page.partition(f"`DML_{name}_OPERATOR_DESC`")[2]
    assert [one.name for one in dataclasses.fields(struct) if f"`{c_field(one.name)}`" not in rows] == []


def test_a_name_that_no_struct_has_is_no_attribute():
    with pytest.raises(AttributeError, match=r"^module 'jaxdml.directml' has no attribute 'NoSuchOperatorDesc'$"):
        dml.NoSuchOperatorDesc  # noqa: B018  # Asked for, it is made.
    assert {struct.__name__ for struct in STRUCTS} <= set(dir(dml))


def test_every_operator_has_one_name_and_one_number():
    aliases = {"OperatorDesc", "ScatterElementsOperatorDesc"}
    assert {one for one in dml.__all__ if one.endswith("OperatorDesc")} - aliases == {
        struct.__name__ for struct in STRUCTS
    }
    names = [name for struct in STRUCTS for name in (struct.operator_name, *struct.operator.aliases)]
    assert len(set(names)) == len(names)
    assert len({struct.operator.number for struct in STRUCTS}) == len(STRUCTS)
    fields = {one.name for struct in STRUCTS for one in dataclasses.fields(struct)}
    assert {one for struct in STRUCTS for one in struct.operator.fields} <= fields


def test_the_generic_files_name_no_operator():
    fields = {one.name for struct in STRUCTS for one in dataclasses.fields(struct) if "_" in one.name}
    graphs = {one.name for one in dataclasses.fields(dml.Graph)}
    fields -= set(dir(dml.BufferTensorDesc)) | graphs | OPTIONAL_KINDS | set(map(python_field, OF_FIELDS))
    names = {word for struct in STRUCTS for word in (struct.operator_name, struct.__name__)}
    options = {option for struct in STRUCTS for option in struct.operator.options}
    assert all(map(str.isidentifier, names | fields | options))
    files = set((ROOT / "directml").glob("*.py"))
    for file in files - {ROOT / "directml" / name for name in ("__init__.py", "_enums.py")}:
        code = re.sub(r'""".*?"""', "", file.read_text(), flags=re.DOTALL)
        # Buffers are written by a public operator, which takes an option.
        words = names | fields | set(map(c_field, fields)) | (options if file.name != "_buffers.py" else set())
        assert words & set(re.findall(r"\w+", code)) == set(), file.name


OPTIONAL_KINDS = {word.rstrip("?") for word in OPTIONAL}
"""What names a kind of field also names fields."""


def test_each_missing_part_is_named():
    half = Operator(
        9002, growing("1_0 1-8", ("input_tensor", "1_0 F")), None, None, doc="do half",
        options={"pace": ("slow", "fast")},
        optional_from={"input_tensor": LEVEL.LEVEL_2_0}, outputs=jaxdml.TopK,
    )  # fmt: skip
    words = {"InputTensor": "input", "FirstTensor": "output", "SecondTensor": "output", "ThirdTensor": "output"}
    whole = growing("1_0 1-8", (" ".join(map(python_field, words)), "1_0 F"))
    struct = make_struct("HALF", words, dataclasses.replace(half, levels=whole))
    struct.operator = half
    assert lacking(struct) == [
        *(f"levels[LEVEL_1_0]: {one}_tensor" for one in ("first", "second", "third")),
        "doc: a sentence",
        "doc: the option pace",
        "outputs: 3 fields",
        "optional_from: input_tensor is not optional",
    ]


def told(desc, x, bias, index, parts, *, ends, order):
    told = x if bias is None else x + bias
    told = sum(parts, told) if ends == "closed" else told
    return told[..., :: 1 if order == "up" else -1], (x + index.astype(x.dtype)).sum(-1, keepdims=True)


FLOATING = "input_tensor bias_tensor part_tensors output_tensor sum_tensor"

MadeUpOperatorDesc = make_struct(
    "MADE_UP",
    {
        "InputTensor": "input",
        "BiasTensor": "input?",
        "IndexTensor": "indices",
        "PartTensorCount": "count PartTensors",
        "PartTensors": "inputs",
        "OutputTensor": "output",
        "SumTensor": "output?",
        "DimensionCount": "count Strides WindowSize StartPadding",
        "Strides": "uint[]",
        "WindowSize": "uint[]",
        "StartPadding": "uint[]",
        "Axis": "uint",
        "EdgeKind": "PaddingMode",
        "HasExclusiveSum": "bool",
        "Offset": "int",
        "Steps": "int[]",
        "Alpha": "float",
        "Epsilon": "float?",
        "Scales": "float[]",
        "ValueDataType": "TensorDataType",
        "Value": "scalar ValueDataType",
        "PooledSize": "size_2d",
        "ScaleBias": "scale_bias?",
        "FusedActivation": "activation?",
        "ActivationDescCount": "count ActivationDescs",
        "ActivationDescs": "activation[]",
    },
    Operator(
        9000,
        growing("2_0 1-2", (FLOATING, "2_0 FLOAT32, 3_1 F"), ("index_tensor", "2_0 L+INT32+UINT32")),
        told,
        lambda desc: alike(desc, "data_type", "input_tensor", "output_tensor"),
        doc="Tell, by the options ``ends`` and ``order``.",
        options={"ends": ("closed", "open"), "order": ("up", "down")},
        optional_from={"bias_tensor": LEVEL.LEVEL_4_0},
    ),
)
MadeUpOperatorDesc.__module__ = __name__
"""A made-up struct that has every kind of field."""

SquashOperatorDesc = make_struct(
    "SQUASH",
    {"InputTensor": "input", "OutputTensor": "output", "Alpha": "float"},
    Operator(
        9003,
        growing("1_0 1-8", ("input_tensor output_tensor", "1_0 F")),
        lambda desc, x: x * x.dtype.type(desc.alpha),
        lambda desc: alike(desc, "data_type", "input_tensor", "output_tensor"),
        doc="Multiply by alpha.",
        fused_from=LEVEL.LEVEL_4_0,
    ),
)
SquashOperatorDesc.__module__ = __name__
"""A made-up activation."""

SQUASH = SquashOperatorDesc(alpha=0.1)
ROW = tensor(FLOAT32, 4)


def made_up(**fields):
    return MadeUpOperatorDesc(**{
        "input_tensor": ROW, "index_tensor": tensor(INT64, 4), "part_tensors": [ROW, tensor(FLOAT32, 4, strides=(2,))],
        "output_tensor": ROW, "sum_tensor": tensor(FLOAT32, 1), "strides": [1, 2], "window_size": (3, 3),
        "start_padding": (0, 1), "axis": 1, "edge_kind": 4, "has_exclusive_sum": 1, "offset": -3, "steps": [-1, 2],
        "alpha": 0.1, "scales": [1, 0.5], "value_data_type": dml.TensorDataType.FLOAT16, "value": 1.5,
        "pooled_size": (3, 4), "scale_bias": (2, 0.1), "activation_descs": [], **fields,
    })  # fmt: skip


def test_every_kind_of_field_is_converted_and_counted():
    desc = made_up()
    assert isinstance(desc.part_tensors, tuple)
    assert desc.part_tensor_count == 2
    assert (desc.strides, desc.dimension_count) == ((1, 2), 2)
    assert desc.edge_kind is dml.PaddingMode.WRAP
    assert (desc.alpha, desc.epsilon, desc.scales) == (float(np.float32(0.1)), 0.0, (1.0, 0.5))
    assert (desc.offset, desc.steps) == (-3, (-1, 2))
    assert_same_bits(desc.value, np.float16(1.5))
    assert_same_bits(
        made_up(value_data_type=dml.TensorDataType.INT64, value=-(2**62) - 1).value, np.int64(-(2**62) - 1)
    )
    assert desc.pooled_size == dml.Size2D(width=3, height=4)
    assert desc.scale_bias == dml.ScaleBias(scale=2.0, bias=float(np.float32(0.1)))
    assert made_up(scale_bias=None).scale_bias is None
    assert made_up(fused_activation=SQUASH, activation_descs=[SQUASH] * 2).activation_desc_count == 2
    assert desc.has_exclusive_sum is True
    assert made_up(has_exclusive_sum=np.bool_(False)).has_exclusive_sum is False
    assert desc == made_up(window_size=np.array([3, 3]))
    assert hash(desc) == hash(made_up())
    assert dataclasses.replace(desc, strides=(1,), window_size=(2,), start_padding=(0,)).dimension_count == 1
    assert pickle.loads(pickle.dumps(desc)) == desc
    assert list(desc.tensors) == [
        "input_tensor", "index_tensor", "part_tensors[0]", "part_tensors[1]", "output_tensor", "sum_tensor"
    ]  # fmt: skip


MADE_UP = "jaxdml.directml.MadeUpOperatorDesc: "


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"part_tensors": ROW}, TypeError, MADE_UP + "PartTensors must be a sequence of BufferTensorDescs; got "),
        ({"part_tensors": [ROW, 3]}, TypeError, MADE_UP + "PartTensors[1] must be a BufferTensorDesc; got 3."),
        ({"sum_tensor": 3}, TypeError, MADE_UP + "SumTensor must be a BufferTensorDesc; got 3."),
        ({"strides": 3}, TypeError, MADE_UP + "Strides must be a sequence of integers; got 3."),
        ({"strides": (1, -2)}, dml.InvalidDescError,
            "Strides[1] must be between 0 and 4294967295, as an unsigned integer; got -2."),
        ({"has_exclusive_sum": 2}, dml.InvalidDescError, "HasExclusiveSum must be FALSE (0) or TRUE (1); got 2."),
        ({"has_exclusive_sum": "no"}, TypeError, MADE_UP + "HasExclusiveSum must be a bool; got 'no'."),
        ({"edge_kind": 5}, dml.InvalidDescError,
            "EdgeKind must be one of CONSTANT (0), EDGE (1), REFLECTION (2), SYMMETRIC (3), WRAP (4); got 5."),
        ({"edge_kind": "WRAP"}, TypeError, MADE_UP + "EdgeKind must be a PaddingMode, or its number; got 'WRAP'."),
        ({"offset": 2**31}, dml.InvalidDescError,
            "Offset must be between -2147483648 and 2147483647, as an integer; got 2147483648."),
        ({"steps": [1, 0.5]}, TypeError, MADE_UP + "Steps[1] must be an integer; got 0.5."),
        ({"alpha": "1"}, TypeError, MADE_UP + "Alpha must be a number; got '1'."),
        ({"alpha": True}, TypeError, MADE_UP + "Alpha must be a number; got True."),
        ({"alpha": 1e39}, dml.InvalidDescError,
            "Alpha must be between -3.4028235e+38 and 3.4028235e+38, as a float32; got 1e+39."),
        ({"alpha": 10**400}, dml.InvalidDescError,
            "Alpha must be between -3.4028235e+38 and 3.4028235e+38, as a float32; got "),
        ({"scales": [1, None]}, TypeError, MADE_UP + "Scales[1] must be a number; got None."),
        ({"value": 65520}, dml.InvalidDescError,
            "Value must be between -6.55e+04 and 6.55e+04, as a float16; got 65520."),
        ({"value_data_type": 5, "value": 256}, dml.InvalidDescError,
            "Value must be between 0 and 255, as a number of uint8; got 256."),
        ({"value_data_type": 5, "value": 1.5}, TypeError, MADE_UP + "Value must be an integer; got 1.5."),
        ({"value_data_type": 12}, dml.InvalidDescError, "Value must have a data type of 8 to 64 bits; got UINT4."),
        ({"value_data_type": 14}, dml.InvalidDescError, "Value must have a data type of 8 to 64 bits; got 14."),
        ({"pooled_size": (3, -4)}, dml.InvalidDescError,
            "PooledSize.Height must be between 0 and 4294967295, as an unsigned integer; got -4."),
        ({"pooled_size": 3}, TypeError, MADE_UP + "PooledSize must be a Size2D, or a pair; got 3."),
        ({"scale_bias": (1, 2, 3)}, TypeError, MADE_UP + "ScaleBias must be a ScaleBias, or a pair; got (1, 2, 3)."),
        ({"fused_activation": "RELU"}, TypeError,
            MADE_UP + "FusedActivation must be the description of an activation; got 'RELU'."),
        ({"activation_descs": [SQUASH, None]}, TypeError,
            MADE_UP + "ActivationDescs[1] must be the description of an activation; got None."),
    ],
)  # fmt: skip
def test_what_no_field_of_any_kind_holds_is_refused(fields, error, said):
    with pytest.raises(error) as caught:
        made_up(**fields)
    assert str(caught.value).split("\n  ")[-1].startswith(said)


def test_every_kind_of_field_is_shown_in_c(capsys):
    lines = repr(made_up()).splitlines()
    parts = made_up().part_tensors
    assert lines == [
        "DML_MADE_UP_OPERATOR_DESC{",
        f"  .InputTensor = {ROW!r},",
        "  .BiasTensor = nullptr,",
        f"  .IndexTensor = {tensor(INT64, 4)!r},",
        "  .PartTensorCount = 2,",
        f"  .PartTensors = {{{parts[0]!r}, {parts[1]!r}}},",
        f"  .OutputTensor = {ROW!r},",
        f"  .SumTensor = {tensor(FLOAT32, 1)!r},",
        "  .DimensionCount = 2,",
        "  .Strides = {1, 2},",
        "  .WindowSize = {3, 3},",
        "  .StartPadding = {0, 1},",
        "  .Axis = 1,",
        "  .EdgeKind = DML_PADDING_MODE_WRAP,",
        "  .HasExclusiveSum = TRUE,",
        "  .Offset = -3,",
        "  .Steps = {-1, 2},",
        "  .Alpha = 0.1,",
        "  .Epsilon = 0.0,",
        "  .Scales = {1.0, 0.5},",
        "  .ValueDataType = DML_TENSOR_DATA_TYPE_FLOAT16,",
        "  .Value = {.UInt16 = 15872},",
        "  .PooledSize = {3, 4},",
        "  .ScaleBias = {2.0, 0.1},",
        "  .FusedActivation = nullptr,",
        "  .ActivationDescCount = 0,",
        "  .ActivationDescs = {},",
        "}",
    ]
    assert repr(SQUASH) in repr(made_up(fused_activation=SQUASH))
    dml.describe(made_up(sum_tensor=None))
    printed = capsys.readouterr().out
    table = [line.split() for line in printed.splitlines()]
    assert table[0] == ["DML_OPERATOR_MADE_UP"]
    assert ["BiasTensor", "optional", "input", "-", "-", "-", "-", "-"] in table
    assert ["PartTensors[0]", "input", "FLOAT32", "[4]", "packed", "16", "NONE"] in table
    assert ["PartTensors[1]", "input", "FLOAT32", "[4]", "[2]", "28", "NONE"] in table
    assert ["SumTensor", "optional", "output", "-", "-", "-", "-", "-"] in table
    assert "\nDimensionCount = 2\nStrides = {1, 2}\n" in printed
    assert "\nEdgeKind = DML_PADDING_MODE_WRAP\nHasExclusiveSum = TRUE\n" in printed
    dml.describe(made_up(part_tensors=[]))
    assert ["PartTensors", "input", *"-----"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "fields", [{}, {"bias_tensor": ROW, "sum_tensor": None, "part_tensors": [], "edge_kind": 0, "scale_bias": None}]
)
def test_every_kind_of_field_goes_to_json_and_back(fields):
    desc = made_up(**fields)
    written = json.loads(json.dumps(dml.to_json(desc)))
    assert written["Type"] == "DML_OPERATOR_MADE_UP"
    assert struct_from_json(MadeUpOperatorDesc, written["Desc"]) == desc
    uncounted = {key: value for key, value in written["Desc"].items() if not key.endswith("Count")}
    assert struct_from_json(MadeUpOperatorDesc, uncounted) == desc


def test_json_has_each_kind_as_dxdispatch_reads_it():
    written = dml.to_json(made_up(bias_tensor=ROW))["Desc"]
    scalars = {key: value for key, value in written.items() if not key.endswith(("Tensor", "Tensors"))}
    assert scalars == {
        "PartTensorCount": 2, "DimensionCount": 2, "Strides": [1, 2], "WindowSize": [3, 3], "StartPadding": [0, 1],
        "Axis": 1, "EdgeKind": "DML_PADDING_MODE_WRAP", "HasExclusiveSum": True, "Offset": -3, "Steps": [-1, 2],
        "Alpha": 0.1, "Epsilon": 0.0, "Scales": [1.0, 0.5], "ValueDataType": "DML_TENSOR_DATA_TYPE_FLOAT16",
        "Value": {"UInt16": 15872}, "PooledSize": {"Width": 3, "Height": 4}, "ScaleBias": {"Scale": 2.0, "Bias": 0.1},
        "ActivationDescCount": 0, "ActivationDescs": [],
    }  # fmt: skip
    infinite = dml.to_json(made_up(alpha=-np.inf, scales=[np.nan], value_data_type=1, value=np.inf))["Desc"]
    assert (infinite["Alpha"], infinite["Scales"], infinite["Value"]) == ("-inf", ["nan"], {"Float32": "inf"})
    fused = dml.to_json(made_up(fused_activation=SQUASH))["Desc"]["FusedActivation"]
    assert fused == {"Type": "DML_OPERATOR_SQUASH", "Desc": {"Alpha": 0.1}}


def test_json_of_numbers_is_read_as_dxdispatch_does():
    written = dml.to_json(made_up())["Desc"]
    read = struct_from_json(MadeUpOperatorDesc, written | {"Alpha": "-INF", "Value": 2, "Scales": ["nan"]})
    assert (read.alpha, read.value) == (-np.inf, np.float16(2))
    assert np.isnan(read.scales).tolist() == [True]
    for kind, value in (("INT8", -128), ("UINT64", 2**64 - 1), ("FLOAT64", 0.1)):
        member = kind.capitalize().replace("Uint", "UInt")
        for form in (value, {member: value}):
            read = struct_from_json(MadeUpOperatorDesc, written | {"ValueDataType": kind, "Value": form})
            assert_same_bits(read.value, np.dtype(kind.lower()).type(value))
    assert written["PartTensors"] == [
        {"DataType": "FLOAT32", "Sizes": [4]},
        {"DataType": "FLOAT32", "Sizes": [4], "Strides": [2]},
    ]


def test_json_of_every_kind_is_refused_with_every_reason():
    written = dml.to_json(made_up())["Desc"]
    wrong = written | {
        "PartTensors": [{"DataType": 1, "Sizes": [4]}, {"DataType": "FLOAT32"}], "Strides": [1, -1, 2, "3"],
        "WindowSize": 3, "HasExclusiveSum": 1, "EdgeKind": "ROUND", "SumTensor": [], "DimensionCount": -1,
        "Alpha": "high", "Steps": [2**31], "PooledSize": {"Width": 1}, "FusedActivation": 3,
    }  # fmt: skip
    with pytest.raises(dml.InvalidDescError) as caught:
        struct_from_json(MadeUpOperatorDesc, wrong)
    said = [str(violation) for violation in caught.value.violations]
    assert said[0].startswith("PartTensors[0].DataType must be one of UNKNOWN, ")
    assert said[1:] == [
        "PartTensors[1].Sizes is required; got nothing.",
        "SumTensor must be an object; got [].",
        "DimensionCount must be an integer from 0 to 4294967295; got -1.",
        "Strides[1] must be an integer from 0 to 4294967295; got -1.",
        "Strides[3] must be an integer from 0 to 4294967295; got '3'.",
        "WindowSize must be a list; got 3.",
        "EdgeKind must be one of CONSTANT, EDGE, REFLECTION, SYMMETRIC, WRAP; got 'ROUND'.",
        "HasExclusiveSum must be true or false; got 1.",
        "Steps[0] must be an integer from -2147483648 to 2147483647; got 2147483648.",
        "Alpha must be a number, or one of nan, inf, -inf; got 'high'.",
        "PooledSize.Height is required; got nothing.",
        "FusedActivation must be an object; got 3.",
    ]
    with pytest.raises(dml.InvalidDescError, match="Value must have a data type of 8 to 64 bits; got UNKNOWN"):
        struct_from_json(MadeUpOperatorDesc, written | {"ValueDataType": "UNKNOWN", "Value": {"Float32": 1}})
    with pytest.raises(dml.InvalidDescError, match="Value must be between"):
        struct_from_json(MadeUpOperatorDesc, written | {"ValueDataType": "FLOAT32", "Value": {"Float32": 1e39}})
    for value, said in (
        ({"Float32": 1}, "Value must be a number, or an object with UInt16; got {'Float32': 1}."),
        ({"UInt16": 65536}, "Value.UInt16 must be an integer from 0 to 65535; got 65536."),
        ("one", "Value must be a number, or one of nan, inf, -inf; got 'one'."),
    ):
        with pytest.raises(dml.InvalidDescError, match=re.escape(said)):
            struct_from_json(MadeUpOperatorDesc, written | {"Value": value})
    with pytest.raises(dml.InvalidDescError, match="DimensionCount must be 2, the length of Strides; got 3"):
        struct_from_json(MadeUpOperatorDesc, written | {"DimensionCount": 3})
    with pytest.raises(dml.InvalidDescError, match="PartTensorCount must be 2, the length of PartTensors; got 0"):
        struct_from_json(MadeUpOperatorDesc, written | {"PartTensorCount": 0})


def test_constraints_reach_every_kind_of_field():
    wide, half = tensor(dml.TensorDataType.FLOAT64, 4), tensor(dml.TensorDataType.FLOAT16, 4)
    assert broken(made_up()) == []
    assert broken(made_up(part_tensors=[ROW, wide, tensor(FLOAT32, 1, 1, 4)])) == [
        "PartTensors[1].DataType must be one of FLOAT32, FLOAT16 at feature level 6_4; got FLOAT64.",
        "PartTensors[2].DimensionCount must be between 1 and 2 at feature level 6_4; got 3.",
    ]
    assert broken(made_up(window_size=(3,), start_padding=(0, 0, 0))) == [
        "WindowSize must have as many entries as Strides, 2; got [3].",
        "StartPadding must have as many entries as Strides, 2; got [0, 0, 0].",
    ]
    assert broken(made_up(output_tensor=half)) == [
        "OutputTensor.DataType must be FLOAT32, as in InputTensor; got FLOAT16."
    ]
    assert broken(made_up(sum_tensor=tensor(FLOAT32, 4, strides=(0,)))) == [
        "SumTensor.Strides must be nested in an output: each must exceed the span of all smaller ones; got [0]."
    ]
    left_out = "BiasTensor must be described at feature level {}; got nullptr. Feature level 4_0 accepts it."
    assert broken(made_up(part_tensors=[half], edge_kind=3), LEVEL.LEVEL_3_0) == [
        "PartTensors[0].DataType must be FLOAT32 at feature level 3_0; got FLOAT16. Feature level 3_1 accepts it.",
        left_out.format("3_0"),
    ]
    wrap = "EdgeKind must be a member that there is at feature level {}; got WRAP. Feature level 6_4 accepts it."
    assert broken(made_up(), LEVEL.LEVEL_6_3) == [wrap.format("6_3")]
    assert broken(made_up(bias_tensor=ROW, edge_kind=3), LEVEL.LEVEL_3_1) == []
    assert broken(made_up(edge_kind=3), LEVEL.LEVEL_4_0) == []
    assert broken(made_up(edge_kind=0), LEVEL.LEVEL_1_0) == [
        "DML_OPERATOR_MADE_UP needs feature level 2_0; got 1_0. Feature level 2_0 accepts it.",
        left_out.format("2_0"),
    ]


def test_a_fused_activation_has_no_tensors_and_is_one_that_can_be_fused():
    assert broken(made_up(fused_activation=SQUASH, activation_descs=[SQUASH])) == []
    assert broken(made_up(bias_tensor=ROW, edge_kind=0, fused_activation=SQUASH), LEVEL.LEVEL_3_1) == [
        "FusedActivation must be an activation that is fused at feature level 3_1; got DML_OPERATOR_SQUASH. "
        "Feature level 4_0 accepts it."
    ]
    whole = dataclasses.replace(SQUASH, input_tensor=ROW, output_tensor=ROW)
    assert broken(made_up(activation_descs=[SQUASH, whole])) == [
        "ActivationDescs[1].InputTensor must be nullptr in a fused activation; got a tensor.",
        "ActivationDescs[1].OutputTensor must be nullptr in a fused activation; got a tensor.",
    ]
    copying = CopyOperatorDesc(input_tensor=ROW, output_tensor=ROW)
    assert broken(made_up(fused_activation=copying))[0] == (
        "FusedActivation must be an activation that DML_OPERATOR_MADE_UP can fuse; got DML_OPERATOR_COPY."
    )
    elsewhere = make_struct("ELSEWHERE", {}, dataclasses.replace(SQUASH.operator, levels={LEVEL.LEVEL_1_0: {}},
        fused_into=("COPY",)))()  # fmt: skip
    assert broken(made_up(fused_activation=elsewhere)) == [
        "FusedActivation must be an activation that DML_OPERATOR_MADE_UP can fuse; got DML_OPERATOR_ELSEWHERE."
    ]
    assert broken(SQUASH) == [f"{name} must be described; got nullptr." for name in ("InputTensor", "OutputTensor")]
    assert_same_bits(dml.compile_operator(whole)(X), X * np.float32(0.1))
    assert_same_bits(activated(SQUASH, X), X * np.float32(0.1))
    assert activated(None, X) is X


X = np.array([1, 2, 3, 4], np.float32)
INDEX = np.array([0, 1, 0, 1], np.int64)
GAPS = np.array([10, 9, 20, 9, 30, 9, 40], np.float32)


def test_outputs_have_the_names_of_their_fields():
    operator = dml.compile_operator(made_up())
    told, total = operator(X, None, INDEX, [X, GAPS])
    assert_same_bits(told, np.array([12, 24, 36, 48], np.float32))
    assert_same_bits(total, np.array([12], np.float32))
    got = operator(X, None, INDEX, (X, GAPS))
    assert type(got) is type(operator(X, None, INDEX, [X, GAPS]))
    assert (type(got).__name__, got._fields) == ("MadeUpOutputs", ("output_tensor", "sum_tensor"))
    assert got.sum_tensor == 12
    alone = dml.compile_operator(made_up(sum_tensor=None, bias_tensor=ROW))(X, X, INDEX, [X, GAPS])
    assert alone.sum_tensor is None
    assert_same_bits(alone.output_tensor, np.array([13, 26, 39, 52], np.float32))
    strided = dml.compile_operator(made_up(output_tensor=tensor(FLOAT32, 4, strides=(2,))))(X, None, INDEX, [X, GAPS])
    assert_same_bits(strided.output_tensor, np.array([12, 0, 24, 0, 36, 0, 48], np.float32))
    assert jax.tree.structure(got).num_leaves == 2


def test_several_outputs_pass_through_jit_and_vmap():
    desc = made_up(index_tensor=tensor(dml.TensorDataType.INT32, 4))
    operator, index = dml.compile_operator(desc), INDEX.astype(np.int32)
    want = operator(X, None, index, [X, GAPS])
    jax.tree.map(assert_same_bits, jax.jit(operator)(X, None, index, [X, GAPS]), want)
    mapped = jax.vmap(operator, in_axes=(0, None, None, None))(np.stack([X, X]), None, index, [X, GAPS])
    assert type(mapped) is type(want)
    jax.tree.map(lambda both, one: assert_same_bits(both[1], one), mapped, want)


def test_a_result_that_is_not_as_described_is_a_fault_of_the_struct():
    with pytest.raises(AssertionError, match="OutputTensor"):
        dml.compile_operator(CopyOperatorDesc(input_tensor=ROW, output_tensor=tensor(FLOAT32, 5)))(X)


def test_options_belong_to_the_struct():
    inputs = X, None, INDEX, [X, GAPS]
    operator = dml.compile_operator(made_up(edge_kind=0), order="down")
    assert operator.options == (("ends", "closed"), ("order", "down"))
    assert operator(*inputs).output_tensor.tolist() == [48, 36, 24, 12]
    assert dml.compile_operator(made_up(), ends="open")(*inputs).output_tensor.tolist() == [1, 2, 3, 4]
    assert dml.compile_operator(made_up(), order="up", ends="closed") == dml.compile_operator(made_up())
    replaced = dataclasses.replace(operator, feature_level=LEVEL.LEVEL_5_0)
    assert replaced.options == operator.options
    for options, said in (
        ({"end": "open"}, "DML_OPERATOR_MADE_UP has no option end; got end='open'."),
        ({"ends": "ajar"}, "ends must be one of closed, open; got 'ajar'."),
        ({"ends": ["open"]}, "ends must be one of closed, open; got ['open']."),
    ):
        with pytest.raises(ValueError, match="^" + re.escape("jaxdml.directml.compile_operator: " + said) + "$"):
            dml.compile_operator(made_up(), **options)


ARRAYS = {
    "an array alone": (X, MADE_UP + "PartTensors must be a list of 2 arrays; got ndarray.", "PartTensors: float32[4]"),
    "too few": ([X], MADE_UP + "PartTensors must be a list of 2 arrays; got 1 of them.", "PartTensors: list"),
    "a wrong one": ([X, X], MADE_UP + "PartTensors[1] has strides, so it must be a 1-D buffer of at least 28 "
        "bytes; got [4].", "PartTensors[1]: float32[4]"),
    "none": ([None, GAPS], MADE_UP + "PartTensors[0] must be an array, as described.", "PartTensors[0]: None"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_wrong_arrays_of_tensors_are_refused_by_their_place(name):
    parts, *lines = ARRAYS[name]
    with pytest.raises(TypeError) as caught:
        dml.compile_operator(made_up())(X, None, INDEX, parts)
    assert str(caught.value).split("\n  ")[:2] == lines


def test_only_indices_keep_64_bits():
    with pytest.raises(TypeError, match=r"^jaxdml.*IndexTensor is INT64, which JAX has only with jax_enable_x64"):
        dml.compile_operator(made_up())(X, None, jnp.asarray(INDEX.astype(np.int32)), [X, GAPS])


OWNED = dml.TensorFlags.OWNED_BY_DML


@pytest.mark.parametrize("owned", [(0,), (1,), (0, 1)])
def test_some_or_all_of_an_array_of_tensors_are_bound(owned):
    parts = [X, GAPS]
    described = made_up().part_tensors
    described = [
        dataclasses.replace(one, flags=OWNED) if place in owned else one for place, one in enumerate(described)
    ]
    operator = dml.compile_operator(made_up(part_tensors=described, bias_tensor=tensor(FLOAT32, 4, flags=OWNED)))
    bound = [part if place in owned else None for place, part in enumerate(parts)]
    others = [None if place in owned else part for place, part in enumerate(parts)]
    initialized = operator.initialize(PartTensors=bound, BiasTensor=X)
    assert [one is None for one in initialized.bound["PartTensors"]] == [one is None for one in bound]
    rest = [] if len(owned) == 2 else [others]
    want = dml.compile_operator(made_up(bias_tensor=ROW))(X, X, INDEX, parts)
    jax.tree.map(assert_same_bits, initialized(X, INDEX, *rest), want)
    if rest:
        free = 1 - owned[0]
        with pytest.raises(TypeError) as caught:
            initialized(X, INDEX, parts)
        assert str(caught.value).split("\n  ") == [
            MADE_UP + f"PartTensors[{owned[0]}] must be None, since initialize has bound it.",
            f"PartTensors[{owned[0]}]: float32[{len(parts[owned[0]])}]",
            "Pass None there.",
        ]
        with pytest.raises(TypeError) as caught:
            operator.initialize(PartTensors=parts, BiasTensor=X)
        assert str(caught.value).split("\n  ") == [
            MADE_UP + f"PartTensors[{free}] must be None, since it is not OWNED_BY_DML.",
            f"PartTensors[{free}]: float32[{len(parts[free])}]",
            "Pass None there, and pass the tensor to the call.",
        ]
    with pytest.raises(TypeError) as caught:
        operator.initialize(PartTensors=[X], BiasTensor=X)
    assert str(caught.value).split("\n  ")[0] == MADE_UP + "PartTensors must be a list of 2 arrays; got 1 of them."
    with pytest.raises(TypeError) as caught:
        jax.tree.map(lambda x: x[:3], initialized)(X, INDEX, *rest)
    assert str(caught.value).split("\n  ")[0] == (MADE_UP + "BiasTensor must be bound as float32[4]; got float32[3].")
