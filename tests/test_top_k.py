"""The laws of top_k, against the oracle and by themselves."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.test_util import check_grads

import jaxdml
from jaxdml import AxisDirection, reference
from jaxdml._algorithms.packed import among_packed, by_ranks, by_sorting
from jaxdml._algorithms.repeated_maxima import by_repeated_maxima
from jaxdml._algorithms.tournament import by_tournament
from jaxdml._lowerings import top_k as lowering
from jaxdml._lowerings import top_k_on_cpu
from tests.laws import assert_same_bits, bits
from tests.strategies import DATA, FLOATS, HALVES, INTEGERS, WIDE, data, kinds, seeds

DIRECTIONS = ["decreasing", "increasing"]
METHODS = [None, *lowering.METHODS]
# On both sides of every size at which the method changes.
START = top_k_on_cpu.PRUNING_OF_FEW_ROWS.min_length
LENGTHS = [1, 2, 3, 17, 64, START - 1, START, 1024, 1500, 4097]

PAGE_1 = np.array([[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]], np.float32)
PAGE_2 = np.array([[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]], np.float32)


def cannot_serve(method, n, k, dtype):
    """Say whether forcing this method must be refused here."""
    if method is None:
        return False
    elsewhere = method == "float_top_k" and jax.default_backend() != "cpu"
    return elsewhere or lowering.why_not(method, n, k, np.dtype(dtype).itemsize) is not None


def check(x, k, **options):
    got = jaxdml.top_k(x, k, **options)
    options.pop("implementation", None)
    values, indices = reference.top_k(x, k, **options)
    assert_same_bits(got.indices, indices)
    assert_same_bits(got.values, values)
    return got


@pytest.mark.parametrize("operator", [jaxdml.top_k, reference.top_k], ids=["jax", "oracle"])
@pytest.mark.parametrize(
    ("x", "options", "values", "indices"),
    [
        (PAGE_1, {"axis": 3, "k": 2}, [[[[11, 10], [9, 8], [7, 6]]]], [[[[3, 2], [2, 3], [3, 2]]]]),
        (PAGE_1, {"axis": 2, "k": 2}, [[[[4, 5, 10, 11], [3, 2, 9, 8]]]], [[[[2, 2, 0, 0], [1, 1, 1, 1]]]]),
        (PAGE_2, {"axis": 3, "k": 3}, [[[[3, 2, 2], [5, 5, 4], [6, 6, 6]]]], [[[[3, 1, 2], [2, 3, 1], [0, 1, 2]]]]),
        (
            PAGE_2,
            {"axis": 3, "k": 3, "direction": AxisDirection.INCREASING},
            [[[[1, 2, 2], [3, 4, 5], [6, 6, 6]]]],
            [[[[0, 1, 2], [0, 1, 2], [0, 1, 2]]]],
        ),
    ],
)
def test_worked_examples(operator, x, options, values, indices):
    got_values, got_indices = operator(x, **options)
    assert_same_bits(got_values, np.array(values, np.float32))
    assert_same_bits(got_indices, np.array(indices, np.uint32))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@given(
    kind=kinds,
    seed=seeds,
    n=st.sampled_from(LENGTHS),
    part=st.sampled_from([0.0, 0.01, 0.05, 0.3, 1.0]),
    direction=st.sampled_from(DIRECTIONS),
)
def test_agrees_with_the_oracle(method, dtype, kind, seed, n, part, direction):
    k = max(1, round(part * n))
    if cannot_serve(method, n, k, dtype):
        with pytest.raises(NotImplementedError):
            jaxdml.top_k(data(kind, seed, (2, n), dtype), k, implementation=method)
        return
    check(data(kind, seed, (2, n), dtype), k, direction=direction, implementation=method)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_64_bit_dtypes_agree_with_the_oracle(dtype, method):
    with jax.enable_x64(True):
        for n, k in ((5, 3), (1500, 20)):
            for kind in ("any bits", "specials", "few distinct"):
                x = data(kind, 7, (3, n), dtype)
                for direction in DIRECTIONS:
                    if cannot_serve(method, n, k, dtype):
                        with pytest.raises(NotImplementedError):
                            jaxdml.top_k(x, k, implementation=method)
                    else:
                        check(x, k, direction=direction, implementation=method)


# Rows, n and k on both sides of where the CPU changes from one method to another, within the pruned and without.
MANY = [
    (top_k_on_cpu.MANY_ROWS - 1, 300, 5),
    (top_k_on_cpu.MANY_ROWS, 300, 5),
    (top_k_on_cpu.MANY_ROWS, 16, 15),
    (top_k_on_cpu.MANY_ROWS, 128, top_k_on_cpu.MAX_STEPS_FOR_MAXIMA // 128),
    (top_k_on_cpu.MANY_ROWS, 129, 128),
    (top_k_on_cpu.MANY_ROWS, 1057, 70),
    (top_k_on_cpu.MANY_ROWS, 9001, 33),
    (top_k_on_cpu.MANY_ROWS, 70_001, 9),
    (3, 700, top_k_on_cpu.MIN_K_FOR_THRESHOLD - 1),
    (3, 700, top_k_on_cpu.MIN_K_FOR_THRESHOLD),
    (2, 8200, top_k_on_cpu.MIN_K_FOR_THRESHOLD),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint16", "int8"])
@pytest.mark.parametrize(("rows", "n", "k"), MANY)
def test_many_rows_and_large_k_agree_with_the_oracle(dtype, rows, n, k):
    for seed, kind in enumerate(DATA):
        check(data(kind, seed, (rows, n), np.dtype(dtype)), k, direction=DIRECTIONS[seed % 2])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize(
    ("rows", "n", "k"),
    [
        (1, 40, 3),
        (1, 5000, 50),
        (2, 4097, 9),
        (3, 70_001, 70),
        (17, 2049, 64),
        (40, 130, 1),
        (0, 9, 2),
        (600, 1000, 40),
    ],
)
def test_rounds_of_every_number_agree_with_the_oracle(dtype, rows, n, k):
    for seed, kind in enumerate(DATA):
        for direction in DIRECTIONS:
            check(data(kind, seed, (rows, n), np.dtype(dtype)), k, direction=direction, implementation="tournament")


@pytest.mark.parametrize("n", [33, 50, 257, 1000, 4097])
@pytest.mark.parametrize("method", METHODS)
def test_what_stands_at_a_ragged_end_counts_once(method, n):
    if cannot_serve(method, n, 4, np.int16):
        pytest.skip(f"{method} does not serve on {jax.default_backend()}")
    x = np.arange(2 * n, dtype=np.int16).reshape(2, n)
    for direction in DIRECTIONS:
        check(x, 4, direction=direction, implementation=method)
        check(np.repeat(x, 9, axis=0), 4, direction=direction, implementation=method)


@pytest.mark.parametrize("stored", [1, 4, 32])
@pytest.mark.parametrize("n", [64, 1000, 1025])
def test_it_does_not_matter_which_maxima_a_tournament_stores(stored, n):
    x = jnp.asarray(data("few distinct", 3, (3, n), np.float32))
    want = reference.top_k(np.asarray(x), 2)[1]
    for take in (by_ranks, by_sorting, by_repeated_maxima):
        rounds = by_tournament(
            *(x, 2, AxisDirection.DECREASING), lengths=(1, 4, 32), stored=stored, among=among_packed(take)
        )
        assert_same_bits(rounds, want)


@pytest.mark.parametrize("take", [by_ranks, by_sorting, by_repeated_maxima])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_zero_is_a_number_to_take_too(take, dtype):
    with jax.enable_x64(True):
        # With 11 and 67 numbers a row gets filled up with zeros of no meaning.
        for m in (1, 2, 11, 64, 67):
            numbers = np.arange(m, dtype=dtype)
            numbers[1:] += np.iinfo(dtype).max - m + 1
            numbers = np.random.default_rng(m).permutation(numbers)
            for k in {max(1, m - 1), m}:
                got = jax.jit(take, static_argnums=1)(numbers[None], k)
                assert_same_bits(got, np.sort(numbers)[None, ::-1][:, :k])


@pytest.mark.parametrize("take", [by_ranks, by_sorting, by_repeated_maxima])
@pytest.mark.parametrize("n", [1, 2, 256, 1 << 16, 1 << 17, 1 << 25, 1 << 30])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_the_least_key_has_every_place_there_is(take, n, dtype):
    # What loses its top bit comes after the 7.
    keys = np.array([0, np.iinfo(dtype).max // 2 + 1, 0, 0, 7], dtype)
    places = np.array([n - 1, n // 2, 0, n // 4, n - n // 4 - 1], np.uint32)
    _, first = np.unique(places, return_index=True)
    keys, places = keys[first][::-1], places[first][::-1]
    order = np.lexsort((places, ~keys))
    got = jax.jit(among_packed(take), static_argnums=(2, 3))(keys[None], places[None], len(order), n)
    assert_same_bits(got, places[order][None])


PACKED = ["repeated_maxima", "threshold", "tournament"]
# Repeated maxima would take seconds for all of so many.
LAST_PLACES = [*itertools.product(PACKED, (1, 2, 256)), *itertools.product(PACKED[1:], [1 << 16])]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize(("method", "n"), LAST_PLACES)
def test_the_least_key_at_the_last_place_is_taken_last(method, n, dtype, direction):
    ends = np.iinfo(dtype).min, np.iinfo(dtype).max
    least, greatest = ends if direction == "decreasing" else reversed(ends)
    x = np.stack([data("any bits", 1, (n,), np.dtype(dtype)), np.full(n, least, dtype), np.full(n, greatest, dtype)])
    x[0, x[0] == least] = greatest
    x[0, -1] = least
    values, indices = reference.top_k(x, n, direction=direction)
    for k in {max(1, n - 1), n}:
        got = jaxdml.top_k(x, k, direction=direction, implementation=method)
        assert_same_bits(got.indices, indices[:, :k])
        assert_same_bits(got.values, values[:, :k])


def halves_of_many_kinds(n, dtype):
    """Rows of every kind, and two where specials are so rare that most chunks have none."""
    rare = np.random.default_rng(0).random((1, n)) < 0.01
    few = np.where(rare, data("specials", 1, (1, n), dtype), data("few distinct", 2, (1, n), dtype))
    return np.concatenate([few, -few, *(data(kind, 3, (1, n), dtype) for kind in DATA)])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("n", [5000, 5001])
def test_rounds_of_16_bit_floats_agree_with_the_oracle(dtype, n, direction):
    check(halves_of_many_kinds(n, dtype), 8, direction=direction, implementation="tournament")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("n", [576, 577, 578])
@pytest.mark.parametrize(("lengths", "stored"), [((1, 4, 32), 4), ((1, 9, 36), 9)])
def test_it_does_not_matter_whether_16_bit_floats_are_read_in_pairs(dtype, n, lengths, stored, direction):
    x = halves_of_many_kinds(n, dtype)
    options = {"direction": AxisDirection[direction.upper()], "lengths": lengths, "stored": stored}
    rounds = jax.jit(partial(by_tournament, k=7, **options, among=among_packed(by_ranks)))(x)
    assert_same_bits(rounds, reference.top_k(x, 7, direction=direction)[1])


@pytest.mark.parametrize(
    ("rows", "n", "k", "pays"),
    [
        (1, 50257, 50, True), (128, 1 << 20, 2048, True), (8192, 256, 8, True), (1, 1 << 30, 100, True),
        (1, 1 << 24, 4096, False), (128, 1 << 20, 1 << 18, False),
    ],
)  # fmt: skip
def test_gpus_hold_rounds_where_they_are_short(rows, n, k, pays):
    x = jax.ShapeDtypeStruct((rows, n), np.float32)
    lowered = jax.jit(lambda x: jaxdml.top_k(x, k)).trace(x).lower(lowering_platforms=("cuda",)).as_text()
    assert ("chlo.top_k" in lowered) != pays
    assert f"tensor<{rows}x{n}xui64>" not in lowered


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    axis=st.integers(-4, 3),
    dtype=st.sampled_from(FLOATS + INTEGERS),
    kind=kinds,
    seed=seeds,
    direction=st.sampled_from(DIRECTIONS),
)
def test_every_axis_of_every_rank(shape, axis, dtype, kind, seed, direction):
    axis = axis % len(shape) - (len(shape) if axis < 0 else 0)
    for k in {1, shape[axis]}:
        check(data(kind, seed, tuple(shape), dtype), k, axis=axis, direction=direction)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 4), (4, 0)])
def test_empty_batches_give_empty_answers(shape):
    axis = shape.index(4)
    values, indices = jaxdml.top_k(jnp.zeros(shape), 2, axis=axis)
    assert values.shape == indices.shape == tuple(2 if size == 4 else size for size in shape)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_nans_are_equal_and_greatest_and_keep_their_payloads(dtype, direction):
    x = data("specials", 3, (400,), dtype)
    got = check(x, 400, direction=direction)
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs.
        nan, nan_in_x = np.isnan(np.asarray(got.values)), np.isnan(x)
    count = int(nan_in_x.sum())
    assert count > 20
    assert (nan[:count] if direction == "decreasing" else nan[-count:]).all()
    assert len(np.unique(bits(x)[nan_in_x])) == 4
    assert sorted(bits(got.values)[nan]) == sorted(bits(x)[nan_in_x])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_zeros_of_both_signs_tie(direction):
    x = np.array([-0.0, 0.0, -0.0, 0.0, -0.0], np.float32)
    got = check(x, 5, direction=direction)
    assert got.indices.tolist() == [0, 1, 2, 3, 4]
    assert np.signbit(got.values).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("n", [7, 3000])
def test_equal_entries_keep_their_order_in_both_directions(dtype, direction, n):
    got = jaxdml.top_k(np.full(n, 3, dtype), 7, direction=direction)
    assert got.indices.tolist() == list(range(7))


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d.kind == "i"], ids=str)
def test_the_smallest_integer_is_the_smallest(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([0, low, high, low + 1], dtype)
    assert jaxdml.top_k(x, 2, direction="increasing").values.tolist() == [low, low + 1]
    assert jaxdml.top_k(x, 4).values.tolist() == [high, 0, low + 1, low]


@given(dtype=st.sampled_from(FLOATS + INTEGERS), kind=kinds, seed=seeds, n=st.sampled_from([1, 9, 1100]))
def test_sorting_the_whole_axis_permutes_it(dtype, kind, seed, n):
    x = data(kind, seed, (n,), dtype)
    values, indices = jaxdml.top_k(x, n)
    assert sorted(np.asarray(indices)) == list(range(n))
    assert_same_bits(values, x[np.asarray(indices)])
    again = jaxdml.top_k(values, n)
    assert again.indices.tolist() == list(range(n))


@given(dtype=st.sampled_from(INTEGERS), kind=kinds, seed=seeds)
def test_increasing_is_decreasing_of_the_complement(dtype, kind, seed):
    x = data(kind, seed, (50,), dtype)
    down, up = jaxdml.top_k(~x, 50), jaxdml.top_k(x, 50, direction="increasing")
    assert_same_bits(up.indices, down.indices)
    assert_same_bits(up.values, ~np.asarray(down.values))


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1])
@pytest.mark.parametrize(("n", "k"), [(12, 5), (2048, 9)])
def test_vmap_over_any_axis_is_a_batch(in_axis, n, k):
    x = data("few distinct", 1, (3, 4, n), np.float32)
    x = np.moveaxis(x, 0, in_axis)
    got = jax.vmap(lambda row: jaxdml.top_k(row, k), in_axes=in_axis)(x)
    want = check(np.moveaxis(x, in_axis, 0), k)
    assert_same_bits(got.values, want.values)
    assert_same_bits(got.indices, want.indices)
    nested = jax.vmap(jax.vmap(lambda row: jaxdml.top_k(row, k)), in_axes=1, out_axes=1)(np.moveaxis(x, in_axis, 0))
    assert_same_bits(nested.indices, want.indices)


@pytest.mark.parametrize("method", METHODS)
def test_jit_is_eager(method):
    if cannot_serve(method, 1600, 11, np.float32):
        pytest.skip(f"{method} does not serve on {jax.default_backend()}")
    x = data("any bits", 5, (3, 1600), np.float32)
    jitted = jax.jit(lambda x: jaxdml.top_k(x, 11, implementation=method))(x)
    eager = jaxdml.top_k(x, 11, implementation=method)
    assert_same_bits(jitted.values, eager.values)
    assert_same_bits(jitted.indices, eager.indices)


def test_traces_without_data_and_exports_for_every_platform():
    shape = jax.ShapeDtypeStruct((4, 2048), jnp.float16)
    out = jax.eval_shape(lambda x: jaxdml.top_k(x, 3), shape)
    assert (out.values.shape, out.values.dtype) == ((4, 3), jnp.float16)
    assert (out.indices.shape, out.indices.dtype) == ((4, 3), jnp.uint32)
    exported = jax.export.export(jax.jit(lambda x: jaxdml.top_k(x, 3)), platforms=["cpu", "cuda", "tpu"])(shape)
    x = data("any bits", 2, shape.shape, np.dtype(np.float16))
    loaded = jax.export.deserialize(exported.serialize()).call(x)
    assert isinstance(loaded, jaxdml.TopK)
    values, indices = loaded
    want = check(x, 3)
    assert_same_bits(values, want.values)
    assert_same_bits(indices, want.indices)


@pytest.mark.parametrize("index_dtype", [np.uint32, np.int32, "uint32", jnp.int32])
def test_index_dtype_is_as_asked(index_dtype):
    got = check(np.array([3, 1, 2], np.int32), 2, index_dtype=np.dtype(index_dtype))
    assert got.indices.dtype == np.dtype(index_dtype)


@pytest.mark.parametrize("index_dtype", [np.uint64, np.int64])
def test_64_bit_indices_need_x64(index_dtype):
    x = np.array([3, 1, 2], np.int32)
    with pytest.raises(TypeError, match="index_dtype"):
        jaxdml.top_k(x, 2, index_dtype=index_dtype)
    with jax.enable_x64(True):
        assert jaxdml.top_k(x, 2, index_dtype=index_dtype).indices.dtype == index_dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("n", [6, 2000])
def test_the_tangent_is_gathered(dtype, n):
    x, tangent = data("few distinct", 1, (2, n), dtype), data("ramp", 2, (2, n), dtype)
    (values, indices), (value_tangent, index_tangent) = jax.jvp(lambda x: jaxdml.top_k(x, 4), (x,), (tangent,))
    want = check(x, 4)
    assert_same_bits(values, want.values)
    assert_same_bits(indices, want.indices)
    assert_same_bits(value_tangent, np.take_along_axis(tangent, np.asarray(indices).astype(int), axis=1))
    assert index_tangent.dtype == jax.dtypes.float0


def test_the_gradient_goes_to_what_was_taken():
    x = np.array([[1.0, 5.0, 5.0, 2.0]], np.float32)
    gradient = jax.grad(lambda x: (jaxdml.top_k(x, 2).values * jnp.array([[10.0, 20.0]])).sum())(x)
    assert gradient.tolist() == [[0, 10, 20, 0]]
    hessian = jax.hessian(lambda x: (jaxdml.top_k(x, 2).values ** 3).sum())(x[0])
    assert hessian.tolist() == [[0, 0, 0, 0], [0, 30, 0, 0], [0, 0, 30, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("axis", [0, 1])
def test_derivatives_of_every_order(axis):
    x = np.random.default_rng(0).permutation(24).reshape(4, 6).astype(np.float32)
    check_grads(lambda x: jnp.sin(jaxdml.top_k(x, 3, axis=axis).values), (x,), order=2, modes=["fwd", "rev"], rtol=0.05)


def test_integers_have_zero_derivatives():
    _, (tangent, _) = jax.jvp(
        lambda x: jaxdml.top_k(x, 2), (np.arange(4, dtype=np.int32),), (np.zeros(4, jax.dtypes.float0),)
    )
    assert tangent.dtype == jax.dtypes.float0


def test_k_may_be_large():
    n, k = 300_000, 200_000
    x = np.random.default_rng(0).integers(0, 1000, n).astype(np.int32)
    values, indices = jaxdml.top_k(x, k)
    order = np.argsort(-x, kind="stable")[:k]
    assert_same_bits(indices, order.astype(np.uint32))
    assert_same_bits(values, x[order])


def test_subnormals_are_told_apart():
    x = np.arange(1, 9, dtype=np.uint32).view(np.float32)
    assert jaxdml.top_k(x, 8).indices.tolist() == list(range(7, -1, -1))
