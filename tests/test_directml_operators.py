"""Compiled descriptions: the pages' examples, the public operators' answers, buffers by their strides, bad inputs."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, INT8, INT64, UINT8, UINT32, CopyOperatorDesc, tensor
from tests.kit import assert_same_bits, data, kinds, quick, seeds
from tests.structs import STRUCTS, VALID, changed

pytestmark = quick

INCREASING, DECREASING = dml.AxisDirection
INT32, UINT64, FLOAT64 = (dml.TensorDataType[name] for name in ("INT32", "UINT64", "FLOAT64"))


def drawn(desc, rng):
    """Draw an array for every input, with indices in range of which no two name the same element."""
    inputs = []
    for name, role in desc.roles().items():
        described = desc.tensors.get(name)
        if role.output:
            continue
        if role.several:
            inputs.append(
                [values(one, "scale" if place == 0 else name, rng) for place, one in enumerate(getattr(desc, name))]
            )
            continue
        if described is None:
            inputs.append(None)
            continue
        if role.indices:
            inputs.append(distinct(desc, rng).astype(described.data_type.dtype))
        else:
            inputs.append(values(described, name, rng))
    return inputs


def values(described, name, rng):
    """Draw an array for a tensor; a scale is no NaN."""
    dtype, sizes = described.data_type.dtype, described.sizes
    if "scale" in name:
        return rng.uniform(0.5, 2, sizes).astype(dtype)
    return data("any bits", int(rng.integers(2**32)), sizes, dtype)


def distinct(desc, rng):
    """Draw indices for a scatter: distinct along the axis, or distinct tuples; for a gather, any that are in range."""
    sizes, shape = desc.input_tensor.sizes, desc.indices_tensor.sizes
    if "updates_tensor" not in desc.tensors:
        first = desc.axis if "axis" in desc.scalars else -desc.input_dimension_count
        first += desc.scalars.get("batch_dimension_count", 0)
        t = 1 if "axis" in desc.scalars else shape[-1]
        return rng.integers(0, (sizes + sizes)[first + (first < 0) * len(sizes) :][:t], shape)
    if "axis" in desc.scalars:
        last = (*sizes[: desc.axis], *sizes[desc.axis + 1 :], sizes[desc.axis])
        orders = rng.permuted(np.broadcast_to(np.arange(last[-1]), last), axis=-1)
        return np.moveaxis(orders[..., : shape[desc.axis]], -1, desc.axis)
    named = sizes[-desc.input_dimension_count :][: shape[-1]]
    places = rng.choice(np.prod(named), int(np.prod(shape[:-1])), replace=False)
    return np.stack(np.unravel_index(places, named), axis=-1).reshape(shape)


@pytest.mark.parametrize("operator", ["SCATTER", "SCATTER_ND"])
def test_no_two_of_the_drawn_indices_name_the_same_element(operator):
    desc = PACKED[operator]
    x, indices, updates = drawn(desc, np.random.default_rng(5))
    written = dml.compile_operator(desc)(np.zeros_like(x), indices, np.ones_like(updates))
    assert np.asarray(written).sum() == updates.size


def public(desc, *inputs):
    """Call what the description is of."""
    return STRUCTS[desc.operator_type.name].public(desc, *inputs)


FULL_RANK = changed(
    "SCATTER_ND",
    input_tensor=tensor(FLOAT32, 7, 4), indices_tensor=tensor(UINT32, 6, 1), updates_tensor=tensor(FLOAT32, 6, 4),
    output_tensor=tensor(FLOAT32, 7, 4), input_dimension_count=2, indices_dimension_count=2,
)  # fmt: skip
PACKED = {**VALID, "SCATTER_ND": FULL_RANK}


@pytest.mark.parametrize("operator", PACKED)
def test_a_packed_description_is_the_public_operator_and_nothing_else(operator):
    desc = PACKED[operator]
    inputs = drawn(desc, np.random.default_rng(0))
    arrays = [array for array in inputs if array is not None]

    def program(call):
        return re.sub("0x[0-9a-f]+", "", str(jax.make_jaxpr(call)(*arrays)))

    assert program(dml.compile_operator(desc)) == program(lambda *given: public(desc, *given))


@pytest.mark.parametrize("operator", PACKED)
def test_the_answer_is_the_public_operators(operator):
    desc = PACKED[operator]
    inputs = drawn(desc, np.random.default_rng(1))
    operator = dml.compile_operator(desc)
    want, got = public(desc, *inputs), operator(*inputs)
    jax.tree.map(assert_same_bits, got, want)
    jax.tree.map(assert_same_bits, jax.jit(operator)(*inputs), want)
    stacked = jax.tree.map(lambda array: np.stack([array] * 2, axis=1), inputs)
    mapped = jax.jit(jax.vmap(operator, in_axes=1, out_axes=1))(*stacked)
    jax.tree.map(lambda both, one: assert_same_bits(both[:, 1], one), mapped, want)


TEN = np.array([[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]], np.float32)
TIES = np.array([[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]], np.float32)


@pytest.mark.parametrize(
    ("x", "axis", "k", "direction", "values", "indices"),
    [
        (TEN, 3, 2, DECREASING, [[11, 10], [9, 8], [7, 6]], [[3, 2], [2, 3], [3, 2]]),
        (TEN, 2, 2, DECREASING, [[4, 5, 10, 11], [3, 2, 9, 8]], [[2, 2, 0, 0], [1, 1, 1, 1]]),
        (TIES, 3, 3, DECREASING, [[3, 2, 2], [5, 5, 4], [6, 6, 6]], [[3, 1, 2], [2, 3, 1], [0, 1, 2]]),
        (TIES, 3, 3, INCREASING, [[1, 2, 2], [3, 4, 5], [6, 6, 6]], [[0, 1, 2], [0, 1, 2], [0, 1, 2]]),
    ],
)
def test_the_examples_of_the_selections(x, axis, k, direction, values, indices):
    shape = np.array([[values]]).shape
    tensors = {
        "input_tensor": tensor(FLOAT32, *x.shape),
        "output_value_tensor": tensor(FLOAT32, *shape),
        "output_index_tensor": tensor(UINT32, *shape),
    }
    descs = [dml.TopK1OperatorDesc(**tensors, axis=axis, k=k, axis_direction=direction)]
    if direction == DECREASING:
        descs.append(dml.TopKOperatorDesc(**tensors, axis=axis, k=k))
    for desc in descs:
        got = dml.compile_operator(desc, dml.FeatureLevel.LEVEL_2_1)(x)
        assert_same_bits(got.values, np.array([[values]], np.float32))
        assert_same_bits(got.indices, np.array([[indices]], np.uint32))


@pytest.mark.parametrize(
    ("x", "indices", "updates", "want"),
    [
        ([0, 1, 2, 3, 4], [3, 1, 3, 0], [5, 6, 7, 8], [8, 6, 2, 7, 4]),
        (np.zeros((3, 3)), [[1, 0, 2], [0, 2, 1]], [[10, 11, 12], [20, 21, 22]],
            [[20, 11, 0], [10, 0, 22], [0, 21, 12]]),
    ],
)  # fmt: skip
def test_the_examples_of_scatter(x, indices, updates, want):
    x, updates, want = (np.array(part, np.float32) for part in (x, updates, want))
    desc = dml.ScatterElementsOperatorDesc(
        input_tensor=tensor(FLOAT32, *x.shape), indices_tensor=tensor(UINT32, *updates.shape),
        updates_tensor=tensor(FLOAT32, *updates.shape), output_tensor=tensor(FLOAT32, *x.shape), axis=0,
    )  # fmt: skip
    # The first one writes a place twice, and shows what the last write leaves.
    operator = dml.compile_operator(desc, dml.FeatureLevel.LEVEL_3_0, duplicates="last")
    assert_same_bits(operator(x, np.array(indices, np.uint32), updates), want)


def test_the_example_of_scatter_nd_with_numbers():
    # The page gives the tensors different ranks and the indices as FLOAT32; this is what it means.
    desc = dml.ScatterNdOperatorDesc(
        input_tensor=tensor(FLOAT32, 1, 8), indices_tensor=tensor(UINT32, 4, 1),
        updates_tensor=tensor(FLOAT32, 1, 4), output_tensor=tensor(FLOAT32, 1, 8),
        input_dimension_count=1, indices_dimension_count=2,
    )  # fmt: skip
    x, updates = np.arange(1, 9, dtype=np.float32)[None], np.arange(9, 13, dtype=np.float32)[None]
    got = dml.compile_operator(desc)(x, np.array([[4], [3], [1], [7]], np.uint32), updates)
    assert_same_bits(got, np.array([[1, 11, 3, 10, 9, 6, 7, 12]], np.float32))


def test_the_example_of_scatter_nd_with_sizes():
    desc = dml.ScatterNdOperatorDesc(
        input_tensor=tensor(FLOAT32, 3, 4, 5, 6, 7), indices_tensor=tensor(UINT32, 1, 1, 1, 2, 3),
        updates_tensor=tensor(FLOAT32, 1, 1, 2, 6, 7), output_tensor=tensor(FLOAT32, 3, 4, 5, 6, 7),
        input_dimension_count=5, indices_dimension_count=3,
    )  # fmt: skip
    x, indices, updates = drawn(desc, np.random.default_rng(2))
    want = x.copy()
    for place, update in zip(indices.reshape(2, 3), updates.reshape(2, 6, 7), strict=True):
        want[tuple(place)] = update
    assert_same_bits(dml.compile_operator(desc)(x, indices, updates), want)


def test_an_index_tuple_alone_writes_one_slice():
    desc = dml.ScatterNdOperatorDesc(
        input_tensor=tensor(INT8, 1, 4, 3), indices_tensor=tensor(INT32, 1, 1, 1),
        updates_tensor=tensor(INT8, 1, 1, 3), output_tensor=tensor(INT8, 1, 4, 3),
        input_dimension_count=2, indices_dimension_count=1,
    )  # fmt: skip
    got = dml.compile_operator(desc)(
        np.zeros((1, 4, 3), np.int8), np.array([[[-1]]], np.int32), np.ones((1, 1, 3), np.int8)
    )
    assert_same_bits(got, np.array([[[0] * 3] * 3 + [[1] * 3]], np.int8))


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_scales_may_have_another_rank_than_what_they_scale(rank, count):
    m, k, n = 3, 4, 5
    batch = (2,) * (rank - 2)

    def parameter(kind, each, dimension):
        sizes = [1] * count
        sizes[max(dimension, -count)] = each
        return tensor(kind, *sizes)

    desc = dml.QuantizedLinearMatrixMultiplyOperatorDesc(
        a_tensor=tensor(UINT8, *batch, m, k), a_scale_tensor=parameter(FLOAT32, m, -2),
        b_tensor=tensor(INT8, *batch, k, n), b_scale_tensor=parameter(FLOAT32, n, -1),
        b_zero_point_tensor=parameter(INT8, n, -1),
        output_scale_tensor=parameter(FLOAT32, m, -2), output_tensor=tensor(INT8, *batch, m, n),
    )  # fmt: skip
    inputs = drawn(desc, np.random.default_rng(rank))
    flat = [None if array is None else array.reshape(-1) for array in inputs]
    want = jaxdml.quantized_linear_matrix_multiply(
        inputs[0], *flat[1:3], inputs[3], *flat[4:], output_dtype=jnp.int8
    )  # fmt: skip
    assert_same_bits(dml.compile_operator(desc)(*inputs), want)


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("count_of_a", [1, 2, 3, 4])
@pytest.mark.parametrize("count_of_b", [1, 2, 3, 4])
def test_each_zero_point_may_have_a_rank_of_its_own(rank, count_of_a, count_of_b):
    m, k, n = 3, 4, 3
    batch = (2,) * (rank - 2)
    per_row = (1, 1, m, 1)[-count_of_a:] if count_of_a > 1 else (m,)
    desc = dml.MatrixMultiplyIntegerOperatorDesc(
        a_tensor=tensor(UINT8, *batch, m, k), a_zero_point_tensor=tensor(UINT8, *per_row),
        b_tensor=tensor(INT8, *batch, k, n), b_zero_point_tensor=tensor(INT8, *(1, 1, 1, n)[-count_of_b:]),
        output_tensor=tensor(INT32, *batch, m, n),
    )  # fmt: skip
    a, a_zero_point, b, b_zero_point = inputs = drawn(desc, np.random.default_rng(rank))
    want = (a - a_zero_point.reshape(m, 1).astype(np.int32)) @ (b - b_zero_point.reshape(n).astype(np.int32))
    assert_same_bits(dml.compile_operator(desc)(*inputs), want)


def test_an_older_level_computes_the_same():
    desc = VALID["TOP_K1"]
    assert dml.compile_operator(desc, 0x2100)(TEN).values.tolist() == dml.compile_operator(desc)(TEN).values.tolist()


WIDTHS = ["FLOAT32", "FLOAT16", "INT8", "UINT16", "INT4"]


def filled(kind, seed, shape, dtype):
    """Make an array of the named kind; of 4-bit integers, small ones."""
    if dtype == jnp.int4:
        return np.random.default_rng(seed).integers(-8, 7, shape, endpoint=True).astype(dtype)
    return data(kind, seed, shape, dtype)


@st.composite
def layouts(draw):
    """Draw sizes and strides: packed in any order, with gaps, broadcast, overlapping."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    return sizes, tuple(draw(st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes))))


