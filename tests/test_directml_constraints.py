"""Every constraint of DirectML's pages: broken by one description each, and named with DirectML's names."""

import dataclasses
import itertools
import pickle
import re

import pytest

from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, INT8, UINT8, UINT32, VALID, broken, changed, tensor

LEVELS = list(dml.FeatureLevel)
LEVEL = dml.FeatureLevel
PRODUCT = "QUANTIZED_LINEAR_MATRIX_MULTIPLY"
WIDE = "FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16, UINT8"
INT64, UINT64, FLOAT64, FLOAT16 = (dml.TensorDataType[name] for name in ("INT64", "UINT64", "FLOAT64", "FLOAT16"))
OWNED = dml.TensorFlags.OWNED_BY_DML


SELECTIONS = {
    # What the pages of TOP_K and TOP_K1 say alike.
    "OutputValueTensor has the sizes of InputTensor but for Axis": (
        {"output_value_tensor": tensor(FLOAT32, 1, 1, 2, 2)},
        "OutputValueTensor.Sizes must be [1, 1, 3, 2], those of InputTensor with K at Axis; got [1, 1, 2, 2].",
    ),
    "OutputIndexTensor has the sizes of InputTensor but for Axis": (
        {"output_index_tensor": tensor(UINT32, 1, 1, 3, 4)},
        "OutputIndexTensor.Sizes must be [1, 1, 3, 2], those of InputTensor with K at Axis; got [1, 1, 3, 4].",
    ),
    "Axis is less than the DimensionCount of InputTensor": (
        {"axis": 4},
        "Axis must be less than 4, InputTensor.DimensionCount; got 4.",
    ),
    "K is greater than 0": ({"k": 0}, "K must be between 1 and 4, InputTensor.Sizes[3]; got 0."),
    "K is less than the elements along Axis (here: or equal)": (
        {"k": 5},
        "K must be between 1 and 4, InputTensor.Sizes[3]; got 5.",
    ),
    "all three have the same DimensionCount": (
        {"output_index_tensor": tensor(UINT32, 3, 2)},
        "OutputIndexTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "InputTensor and OutputValueTensor have the same DataType": (
        {"output_value_tensor": tensor(FLOAT16, 1, 1, 3, 2)},
        "OutputValueTensor.DataType must be FLOAT32, as in InputTensor; got FLOAT16.",
    ),
}

