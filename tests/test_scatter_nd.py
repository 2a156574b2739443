"""The laws of scatter_nd, and those that it shares with scatter_elements, against the oracle and by themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax.experimental import checkify
from jax.test_util import check_grads

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic.canonical_indices import wrap
from jaxdml._kernels.indexed_write.scatter import Writing, of_slices, write
from tests.kit import INDEX_DTYPES, WIDE, OneOf, assert_same_bits, bits, data, grid, indices_for, quick, seeds
from tests.kit.forms import forms_of
from tests.kit.scattering import DUPLICATES, MODES, VALUES, any_values, few_draws, held_by_jax, index_dtypes, values_for

SLICED = [
    ((), 0, ()),
    ((2, 3), 0, (3,)),
    ((5,), 1, ()),
    ((4,), 1, (3, 2)),
    ((3, 2), 1, (0,)),
    ((3, 4), 1, (5,)),
    ((3, 1, 1), 1, (5,)),
    ((4, 3), 2, (2, 4)),
    ((2, 3, 4), 2, (6,)),
    ((3, 1, 2, 2), 3, (4,)),
]
"""Shape of x, how many dimensions the indices address, and leading shape of the indices."""


def sliced_problem(seed, of, dtype, index_dtype, out_of_range=True):
    """Draw x, indices and updates for scatter_nd, with duplicates."""
    shape, t, leading = of
    rng = np.random.default_rng(seed)
    columns = [indices_for(rng, size, leading, index_dtype, out_of_range) for size in shape[:t]]
    indices = np.stack(columns, -1) if t else np.zeros((*leading, 0), index_dtype)
    return held_by_jax(any_values(rng, shape, dtype), indices, any_values(rng, (*leading, *shape[t:]), dtype))


@grid(of=SLICED, dtype=VALUES, mode=MODES)
@few_draws
@given(seed=seeds, index_dtype=index_dtypes)
def test_scatter_nd_agrees_with_the_oracle(of, dtype, mode, seed, index_dtype):
    problem = sliced_problem(seed, of, dtype, index_dtype, out_of_range=mode != "promise_in_bounds")
    got = jaxdml.scatter_nd(*problem, mode=mode, duplicates="last")
    assert_same_bits(got, reference.scatter_nd(*problem, mode=mode))


# Integers and floats, by their width in bytes.
NARROW = {1: ["int8", "uint8", "float8_e4m3fn"], 2: ["int16", "float16", "bfloat16"]}
# Slices of whole words and not, some by their last dimension, some by all together, some of one element or none.
SLICES = [
    *(((5,), window) for window in [(), (0,), (2,), (3,), (4,), (6,), (2, 2), (4, 3), (2, 0, 3)]),
    *(((5, 2), window) for window in [(), (4,), (1, 2, 2)]),
]
PLACES = {
    "drop": [[1, 0], [-1, 1], [5, 0], [-6, 0], [3, -1]],
    "clip": [[1, 0], [7, 1], [-9, 0], [3, -2]],
    "promise_in_bounds": [[1, 0], [-1, 1], [0, -1]],
}


@partial(jax.jit, static_argnums=(3, 4))
def in_words(x, indices, updates, mode, duplicates):
    """Write as the operator does where elements move in words, which CPUs can do as well."""
    places = wrap(indices, x.shape[: indices.shape[1]], mode)
    return write(x, places, updates, Writing(of_slices(places.shape[1]), mode, duplicates, word=4))


def word_problem(leading, window, dtype, mode, duplicates, kind="any bits"):
    """Make x, indices and updates; only with "last" are places written twice, all but the first."""
    indices = np.array(PLACES[mode], np.int32)[:, : len(leading)]
    if duplicates == "last":
        indices = np.concatenate([indices, indices[:0:-1]])
    return data(kind, 1, (*leading, *window), dtype), indices, data(kind, 2, (len(indices), *window), dtype)


def check_words(*problem, mode, duplicates):
    assert_same_bits(in_words(*problem, mode, duplicates), reference.scatter_nd(*problem, mode=mode))


@partial(jax.jit, static_argnums=3)
def by_place(x, indices, updates, mode):
    """Write as the operator does where every place looks for its last update."""
    how = Writing(of_slices(indices.shape[1]), mode, "last", word=4 * (x.dtype.itemsize < 4), by_position=True)
    return write(x, wrap(indices, x.shape, mode), updates, how)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("mode", MODES)
def test_places_that_look_for_their_last_update_find_it(mode, dtype):
    x, indices, updates = word_problem((5, 2), (), np.dtype(dtype), mode, "last")
    expected = reference.scatter_nd(x, indices, updates, mode=mode, duplicates="last")
    assert_same_bits(by_place(x, indices, updates, mode), expected)


@quick
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.uint32])
def test_places_look_in_their_own_batch(dtype):
    x, indices, updates = word_problem((5, 2), (), np.dtype(dtype), "drop", "last")
    both = jax.jit(jax.vmap(partial(by_place, mode="drop"), in_axes=(None, 0, 0)))
    got = both(x, np.stack([indices, indices]), np.stack([updates, updates[::-1]]))
    for one, its_updates in zip(got, (updates, updates[::-1]), strict=True):
        assert_same_bits(one, reference.scatter_nd(x, indices, its_updates))


@quick
def test_the_gradient_goes_to_the_last_update_of_a_place():
    x, indices, updates = np.zeros(4, np.float32), np.array([[1], [1], [-1], [7]], np.int32), np.ones(4, np.float32)
    weights = np.array([1, 2, 4, 8], np.float32)

    def loss(x, updates):
        return (jaxdml.scatter_nd(x, indices, updates, duplicates="last") * weights).sum()

    to_x, to_updates = jax.jit(jax.grad(loss, argnums=(0, 1)))(x, updates)
    assert to_x.tolist() == [1, 0, 4, 0]
    assert to_updates.tolist() == [0, 2, 8, 0]


@quick
@grid(slices=SLICES, width=[1, 2], which=[0, 2])
def test_words_of_elements_are_written_as_elements_are(slices, width, which):
    leading, window = slices
    for kind in ("any bits", "specials") if width > 1 else ("any bits",):
        problem = word_problem(leading, window, np.dtype(NARROW[width][which]), "drop", "last", kind)
        check_words(*problem, mode="drop", duplicates="last")


@quick
@pytest.mark.parametrize("dtype", [*NARROW[1], *NARROW[2]])
def test_words_are_made_of_every_narrow_dtype(dtype):
    check_words(*word_problem((5,), (4,), np.dtype(dtype), "drop", "last"), mode="drop", duplicates="last")


@quick
@grid(
    slices=[((5,), (4, 3)), ((5,), (3,)), ((5, 2), (2, 2))],
    mode=MODES,
    duplicates=DUPLICATES,
    dtype=["int8", "float16"],
)
def test_words_obey_every_mode_and_rule(slices, mode, duplicates, dtype):
    problem = word_problem(*slices, np.dtype(dtype), mode, duplicates)
    check_words(*problem, mode=mode, duplicates=duplicates)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_a_platform_that_nobody_knows_writes_the_same_bits(dtype):
    x, indices, updates = word_problem((5,), (4,), np.dtype(dtype), "drop", "last")
    with forms_of("another"):
        got = jax.jit(jaxdml.scatter_nd)(x, indices, updates)
    assert_same_bits(got, reference.scatter_nd(x, indices, updates))


@quick
def test_what_is_wider_than_a_word_moves_by_itself():
    with jax.enable_x64(True):
        check_words(*word_problem((5,), (3,), np.dtype(np.float64), "drop", "last"), mode="drop", duplicates="last")


@quick
@grid(mode=MODES, duplicates=DUPLICATES, shape=[(5, 4), (0, 4), (5, 0)])
def test_no_word_may_be_written(mode, duplicates, shape):
    x = data("any bits", 1, shape, np.dtype(np.float16))
    check_words(x, np.zeros((0, 1), np.int32), x[:0], mode=mode, duplicates=duplicates)


@quick
@grid(window=[(4,), (2, 3), (3,)], mode=MODES, duplicates=DUPLICATES)
def test_the_gradient_of_slices_goes_to_the_elements_that_won(window, mode, duplicates):
    x, indices, updates = word_problem((5,), window, np.dtype(np.float16), mode, duplicates, "few distinct")
    weights = np.arange(1, x.size + 1, dtype=np.float16).reshape(x.shape)

    def loss(x, updates):
        written = jaxdml.scatter_nd(x, indices, updates, mode=mode, duplicates=duplicates)
        return (written * weights).sum()

    to_x, to_updates = jax.jit(jax.grad(loss, argnums=(0, 1)))(x, updates)
    numbers = np.arange(updates.size).reshape(updates.shape)
    winners = reference.scatter_nd(np.full(x.shape, -1), indices, numbers, mode=mode)
    won = np.zeros_like(updates)
    won.flat[winners[winners >= 0]] = weights[winners >= 0]
    assert_same_bits(to_x, np.where(winners < 0, weights, np.float16(0)))
    assert_same_bits(to_updates, won)


@quick
@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
@pytest.mark.parametrize("duplicates", DUPLICATES)
def test_half_bytes_are_written_too(dtype, duplicates):
    every = np.arange(16, dtype=np.uint8).view(dtype) if dtype[0] == "f" else np.arange(16).astype(dtype)
    x, updates = every.reshape(4, 4), every[::-1][:8].reshape(2, 4)
    indices = np.array([[-1], [1]], np.int32)
    got = jaxdml.scatter_nd(*jax.device_put((x, indices, updates)), duplicates=duplicates)
    assert got.dtype == x.dtype
    want = reference.scatter_nd(x, indices, updates)
    # As other numbers: no one says what the rest of a byte holds.
    assert_same_bits(np.asarray(got).astype(np.float32), want.astype(np.float32))


@quick
@grid(of=SLICED, mode=["drop", "clip"], dtype=[OneOf(*(np.dtype(name) for name in ("float32", "bfloat16", "int8")))])
@few_draws
@given(seed=seeds, index_dtype=index_dtypes)
def test_unspecified_duplicates_leave_one_of_the_written_values(of, mode, dtype, seed, index_dtype):
    x, indices, updates = sliced_problem(seed, of, dtype, index_dtype)
    got = bits(jaxdml.scatter_nd(x, indices, updates, mode=mode)).ravel()
    x, updates = np.asarray(x), np.asarray(updates)
    written = [set() for _ in range(x.size)]
    places = np.arange(x.size).reshape(x.shape)
    for i in np.ndindex(indices.shape[:-1]):
        marks = np.zeros(x.shape, bool)
        marks = reference.scatter_nd(marks, indices[i], np.ones(updates[i].shape, bool), mode=mode)
        if marks.any():
            for place, value in zip(places[marks], np.ravel(bits(updates[i])), strict=True):
                written[place].add(int(value))
    for place, allowed in enumerate(written):
        assert int(got[place]) in (allowed or {int(bits(x).ravel()[place])})


@quick
@grid(dtype=[OneOf(*WIDE, np.dtype(np.complex128))], mode=[OneOf("drop", "clip")], index_dtype=[None, *INDEX_DTYPES])
def test_64_bit_values_and_indices_with_x64(dtype, mode, index_dtype):
    with jax.enable_x64(True):
        x, updates = jax.device_put([values_for("any bits", seed, (size, 3), dtype) for seed, size in ((1, 6), (2, 9))])
        for stored in [index_dtype] if index_dtype else INDEX_DTYPES:
            indices = indices_for(np.random.default_rng(0), 6, (9, 1), stored)
            given = jax.device_put(indices) if index_dtype else indices  # By JAX one dtype, or by NumPy any.
            got = jaxdml.scatter_nd(x, given, updates, mode=mode, duplicates="last")
            assert_same_bits(got, reference.scatter_nd(x, indices, updates, mode=mode))


# Sizes on both sides of what a dtype can name.
NAMEABLE = [
    *(("int8", size) for size in (127, 128, 129, 200)),
    *(("uint8", size) for size in (128, 255, 256, 257)),
    *(("int16", size) for size in (2**15 - 1, 2**15, 2**15 + 1)),
    *(("uint16", size) for size in (2**16 - 1, 2**16, 2**16 + 1)),
    *((str(dtype), 300) for dtype in INDEX_DTYPES if dtype.itemsize > 2),
]


@quick
@pytest.mark.parametrize(("index_dtype", "size"), NAMEABLE)
def test_narrow_index_dtypes_reach_every_place_they_can_name(index_dtype, size):
    info = np.iinfo(index_dtype)
    every = np.arange(max(info.min, -size - 2), min(info.max, size + 1) + 1)
    # Of many only those at both ends and about the middle.
    indices = every[(abs(every) < 300) | (abs(abs(every) - size) < 5)].astype(index_dtype)[:, None]
    # As many for every dtype and size, so that each size has one program: the first ones are written again.
    assert len(indices) <= 640
    indices = np.resize(indices, (640, 1))
    x, indices, updates = held_by_jax(np.zeros(size, np.int32), indices, np.arange(1, 641, dtype=np.int32))
    got = jaxdml.scatter_nd(x, indices, updates, duplicates="last")
    assert_same_bits(got, reference.scatter_nd(x, indices, updates))


@quick
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_unsigned_indices_are_never_negative(dtype, mode):
    x, top = np.zeros(5, np.float32), np.iinfo(dtype).max
    indices, updates = np.array([[top], [top - 1], [1]], dtype), np.array([1, 2, 3], np.float32)
    got = jaxdml.scatter_nd(x, indices, updates, mode=mode, duplicates="last")
    assert got.tolist() == [0, 3, 0, 0, 2 if mode == "clip" else 0]


@quick
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("value", [2**32 + 1, -(2**32) + 1, 2**63 - 1, -(2**63), 2**31, -(2**31) - 1])
def test_64_bit_indices_from_numpy_are_never_cut(jit, value):
    indices = np.array([[value], [2]], np.int64)
    x, updates = np.zeros(5, np.float32), np.array([1, 2], np.float32)
    call = partial(jaxdml.scatter_nd, indices=indices)
    call = jax.jit(lambda x, updates: jaxdml.scatter_nd(x, indices, updates)) if jit else call
    assert np.asarray(call(x, updates=updates)).tolist() == [0, 0, 2, 0, 0]
    elements = jaxdml.scatter_elements(x, indices[:, 0], updates, mode="clip")
    assert elements.tolist() == ([1, 0, 2, 0, 0] if value < 0 else [0, 0, 2, 0, 1])


@pytest.mark.parametrize("duplicates", DUPLICATES)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_written_outside_the_addressed_elements(duplicates, mode):
    # Even a broken promise must not reach another element.
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    indices = np.array([[4, 0], [0, 6], [-5, 0], [0, -7], [2**31 - 1, 2**31 - 1], [-(2**31), -(2**31)]], np.int32)
    for row in indices:
        got = np.asarray(jaxdml.scatter_nd(x, row[None], np.array([99], np.float32), mode=mode, duplicates=duplicates))
        changed = np.argwhere(got != x).tolist()
        if mode == "drop":
            assert changed == []
        elif mode == "clip":
            wrapped = [int(i) + n if i < 0 else int(i) for i, n in zip(row, x.shape, strict=True)]
            assert changed == [[min(max(i, 0), n - 1) for i, n in zip(wrapped, x.shape, strict=True)]]
        else:
            assert len(changed) <= 1


@quick
@pytest.mark.parametrize("operator", ["scatter_nd", "scatter_elements"])
@pytest.mark.parametrize("duplicates", DUPLICATES)
def test_no_update_returns_x(operator, duplicates):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    indices = np.zeros((0, 1) if operator == "scatter_nd" else (0, 3), np.int32)
    updates = np.zeros((0, 3), np.float32)
    assert_same_bits(getattr(jaxdml, operator)(x, indices, updates, duplicates=duplicates), x)


@quick
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_an_empty_x_takes_no_update(mode):
    got = jaxdml.scatter_nd(jnp.zeros((0, 2)), jnp.array([[0], [-1]]), jnp.ones((2, 2)), mode=mode)
    assert got.shape == (0, 2)


@quick
def test_an_empty_tuple_addresses_the_whole():
    updates = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    got = jaxdml.scatter_nd(jnp.zeros((2, 3)), jnp.zeros((2, 0), jnp.int32), updates, duplicates="last")
    assert_same_bits(got, updates[-1])
    assert jaxdml.scatter_nd(jnp.float32(1), jnp.zeros((0,), jnp.int32), jnp.float32(2)) == 2


@quick
@pytest.mark.parametrize("axes", [(0, 0, 0), (1, 0, 2), (None, 1, 0), (2, None, 1), (0, 1, None), (None, 0, None)])
@pytest.mark.parametrize("duplicates", ["last", "unspecified"])
def test_vmap_over_any_argument_is_a_loop(axes, duplicates):
    whole = [
        data("any bits", 1, (3, 5, 4), np.dtype(np.float32)),
        np.array([[[0], [-1]], [[3], [1]], [[-3], [4]]], np.int32),  # None twice, for "unspecified".
        data("any bits", 2, (3, 2, 4), np.dtype(np.float32)),
    ]
    arguments = [
        part[0] if axis is None else np.moveaxis(part, 0, axis) for part, axis in zip(whole, axes, strict=True)
    ]
    operator = partial(jaxdml.scatter_nd, duplicates=duplicates)
    got = jax.vmap(operator, in_axes=axes)(*arguments)
    for i in range(3):
        one = [part[0 if axis is None else i] for part, axis in zip(whole, axes, strict=True)]
        assert_same_bits(got[i], reference.scatter_nd(*one))


@quick
@grid(of=[SLICED[3], SLICED[7]], index_dtype=[d for d in INDEX_DTYPES if d.itemsize < 8], mode=["drop", "clip"])
def test_traced_indices_write_as_those_of_numpy_do(of, index_dtype, mode):
    problem = sliced_problem(1, of, np.dtype(np.float32), index_dtype)
    call = jax.jit(partial(jaxdml.scatter_nd, mode=mode, duplicates="last"))
    assert_same_bits(call(*problem), reference.scatter_nd(*problem, mode=mode))


@quick
@pytest.mark.parametrize("duplicates", DUPLICATES)
def test_nothing_depends_on_being_compiled(duplicates):
    x, indices, updates = np.zeros(5, np.float32), np.array([[3], [-5], [9]], np.int32), np.ones(3, np.float32)
    with jax.disable_jit():
        got = jaxdml.scatter_nd(x, indices, updates, duplicates=duplicates)
        elements = jaxdml.scatter_elements(x, indices[:, 0], updates, duplicates=duplicates)
    assert got.tolist() == elements.tolist() == [1, 0, 0, 1, 0]


def test_donation_writes_in_place():
    compiled = (
        jax.jit(jaxdml.scatter_nd, donate_argnums=0)
        .lower(jnp.zeros((64, 8)), jnp.zeros((4, 1), jnp.int32), jnp.ones((4, 8)))
        .compile()
    )
    assert "input_output_alias" in compiled.as_text()
    assert not [line for line in compiled.as_text().splitlines() if "f32[64,8]" in line and " copy(" in line]


@quick
@pytest.mark.parametrize("duplicates", DUPLICATES)
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_checkify_reports_an_index_out_of_range_and_nothing_else(duplicates, mode):
    call = jax.jit(
        checkify.checkify(
            lambda i: jaxdml.scatter_nd(jnp.zeros(5), i, jnp.ones(len(i)), duplicates=duplicates, mode=mode),
            errors=checkify.index_checks,
        )
    )
    for good in ([[0], [4], [-4]], [[3], [-1], [-5]], [[2], [2], [2]]):
        if duplicates != "unique" or good[0] != good[1]:
            call(np.array(good, np.int32))[0].throw()
    for bad in (5, -6, 2**31 - 1, -(2**31)):
        error, _ = call(np.array([[0], [bad], [1]], np.int32))
        assert "out-of-bounds" in str(error.get())


# Differentiated, "unspecified" is "last": test_a_derivative_settles_who_wins_as_last_does.
@quick
@grid(duplicates=["last", "unique"], mode=[OneOf("drop", "clip")], derivatives=[OneOf("fwd", "rev")])
def test_derivatives_of_every_order(duplicates, mode, derivatives):
    rng = np.random.default_rng(0)
    x, updates = rng.standard_normal((5, 3), np.float32), rng.standard_normal((4, 3), np.float32)
    indices = np.array([[0], [3], [-1], [9 if mode == "drop" else 1]], np.int32)

    @jax.jit
    def write_and_bend(x, u):
        return jnp.sin(jaxdml.scatter_nd(x, indices, u, duplicates=duplicates, mode=mode))

    check_grads(write_and_bend, (x, updates), order=2, modes=[derivatives], rtol=0.05, atol=0.05)


@quick
@grid(duplicates=["last", "unspecified"], dtype=[np.float32, OneOf(np.float16, jnp.bfloat16)])
def test_the_gradient_goes_to_the_winner(duplicates, dtype):
    indices = np.array([[1], [1], [-1], [7], [1]], np.int32)
    weights = np.array([1, 2, 4, 8], dtype)

    def loss(x, updates):
        return (jaxdml.scatter_nd(x, indices, updates, duplicates=duplicates) * weights).sum()

    x, updates = np.zeros(4, dtype), np.ones(5, dtype)
    to_x, to_updates = jax.jit(jax.grad(loss, argnums=(0, 1)))(x, updates)
    assert to_x.tolist() == [1, 0, 4, 0]
    assert to_updates.tolist() == [0, 0, 8, 0, 2]

    def loss_of_elements(u):
        return (jaxdml.scatter_elements(x, indices[:, 0], u, duplicates=duplicates) * weights).sum()

    elements = jax.jit(jax.grad(loss_of_elements))(updates)
    assert elements.tolist() == [0, 0, 8, 0, 2]


@quick
def test_differentiating_changes_no_bit_of_the_value():
    x = np.array([-0.0, 1, 2], np.float32)
    updates = np.array([-0.0, np.nan], np.float32)
    indices = np.array([[1], [2]], np.int32)
    value, _ = jax.jvp(lambda x, u: jaxdml.scatter_nd(x, indices, u), (x, updates), (x, updates))
    assert_same_bits(value, reference.scatter_nd(x, indices, updates))


@quick
def test_complex_and_integer_derivatives():
    x = np.zeros(3, np.complex64)
    _, tangent = jax.jvp(
        lambda u: jaxdml.scatter_nd(x, np.array([[1]], np.int32), u),
        (np.array([1j], np.complex64),),
        (np.array([2 + 1j], np.complex64),),
    )
    assert tangent.tolist() == [0, 2 + 1j, 0]
    _, tangent = jax.jvp(
        lambda u: jaxdml.scatter_nd(np.zeros(3, np.int32), np.array([[1]], np.int32), u),
        (np.array([5], np.int32),),
        (np.zeros(1, jax.dtypes.float0),),
    )
    assert tangent.dtype == jax.dtypes.float0


@quick
def test_dimensions_too_long_for_int32_are_indexed_in_int64():
    long = jax.ShapeDtypeStruct((2**31 + 5,), np.int8)
    update = jax.ShapeDtypeStruct((1,), np.int8)
    with jax.enable_x64(True):
        for operator, indices in ((jaxdml.scatter_nd, np.array([[2**31]])), (jaxdml.scatter_elements, np.array([-1]))):
            program = str(jax.make_jaxpr(lambda x, u, f=operator, i=indices: f(x, i, u))(long, update))
            assert "i64[1,1]" in program
            assert "i8[2147483653]" in program


@quick
@pytest.mark.parametrize("index", [5, -6])
def test_the_oracle_holds_the_caller_to_a_promise(index):
    with pytest.raises(IndexError, match="promise"):
        reference.scatter_nd(np.zeros(5), np.array([[index]]), np.ones(1), mode="promise_in_bounds")