BYTES = [name for name in WIDTHS if name != "INT4"]


@given(layouts(), st.sampled_from(BYTES), kinds, seeds, st.integers(0, 5))
@example(((3, 4), (2, 1)), "INT8", "any bits", 0, 0)
@example(((3, 3), (1, 1)), "FLOAT32", "any bits", 1, 1)
@example(((2, 3, 2), (0, 2, 1)), "FLOAT16", "any bits", 2, 0)
@example(((4, 3), (1, 4)), "UINT16", "any bits", 3, 2)
@example(((4, 3), (6, 4)), "FLOAT32", "any bits", 4, 0)
@example(((2, 3, 4), (1, 8, 2)), "FLOAT32", "any bits", 5, 0)
def test_an_input_is_read_by_its_strides(layout, name, kind, seed, more):
    check_reading(layout, name, kind, seed, more)


@pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="XLA's GPU backend aborts on some programs of 4-bit integers"
)
@settings(max_examples=8)
@given(layouts(), seeds, st.integers(0, 5))
@example(((3, 3), (3, 2)), 6, 0)
def test_an_input_of_4_bits_is_read_by_its_strides(layout, seed, more):
    check_reading(layout, "INT4", "any bits", seed, more)


def check_reading(layout, name, kind, seed, more):
    sizes, strides = layout
    described = dml.BufferTensorDesc(dml.TensorDataType[name], sizes, strides)
    dtype = described.data_type.dtype
    length = 8 * described.size_in_bytes // described.data_type.bits + more
    buffer = filled(kind, seed, (length,), dtype)
    want = np.lib.stride_tricks.as_strided(buffer, sizes, [stride * dtype.itemsize for stride in strides])
    desc = CopyOperatorDesc(input_tensor=described, output_tensor=tensor(described.data_type, *sizes))
    operator = dml.compile_operator(desc)
    for given_buffer in (buffer, jnp.asarray(buffer)):
        assert_same_bits(operator(given_buffer), want)