SENTENCES = {
    **{
        f"{operator}: {sentence}": (changed(operator, **fields), said)
        for operator in ("TOP_K", "TOP_K1")
        for sentence, (fields, said) in SELECTIONS.items()
    },
    "SCATTER: IndicesTensor has the sizes of InputTensor but for Axis": (
        changed("SCATTER", indices_tensor=tensor(UINT32, 1, 1, 2, 3), updates_tensor=tensor(FLOAT32, 1, 1, 2, 3)),
        "IndicesTensor.Sizes must be [1, 1, 2, 4], those of InputTensor except along Axis; got [1, 1, 2, 3].",
    ),
    "SCATTER: UpdatesTensor has the sizes of IndicesTensor": (
        changed("SCATTER", updates_tensor=tensor(FLOAT32, 1, 1, 3, 4)),
        "UpdatesTensor.Sizes must be [1, 1, 2, 4], those of IndicesTensor; got [1, 1, 3, 4].",
    ),
    "SCATTER: UpdatesTensor has the DataType of InputTensor": (
        changed("SCATTER", updates_tensor=tensor(UINT8, 1, 1, 2, 4)),
        "UpdatesTensor.DataType must be FLOAT32, as in InputTensor; got UINT8.",
    ),
    "SCATTER: OutputTensor has the sizes of InputTensor": (
        changed("SCATTER", output_tensor=tensor(FLOAT32, 1, 1, 2, 4)),
        "OutputTensor.Sizes must be [1, 1, 3, 4], those of InputTensor; got [1, 1, 2, 4].",
    ),
    "SCATTER: OutputTensor has the DataType of InputTensor": (
        changed("SCATTER", output_tensor=tensor(INT64, 1, 1, 3, 4)),
        "OutputTensor.DataType must be FLOAT32, as in InputTensor; got INT64.",
    ),
    "SCATTER: Axis ranges below the DimensionCount": (
        changed("SCATTER", axis=9),
        "Axis must be less than 4, InputTensor.DimensionCount; got 9.",
    ),
    "SCATTER: all four have the same DimensionCount": (
        changed("SCATTER", output_tensor=tensor(FLOAT32, 3, 4)),
        "OutputTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "SCATTER_ND: IndicesTensor has the DimensionCount of InputTensor": (
        changed("SCATTER_ND", indices_tensor=tensor(UINT32, 6, 2)),
        "IndicesTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "SCATTER_ND: a tuple has no more coordinates than InputTensor has dimensions that count": (
        changed("SCATTER_ND", indices_tensor=tensor(UINT32, 1, 1, 6, 4)),
        "IndicesTensor.Sizes must end in at most 3, InputDimensionCount, since a tuple has one entry a dimension; "
        "got [1, 1, 6, 4].",
    ),
    "SCATTER_ND: UpdatesTensor has the DimensionCount of InputTensor": (
        changed("SCATTER_ND", updates_tensor=tensor(FLOAT32, 6, 5)),
        "UpdatesTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "SCATTER_ND: UpdatesTensor has the leading sizes of IndicesTensor and the trailing ones of InputTensor": (
        changed("SCATTER_ND", updates_tensor=tensor(FLOAT32, 1, 1, 6, 4)),
        "UpdatesTensor.Sizes must be [1, 1, 6, 5], the leading sizes of IndicesTensor and the trailing ones of "
        "InputTensor; got [1, 1, 6, 4].",
    ),
    "SCATTER_ND: the sizes of UpdatesTensor are aligned to the right, after leading 1s": (
        changed("SCATTER_ND", updates_tensor=tensor(FLOAT32, 6, 5, 1, 1)),
        "UpdatesTensor.Sizes must be [1, 1, 6, 5], the leading sizes of IndicesTensor and the trailing ones of "
        "InputTensor; got [6, 5, 1, 1].",
    ),
    "SCATTER_ND: UpdatesTensor has as many dimensions as its sizes take": (
        changed(
            "SCATTER_ND", input_tensor=tensor(FLOAT32, 3, 5), output_tensor=tensor(FLOAT32, 3, 5),
            indices_tensor=tensor(UINT32, 6, 1), updates_tensor=tensor(FLOAT32, 6),
            input_dimension_count=2, indices_dimension_count=2,
        ),
        "UpdatesTensor.DimensionCount must be 2, as in InputTensor; got 1.",
        "UpdatesTensor.DimensionCount must be at least 2, for updates of [6, 5]; got 1.",
    ),
    "SCATTER_ND: OutputTensor has the sizes of InputTensor": (
        changed("SCATTER_ND", output_tensor=tensor(FLOAT32, 1, 3, 4, 6)),
        "OutputTensor.Sizes must be [1, 3, 4, 5], those of InputTensor; got [1, 3, 4, 6].",
    ),
    "SCATTER_ND: OutputTensor has the DataType of InputTensor": (
        changed("SCATTER_ND", output_tensor=tensor(UINT32, 1, 3, 4, 5)),
        "OutputTensor.DataType must be FLOAT32, as in InputTensor; got UINT32.",
    ),
    "SCATTER_ND: InputDimensionCount ranges from 1": (
        changed("SCATTER_ND", input_dimension_count=0),
        "InputDimensionCount must be between 1 and 4, InputTensor.DimensionCount; got 0.",
    ),
    "SCATTER_ND: InputDimensionCount ranges to the DimensionCount (here: inclusive)": (
        changed("SCATTER_ND", input_dimension_count=5),
        "InputDimensionCount must be between 1 and 4, InputTensor.DimensionCount; got 5.",
    ),
    "SCATTER_ND: IndicesDimensionCount ranges from 1": (
        changed("SCATTER_ND", indices_dimension_count=0),
        "IndicesDimensionCount must be between 1 and 4, IndicesTensor.DimensionCount; got 0.",
    ),
    "SCATTER_ND: IndicesDimensionCount ranges to the DimensionCount (here: inclusive)": (
        changed("SCATTER_ND", indices_dimension_count=2**32 - 1),
        "IndicesDimensionCount must be between 1 and 4, IndicesTensor.DimensionCount; got 4294967295.",
    ),
    "SCATTER_ND: the dimensions of InputTensor that do not count are irrelevant": (
        changed(
            "SCATTER_ND", input_tensor=tensor(FLOAT32, 2, 3, 4, 5), output_tensor=tensor(FLOAT32, 2, 3, 4, 5),
        ),
        "InputTensor.Sizes must be 1 in all dimensions but the last 3, InputDimensionCount; got [2, 3, 4, 5].",
    ),
    "SCATTER_ND: the dimensions of IndicesTensor that do not count are irrelevant": (
        changed("SCATTER_ND", indices_tensor=tensor(UINT32, 1, 3, 6, 2)),
        "IndicesTensor.Sizes must be 1 in all dimensions but the last 2, IndicesDimensionCount; "
        "got [1, 3, 6, 2].",
    ),
    "QLMM: ATensor is {BatchCount, ChannelCount, M, K}": (
        changed(PRODUCT, a_tensor=tensor(UINT8, 1, 2, 3, 7)),
        "BTensor.Sizes must be [1, 2, 7, 5], the batch of ATensor and as many rows as that has columns; "
        "got [1, 2, 4, 5].",
    ),
    "QLMM: BTensor is {BatchCount, ChannelCount, K, N}": (
        changed(PRODUCT, b_tensor=tensor(INT8, 1, 1, 4, 5)),
        "BTensor.Sizes must be [1, 2, 4, 5], the batch of ATensor and as many rows as that has columns; "
        "got [1, 1, 4, 5].",
    ),
    "QLMM: OutputTensor is {BatchCount, ChannelCount, M, N}": (
        changed(PRODUCT, output_tensor=tensor(UINT8, 1, 2, 5, 3)),
        "OutputTensor.Sizes must be [1, 2, 3, 5], the rows of ATensor and the columns of BTensor; got [1, 2, 5, 3].",
    ),
    "QLMM: the product takes 4 dimensions (the table: 2 to 4)": (
        changed(
            PRODUCT, a_tensor=tensor(UINT8, 1, 1, 2, 3, 4), b_tensor=tensor(INT8, 1, 1, 2, 4, 5),
            output_tensor=tensor(UINT8, 1, 1, 2, 3, 5),
        ),
        "ATensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
        "BTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
        "OutputTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
    ),
    **{
        f"QLMM: {field} is {{1, 1, 1, 1}} or {alternative}": (
            changed(PRODUCT, **{name: tensor(kind, 1, 2, 1, 1)}),
            f"{field}.Sizes must be [1, 1, 1, 1] or {sizes}, one for {of} or one for each {each} of it; "
            "got [1, 2, 1, 1].",
        )
        for name, field, kind, of, each, alternative, sizes in (
            ("a_scale_tensor", "AScaleTensor", FLOAT32, "ATensor", "row", "{1, 1, M, 1}", "[1, 1, 3, 1]"),
            ("a_zero_point_tensor", "AZeroPointTensor", UINT8, "ATensor", "row", "{1, 1, M, 1}", "[1, 1, 3, 1]"),
            ("b_scale_tensor", "BScaleTensor", FLOAT32, "BTensor", "column", "{1, 1, 1, N}", "[1, 1, 1, 5]"),
            ("b_zero_point_tensor", "BZeroPointTensor", INT8, "BTensor", "column", "{1, 1, 1, N}", "[1, 1, 1, 5]"),
            ("output_scale_tensor", "OutputScaleTensor", FLOAT32, "OutputTensor", "row", "{1, 1, M, 1}",
                "[1, 1, 3, 1]"),
            ("output_zero_point_tensor", "OutputZeroPointTensor", UINT8, "OutputTensor", "row", "{1, 1, M, 1}",
                "[1, 1, 3, 1]"),
        )
    },
    "QLMM: the six scale and zero-point tensors have the same DimensionCount": (
        changed(PRODUCT, output_zero_point_tensor=tensor(UINT8, 1)),
        "OutputZeroPointTensor.DimensionCount must be 4, as in AScaleTensor; got 1.",
    ),
    "QLMM: ATensor, BTensor and OutputTensor have the same DimensionCount": (
        changed(PRODUCT, output_tensor=tensor(UINT8, 2, 3, 5)),
        "OutputTensor.DimensionCount must be 4, as in ATensor; got 3.",
    ),
    "QLMM: BTensor and BZeroPointTensor have the same DataType": (
        changed(PRODUCT, b_zero_point_tensor=tensor(UINT8, 1, 1, 1, 1)),
        "BZeroPointTensor.DataType must be INT8, as in BTensor; got UINT8.",
    ),
    "QLMM: OutputTensor and OutputZeroPointTensor have the same DataType": (
        changed(PRODUCT, output_zero_point_tensor=tensor(INT8, 1, 1, 1, 1)),
        "OutputZeroPointTensor.DataType must be UINT8, as in OutputTensor; got INT8.",
    ),
    "QLMM: ATensor and AZeroPointTensor have the same DataType": (
        changed(PRODUCT, a_zero_point_tensor=tensor(INT8, 1, 1, 3, 1)),
        "AZeroPointTensor.DataType must be UINT8, as in ATensor; got INT8.",
    ),
    "BUFFER: Sizes and Strides have DimensionCount numbers": (
        changed("TOP_K1", input_tensor=tensor(FLOAT32, 1, 1, 3, 4, strides=(4, 1))),
        "InputTensor.Strides must have as many numbers as Sizes, 4; got [4, 1].",
    ),
    "BUFFER: DimensionCount is at least 1": (
        changed("SCATTER", indices_tensor=tensor(UINT32)),
        "IndicesTensor.DimensionCount must be between 1 and 8 at feature level 6_4; got 0.",
        "IndicesTensor.DimensionCount must be 4, as in InputTensor; got 0.",
    ),
    "BUFFER: DimensionCount is at most 8": (
        changed("SCATTER", indices_tensor=tensor(UINT32, *[1] * 9)),
        "IndicesTensor.DimensionCount must be between 1 and 8 at feature level 6_4; got 9.",
        "IndicesTensor.DimensionCount must be 4, as in InputTensor; got 9.",
    ),
    "BUFFER: no size is 0": (
        changed("SCATTER", updates_tensor=tensor(FLOAT32, 1, 1, 0, 4), indices_tensor=tensor(UINT32, 1, 1, 0, 4)),
        "UpdatesTensor.Sizes must not contain a 0; got [1, 1, 0, 4].",
        "IndicesTensor.Sizes must not contain a 0; got [1, 1, 0, 4].",
    ),
    "BUFFER: TotalTensorSizeInBytes holds the tensor, rounded up to 4 bytes": (
        changed(PRODUCT, output_zero_point_tensor=tensor(UINT8, 1, 1, 1, 1, total_tensor_size_in_bytes=1)),
        "OutputZeroPointTensor.TotalTensorSizeInBytes must be between 4 and 4294967296; got 1.",
    ),
    "BUFFER: TotalTensorSizeInBytes holds the tensor, by its strides": (
        changed("TOP_K1", input_tensor=tensor(
            FLOAT32, 1, 1, 3, 4, strides=(0, 0, 8, 1), total_tensor_size_in_bytes=76)),
        "InputTensor.TotalTensorSizeInBytes must be between 80 and 17179869180; got 76.",
    ),
    "BUFFER: a tensor has at most 2**32 - 1 elements": (
        changed("TOP_K1", input_tensor=tensor(INT8, 1, 1, 2**30, 4), output_value_tensor=tensor(INT8, 1, 1, 2**30, 2),
            output_index_tensor=tensor(UINT32, 1, 1, 2**30, 2)),
        "InputTensor.Sizes must give at most 4294967295 elements; got 4294967296.",
    ),
    "BUFFER: elements that are repeated count": (
        changed(
            "SCATTER", indices_tensor=tensor(UINT32, *[2**17] * 2, 1, 1, strides=(0, 0, 0, 0)), axis=2,
        ),
        "IndicesTensor.Sizes must give at most 4294967295 elements; got 17179869184.",
        "IndicesTensor.Sizes must be [1, 1, 1, 4], those of InputTensor except along Axis; got [131072, 131072, 1, 1].",
        "UpdatesTensor.Sizes must be [131072, 131072, 1, 1], those of IndicesTensor; got [1, 1, 2, 4].",
    ),
    "BUFFER: far too many elements": (
        changed("SCATTER", indices_tensor=tensor(UINT32, *[2**32 - 1] * 500)),
        "IndicesTensor.Sizes must give at most 4294967295 elements; got 2**64 or more.",
        "IndicesTensor.DimensionCount must be between 1 and 8 at feature level 6_4; got 500.",
        "IndicesTensor.DimensionCount must be 4, as in InputTensor; got 500.",
    ),
    "BUFFER: the whole of a tensor has at most 2**32 - 1 elements": (
        changed("TOP_K1", output_index_tensor=tensor(
            UINT32, 1, 1, 3, 2, strides=(6, 6, 2, 1), total_tensor_size_in_bytes=2**63)),
        "OutputIndexTensor.TotalTensorSizeInBytes must be between 24 and 17179869180; got 9223372036854775808.",
    ),
    "BUFFER: the gaps between the elements count": (
        changed("TOP_K1", input_tensor=tensor(FLOAT32, 1, 1, 3, 4, strides=(0, 0, 2**31, 1))),
        "InputTensor.Strides must span at most 4294967295 elements; got 4294967300.",
    ),
    "BUFFER: the alignment is a power of two": (
        changed("TOP_K1", input_tensor=tensor(FLOAT32, 1, 1, 3, 4, guaranteed_base_offset_alignment=24)),
        "InputTensor.GuaranteedBaseOffsetAlignment must be 0, or a power of two that is at least 4; got 24.",
    ),
    "BUFFER: the alignment is at least the size of an element": (
        changed("TOP_K1", input_tensor=tensor(FLOAT32, 1, 1, 3, 4, guaranteed_base_offset_alignment=2)),
        "InputTensor.GuaranteedBaseOffsetAlignment must be 0, or a power of two that is at least 4; got 2.",
    ),
    "BUFFER: DirectML owns inputs only": (
        changed("TOP_K1", output_index_tensor=tensor(UINT32, 1, 1, 3, 2, flags=OWNED)),
        "OutputIndexTensor.Flags must not contain DML_TENSOR_FLAG_OWNED_BY_DML in an output; "
        "got DML_TENSOR_FLAG_OWNED_BY_DML.",
    ),
    "BUFFER: the elements of an output do not overlap (ours)": (
        changed("SCATTER", output_tensor=tensor(FLOAT32, 1, 1, 3, 4, strides=(12, 12, 3, 1))),
        "OutputTensor.Strides must be nested in an output: each must exceed the span of all smaller ones; "
        "got [12, 12, 3, 1].",
    ),
    "BUFFER: a tensor has dimensions": (
        changed(PRODUCT, a_scale_tensor=tensor(FLOAT32)),
        "AScaleTensor.DimensionCount must be between 1 and 4 at feature level 6_4; got 0.",
        *(
            f"{name}Tensor.DimensionCount must be 0, as in AScaleTensor; got 4."
            for name in ("AZeroPoint", "BScale", "BZeroPoint", "OutputScale", "OutputZeroPoint")
        ),
    ),
    "BUFFER: the alignment of bytes": (
        changed("TOP_K1", input_tensor=tensor(
            dml.TensorDataType.UNKNOWN, 1, 1, 3, 4, guaranteed_base_offset_alignment=3)),
        "InputTensor.GuaranteedBaseOffsetAlignment must be 0, or a power of two that is at least 1; got 3.",
        f"InputTensor.DataType must be one of {WIDE} at feature level 6_4; got UNKNOWN.",
        "OutputValueTensor.DataType must be UNKNOWN, as in InputTensor; got FLOAT32.",
    ),
    "K and Axis are both wrong": (
        changed("TOP_K", axis=4, k=0),
        "Axis must be less than 4, InputTensor.DimensionCount; got 4.",
        "K must be greater than 0; got 0.",
    ),
    "K is wrong, and the outputs off Axis": (
        changed("TOP_K", k=9, output_value_tensor=tensor(FLOAT32, 1, 1, 2, 2)),
        "K must be between 1 and 4, InputTensor.Sizes[3]; got 9.",
        "OutputValueTensor.Sizes must be [1, 1, 3, 2], those of InputTensor with K at Axis; got [1, 1, 2, 2].",
    ),
    "nothing to select from": (
        changed("TOP_K", input_tensor=tensor(FLOAT32, 1, 1, 3, 0)),
        "InputTensor.Sizes must not contain a 0; got [1, 1, 3, 0].",
    ),
    "a product of vectors, and a scale": (
        changed(PRODUCT, a_tensor=tensor(UINT8, 4), b_tensor=tensor(INT8, 4, 5), output_tensor=tensor(UINT8, 5),
            b_scale_tensor=tensor(FLOAT32, 1, 1, 1, 9)),
        "ATensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 1.",
        "OutputTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 1.",
        "BTensor.DimensionCount must be 1, as in ATensor; got 2.",
        "BScaleTensor.Sizes must be [1, 1, 1, 1] or [1, 1, 1, 5], one for BTensor or one for each column of it; "
        "got [1, 1, 1, 9].",
    ),
    "a matrix by a vector": (
        changed(PRODUCT, b_tensor=tensor(INT8, 4), a_scale_tensor=tensor(FLOAT32, 1, 1, 4, 1)),
        "BTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 1.",
        "BTensor.DimensionCount must be 4, as in ATensor; got 1.",
        "AScaleTensor.Sizes must be [1, 1, 1, 1] or [1, 1, 3, 1], one for ATensor or one for each row of it; "
        "got [1, 1, 4, 1].",
    ),
    "one row": (
        changed(PRODUCT, a_tensor=tensor(UINT8, 1, 2, 1, 4), output_tensor=tensor(UINT8, 1, 2, 1, 5),
            a_zero_point_tensor=tensor(UINT8, 1, 1, 1, 1)),
        "AScaleTensor.Sizes must be [1, 1, 1, 1], one for ATensor or one for each row of it; got [1, 1, 3, 1].",
    ),
    "DATA TYPE: UNKNOWN is never valid": (
        changed("SCATTER", indices_tensor=tensor(dml.TensorDataType.UNKNOWN, 1, 1, 2, 4)),
        "IndicesTensor.DataType must be one of INT64, INT32, UINT64, UINT32 at feature level 6_4; got UNKNOWN.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_broken_constraint_is_named_and_nothing_else(sentence):
    desc, *said = SENTENCES[sentence]
    assert sorted(broken(desc)) == sorted(said)


ALIKE = [
    # The tensors of one dimension count, and those of one data type; the first one decides.
    *((operator, "DimensionCount", "Input OutputValue OutputIndex") for operator in ("TOP_K", "TOP_K1")),
    *((operator, "DataType", "Input OutputValue") for operator in ("TOP_K", "TOP_K1")),
    *((operator, "DimensionCount", "Input Indices Updates Output") for operator in ("SCATTER", "SCATTER_ND")),
    *((operator, "DataType", "Input Updates Output") for operator in ("SCATTER", "SCATTER_ND")),
    (PRODUCT, "DimensionCount", "A B Output"),
    (PRODUCT, "DimensionCount", "AScale AZeroPoint BScale BZeroPoint OutputScale OutputZeroPoint"),
    *((PRODUCT, "DataType", f"{of} {of}ZeroPoint") for of in ("A", "B", "Output")),
]


@pytest.mark.parametrize(
    ("operator", "part", "first", "other"),
    [(operator, part, *pair) for operator, part, names in ALIKE
        for pair in itertools.product(names.split()[:1], names.split()[1:])],
)  # fmt: skip
def test_tensors_are_alike_that_have_to_be(operator, part, first, other):
    name = re.sub("(?<!^)(?=[A-Z])", "_", other).lower() + "_tensor"
    was = VALID[operator].tensors[name]
    if part == "DataType":
        kind = {FLOAT32: FLOAT16, UINT8: INT8, INT8: UINT8}[was.data_type]
        changes, want, got = tensor(kind, *was.sizes), was.data_type.name, kind.name
    else:
        changes, want, got = tensor(was.data_type, *was.sizes[1:]), 4, 3
    said = f"{other}Tensor.{part} must be {want}, as in {first}Tensor; got {got}."
    assert said in broken(changed(operator, **{name: changes}))


@pytest.mark.parametrize("operator", VALID)
def test_the_descriptions_that_are_changed_break_nothing(operator):
    assert broken(VALID[operator]) == []


@pytest.mark.parametrize(
    ("operator", "level", "first"),
    [
        ("TOP_K", LEVEL.LEVEL_1_0, "2_0"),
        ("TOP_K1", LEVEL.LEVEL_2_0, "2_1"),
        ("SCATTER_ND", LEVEL.LEVEL_1_0, "2_1"),
        (PRODUCT, LEVEL.LEVEL_2_0, "2_1"),
    ],
)
def test_an_operator_is_there_from_its_level_on(operator, level, first):
    said = f"DML_OPERATOR_{operator} needs feature level {first}; got {level.label}. Feature level {first} accepts it."
    assert broken(VALID[operator], level) == [said]
    name = next(iter(VALID[operator].tensors))
    wrong = broken(changed(operator, **{name: tensor(FLOAT64, 1, 1, 1, 1, 1)}), level)
    # What the operator's first level lacks is said as well.
    assert said in wrong
    field = "ATensor" if operator == PRODUCT else "InputTensor"
    assert any(line.startswith(f"{field}.DataType must be") and f"level {first};" in line for line in wrong)
    assert broken(VALID[operator], LEVEL[f"LEVEL_{first}"]) == []


def test_scatter_is_there_from_the_first_level_on():
    assert broken(VALID["SCATTER"], LEVEL.LEVEL_1_0) == []


def test_the_lowest_level_that_accepts_is_named():
    desc = changed(
        "SCATTER", input_tensor=tensor(FLOAT64, 3, 4), updates_tensor=tensor(FLOAT64, 2, 4),
        output_tensor=tensor(FLOAT64, 3, 4), indices_tensor=tensor(INT64, 2, 4), axis=0,
    )  # fmt: skip
    said = broken(desc, LEVEL.LEVEL_2_1)
    assert "InputTensor.DimensionCount must be 4 at feature level 2_1; got 2. Feature level 3_0 accepts it." in said
    assert (
        "IndicesTensor.DataType must be UINT32 at feature level 2_1; got INT64. Feature level 3_0 accepts it." in said
    )
    floats = "one of FLOAT32, FLOAT16, INT32, INT16, INT8, UINT32, UINT16, UINT8"
    wide = f"must be {floats} at feature level 2_1; got FLOAT64. Feature level 4_1 accepts it."
    assert [f"{name}Tensor.DataType {wide}" in said for name in ("Input", "Updates", "Output")] == [True] * 3
    assert len(said) == 8
    assert broken(desc, LEVEL.LEVEL_4_1) == []


def test_everything_that_is_wrong_is_said_at_once():
    desc = dml.TopK1OperatorDesc(
        input_tensor=tensor(INT64, 3, 4, strides=(1,)),
        output_value_tensor=tensor(FLOAT64, 1, 1, 3, 2, flags=OWNED),
        output_index_tensor=tensor(INT8, 1, 0),
        axis=7, k=0, axis_direction=dml.AxisDirection.INCREASING,
    )  # fmt: skip
    with pytest.raises(dml.InvalidDescError) as caught:
        dml.compile_operator(desc, LEVEL.LEVEL_5_0)
    assert str(caught.value).splitlines()[0] == (
        "jaxdml.directml: DML_OPERATOR_TOP_K1 breaks 9 constraints at feature level 5_0."
    )
    assert [violation.field for violation in caught.value.violations] == [
        "InputTensor.Strides", "OutputValueTensor.Flags", "OutputIndexTensor.Sizes", "OutputValueTensor.DataType",
        "OutputIndexTensor.DataType", "OutputValueTensor.DimensionCount", "OutputValueTensor.DataType", "Axis", "K",
    ]  # fmt: skip
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# DirectML's tables, as its pages have them: operator, lowest level, tensors, dimension counts, data types.
TABLES = """
TOP_K 2_0 input output_value | 4 | FLOAT32 FLOAT16
TOP_K 2_0 output_index | 4 | UINT32
TOP_K TOP_K1 2_1 input output_value | 4 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
TOP_K TOP_K1 2_1 output_index | 4 | UINT32
TOP_K TOP_K1 3_1 input output_value | 1-8 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
TOP_K TOP_K1 3_1 output_index | 1-8 | UINT32
TOP_K TOP_K1 5_0 input output_value | 1-8 | FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8
TOP_K TOP_K1 5_0 output_index | 1-8 | UINT64 UINT32
SCATTER 1_0 input updates output | 4 | FLOAT32 FLOAT16
SCATTER 1_0 indices | 4 | UINT32
SCATTER SCATTER_ND 2_1 input updates output | 4 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
SCATTER SCATTER_ND 2_1 indices | 4 | UINT32
SCATTER SCATTER_ND 3_0 input updates output | 1-8 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
SCATTER SCATTER_ND 3_0 indices | 1-8 | INT64 INT32 UINT64 UINT32
SCATTER SCATTER_ND 4_1 input updates output | 1-8 | FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8
SCATTER SCATTER_ND 4_1 indices | 1-8 | INT64 INT32 UINT64 UINT32
QUANTIZED_LINEAR_MATRIX_MULTIPLY 2_1 a b output | 4 | INT8 UINT8
QUANTIZED_LINEAR_MATRIX_MULTIPLY 2_1 a_scale b_scale output_scale | 4 | FLOAT32
QUANTIZED_LINEAR_MATRIX_MULTIPLY 2_1 a_zero_point b_zero_point output_zero_point | 4 | INT8 UINT8
QUANTIZED_LINEAR_MATRIX_MULTIPLY 4_0 a b output | 2-4 | INT8 UINT8
QUANTIZED_LINEAR_MATRIX_MULTIPLY 4_0 a_scale b_scale output_scale | 1-4 | FLOAT32
QUANTIZED_LINEAR_MATRIX_MULTIPLY 4_0 a_zero_point b_zero_point output_zero_point | 1-4 | INT8 UINT8
"""  # noqa: E501


def _table():
    """Read the tables: for every operator and tensor, the levels with the dimension counts and the data types."""
    table = {}
    for line in TABLES.strip().splitlines():
        left, counts, kinds = line.split(" | ")
        words = left.split()
        level = next(word for word in words if re.fullmatch(r"\d_\d", word))
        operators, names = words[: words.index(level)], words[words.index(level) + 1 :]
        first, _, last = counts.partition("-")
        allowed = range(int(first), int(last or first) + 1), set(kinds.split())
        for operator, name in itertools.product(operators, names):
            table.setdefault((operator, f"{name}_tensor"), {})[LEVEL[f"LEVEL_{level}"]] = allowed
    return table


TABLE = _table()
KINDS = list(dml.TensorDataType)
RANKS = range(1, 10)


def allowed(operator, name, level, kind, rank):
    rows = TABLE[operator, name]
    reached = [first for first in rows if first <= level]
    return bool(reached) and rank in rows[max(reached)][0] and kind.name in rows[max(reached)][1]


@pytest.mark.parametrize("operator", [operator for operator in VALID if operator != PRODUCT])
def test_the_tables_decide_on_every_data_type_and_rank_at_every_level(operator):
    data, indices = ("input_tensor", "output_index_tensor" if operator.startswith("TOP") else "indices_tensor")
    others = {"axis": 0} if operator != "SCATTER_ND" else {"input_dimension_count": 1, "indices_dimension_count": 1}
    others |= {"k": 1} if operator.startswith("TOP") else {}
    compared = 0
    # Every pair of the two data types and the rank, each with a value of the third that is valid everywhere.
    triples = {*itertools.product(KINDS, KINDS, [4]), *itertools.product(KINDS, [UINT32], RANKS)}
    for kind, index_kind, rank in triples | set(itertools.product([FLOAT32], KINDS, RANKS)):
        fields = {name: tensor(kind, *[1] * rank) for name in VALID[operator].roles()}
        desc = changed(operator, **{**fields, indices: tensor(index_kind, *[1] * rank)}, **others)
        for level in LEVELS:
            expected = all(
                allowed(operator, name, level, of, rank) for name, of in ((data, kind), (indices, index_kind))
            )
            assert (not broken(desc, level)) == expected, (desc, level)
            compared += 1
    assert compared == (14 * 14 + 8 * (14 + 14 - 1)) * 15


def test_the_tables_decide_on_every_data_type_and_rank_of_products():
    roles = VALID[PRODUCT].roles()
    compared = 0
    for changing in ("a_tensor", "b_scale_tensor", "output_zero_point_tensor"):
        # One kind of tensor takes every data type; those of its dimension count take every rank.
        for kind, rank in itertools.product(KINDS, RANKS):
            parameters = changing != "a_tensor"
            desc = changed(PRODUCT, **{
                name: tensor(
                    kind if name in {changing, *_tied(changing)} else FLOAT32 if "scale" in name else UINT8,
                    *[1] * (rank if ("scale" in name or "zero" in name) == parameters else 4),
                )
                for name in roles
            })  # fmt: skip
            for level in LEVELS:
                expected = all(
                    allowed(PRODUCT, name, level, part.data_type, part.dimension_count)
                    for name, part in desc.tensors.items()
                )
                assert (not broken(desc, level)) == expected, (desc, level)
                compared += 1
    assert compared == 3 * 14 * 9 * 15


def _tied(name):
    of = name.partition("_")[0]
    return {f"{of}_tensor", f"{of}_zero_point_tensor"} if "scale" not in name else set()


def test_the_tables_are_those_of_the_pages():
    found = {
        (operator.name, name): {
            level: (row[name].dimension_counts, {kind.name for kind in row[name].data_types})
            for level, row in rows.items()
        }
        for operator, rows in dml.SUPPORT.items()
        for name in rows[max(rows)]
    }
    assert found == TABLE


def test_the_newest_level_is_the_default():
    wide = changed("SCATTER", input_tensor=tensor(FLOAT64, 1, 1, 3, 4), updates_tensor=tensor(FLOAT64, 1, 1, 2, 4),
        output_tensor=tensor(FLOAT64, 1, 1, 3, 4))  # fmt: skip
    assert dml.compile_operator(wide).feature_level is max(LEVELS)
    assert dml.compile_operator(wide, LEVEL.LEVEL_4_1).feature_level is LEVEL.LEVEL_4_1
    assert dml.compile_operator(wide, 0x4100).feature_level is LEVEL.LEVEL_4_1


def test_nothing_makes_an_operator_of_an_invalid_description():
    operator = dml.compile_operator(VALID["TOP_K1"])
    invalid = changed("TOP_K1", input_tensor=tensor(FLOAT32, 1, 1, 3, 4, strides=(0, 0, 10**6, 1),
        total_tensor_size_in_bytes=4))  # fmt: skip
    with pytest.raises(dml.InvalidDescError):
        dml.CompiledOperator(invalid, LEVEL.LEVEL_6_4)
    with pytest.raises(dml.InvalidDescError):
        dataclasses.replace(operator, desc=invalid)
