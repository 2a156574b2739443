"""Every constraint of DirectML's pages: broken by one description each, and named with DirectML's names."""

import dataclasses
import itertools
import pickle
import re

import pytest

from jaxdml import directml as dml
from jaxdml.directml._c import c_field
from tests.directml_descs import FLOAT16, FLOAT32, INT8, INT64, UINT8, UINT32, broken, tensor
from tests.kit import THOROUGH
from tests.structs import STRUCTS, VALID, changed

LEVELS = list(dml.FeatureLevel)
LEVEL = dml.FeatureLevel
PRODUCT = "QUANTIZED_LINEAR_MATRIX_MULTIPLY"
WIDE = "FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16, UINT8"
FLOAT64 = dml.TensorDataType.FLOAT64
OWNED = dml.TensorFlags.OWNED_BY_DML


SENTENCES = {
    **{
        f"{name}: {sentence}": (changed(name, **fields), *said)
        for name, struct in STRUCTS.items()
        for sentence, (fields, *said) in struct.broken.items()
    },
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


@pytest.mark.parametrize(
    ("operator", "field", "first", "other"),
    [(operator, field, *pair) for operator, struct in STRUCTS.items() for field, names in struct.alike
        for pair in itertools.product(names.split()[:1], names.split()[1:])],
)  # fmt: skip
def test_tensors_are_alike_that_have_to_be(operator, field, first, other):
    name = field_of(other)
    was = VALID[operator].tensors[name]
    if field == "DataType":
        kind = next(kind for kind in (FLOAT16, FLOAT32, INT8, UINT8) if kind != was.data_type)
        changes, want, got = tensor(kind, *was.sizes), was.data_type.name, kind.name
    else:
        rank = len(was.sizes)
        changes, want, got = tensor(was.data_type, *was.sizes[1:]), rank, rank - 1
    said = f"{c_field(name)}.{field} must be {want}, as in {c_field(field_of(first))}; got {got}."
    assert said in broken(changed(operator, **{name: changes}))


@pytest.mark.parametrize("operator", VALID)
def test_the_descriptions_that_are_changed_break_nothing(operator):
    assert broken(VALID[operator]) == []


@pytest.mark.parametrize("operator", VALID)
def test_an_operator_is_there_from_its_level_on(operator):
    name = next(iter(VALID[operator].tensors))
    first = min(TABLE[operator, name])
    needs = f"DML_OPERATOR_{operator} needs feature level {first.label}; got "
    wrong = changed(operator, **{name: tensor(dml.TensorDataType.UNKNOWN, 1, 1, 1, 1, 1)})
    for level in LEVELS[: LEVELS.index(first)]:
        said = f"{needs}{level.label}. Feature level {first.label} accepts it."
        assert broken(VALID[operator], level) == [said]
        # What the operator's first level lacks is said as well.
        lacks = f"{c_field(name)}.DataType must be", f"level {first.label};"
        assert said in broken(wrong, level)
        assert any(line.startswith(lacks[0]) and lacks[1] in line for line in broken(wrong, level))
    assert broken(VALID[operator], first) == []


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


def _table():
    """Read the tables: for every operator and tensor, the levels with the dimension counts and the data types."""
    table = {}
    for operator, struct in STRUCTS.items():
        for line in filter(None, struct.table.splitlines()):
            left, counts, kinds = line.split(" | ")
            level, *names = left.split()
            first, _, last = counts.partition("-")
            allowed = range(int(first), int(last or first) + 1), set(kinds.split())
            for name in names:
                field = name if name.endswith("_tensors") else f"{name}_tensor"
                table.setdefault((operator, field), {})[LEVEL[f"LEVEL_{level}"]] = allowed
    return table


TABLE = _table()
KINDS = list(dml.TensorDataType)
RANKS = range(1, 10)
OTHER_RANKS = [rank for rank in RANKS if rank != 4]


def allowed(operator, name, level, kind, rank):
    rows = TABLE[operator, name.partition("[")[0]]
    reached = [first for first in rows if first <= level]
    return bool(reached) and rank in rows[max(reached)][0] and kind.name in rows[max(reached)][1]


def field_of(tensor_name):
    name = re.sub("(?<!^)(?=[A-Z])", "_", tensor_name).lower()
    return name if name.endswith("]") else f"{name}_tensor"


def groups(operator, field):
    """Return the tensors that have to be alike in a field: those that the pages say, and every other one alone."""
    together = [[field_of(name) for name in names.split()] for of, names in STRUCTS[operator].alike if of == field]
    alike = {name for group in together for name in group}
    return together + [[name] for name in VALID[operator].tensors if name not in alike]


def is_full(operator):
    """Return whether every data type comes with every rank: where tensors are few, and in the thorough profile."""
    return THOROUGH or len(groups(operator, "DataType")) <= 3


SAMPLE = [(kind, rank) for place, kind in enumerate(KINDS) for rank in (4, OTHER_RANKS[place % len(OTHER_RANKS)])]
"""Every data type with two ranks, the valid description's and one of the others."""


def kinds_and_ranks(operator):
    """Yield data types and ranks: those of a valid description, with every type and rank of one group of tensors.

    If there are many groups, each type comes with two ranks. Every rank of one group of tensors comes too, with the
    data types of the valid description. If there are two groups of tensors with one data type, so does every pair of
    data types.
    """
    ranks = dict.fromkeys(VALID[operator].tensors, 4)
    kinds = {name: described.data_type for name, described in VALID[operator].tensors.items()}
    by_kind, by_rank = groups(operator, "DataType"), groups(operator, "DimensionCount")
    for group in by_kind:
        (ranked,) = (others for others in by_rank if group[0] in others)
        for kind, rank in itertools.product(KINDS, RANKS) if is_full(operator) else SAMPLE:
            yield kinds | dict.fromkeys(group, kind), ranks | dict.fromkeys(ranked, rank)
    for ranked, rank in itertools.product(by_rank, RANKS):
        yield kinds, ranks | dict.fromkeys(ranked, rank)
    if len(by_kind) == 2:
        for pair in itertools.product(KINDS, KINDS):
            yield {name: kind for group, kind in zip(by_kind, pair, strict=True) for name in group}, ranks


@pytest.mark.parametrize("operator", VALID)
def test_the_tables_decide_on_every_data_type_and_rank_at_every_level(operator):
    compared = set()
    for kinds, ranks in kinds_and_ranks(operator):
        tensors = {name: tensor(kinds[name], *[1] * ranks[name]) for name in kinds}
        of_ones = STRUCTS[operator].of_ones
        desc = changed(operator, **tensors, **(of_ones(ranks) if callable(of_ones) else of_ones))
        if desc in compared:
            continue
        compared.add(desc)
        for level in LEVELS:
            expected = all(allowed(operator, name, level, kinds[name], ranks[name]) for name in kinds)
            expected = expected and STRUCTS[operator].together(kinds)
            assert (not broken(desc, level)) == expected, (desc, level)
    by_kind, by_rank = (len(groups(operator, field)) for field in ("DataType", "DimensionCount"))
    if not is_full(operator):
        # Groups share the valid description, and its types with the other rank if they have one rank.
        assert len(compared) >= by_kind * len(SAMPLE) - 2 * (by_kind - 1)
        return
    # Groups share the valid description, and the ranks if they have one rank; pairs share those of one group.
    shared = 9 * (by_kind - by_rank) + by_rank - 1
    assert len(compared) == by_kind * 14 * 9 - shared + (13 * 13 if by_kind == 2 else 0)


def test_the_tables_are_those_of_the_pages():
    found = {
        (operator.name, name): {
            level: (row[name].dimension_counts, {kind.name for kind in row[name].data_types})
            for level, row in rows.items()
        }
        for operator, rows in dml.SUPPORT.items()
        if operator.name in STRUCTS
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
