"""The laws of top_k, against the oracle and by themselves."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax.test_util import check_grads

import jaxdml
from jaxdml import AxisDirection, reference
from jaxdml._kernels.selection import cpu as _selection_cpu
from jaxdml._kernels.selection import kernel as lowering
from jaxdml._kernels.selection.chunk_maxima import maxima_in_two_steps, maxima_of_integers
from jaxdml._kernels.selection.cpu import CPU
from jaxdml._kernels.selection.packed_keys import among_packed, by_ranks, by_sorting
from jaxdml._kernels.selection.repeated_maxima import by_repeated_maxima
from jaxdml._kernels.selection.tournament import by_tournament
from tests.kit import (
    DATA,
    FLOATS,
    HALVES,
    INTEGERS,
    WIDE,
    OneOf,
    assert_same_bits,
    bits,
    data,
    grid,
    is_float,
    quick,
    seeds,
)
from tests.kit.grids import cases, name

DIRECTIONS = ["decreasing", "increasing"]
EITHER = [OneOf(*DIRECTIONS)]
"""For tests of what is done with the keys: only the keys know the direction."""
METHODS = [None, *lowering.METHODS]
TAKES = [by_ranks, by_sorting, by_repeated_maxima]
DTYPES = [
    OneOf(*(np.dtype(name) for name in names))
    for names in (("float32", "int32", "uint32"), ("float16", "bfloat16", "int16", "uint16"), ("int8", "uint8"))
]
"""By width, which decides what is computed of the keys; the keys of every dtype have tests of their own."""

# n, k and direction are static, and so is the shape: each set of them is compiled once, and checked with many data.
few_draws = settings(max_examples=settings().max_examples // 12)


def cannot_serve(method, n, k, dtype):
    """Say whether forcing this method must be refused here."""
    if method is None:
        return False
    elsewhere = method == "float_top_k" and jax.default_backend() != "cpu"
    return elsewhere or lowering.why_not(method, n, k, np.dtype(dtype).itemsize) is not None


def skip_unless_served(method, n, k, dtype):
    if cannot_serve(method, n, k, dtype):
        pytest.skip(f"{method} does not serve on {jax.default_backend()}")


def ends(rng, n, dtype):
    """Equal elements, but the first and the last of all at the end, twice each, and what comes next to them."""
    low, high = (-np.inf, np.inf) if is_float(dtype) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    row = np.full(n, 1, dtype)
    row[-6:] = np.array([high, low, 3, 0, high, low], dtype)[-n:]
    return row


def rare(rng, n, dtype):
    """Specials so rare that most chunks have none."""
    seed, other = rng.integers(2**32, size=2)
    return np.where(rng.random(n) < 0.01, data("specials", seed, (n,), dtype), data("few distinct", other, (n,), dtype))


OF_DATA = [make for kind, make in DATA.items() if kind != "mixed"]  # That one mixes the others.
KINDS = [*(lambda rng, n, dtype, make=make: make(rng, (n,), dtype) for make in OF_DATA), ends, rare]
MANY_KINDS = len(KINDS)
"""How many rows hold one of every kind; few enough for the methods that a CPU takes for few rows."""
assert CPU.many_rows > MANY_KINDS, f"{MANY_KINDS} rows have to be few for CPUs, and many_rows is {CPU.many_rows}"


def rows_of_every_kind(seed, rows, n, dtype):
    """Make arrays of that many rows, which are independent of one another, until every kind has had its row."""
    rng = np.random.default_rng(seed)
    makers = itertools.cycle(KINDS)
    for _ in range(-(-MANY_KINDS // rows)):
        yield np.stack([make(rng, n, np.dtype(dtype)) for make in itertools.islice(makers, rows)])


def check(x, k, **options):
    got = jaxdml.top_k(jax.device_put(x), k, **options)  # A NumPy array takes a program of its own to copy.
    options.pop("implementation", None)
    values, indices = reference.top_k(x, k, **options)
    assert_same_bits(got.indices, indices)
    assert_same_bits(got.values, values)
    return got


# n and k with chunks of every length, and a ragged end or none. What does not prune has no chunks.
PRUNABLE = [(17, 3), (64, 16), (4097, 1), (4097, 41)]
PRUNE = ["chunk_maxima", "tournament"]
WHOLE = [(1, 1), (64, 64), (1500, 450)]
# MANY, below, has the sizes at which the default takes each of these methods.
FORCED = [*lowering.METHODS]


@pytest.mark.parametrize(
    ("method", "size", "dtype", "direction"),
    [
        *cases(method=PRUNE, size=PRUNABLE, dtype=DTYPES, direction=DIRECTIONS),
        *cases(method=[m for m in FORCED if m not in PRUNE], size=PRUNABLE[::2], dtype=DTYPES, direction=DIRECTIONS),
    ],
    ids=name,
)
@few_draws
@given(seed=seeds)
def test_agrees_with_the_oracle(method, size, dtype, direction, seed):
    n, k = size
    skip_unless_served(method, n, k, dtype)
    (x,) = rows_of_every_kind(seed, MANY_KINDS, n, dtype)
    check(x, k, direction=direction, implementation=method)


@quick
@grid(
    method=[m for m in FORCED if m != "chunk_maxima"],
    size=[OneOf(*WHOLE[:-1]), WHOLE[-1]],
    dtype=[OneOf(*DTYPES[0], *DTYPES[1]), DTYPES[2]],
    direction=EITHER,
)
@few_draws
@given(seed=seeds)
def test_most_or_all_of_an_axis_agrees_with_the_oracle(method, size, dtype, direction, seed):
    n, k = size
    skip_unless_served(method, n, k, dtype)
    (x,) = rows_of_every_kind(seed, MANY_KINDS, n, dtype)
    check(x, k, direction=direction, implementation=method)


# By rows, n and k.
START = CPU.pruning_of_few_rows.min_length
LONG = [(MANY_KINDS, 15, 3), (MANY_KINDS, START + 1, 60), (CPU.many_rows, 300, 5)]


@quick
@grid(method=[m for m in METHODS if not cannot_serve(m, 12, 3, np.int64)], size=LONG, dtype=WIDE, direction=DIRECTIONS)
def test_64_bit_dtypes_agree_with_the_oracle(method, size, dtype, direction):
    rows, n, k = size
    with jax.enable_x64(True):
        (x,) = rows_of_every_kind(7, rows, n, dtype)
        check(x, k, direction=direction, implementation=method)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_refused_where_it_cannot_serve(method):
    refused = []
    with jax.enable_x64(True):
        for dtype, (n, k) in itertools.product(
            [*WIDE, np.dtype(np.int8)], [(8, 2), (7, 2), (8, 3), (1, 1), (1500, 450)]
        ):
            if cannot_serve(method, n, k, dtype):
                refused.append((dtype, n, k))
                with pytest.raises(NotImplementedError):
                    jaxdml.top_k(np.zeros((2, n), dtype), k, implementation=method)
    assert bool(refused) == (method not in (None, "sort", "integer_top_k"))


# Rows, n and k on both sides of where the CPU changes from one method to another, within the pruned and without.
# Where k is too large for pruning: on a CPU by maxima, which compile faster than a threshold.
TOO_LARGE_TO_PRUNE = (257, 17) if jax.default_backend() == "cpu" else (1057, 70)
MANY = [
    (MANY_KINDS, START - 1, 3),
    (MANY_KINDS, START, 3),
    (CPU.many_rows - 1, 300, 5),
    (CPU.many_rows, 300, 5),
    (CPU.many_rows, 16, 15),
    (CPU.many_rows, 128, CPU.max_n_times_k_for_maxima // 128),
    (CPU.many_rows, 129, 128),
    (CPU.many_rows, *TOO_LARGE_TO_PRUNE),
    (CPU.many_rows, 9001, 33),
    (3, 700, CPU.min_k_for_threshold - 1),
    (3, 700, CPU.min_k_for_threshold),
    (2, 8200, CPU.min_k_for_threshold),
]


# The sizes decide between methods, of which test_agrees_with_the_oracle has each with every width of a dtype.
@grid(size=MANY, dtype=[OneOf(*DTYPES[0], *DTYPES[1], *DTYPES[2])], direction=EITHER)
def test_many_rows_and_large_k_agree_with_the_oracle(size, dtype, direction):
    rows, n, k = size
    for x in rows_of_every_kind(0, rows, n, dtype):
        check(x, k, direction=direction)


# Rows, n and k for none, one and several rounds, of one row and many.
ROUNDS = [(1, 40, 3), (1, 5000, 50), (2, 4097, 9), (3, 30_001, 70), (17, 2049, 64), (40, 130, 1), (300, 1000, 40)]


# 16-bit floats may be read in pairs: both dtypes have rows of even and of odd lengths.
@quick
@grid(size=ROUNDS, dtype=[OneOf(*HALVES), OneOf(*DTYPES[0], *DTYPES[2], np.dtype(np.int16))], direction=DIRECTIONS)
def test_rounds_of_every_number_agree_with_the_oracle(size, dtype, direction):
    rows, n, k = size
    for x in rows_of_every_kind(0, rows, n, dtype):
        check(x, k, direction=direction, implementation="tournament")


@pytest.mark.parametrize("direction", AxisDirection)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("maxima_of", [maxima_of_integers, maxima_in_two_steps])
def test_it_does_not_matter_how_a_cpu_finds_the_maxima_of_bytes(maxima_of, dtype, direction, monkeypatch):
    monkeypatch.setattr(_selection_cpu, "MAXIMA_OF_BYTES", maxima_of)
    x = data("mixed", 1, (3, 4096), np.dtype(dtype))
    got = jax.jit(partial(_selection_cpu.pruned, k=5, direction=direction))(x)
    assert got.tolist() == reference.top_k(x, 5, direction=direction)[1].tolist()


@quick
@grid(stored=[1, 4, 32], n=[64, 1000, 1025], take=[OneOf(*TAKES)])
def test_it_does_not_matter_which_maxima_a_tournament_stores(stored, n, take):
    x = data("few distinct", 3, (3, n), np.float32)
    among = among_packed(take)
    rounds = jax.jit(
        lambda x: by_tournament(x, 2, AxisDirection.DECREASING, lengths=(1, 4, 32), stored=stored, among=among)
    )
    assert_same_bits(rounds(x), reference.top_k(x, 2, index_dtype="uint32")[1])


# With 11 and 67 numbers a row is padded with zeros of no meaning.
@quick
@grid(take=TAKES, dtype=[np.uint32, np.uint64], m=[1, 2, 11, 64, 67], all_of_them=[False, True])
def test_zero_is_a_number_to_take_too(take, dtype, m, all_of_them):
    with jax.enable_x64(True):
        numbers = np.arange(m, dtype=dtype)
        numbers[1:] += np.iinfo(dtype).max - m + 1
        numbers = np.random.default_rng(m).permutation(numbers)
        k = m if all_of_them else max(1, m - 1)
        got = jax.jit(take, static_argnums=1)(numbers[None], k)
        assert_same_bits(got, np.sort(numbers)[None, ::-1][:, :k])


@quick
@grid(take=TAKES, n=[1, 2, 256, 1 << 16, 1 << 17, 1 << 25, 1 << 30], dtype=["uint8", "uint16", "uint32"])
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
# With 16 bits of a key and 16 of a place, no bit of a word is left.
LAST_PLACES = [
    *(OneOf(*itertools.product([method], [256], ["uint8", "uint16"], [False, True])) for method in PACKED),
    OneOf(*itertools.product(["tournament"], [1 << 16], ["uint8"], [False, True])),
    *itertools.product(["tournament"], [1 << 16], ["uint16"], [False, True]),
]
"""Method, n, dtype, and whether all of them are selected."""


@quick
@grid(where=LAST_PLACES, direction=EITHER)
def test_the_least_key_at_the_last_place_is_taken_last(where, direction):
    method, n, dtype, all_of_them = where
    ends = np.iinfo(dtype).min, np.iinfo(dtype).max
    least, greatest = ends if direction == "decreasing" else reversed(ends)
    x = np.stack([data("any bits", 1, (n,), np.dtype(dtype)), np.full(n, least, dtype), np.full(n, greatest, dtype)])
    x[0, x[0] == least] = greatest
    x[0, -1] = least
    check(x, n if all_of_them else max(1, n - 1), direction=direction, implementation=method)


def halves_of_many_kinds(n, dtype):
    """Rows of every kind, and two where specials are so rare that most chunks have none."""
    rare = np.random.default_rng(0).random((1, n)) < 0.01
    few = np.where(rare, data("specials", 1, (1, n), dtype), data("few distinct", 2, (1, n), dtype))
    return np.concatenate([few, -few, *(data(kind, 3, (1, n), dtype) for kind in DATA)])


@quick
@grid(n=[OneOf(576, 578), 577], storing=[((1, 4, 32), 4), ((1, 9, 36), 9)], dtype=HALVES, direction=EITHER)
def test_it_does_not_matter_whether_16_bit_floats_are_read_in_pairs(n, storing, dtype, direction):
    lengths, stored = storing
    x = halves_of_many_kinds(n, dtype)
    options = {"direction": AxisDirection[direction.upper()], "lengths": lengths, "stored": stored}
    rounds = jax.jit(partial(by_tournament, k=7, **options, among=among_packed(by_ranks)))(x)
    assert_same_bits(rounds, reference.top_k(x, 7, direction=direction, index_dtype="uint32")[1])


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


AXES = [(shape, axis) for shape in ((5,), (3, 4), (2, 5, 3), (1, 4, 2, 3)) for axis in range(len(shape))]


@quick
@grid(place=AXES, all_of_them=[False, True], dtype=[OneOf(*FLOATS, *INTEGERS)], direction=DIRECTIONS)
@few_draws
@given(seed=seeds)
def test_every_axis_of_every_rank(place, all_of_them, dtype, direction, seed):
    shape, axis = place
    (rows,) = rows_of_every_kind(seed, MANY_KINDS, 2**4 * shape[0], dtype)
    x = np.random.default_rng(seed).choice(rows.ravel(), shape)
    for counted in (axis, axis - len(shape)):
        check(x, shape[axis] if all_of_them else 1, axis=counted, direction=direction)


@quick
@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 4), (4, 0)])
def test_empty_batches_give_empty_answers(shape):
    axis = shape.index(4)
    values, indices = jaxdml.top_k(jnp.zeros(shape), 2, axis=axis)
    assert values.shape == indices.shape == tuple(2 if size == 4 else size for size in shape)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_nans_are_equal_and_greatest_and_keep_their_payloads(dtype, direction):
    x = data("specials", 3, (200,), dtype)
    got = check(x, 200, direction=direction)
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs.
        nan, nan_in_x = np.isnan(np.asarray(got.values)), np.isnan(x)
    count = int(nan_in_x.sum())
    assert count > 20
    assert (nan[:count] if direction == "decreasing" else nan[-count:]).all()
    assert len(np.unique(bits(x)[nan_in_x])) >= 4
    assert sorted(bits(got.values)[nan]) == sorted(bits(x)[nan_in_x])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_zeros_of_both_signs_tie(direction):
    x = np.array([-0.0, 0.0, -0.0, 0.0, -0.0], np.float32)
    got = check(x, 5, direction=direction)
    assert got.indices.tolist() == [0, 1, 2, 3, 4]
    assert np.signbit(got.values).tolist() == [True, False, True, False, True]


@quick
@grid(n=[7, 3000], dtype=DTYPES, direction=DIRECTIONS)
def test_equal_entries_keep_their_order_in_both_directions(n, dtype, direction):
    got = jaxdml.top_k(jax.device_put(np.full(n, 3, dtype)), 7, direction=direction)
    assert got.indices.tolist() == list(range(7))


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d.kind == "i"], ids=str)
def test_the_smallest_integer_is_the_smallest(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([0, low, high, low + 1], dtype)
    assert jaxdml.top_k(x, 2, direction="increasing").values.tolist() == [low, low + 1]
    assert jaxdml.top_k(x, 4).values.tolist() == [high, 0, low + 1, low]


@quick
@grid(n=[1, 9, 200], dtype=DTYPES)
@few_draws
@given(seed=seeds)
def test_sorting_the_whole_axis_permutes_it(n, dtype, seed):
    (x,) = rows_of_every_kind(seed, MANY_KINDS, n, dtype)
    values, indices = jaxdml.top_k(x, n)
    assert (np.sort(indices) == np.arange(n)).all()
    assert_same_bits(values, np.take_along_axis(x, np.asarray(indices).astype(int), axis=1))
    again = jaxdml.top_k(values, n)
    assert (np.asarray(again.indices) == np.arange(n)).all()


# The keys of every integer obey this law: test_order_keys.py.
@quick
@grid(dtype=[OneOf(*(dtype for dtype in INTEGERS if dtype.itemsize == width)) for width in (1, 2, 4)])
@few_draws
@given(seed=seeds)
def test_increasing_is_decreasing_of_the_complement(dtype, seed):
    (x,) = rows_of_every_kind(seed, MANY_KINDS, 50, dtype)
    down, up = (jaxdml.top_k(jax.device_put(y), 20, direction=d) for y, d in zip((~x, x), DIRECTIONS, strict=True))
    assert_same_bits(up.indices, down.indices)
    assert_same_bits(up.values, ~np.asarray(down.values))


@quick
@pytest.mark.parametrize(("in_axis", "n", "k"), [(0, 12, 5), (1, 2048, 9), (2, 12, 5), (-1, 12, 5)])
def test_vmap_over_any_axis_is_a_batch(in_axis, n, k):
    x = np.moveaxis(data("few distinct", 1, (3, 4, n), np.float32), 0, in_axis)
    values, indices = reference.top_k(np.moveaxis(x, in_axis, 0), k)

    def call(row):
        return jaxdml.top_k(row, k)

    def once_and_nested(x):
        return jax.vmap(call, in_axes=in_axis)(x), jax.vmap(jax.vmap(call), 1, 1)(jnp.moveaxis(x, in_axis, 0))

    for got in jax.jit(once_and_nested)(x):
        assert_same_bits(got.values, values)
        assert_same_bits(got.indices, indices)


@pytest.mark.parametrize("method", FORCED)
def test_within_a_larger_program_the_answer_is_the_same(method):
    skip_unless_served(method, 1600, 11, np.float32)
    x = data("any bits", 5, (3, 1600), np.float32)
    # XLA may fuse what stands before and after.
    program = jax.jit(lambda x: jaxdml.top_k(-x.T, 11, axis=0, implementation=method).indices[::-1] - 1)
    assert_same_bits(program(x), reference.top_k(-x, 11)[1].T[::-1] - 1)


@quick
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_nothing_depends_on_being_compiled(direction):
    with jax.disable_jit():
        check(np.array([[3, 1, 3], [-0.0, np.nan, 0.0]], np.float32), 2, direction=direction)


@quick
def test_traces_without_data_and_exports_for_every_platform():
    shape = jax.ShapeDtypeStruct((4, 2048), jnp.float16)
    out = jax.eval_shape(lambda x: jaxdml.top_k(x, 3), shape)
    assert (out.values.shape, out.values.dtype) == ((4, 3), jnp.float16)
    assert (out.indices.shape, out.indices.dtype) == ((4, 3), jnp.int32)
    exported = jax.export.export(jax.jit(lambda x: jaxdml.top_k(x, 3)), platforms=["cpu", "cuda", "tpu"])(shape)
    x = data("any bits", 2, shape.shape, np.dtype(np.float16))
    loaded = jax.export.deserialize(exported.serialize()).call(x)
    assert isinstance(loaded, jaxdml.TopK)
    values, indices = loaded
    for got, want in zip((values, indices), reference.top_k(x, 3), strict=True):
        assert_same_bits(got, want)


@quick
def test_indices_are_signed_as_everywhere_in_jax():
    x = jnp.array([3.0, 1.0, 3.0, 2.0])
    indices = jaxdml.top_k(x, 2).indices
    assert_same_bits(indices - 1, np.int32([-1, 1]))
    assert_same_bits(jnp.where(indices > 0, indices, -1), np.int32([-1, 2]))
    last, _ = jax.lax.scan(lambda best, x: (jaxdml.argmax(x), None), jnp.int32(0), x[None])
    assert last == 0
    assert jaxdml.argmin(x) - 2 == -1


@quick
@pytest.mark.parametrize("n", [2**31 - 1, 2**31, "n"])
def test_indices_are_unsigned_only_where_int32_cannot_count(n):
    sizes = jax.export.symbolic_shape(n, constraints=[f"{n} >= 2"]) if n == "n" else (n,)
    out = jax.eval_shape(lambda x: jaxdml.top_k(x, 2), jax.ShapeDtypeStruct(sizes, np.int8))
    assert out.indices.dtype == (np.uint32 if n == 2**31 else np.int32)


@pytest.mark.parametrize(
    ("method", "most"),
    [
        *(
            (method, 2**31 - 1)
            for method in ("integer_top_k", "float_top_k", "repeated_maxima", "tournament", "carried")
        ),
        ("threshold", 2**32),
    ],
)
def test_a_method_takes_no_more_elements_than_its_positions_count(method, most):
    assert lowering.why_not(method, most, 1, 4) is None
    assert lowering.why_not(method, most + 1, 1, 4) is not None


@quick
@pytest.mark.parametrize("index_dtype", [np.uint32, np.int32, "uint32", jnp.int32])
def test_index_dtype_is_as_asked(index_dtype):
    got = check(np.array([3, 1, 2], np.int32), 2, index_dtype=np.dtype(index_dtype))
    assert got.indices.dtype == np.dtype(index_dtype)


@quick
@pytest.mark.parametrize("index_dtype", [np.uint64, np.int64])
def test_64_bit_indices_need_x64(index_dtype):
    x = np.array([3, 1, 2], np.int32)
    with pytest.raises(TypeError, match="index_dtype"):
        jaxdml.top_k(x, 2, index_dtype=index_dtype)
    with jax.enable_x64(True):
        assert jaxdml.top_k(x, 2, index_dtype=index_dtype).indices.dtype == index_dtype


@quick
@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16])
@pytest.mark.parametrize("n", [6, 2000])
def test_the_tangent_is_gathered(dtype, n):
    x, tangent = data("few distinct", 1, (2, n), dtype), data("ramp", 2, (2, n), dtype)
    (values, indices), (value_tangent, index_tangent) = jax.jvp(lambda x: jaxdml.top_k(x, 4), (x,), (tangent,))
    for got, want in zip((values, indices), reference.top_k(x, 4), strict=True):
        assert_same_bits(got, want)
    assert_same_bits(value_tangent, np.take_along_axis(tangent, np.asarray(indices).astype(int), axis=1))
    assert index_tangent.dtype == jax.dtypes.float0


@quick
def test_the_gradient_goes_to_what_was_taken():
    x = np.array([[1.0, 5.0, 5.0, 2.0]], np.float32)
    gradient = jax.jit(jax.grad(lambda x: (jaxdml.top_k(x, 2).values * jnp.array([[10.0, 20.0]])).sum()))(x)
    assert gradient.tolist() == [[0, 10, 20, 0]]
    hessian = jax.jit(jax.hessian(lambda x: (jaxdml.top_k(x, 2).values ** 3).sum()))(x[0])
    assert hessian.tolist() == [[0, 0, 0, 0], [0, 30, 0, 0], [0, 0, 30, 0], [0, 0, 0, 0]]


@quick
@pytest.mark.parametrize(("axis", "derivatives"), [(0, "fwd"), (1, "rev")])
def test_derivatives_of_every_order(axis, derivatives):
    x = np.random.default_rng(0).permutation(24).reshape(4, 6).astype(np.float32)
    bent = jax.jit(lambda x: jnp.sin(jaxdml.top_k(x, 3, axis=axis).values))
    check_grads(bent, (x,), order=2, modes=[derivatives], rtol=0.05)


@quick
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
    assert_same_bits(indices, order.astype(np.int32))
    assert_same_bits(values, x[order])


def test_subnormals_are_told_apart():
    x = np.arange(1, 9, dtype=np.uint32).view(np.float32)
    assert jaxdml.top_k(x, 8).indices.tolist() == list(range(7, -1, -1))