@st.composite
def places(draw):
    """Draw sizes and strides of which each dimension steps over the smaller ones."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(sizes))))
    strides, span = [0] * len(sizes), 1
    for dimension in order:
        strides[dimension] = span + draw(st.integers(0, 3))
        span = strides[dimension] * (sizes[dimension] - 1) + span
    return tuple(sizes), tuple(strides)


@given(places(), st.sampled_from(WIDTHS), kinds, seeds, st.integers(0, 5))
@example(((2, 3, 4), (1, 8, 2)), "FLOAT32", "any bits", 5, 0)
@example(((2, 3), (7, 2)), "FLOAT16", "any bits", 6, 1)
@example(((3, 3), (4, 1)), "INT4", "any bits", 7, 1)
def test_an_output_is_written_by_its_strides(layout, name, kind, seed, more):
    sizes, strides = layout
    least = dml.BufferTensorDesc(dml.TensorDataType[name], sizes, strides).size_in_bytes
    described = dml.BufferTensorDesc(
        dml.TensorDataType[name], sizes, strides, total_tensor_size_in_bytes=least + 4 * more
    )
    dtype = described.data_type.dtype
    x = filled(kind, seed, sizes, dtype)
    desc = CopyOperatorDesc(input_tensor=tensor(described.data_type, *sizes), output_tensor=described)
    got = dml.compile_operator(desc)(x)
    want = np.zeros(8 * (least + 4 * more) // described.data_type.bits, dtype)
    np.lib.stride_tricks.as_strided(want, sizes, [stride * dtype.itemsize for stride in strides])[...] = x
    assert_same_bits(got, want)


@pytest.mark.parametrize(
    ("sizes", "strides", "moves_by"),
    [
        ((3, 4), (4, 1), set()),
        ((3, 4), (7, 1), set()),
        ((3, 4), (1, 3), set()),
        ((2, 3, 4), (24, 1, 6), set()),
        ((3, 1, 4), (8, 99, 2), set()),
        ((3, 4), (7, 2), {"gather", "scatter"}),
    ],
)
def test_buffers_with_regular_gaps_are_cut_and_filled_not_gathered(sizes, strides, moves_by):
    described = dml.BufferTensorDesc(FLOAT32, sizes, strides)
    desc = dml.ScatterOperatorDesc(
        input_tensor=described, indices_tensor=tensor(UINT32, *sizes), updates_tensor=tensor(FLOAT32, *sizes),
        output_tensor=described, axis=0,
    )  # fmt: skip
    buffer = jnp.arange(described.span, dtype=jnp.float32)
    given = buffer, jnp.zeros(sizes, jnp.uint32), jnp.zeros(sizes, jnp.float32)
    program = str(jax.make_jaxpr(dml.compile_operator(desc))(*given))
    packed = str(jax.make_jaxpr(lambda *given: jaxdml.scatter_elements(*given, axis=0))(jnp.zeros(sizes), *given[1:]))
    more = {name for name in ("gather", "scatter") if program.count(f" {name}[") > packed.count(f" {name}[")}
    assert more == moves_by


def test_an_output_has_all_of_its_size():
    described = dml.BufferTensorDesc(FLOAT32, (4,), (1,), total_tensor_size_in_bytes=18)
    desc = dml.TopKOperatorDesc(
        input_tensor=described, output_value_tensor=described, output_index_tensor=tensor(UINT32, 4), axis=0, k=4
    )
    operator = dml.compile_operator(desc)
    values, _ = operator(operator(jnp.arange(5.0)).values)
    assert_same_bits(values, np.array([3, 2, 1, 0, 0], np.float32))


def test_duplicates_go_to_both_scatters():
    for operator in ("SCATTER", "SCATTER_ND"):
        desc = PACKED[operator]
        inputs = drawn(desc, np.random.default_rng(3))
        programs = {
            duplicates: str(jax.make_jaxpr(dml.compile_operator(desc, duplicates=duplicates))(*inputs))
            for duplicates in ("unspecified", "last", "unique")
        }
        assert len(set(programs.values())) == 3
        assert "unique_indices=True" in programs["unique"]


def test_strided_outputs_of_a_selection_are_buffers():
    desc = changed(
        "TOP_K1",
        output_value_tensor=tensor(FLOAT32, 1, 1, 3, 2, strides=(0, 0, 1, 4)),
        output_index_tensor=tensor(UINT32, 1, 1, 3, 2, strides=(6, 6, 2, 1)),
    )
    values, indices = jax.jit(dml.compile_operator(desc))(TEN)
    assert_same_bits(values, np.array([11, 9, 7, 0, 10, 8, 6], np.float32))
    assert_same_bits(indices, np.array([3, 2, 2, 3, 3, 2], np.uint32))


def test_buffers_are_mapped_and_differentiated():
    desc = changed(
        "TOP_K1",
        input_tensor=tensor(FLOAT32, 1, 1, 3, 4, strides=(0, 0, 5, 1)),
        output_value_tensor=tensor(FLOAT32, 1, 1, 3, 2, strides=(0, 0, 1, 4)),
    )
    operator = dml.compile_operator(desc)
    buffers = np.random.default_rng(0).standard_normal((2, 14), np.float32)
    mapped = jax.jit(jax.vmap(operator))(buffers)
    for number, buffer in enumerate(buffers):
        for both, one in zip(mapped, operator(jnp.asarray(buffer)), strict=True):
            assert_same_bits(both[number], one)
    gradient = jax.jit(jax.grad(lambda buffer: operator(buffer).values.sum()))(buffers[0])
    assert gradient.sum() == 6
    assert set(np.asarray(gradient).tolist()) == {0.0, 1.0}
    assert gradient[4] == gradient[9] == 0


def test_long_numpy_indices_keep_their_64_bits():
    desc = changed(
        "SCATTER",
        indices_tensor=tensor(INT64, 1, 1, 2, 4, strides=(0, 0, 0, 1)),
        output_tensor=VALID["SCATTER"].input_tensor,
    )
    operator = dml.compile_operator(desc)
    x, updates = np.zeros((1, 1, 3, 4), np.float32), np.ones((1, 1, 2, 4), np.float32)
    got = operator(x, np.array([2**32 + 1, -1, 2, 1], np.int64), updates)
    want = x.copy()
    want[0, 0, [2, 2, 1], [1, 2, 3]] = 1
    assert_same_bits(got, want)
    tuples = dml.compile_operator(changed("SCATTER_ND", indices_tensor=tensor(INT64, 1, 1, 6, 2)))
    indices = np.array([[2**32, 0], [0, 2**32 + 1], [0, 1], [-1, -4], [1, 3], [2, 3]], np.int64).reshape(1, 1, 6, 2)
    got = tuples(np.zeros((1, 3, 4, 5), np.float32), indices, np.ones((1, 1, 6, 5), np.float32))
    want = np.zeros((1, 3, 4, 5), np.float32)
    want[0, [0, 2, 1, 2], [1, 0, 3, 3]] = 1
    assert_same_bits(got, want)


def test_wide_types_need_x64():
    wide = changed(
        "TOP_K1", input_tensor=tensor(INT64, 1, 1, 3, 4), output_value_tensor=tensor(INT64, 1, 1, 3, 2),
        output_index_tensor=tensor(UINT64, 1, 1, 3, 2),
    )  # fmt: skip
    x = np.arange(12).reshape(1, 1, 3, 4) << 40
    with jax.enable_x64(True):
        got = dml.compile_operator(wide)(x)
        assert_same_bits(got.values, np.sort(x)[..., :-3:-1])
        assert got.indices.dtype == np.uint64


TOP = "jaxdml.directml.TopK1OperatorDesc: "
OUT = "OutputIndexTensor is UINT64, which JAX has only with jax_enable_x64."
WIDE_INDEX = changed("TOP_K1", output_index_tensor=tensor(UINT64, 1, 1, 3, 2))
STRIDED = changed("TOP_K1", input_tensor=tensor(FLOAT32, 1, 1, 3, 4, strides=(0, 0, 5, 1)))
WIDE = changed("SCATTER", input_tensor=tensor(FLOAT64, 1, 1, 3, 4), updates_tensor=tensor(FLOAT64, 1, 1, 2, 4),
    output_tensor=tensor(FLOAT64, 1, 1, 3, 4))  # fmt: skip
UPDATES = np.ones((1, 1, 2, 4), np.float32)
LONG_INDICES = changed("SCATTER", indices_tensor=tensor(INT64, 1, 1, 2, 4))
ONE_ZERO_POINT = changed("QUANTIZED_LINEAR_MATRIX_MULTIPLY", b_zero_point_tensor=None)
PRODUCT_INPUTS = drawn(VALID["QUANTIZED_LINEAR_MATRIX_MULTIPLY"], np.random.default_rng(0))
MULTIPLY = "jaxdml.directml.QuantizedLinearMatrixMultiplyOperatorDesc: "

REFUSALS = {
    "no array": (VALID["TOP_K1"], ([[1.0]],), TOP + "InputTensor must be an array.", "InputTensor: list",
        "Pass jnp.asarray(input_tensor)."),
    "no input": (VALID["TOP_K1"], (), TOP + "the inputs must be 1: InputTensor; got 0.", "InputTensor: None",
        "Pass None for an optional tensor that is not described."),
    "too many inputs": (VALID["TOP_K1"], (TEN, None), TOP + "the inputs must be 1: InputTensor; got 2.",
        "InputTensor: float32[1, 1, 3, 4]", "Pass None for an optional tensor that is not described."),
    "text": (VALID["TOP_K1"], ("1",), TOP + "InputTensor must be an array.", "InputTensor: str",
        "Pass a NumPy or JAX array."),
    "none": (VALID["TOP_K1"], (None,), TOP + "InputTensor must be an array, as described.", "InputTensor: None",
        "Pass one."),
    "dtype": (VALID["TOP_K1"], (TEN.astype(np.float16),), TOP + "InputTensor must be float32; got float16.",
        "InputTensor: float16[1, 1, 3, 4]", "Pass input_tensor.astype('float32'), or describe another data type."),
    "sizes": (VALID["TOP_K1"], (TEN[0],), TOP + "InputTensor must have the sizes [1, 1, 3, 4]; got [1, 3, 4].",
        "InputTensor: float32[1, 3, 4]", "Pass input_tensor.reshape((1, 1, 3, 4)), or describe another size."),
    "no buffer": (STRIDED, (TEN,),
        TOP + "InputTensor has strides, so it must be a 1-D buffer of at least 56 bytes; got [1, 1, 3, 4].",
        "InputTensor: float32[1, 1, 3, 4]", "Pass the whole buffer as one dimension, 14 elements."),
    "short buffer": (STRIDED, (np.zeros(13, np.float32),),
        TOP + "InputTensor has strides, so it must be a 1-D buffer of at least 56 bytes; got [13].",
        "InputTensor: float32[13]", "Pass the whole buffer as one dimension, 14 elements."),
    "wide output": (WIDE_INDEX, (TEN,), TOP + OUT, "InputTensor: float32[1, 1, 3, 4]",
        "Enable jax_enable_x64, or describe a narrower type."),
    "wide input": (WIDE, (np.zeros((1, 1, 3, 4)), np.zeros((1, 1, 2, 4), np.uint32), np.zeros((1, 1, 2, 4))),
        "jaxdml.directml.ScatterOperatorDesc: InputTensor is FLOAT64, which JAX has only with jax_enable_x64.",
        "InputTensor: float64[1, 1, 3, 4]", "Enable jax_enable_x64, or describe a narrower type."),
    "wide updates": (VALID["SCATTER"], (TEN, np.zeros((1, 1, 2, 4), np.uint32), UPDATES.astype(np.float64)),
        "jaxdml.directml.ScatterOperatorDesc: UpdatesTensor must be float32; got float64.",
        "UpdatesTensor: float64[1, 1, 2, 4]", "Pass updates_tensor.astype('float32'), or describe another data type."),
    "wide indices that JAX has cut": (LONG_INDICES, (TEN, jnp.zeros((1, 1, 2, 4), jnp.int32), UPDATES),
        "jaxdml.directml.ScatterOperatorDesc: IndicesTensor is INT64, which JAX has only with jax_enable_x64.",
        "IndicesTensor: int32[1, 1, 2, 4]",
        "Enable jax_enable_x64, pass a NumPy array outside of jax.jit, or describe a narrower type."),
    "narrow indices": (LONG_INDICES, (TEN, np.zeros((1, 1, 2, 4), np.int32), UPDATES),
        "jaxdml.directml.ScatterOperatorDesc: IndicesTensor must be int64; got int32.",
        "IndicesTensor: int32[1, 1, 2, 4]", "Pass indices_tensor.astype('int64'), or describe another data type."),
    "no values": (STRIDED, (jax.ShapeDtypeStruct((14,), jnp.float32),), TOP + "InputTensor must be an array.",
        "InputTensor: float32[14]", "Pass a NumPy or JAX array."),
    "no numbers": (VALID["TOP_K1"], (jax.random.key(0),), TOP + "InputTensor must be float32; got key<fry>.",
        "InputTensor: key<fry>[]", "Pass an array of numbers."),
    "a zero point that is not described": (ONE_ZERO_POINT, tuple(PRODUCT_INPUTS),
        MULTIPLY + "BZeroPointTensor must be None, as described.", "BZeroPointTensor: int8[1, 1, 1, 1]",
        "Describe a tensor there, or pass None."),
}  # fmt: skip


CONVERTED = {"no array", "text", "wide input", "wide updates", "narrow indices", "no values"}
"""What jit makes another array of, or refuses itself, before an operator sees it."""


@pytest.mark.parametrize(
    ("transform", "name"),
    [(lambda call: call, name) for name in REFUSALS] + [(jax.jit, name) for name in REFUSALS if name not in CONVERTED],
)
def test_bad_inputs_are_refused_with_three_lines(transform, name):
    desc, inputs, *lines = REFUSALS[name]
    with pytest.raises(TypeError) as caught:
        transform(dml.compile_operator(desc))(*inputs)
    assert str(caught.value) == "\n  ".join(lines)


def test_what_is_no_description_is_not_compiled():
    with pytest.raises(
        TypeError, match=r"^jaxdml\.directml\.compile_operator: desc must be the description of an operator"
    ):
        dml.compile_operator({"Type": "TOP_K1"})
    with pytest.raises(ValueError, match=r"feature_level must be one of LEVEL_1_0, .*, LEVEL_6_4; got 3"):
        dml.compile_operator(VALID["TOP_K1"], 3)
    with pytest.raises(ValueError, match="duplicates must be one of unspecified, last, unique; got 'first'"):
        dml.compile_operator(VALID["SCATTER"], duplicates="first")
    with pytest.raises(ValueError, match="DML_OPERATOR_TOP_K1 has no option duplicates; got duplicates='last'"):
        dml.compile_operator(VALID["TOP_K1"], duplicates="last")


def test_a_compiled_operator_is_a_value():
    one, other = (dml.compile_operator(VALID["TOP_K1"]) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != dml.compile_operator(VALID["TOP_K"])
    assert jax.jit(lambda operator, x: operator(x).values, static_argnums=0)(one, TEN).shape == (1, 1, 3, 2)
