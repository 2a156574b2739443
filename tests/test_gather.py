"""The laws of gather, and those that it shares with the other gathers, against the oracle and by themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax.experimental import checkify
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from tests.kit import INDEX_DTYPES, WIDE, OneOf, assert_same_bits, grid, indices_for, quick, seeds
from tests.kit.gathering import MODES, check, fill_of, mapped, refuse
from tests.kit.meshes import mesh_of, needs_devices, put
from tests.kit.scattering import VALUES, any_values, few_draws, index_dtypes

SHAPES = [
    ((5,), 0, ()),
    ((5, 3), 0, (2, 3)),
    ((2, 5, 3), -2, (4,)),
    ((3, 1, 2, 6), -1, (0, 2)),
    ((0, 2), 0, (0,)),
    ((4, 0), 0, (3,)),
]
"""Shape of x, axis, and shape of the indices."""


@grid(of=SHAPES, dtype=VALUES, mode=MODES)
@few_draws
@given(seed=seeds, index_dtype=index_dtypes)
def test_gather_agrees_with_the_oracle(of, dtype, mode, seed, index_dtype):
    shape, axis, index_shape = of
    rng = np.random.default_rng(seed)
    indices = indices_for(rng, shape[axis], index_shape, index_dtype, mode != "promise_in_bounds" and shape[axis] > 0)
    # Static, so few of them.
    fill_value = fill_of(np.random.default_rng(seed % 2), mode, dtype)
    check("gather", any_values(rng, shape, dtype), indices, axis=axis, mode=mode, fill_value=fill_value)


@grid(
    dtype=["bfloat16", OneOf("float16", "float8_e4m3fn", "float8_e5m2")],
    pattern=[None, 0, OneOf(1, -127)],  # Clip; or fill with 0, with a subnormal number or with a signalling NaN.
)
def test_every_bit_pattern_of_a_narrow_float_is_moved(dtype, pattern):
    width = np.dtype(dtype).itemsize
    x = np.arange(2 ** (8 * width), dtype=f"uint{8 * width}").view(dtype)
    indices = np.arange(-9, len(x) + 9, dtype=np.int32)
    expected = x[np.clip(np.where(indices < 0, indices + len(x), indices), 0, len(x) - 1)]
    options = {}
    if pattern is not None:
        options = {"mode": "fill", "fill_value": x[pattern]}
        expected[indices >= len(x)] = x[pattern]
    assert_same_bits(jax.jit(partial(jaxdml.gather, **options))(x, indices), expected)


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_indices_are_widened_before_they_are_counted_from_the_end(dtype):
    info, n = np.iinfo(dtype), 300
    every = np.arange(max(info.min, -n - 3), min(info.max, n + 2) + 1)
    indices = np.resize(every, 606).astype(dtype)
    indices[:2] = info.min, info.max
    for mode in ("clip", "fill"):
        check("gather", np.arange(1, n + 1, dtype=np.int16), indices, mode=mode)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_unsigned_indices_are_never_negative(dtype):
    x, top = np.arange(5, dtype=np.float32), np.iinfo(dtype).max
    indices = np.array([top, top - 1, 1], dtype)
    assert jaxdml.gather(x, indices).tolist() == [4, 4, 1]
    assert jaxdml.gather(x, indices, mode="fill", fill_value=9).tolist() == [9, 9, 1]


@quick
def test_64_bit_indices_are_never_cut():
    x = np.arange(5, dtype=np.float32)
    indices = np.array([2**32 + 1, -(2**32) + 1, 2**63 - 1, -(2**63), 2**31, -(2**31) - 1, -2])
    clipped = [4, 0, 4, 0, 4, 0, 3]
    assert jaxdml.gather(x, indices).tolist() == clipped
    assert jax.jit(lambda x: jaxdml.gather(x, indices))(x).tolist() == clipped
    assert jaxdml.gather(x, indices, mode="fill", fill_value=7).tolist() == [7, 7, 7, 7, 7, 7, 3]
    with jax.enable_x64(True):
        wide, one = jnp.asarray(indices), jnp.asarray(indices[0])
    assert jaxdml.gather_elements(x, wide).tolist() == clipped
    assert jaxdml.gather(x, one) == jaxdml.gather(x, indices[0]) == 4


@quick
@grid(dtype=[OneOf(*WIDE, np.dtype(np.complex128))], mode=[OneOf("clip", "fill")], index_dtype=[None, *INDEX_DTYPES])
def test_64_bit_values_and_indices_with_x64(dtype, mode, index_dtype):
    with jax.enable_x64(True):
        x = any_values(np.random.default_rng(0), (3, 6), dtype)
        options = {"axis": 1, "mode": mode, "fill_value": fill_of(np.random.default_rng(1), mode, dtype)}
        for stored in [index_dtype] if index_dtype else INDEX_DTYPES:
            indices = indices_for(np.random.default_rng(0), 6, (9,), stored)
            given = jax.device_put(indices) if index_dtype else indices  # By JAX one dtype, or by NumPy any.
            assert_same_bits(jaxdml.gather(x, given, **options), reference.gather(x, indices, **options))


def test_without_a_fill_value_it_is_0():
    assert_same_bits(jaxdml.gather(np.ones(2, np.float32), np.array([0, 2]), mode="fill"), np.float32([1, 0]))
    assert jaxdml.gather(np.ones(2, bool), np.array([0, 2]), mode="fill").tolist() == [True, False]
    assert jaxdml.gather(np.ones(2, np.int8), np.array([0, 2]), mode="fill", fill_value=-128).tolist() == [1, -128]
    assert jaxdml.gather(np.ones(2, np.float16), np.array([2]), mode="fill", fill_value=1e300).tolist() == [np.inf]


def test_an_axis_without_elements_can_be_filled():
    x = np.zeros((2, 0, 3), np.float32)
    got = jaxdml.gather(x, np.array([0, -1]), axis=1, mode="fill", fill_value=5)
    assert_same_bits(got, np.full((2, 2, 3), 5, np.float32))
    assert_same_bits(jax.grad(lambda x: jaxdml.gather(x, np.array([0]), axis=1, mode="fill").sum())(x), x)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_half_bytes_are_read_too(dtype):
    every = np.arange(16, dtype=np.uint8).view(dtype) if dtype[0] == "f" else np.arange(16).astype(dtype)
    for options in ({}, {"mode": "fill", "fill_value": 1}):
        got = jaxdml.gather(jax.device_put(every), np.array([3, -1, 99, 0]), **options)
        assert got.dtype == every.dtype
        expected = reference.gather(every, np.array([3, -1, 99, 0]), **options)
        # As other numbers: no one says what the rest of a byte holds.
        assert_same_bits(np.asarray(got).astype(np.float32), expected.astype(np.float32))


@quick
@pytest.mark.parametrize("in_axes", [(0, 0), (1, None), (None, 1), (2, 1)])
def test_vmap_is_a_loop(in_axes):
    rng = np.random.default_rng(0)
    x, indices = any_values(rng, (3, 4, 5), np.dtype(np.float32)), indices_for(rng, 5, (3, 6), np.dtype(np.int32))
    for mode in ("clip", "fill"):
        options = {"axis": 1, "mode": mode}
        mapped(partial(jaxdml.gather, **options), partial(reference.gather, **options), in_axes, x, indices)


INDICES = np.array([1, 7, -1, 1, -9], np.int32)


@quick
@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.complex64])
@pytest.mark.parametrize(("mode", "expected"), [("clip", [16, 9, 0, 6]), ("fill", [0, 9, 0, 4])])
def test_the_gradient_adds_up_what_was_read(mode, expected, dtype):
    weights = jnp.array([1, 2, 4, 8, 16], dtype)

    def loss(x):
        return (jaxdml.gather(x, INDICES, mode=mode) * weights).sum().real

    assert jax.jit(jax.grad(loss))(np.zeros(4, dtype)).tolist() == expected


@quick
@pytest.mark.parametrize(("mode", "reads"), [("clip", [1, 2, 0, 2]), ("fill", [0, 2, 0, 1])])
def test_second_derivatives_add_up_too(mode, reads):
    def sum_of_cubes(x):
        return (jaxdml.gather(x, INDICES, axis=1, mode=mode) ** 3).sum()

    x = np.array([[1, 2, 3, 4]], np.float32)
    hessian = jax.jit(jax.hessian(sum_of_cubes))(x)
    assert hessian[0, :, 0].tolist() == np.diag(6 * x[0] * reads).tolist()


@quick
def test_differentiating_changes_no_bit_and_integers_have_no_derivative():
    x = np.array([-0.0, np.nan, 1e-42], np.float32)
    value, _ = jax.jvp(partial(jaxdml.gather, indices=INDICES % 3), (x,), (x,))
    assert_same_bits(value, x[INDICES % 3])
    _, tangent = jax.jvp(partial(jaxdml.gather, indices=INDICES), (np.arange(4),), (np.zeros(4, jax.dtypes.float0),))
    assert tangent.dtype == jax.dtypes.float0


@pytest.mark.parametrize("mode", MODES)
def test_checkify_reports_an_index_out_of_range_and_nothing_else(mode):
    read = jax.jit(checkify.checkify(lambda i: jaxdml.gather(jnp.zeros(5), i, mode=mode), errors=checkify.index_checks))
    read(np.array([0, 4, -5], np.int32))[0].throw()
    for bad in (5, -6, 2**31 - 1, -(2**31)):
        error, _ = read(np.array([0, bad, 1], np.int32))
        assert "out-of-bounds" in str(error.get())


def test_a_dimension_too_long_for_int32_is_indexed_in_int64():
    long = jax.ShapeDtypeStruct((2**31 + 5,), np.int8)
    with jax.enable_x64(True):
        assert "i64[1,1]" in str(jax.make_jaxpr(lambda x: jaxdml.gather(x, np.array([2**31])))(long))


KINDS = ["float32", "bfloat16", "int8", "bool", "complex64", "int4", "float4_e2m1fn"]


@needs_devices
@grid(dtype=KINDS, columns=[OneOf(3, 4)], mode=[OneOf("clip", "fill")])
def test_every_dtype_is_read_from_other_shards(dtype, columns, mode):
    rng = np.random.default_rng(0)
    small = np.dtype(dtype).itemsize == 1 and dtype not in ("int8", "bool")
    x = rng.integers(0, 4, (8, columns)).astype(dtype) if small else any_values(rng, (8, columns), np.dtype(dtype))
    fill_value = None if mode == "clip" else True if dtype == "bool" else 2
    indices = indices_for(rng, 8, (5, 2), np.dtype(np.int32))
    options = {"mode": mode, "fill_value": fill_value}
    got = jax.jit(partial(jaxdml.gather, **options))(put(mesh_of("explicit"), x, "y"), indices)
    expected = reference.gather(x, indices, **options)
    if small:
        got, expected = np.asarray(got).astype(np.float32), expected.astype(np.float32)
    assert_same_bits(got, expected)


@quick
@needs_devices
def test_64_bit_values_are_read_from_other_shards():
    with jax.enable_x64(True):
        x = any_values(np.random.default_rng(0), (8, 3), np.dtype(np.float64))
        options = {"mode": "fill", "fill_value": 1e-320}
        got = jax.jit(partial(jaxdml.gather, **options))(put(mesh_of("explicit"), x, "x"), INDICES)
        assert_same_bits(got, reference.gather(x, INDICES, **options))


@quick
@needs_devices
def test_an_axis_without_elements_may_be_sharded():
    mesh = mesh_of("explicit")
    with jax.set_mesh(mesh):
        x = put(mesh, np.zeros((0, 4), np.float32), "y", "x")
        got = jax.jit(partial(jaxdml.gather, mode="fill", fill_value=3))(x, np.array([1, 2]))
        assert jax.jit(jaxdml.gather)(put(mesh, np.zeros((4, 0), np.float32), "y"), np.array([-1])).shape == (1, 0)
    assert_same_bits(got, np.full((2, 4), 3, np.float32))


@quick
def test_an_axis_of_vmap_is_an_axis_too():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = jax.vmap(lambda x: jaxdml.gather(x, np.array([4, -1, 0, 9]), axis_name="i"), axis_name="i")(x)
    assert got.tolist() == [[4, 5, 0, 5]] * 2


@quick
@needs_devices
def test_gradients_flow_to_the_shard_that_was_read():
    mesh, weights = mesh_of("explicit"), np.float32([1, 2, 4, 8, 16])

    def block(x):
        return (jaxdml.gather(x, INDICES, axis_name="y") * weights).sum()

    def loss(x):
        return jax.shard_map(block, mesh=mesh, in_specs=P("y"), out_specs=P())(x)

    gradient = jax.jit(jax.grad(loss))(put(mesh, np.zeros(8, np.float32), "y"))
    assert gradient.tolist() == [16, 9, 0, 0, 0, 0, 0, 2 + 4]


G, F = "jaxdml.gather: ", np.zeros((2, 5), np.float32)
I = np.zeros((2, 3), np.int32)  # noqa: E741
OPERANDS = "x: float32[2, 5], indices: int32[2, 3]"
KIND = "fill_value must be one number of the kind of x, "


def call(*arguments, **options):
    return lambda: jaxdml.gather(*arguments, **options)


REFUSED = {
    "a list": (call(F, [0]), TypeError, "indices must be an array.", "indices: list", "Pass jnp.asarray(indices)."),
    "indices of floats": (
        *(call(F, F), TypeError),
        "indices must be one of int8, int16, int32, int64, uint8, uint16, uint32, uint64; got float32.",
        *("indices: float32[2, 5]", "Convert indices with .astype first."),
    ),
    "no axes": (
        *(call(np.float32(1), I), TypeError, "x must have at least one axis."),
        *("x: float32[], indices: int32[2, 3]", "Pass x[None] to read from one element."),
    ),
    "axis out of range": (
        *(call(F, I, axis=2), ValueError, "axis must be between -2 and 1 for rank 2; got axis=2."),
        *(OPERANDS, "Pass axis=-1 for the last one."),
    ),
    "unknown mode": (
        *(call(F, I, mode="wrap"), ValueError),
        "mode must be one of 'clip', 'fill', 'promise_in_bounds'; got 'wrap'.",
        *(OPERANDS, "Pass mode='clip'."),
    ),
    "fill_value without fill": (
        *(call(F, I, fill_value=0), ValueError, "fill_value is for mode='fill'; got mode='clip'."),
        *(OPERANDS, "Pass mode='fill' or no fill_value."),
    ),
    "fill_value of another kind": (
        *(call(I, I, mode="fill", fill_value=0.5), TypeError, KIND + "int32; got 0.5."),
        *("x: int32[2, 3], indices: int32[2, 3]", "Pass a Python number."),
    ),
    "fill_value of many numbers": (
        *(call(F, I, mode="fill", fill_value=(1, 2)), TypeError, KIND + "float32; got (1, 2)."),
        *(OPERANDS, "Pass a Python number."),
    ),
    "fill_value out of range": (
        *(call(I.astype(np.int8), I, mode="fill", fill_value=128), ValueError),
        "fill_value must be from -128 to 127 for int8; got 128.",
        *("x: int8[2, 3], indices: int32[2, 3]", "Pass a number that x can hold."),
    ),
    "fill_value traced": (
        *(lambda: jax.jit(lambda v: jaxdml.gather(F, I, mode="fill", fill_value=v))(1.0), TypeError),
        "fill_value must be static; got a traced value.",
        *(OPERANDS, "Name fill_value in jax.jit's static_argnames, or close over it."),
    ),
    "nothing to read": (
        *(call(F[:0], I), ValueError, "indices address a dimension of x that has no elements."),
        *("x: float32[0, 5], indices: int32[2, 3]", "Pass no indices, or mode='fill'."),
    ),
    "too long for int32": (
        *(lambda: jax.eval_shape(jaxdml.gather, jax.ShapeDtypeStruct((2**31,), np.int8), I), TypeError),
        "a dimension of 2147483648 elements is too long for int32 indices.",
        *("x: int8[2147483648], indices: int32[2, 3]", "Enable jax_enable_x64, or gather from a reshaped x."),
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_wrong_is_said_in_three_lines(why):
    wrong, error, rule, *lines = REFUSED[why]
    refuse(wrong, error, G + rule, *lines)


@quick
@needs_devices
def test_what_no_mesh_can_serve_is_refused():
    mesh = mesh_of("explicit")
    refuse(
        lambda: jaxdml.gather(put(mesh, np.zeros((4, 8), np.float32), None, "x"), put(mesh, np.zeros(4, int), "x")),
        *(ValueError, G + "mesh axis 'x' shards both dimension 0 of indices and dimension 1 of x of the result."),
        *("x: float32[4, 8], indices: int32[4]", "Reshard x or indices with jax.sharding.reshard."),
    )
