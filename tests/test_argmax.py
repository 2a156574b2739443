"""The laws of argmax, and those that argmin shares, against the oracle and by themselves."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import export
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from jaxdml._cases.data import specials_of
from jaxdml._kernels.extremes import kernel as extremes
from tests.kit import DATA, FLOATS, INTEGERS, WIDE, OneOf, assert_same_bits, data, grid, meshes, quick, seeds

BOTH = ("argmax", "argmin")
METHODS, CPU = tuple(extremes.METHODS), extremes.CPU
few_draws = settings(max_examples=settings().max_examples // 12)


def of_every_kind(seed, shape, dtype, axes):
    """Draw an array whose sequences along the axes are of every kind, and one with rare specials."""
    rng = np.random.default_rng(seed)
    others = [d for d in range(len(shape)) if d not in axes]
    sizes = [shape[d] for d in others], [shape[d] for d in axes]
    count, n = (int(np.prod(part)) for part in sizes)
    makers = itertools.cycle([*DATA, "rare"])
    rows = []
    for kind in itertools.islice(makers, count):
        one, other = rng.integers(2**32, size=2)
        row = data("few distinct" if kind == "rare" else kind, one, (n,), dtype)
        rows.append(
            np.where(rng.random(n) < 0.01, data("specials", other, (n,), dtype), row) if kind == "rare" else row
        )
    return np.stack(rows).reshape(*sizes[0], *sizes[1]).transpose(np.argsort([*others, *axes]))


@partial(jax.jit, static_argnames=("names", "lasts", "methods", "axis", "index_dtype"))
def searched(x, names=BOTH, lasts=(False, True), methods=METHODS, **options):
    """Search in many ways, in one program."""
    return {
        (name, last, method): getattr(jaxdml, name)(x, select_last_index=last, implementation=method, **options)
        for name, last, method in itertools.product(names, lasts, methods)
    }


def agrees(x, axis=-1, index_dtype=None, **ways):
    for (name, last, _), got in searched(jax.device_put(x), axis=axis, index_dtype=index_dtype, **ways).items():
        want = getattr(reference, name)(x, axis=axis, select_last_index=last, index_dtype=index_dtype)
        assert_same_bits(got, want)


# On both sides of each length at which the form changes: rows, columns, with a rest or none, several rounds.
PLACES = [
    ((7, CPU.short_column), (1,)),
    ((7, CPU.short_column + 1), (1,)),
    ((7, CPU.short_row), (1,)),
    ((7, CPU.short_row + 1), (1,)),
    ((CPU.short_column, CPU.lanes), (0,)),
    ((CPU.short_column + 1, CPU.lanes), (0,)),
    ((600, 7), (0,)),
    ((2, 600, 35), (1,)),
    ((7, 3, 200), (1, 2)),
    ((5, 7, 4, 3), (0, 2)),
]
ALL = [*FLOATS, *INTEGERS]


# A program has all methods. What is done with the keys is the same for every dtype; the keys have a test of their own.
@quick
@grid(place=PLACES, last=[False, True], name=[OneOf(*BOTH)], dtype=[OneOf(*ALL)])
@few_draws
@given(seed=seeds)
def test_agrees_with_the_oracle(place, last, name, dtype, seed):
    shape, axes = place
    agrees(of_every_kind(seed, shape, dtype, axes), axes, names=(name,), lasts=(last,))


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_agrees_with_the_oracle(dtype):
    for seed in range(20):
        agrees(of_every_kind(seed, (7, 9), dtype, (1,)), methods=("pair_reduction",))


@pytest.mark.parametrize(("dtype", "name", "last"), [("bfloat16", "argmin", False), ("int32", "argmax", True)])
def test_three_rounds_agree_with_the_oracle(dtype, name, last):
    x = of_every_kind(3, (4, CPU.chunks_of_rows[1] * CPU.short_row + 77), np.dtype(dtype), (1,))
    agrees(x, names=(name,), lasts=(last,), methods=(None,))


@quick
@grid(
    dtype=WIDE,
    name=[OneOf(*BOTH)],
    last=[OneOf(False, True)],
    index_dtype=["int32", OneOf("uint32", "int64", "uint64")],
)
def test_64_bit_dtypes_agree_with_the_oracle(dtype, name, last, index_dtype):
    with jax.enable_x64(True):
        x = of_every_kind(1, (7, CPU.short_row + 1), dtype, (1,))
        agrees(x, index_dtype=index_dtype, names=(name,), lasts=(last,))


@quick
def test_every_axis_of_every_rank():
    x = data("few distinct", 3, (2, 5, 3), np.float32)
    axes = [0, 1, 2, -1, -3, (1,), (0, 1), (1, 0), (-1, 0), (2, 1), (0, 1, 2), (2, 0, 1)]
    options = [
        {"axis": axis, "keepdims": keepdims, "index_dtype": index_dtype}
        for axis, (keepdims, index_dtype) in itertools.product(axes, [(False, None), (True, "int32")])
    ]
    # The method does not see how the axes are given.
    search = partial(jaxdml.argmax, implementation="pair_reduction")
    results = jax.jit(lambda x: [search(x, **one) for one in options])(x)
    for got, one in zip(results, options, strict=True):
        assert_same_bits(got, reference.argmax(x, **one))


def test_several_axes_are_counted_in_the_order_of_the_array():
    x = np.zeros((2, 3, 4), np.float32)
    x[1, 2, 3] = 1
    for axis in ((0, 2), (2, 0), (-1, 0)):
        assert jaxdml.argmax(x, axis=axis).tolist() == [0, 0, 1 * 4 + 3]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nans_come_first_zeros_tie_and_subnormals_do_not(dtype):
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    tiny, infinity = np.array([1, 0], unsigned).view(dtype)[0], np.array(np.inf, dtype)
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs.
        nans = specials_of(dtype)
        nans = nans[np.isnan(nans)]
    rows = np.zeros((len(nans) + 4, 40), dtype)
    rows[:, ::2] = -0.0
    for place, nan in enumerate(nans):
        rows[place, [1, 2, 3, 39]] = infinity, -infinity, nan, nans[place - 1]
    rows[-4:-2, 1:5] = [tiny, -tiny, tiny, -tiny], [-tiny, tiny, tiny, -tiny]
    rows[-1] *= -1
    first = {"argmax": [1, 2, 0, 0], "argmin": [2, 1, 0, 0]}
    last = {"argmax": [3, 3, 39, 39], "argmin": [4, 4, 39, 39]}
    for (name, of_last, method), got in searched(rows).items():
        assert got.tolist() == [39 if of_last else 3] * len(nans) + (last if of_last else first)[name], (name, method)


@quick
@pytest.mark.parametrize("name", BOTH)
def test_empty_batches_give_empty_answers(name):
    for shape, axis in (((0, 4), -1), ((3, 0, 4), (0, 2)), ((4, 0), 0)):
        got = getattr(jaxdml, name)(np.zeros(shape, np.float32), axis=axis)
        assert_same_bits(got, getattr(reference, name)(np.zeros(shape, np.float32), axis=axis))
        assert got.size == 0


@quick
def test_no_axis_gives_zeros():
    assert_same_bits(jaxdml.argmax(np.ones((2, 3), np.int8), axis=()), np.zeros((2, 3), np.int32))
    assert_same_bits(jaxdml.argmin(np.float32(3), axis=(), index_dtype="int32"), np.zeros((), np.int32))


@quick
def test_the_derivative_is_zero():
    x = data("few distinct", 1, (3, 5), np.float32)

    def loss(x):
        return (x.sum(1) * jaxdml.argmax(x).astype(x.dtype)).sum()

    # Only the factor that is a float has a derivative.
    want = np.broadcast_to(x.argmax(1)[:, None], x.shape).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(x), want)
    assert jax.jvp(jaxdml.argmax, (x,), (x,))[1].dtype == jax.dtypes.float0


@quick
def test_vmap_is_a_loop():
    x = data("few distinct", 4, (5, 33, 18), np.float32)
    got = jax.jit(jax.vmap(partial(jaxdml.argmin, axis=0), in_axes=2))(x)
    for one, of in zip(got, np.moveaxis(x, 2, 0), strict=True):
        assert_same_bits(one, reference.argmin(of, axis=0))


@quick
def test_an_index_dtype_has_to_count_the_elements():
    long = jax.ShapeDtypeStruct((2**16, 2**15 + 1), np.int8)
    whole = partial(jaxdml.argmax, axis=(0, 1))
    assert jax.eval_shape(whole, long).dtype == np.uint32
    with pytest.raises(TypeError, match="index_dtype int32 cannot count the 2147549184 elements"):
        jax.eval_shape(partial(whole, index_dtype="int32"), long)
    assert jax.eval_shape(partial(jaxdml.argmax, index_dtype="int32"), long).dtype == np.int32
    with pytest.raises(TypeError, match="cannot count the 4294967297 elements"):
        jax.eval_shape(jaxdml.argmax, jax.ShapeDtypeStruct((2**32 + 1,), np.int8))
    with jax.enable_x64(True):
        wide = partial(jaxdml.argmax, index_dtype="uint64")
        for method in METHODS:
            got = jax.eval_shape(partial(wide, implementation=method), jax.ShapeDtypeStruct((2**32 + 1,), np.int8))
            assert got.dtype == np.uint64


def lowered(platform, shape=(4, 3000), dtype="float32", **options):
    x = jax.ShapeDtypeStruct(shape, dtype)
    return jax.jit(partial(jaxdml.argmax, **options)).trace(x).lower(lowering_platforms=(platform,)).as_text()


@quick
@pytest.mark.parametrize(
    ("platform", "shape", "dtype", "method"),
    [
        ("cuda", (9, 64, 9), "float32", "pair_reduction"),
        *(("cpu", (4, 3000), "float32", "greatest_chunk"), ("tpu", (4, 3000), "float32", "pair_reduction")),
        *(("cuda", (4, 3000), "float32", "pair_reduction"), ("cuda", (4, 128), "float32", "two_reductions")),
        *(("cuda", (4, 129), "float32", "pair_reduction"), ("cuda", (4, 512), "int8", "two_reductions")),
        *(("cuda", (2**15, 2**10), "float16", "greatest_chunk"), ("cuda", (2**14, 2**10), "int8", "pair_reduction")),
        ("cuda", (2**15, 2**10), "float32", "pair_reduction"),
    ],
)
def test_each_platform_has_its_method(platform, shape, dtype, method):
    def counts(text):
        return [text.count(word) for word in ("stablehlo.reduce", "stablehlo.gather", "optimization_barrier")]

    axis = 1 if len(shape) == 3 else -1
    found = {name: counts(lowered(platform, shape, dtype, axis=axis, implementation=name)) for name in METHODS}
    assert counts(lowered(platform, shape, dtype, axis=axis)) == found[method]
    assert len(set(map(tuple, found.values()))) == len(METHODS)


def test_one_method_needs_to_know_the_length():
    b, n = export.symbolic_shape("b, n")
    x = jax.ShapeDtypeStruct((b, n), np.float32)
    with pytest.raises(NotImplementedError, match="needs to know the length of an axis, which is the symbolic size n"):
        jax.eval_shape(partial(jaxdml.argmax, implementation="greatest_chunk"), x)
    for shape, size, axis in (((b, 1700), (7, 1700), 1), ((70, b), (70, 7), 0)):
        search = jax.jit(partial(jaxdml.argmax, axis=axis, implementation="greatest_chunk"))
        exported = export.export(search)(jax.ShapeDtypeStruct(shape, np.float32))
        x = of_every_kind(2, size, np.dtype(np.float32), (axis,))
        assert_same_bits(exported.call(x), reference.argmax(x, axis=axis))


@quick
@meshes.needs_devices
@pytest.mark.parametrize(
    ("name", "last", "keepdims", "axis"), [("argmax", False, True, (2, 0)), ("argmin", True, False, (0, 2))]
)
def test_several_sharded_axes_are_counted_as_one_array(name, last, keepdims, axis):
    x = of_every_kind(7, (4, 7, 8), np.dtype(np.float16), (0, 2))
    options = {"axis": axis, "select_last_index": last, "keepdims": keepdims}
    want = getattr(reference, name)(x, **options)
    search = partial(getattr(jaxdml, name), **options)
    mesh, spec = meshes.mesh_of("explicit"), P("x", None, "y")
    there = meshes.put(mesh, x, *spec)
    over = tuple({0: "x", 2: ("y",)}[one] for one in axis)
    by_name = jax.shard_map(partial(search, axis_name=over), mesh=mesh, in_specs=spec, out_specs=P())
    for got in jax.jit(lambda x: (search(x), by_name(x)))(there):
        assert_same_bits(got, want)


@meshes.needs_devices
def test_of_several_axes_some_may_be_whole():
    x = of_every_kind(8, (4, 7, 8), np.dtype(np.int8), (0, 2))
    local = partial(jaxdml.argmax, axis=(0, 2), axis_name=(None, ("x", "y")))
    mesh, spec = meshes.mesh_of("explicit"), P(None, None, ("x", "y"))
    mapped = jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=P())
    assert_same_bits(jax.jit(mapped)(meshes.put(mesh, x, *spec)), reference.argmax(x, axis=(0, 2)))


F = np.zeros((2, 5), np.float32)
ERRORS = {
    "no axis": (lambda: jaxdml.argmax(F, axis=None), TypeError,
        "axis must be an integer or a tuple of integers; got None.", "Pass axis=tuple(range(x.ndim)) for all axes."),
    "a list": (lambda: jaxdml.argmax(F, axis=[0]), TypeError,
        "axis must be an integer or a tuple of integers; got [0].", "Pass axis=tuple(range(x.ndim)) for all axes."),
    "out of range": (lambda: jaxdml.argmax(F, axis=(0, 2)), ValueError,
        "axis must be between -2 and 1 for rank 2; got axis=2.", "Pass axis=-1 for the last one."),
    "twice": (lambda: jaxdml.argmax(F, axis=(1, -1)), ValueError,
        "axis must name different dimensions; got axis=(1, -1).", "Pass each dimension once."),
    "keepdims": (lambda: jaxdml.argmax(F, keepdims=1), TypeError, "keepdims must be a bool; got int.",
        "Pass True or False."),
    "select_last_index": (lambda: jaxdml.argmax(F, select_last_index="yes"), TypeError,
        "select_last_index must be a bool; got str.", "Pass True or False."),
    "traced": (lambda: jax.jit(lambda last: jaxdml.argmax(F, select_last_index=last))(True), TypeError,
        "select_last_index must be static; got a traced value.",
        "Name select_last_index in jax.jit's static_argnames, or close over it."),
    "one name for two axes": (lambda: jaxdml.argmax(F, axis=(0, 1), axis_name="d"), ValueError,
        "axis_name must be a tuple with one entry for each of the 2 axes; got 'd'.",
        "Pass None in it for an axis that is whole."),
    "names for too few axes": (lambda: jaxdml.argmax(F, axis=(0, 1), axis_name=(None,)), ValueError,
        "axis_name must be a tuple with one entry for each of the 2 axes; got (None,).",
        "Pass None in it for an axis that is whole."),
    "index dtype": (lambda: jaxdml.argmax(F, index_dtype="int16"), TypeError,
        "index_dtype must be one of int32, uint32; got 'int16'.", "Pass index_dtype='int32'."),
    "method": (lambda: jaxdml.argmax(F, implementation="fast"), ValueError,
        "implementation must be one of 'two_reductions', 'pair_reduction', 'greatest_chunk'; got 'fast'.",
        "Pass implementation='two_reductions'."),
}  # fmt: skip


@quick
@pytest.mark.parametrize("name", ERRORS)
def test_bad_options_are_refused(name):
    thunk, error, rule, advice = ERRORS[name]
    with pytest.raises(error) as caught:
        thunk()
    assert str(caught.value) == f"jaxdml.argmax: {rule}\n  x: float32[2, 5]\n  {advice}"


@quick
@pytest.mark.parametrize(
    ("x", "axis", "error", "message"),
    [
        (np.zeros((2, 0), np.float32), -1, ValueError, "axis 1 must have elements to choose from; its length is 0."),
        (np.zeros((0, 3, 0), np.float32), (1, 2), ValueError,
            "axis 2 must have elements to choose from; its length is 0."),
        (np.float32(1), -1, TypeError, "x must have at least one axis."),
        (np.zeros(3, bool), -1, TypeError, "x must be one of float16, .*; got bool."),
        (np.zeros(3, np.complex64), -1, TypeError, "x must be one of float16, .*; got complex64."),
        ([1.0], -1, TypeError, "x must be an array."),
    ],
)  # fmt: skip
def test_bad_arrays_are_refused(x, axis, error, message):
    with pytest.raises(error, match=f"^jaxdml.argmax: {message}\n"):
        jaxdml.argmax(x, axis=axis)


@meshes.needs_devices
def test_a_mesh_axis_shards_one_dimension():
    local = partial(jaxdml.argmax, axis=(0, 1), axis_name=("x", "x"))
    mapped = jax.shard_map(local, mesh=meshes.mesh_of("explicit"), in_specs=P(), out_specs=P())
    with pytest.raises(ValueError, match="axis_name must name different mesh axes"):
        mapped(jnp.zeros((4, 4)))
