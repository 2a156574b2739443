"""What arguments may be: Python numbers under transformations, 64-bit arrays, other byte orders, donated arrays."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import jaxdml
from jaxdml import AxisDirection, reference
from tests.kit import OneOf, assert_same_bits, grid, quick

pytestmark = quick

A, B = np.array([[100, 28], [7, 255]], np.uint8), np.array([[3, -7], [-4, 90]], np.int8)
NUMBERS = (0.5, 128, 0.25, 2, 2.0, 10)


def product(a, numbers, b):
    a_scale, a_zero, b_scale, b_zero, output_scale, output_zero = numbers
    return jaxdml.quantized_linear_matrix_multiply(a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero)


def expected_product():
    dtypes = np.float32, np.uint8, np.float32, np.int8, np.float32, np.uint8
    numbers = [dtype(number) for dtype, number in zip(dtypes, NUMBERS, strict=True)]
    return reference.quantized_linear_matrix_multiply(A, *numbers[:2], B, *numbers[2:])


TRANSFORMATIONS = {
    "eager": lambda f: f,
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "jit of checkpoint": lambda f: jax.jit(jax.checkpoint(f)),
    "vmap": lambda f: jax.vmap(f, in_axes=(None, 0, None)),
}


@grid(transformation=["eager", "jit", "vmap", OneOf("checkpoint", "jit of checkpoint")], x64=[False, True])
def test_a_python_number_takes_the_dtype_that_is_wanted(transformation, x64):
    vmapped = transformation == "vmap"
    with jax.enable_x64(x64):
        numbers = [jnp.broadcast_to(jnp.asarray(number), (3,)) for number in NUMBERS] if vmapped else NUMBERS
        got = TRANSFORMATIONS[transformation](product)(A, tuple(numbers), B)
    assert_same_bits(got, np.stack([expected_product()] * 3) if vmapped else expected_product())


def test_python_numbers_work_where_only_shapes_are_known():
    out = jax.eval_shape(product, A, NUMBERS, B)
    assert (out.shape, out.dtype) == ((2, 2), np.uint8)


def test_a_weakly_typed_array_is_checked_like_the_number_it_came_from():
    weak = jnp.asarray(300)
    assert weak.weak_type
    with pytest.raises(ValueError, match="integer from 0 to 255; got 300"):
        product(A, (0.5, weak, *NUMBERS[2:]), B)
    with pytest.raises(TypeError, match="a_zero_point must be uint8; got float32"):
        jax.jit(product)(A, (0.5, 1.5, *NUMBERS[2:]), B)


def wide(values, dtype):
    with jax.enable_x64(True):
        return jnp.asarray(np.array(values, dtype))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_64_bit_indices_made_with_x64_are_never_cut(dtype):
    values = [2**32 + 1, 2] if dtype == np.uint64 else [2**32 + 1, -(2**32) + 1, 2, -1]
    x, updates = np.zeros(5, np.float32), np.arange(1, len(values) + 1, dtype=np.float32)
    want = reference.scatter_nd(x, np.array(values, dtype)[:, None], updates)
    assert_same_bits(jaxdml.scatter_nd(x, wide(values, dtype)[:, None], updates), want)
    assert_same_bits(jaxdml.scatter_elements(x, wide(values, dtype), updates), want)
    empty = jaxdml.scatter_nd(x, wide(np.zeros((1, 0)), dtype), np.ones((1, 5), np.float32))
    assert_same_bits(empty, np.ones(5, np.float32))


@pytest.mark.parametrize(("dtype", "narrower"), [("float64", "float32"), ("int64", "int32"), ("uint64", "uint32")])
def test_other_64_bit_arrays_need_x64(dtype, narrower):
    x = wide([1, 2, 3], dtype)
    calls = {
        "x": lambda: jaxdml.top_k(x, 1),
        "updates": lambda: jaxdml.scatter_nd(np.zeros(4, narrower), np.array([[0], [1], [2]]), x),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError) as caught:
            call()
        rule, _, advice = str(caught.value).splitlines()
        assert rule.endswith(f"{name} is {dtype}, which JAX has only with jax_enable_x64.")
        assert advice == f"  Enable jax_enable_x64, or pass np.asarray({name}).astype('{narrower}')."


@quick
@pytest.mark.parametrize("values", [np.uint64([1, 2**32]), np.int64([[-(2**31) - 1]]), np.int64(2**31)])
def test_64_bit_integers_that_32_bits_do_not_hold_are_refused(values):
    with pytest.raises(TypeError) as caught:
        jaxdml.gather(values, np.array([0])) if values.ndim else jaxdml.argmax(values, axis=())
    narrower = str(values.dtype).replace("64", "32")
    assert (
        str(caught.value)
        .splitlines()[0]
        .endswith(f"x holds integers that {narrower} does not, and JAX has {values.dtype} only with x64.")
    )
    assert str(caught.value).endswith("Call jax.config.update('jax_enable_x64', True) first.")


@quick
def test_64_bit_integers_that_32_bits_hold_are_taken():
    x = np.int64([3, -(2**31), 2**31 - 1])
    assert_same_bits(jaxdml.top_k(x, 2).values, np.int32([2**31 - 1, 3]))
    assert_same_bits(jaxdml.gather(np.zeros((0, 3), np.int64), np.zeros(0, int)), np.zeros((0, 3), np.int32))


def test_arrays_of_the_other_byte_order_are_read_by_value():
    x = np.array([1.5, 3, 2], np.dtype(np.float32).newbyteorder())
    assert_same_bits(jaxdml.top_k(x, 2).values, np.array([3, 2], np.float32))
    indices = np.array([[2], [0]], np.dtype(np.int32).newbyteorder())
    assert jaxdml.scatter_nd(x, indices, x[:2]).tolist() == [3, 3, 1.5]
    a = jaxdml.quantized_linear_matrix_multiply(A, np.dtype(">f4").type(0.5), 128, B, 0.25, 2, 2.0, 10)
    assert_same_bits(a, expected_product())


@pytest.mark.parametrize("direction", [0, 1, np.int64(0), *AxisDirection])
def test_a_direction_may_be_its_number(direction):
    x = np.array([3, 1, 2], np.int32)
    want = reference.top_k(x, 2, direction=AxisDirection(int(direction)).name.lower())
    assert_same_bits(jaxdml.top_k(x, 2, direction=direction).indices, want[1])


@grid(
    operator=["scatter_nd", "scatter_elements"],
    mode=[OneOf("drop", "clip")],
    duplicates=["unspecified", "last", "unique"],
)
def test_checkify_names_the_array_as_the_caller_gave_it(operator, mode, duplicates):
    def write(indices):
        updates = jnp.ones((2, 10) if operator == "scatter_nd" else indices.shape)
        return getattr(jaxdml, operator)(jnp.zeros((4, 10)), indices, updates, mode=mode, duplicates=duplicates)

    checked = jax.jit(checkify.checkify(write, errors=checkify.index_checks))
    good = np.array([[0], [-4]], np.int32) if operator == "scatter_nd" else np.array([[0, -1, 2], [3, 1, -4]], np.int32)
    checked(good)[0].throw()
    for bad in (4, -5, 2**31 - 1, -(2**31)):
        error, _ = checked(np.where(good == -4, np.int32(bad), good))
        assert "out-of-bounds indexing for array of shape (4, 10)" in error.get()
        assert "axis 0 with size 4" in error.get()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, jnp.bfloat16, np.complex64])
def test_the_derivative_of_a_scatter_keeps_the_sign_of_zeros(dtype):
    def negative_zeros(*shape):
        return -np.zeros(shape, dtype)

    x, updates, indices = np.ones((4, 8), dtype), np.ones((3, 8), dtype), np.array([[1], [1], [2]], np.int32)
    for duplicates in ("last", "unspecified"):
        write = functools.partial(jaxdml.scatter_nd, indices=indices, duplicates=duplicates)
        _, tangent = jax.jvp(
            lambda x, u, f=write: f(x, updates=u), (x, updates), (negative_zeros(4, 8), negative_zeros(3, 8))
        )
        parts = (tangent.real, tangent.imag) if np.dtype(dtype).kind == "c" else (tangent,)
        assert all(np.signbit(np.asarray(part)).all() for part in parts)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="reads what XLA's CPU backend allocates")
@grid(
    dtype=["float32", OneOf("float16", "bfloat16"), OneOf("float8_e5m2", "int8")],
    duplicates=["unspecified", "last", "unique"],
)
def test_a_donated_array_is_written_in_place(dtype, duplicates):
    rows = 1 << 12
    shapes = ((rows, 64), dtype), ((4, 1), "int32"), ((4, 64), dtype)
    write = jax.jit(functools.partial(jaxdml.scatter_nd, duplicates=duplicates), donate_argnums=0)
    memory = write.lower(*(jax.ShapeDtypeStruct(*one) for one in shapes)).compile().memory_analysis()
    assert memory.alias_size_in_bytes == rows * 64 * jnp.dtype(dtype).itemsize
    # One number a row says which update comes last; the rest is small.
    assert memory.temp_size_in_bytes < 4 * rows + 4096


@grid(
    dtype=[jnp.bfloat16, OneOf(jnp.float8_e5m2, jnp.float8_e4m3fn)],
    mode=[OneOf("drop", "clip")],
    shape=[(6, 8), (6, 2, 4), (6, 1), (6,)],
)
def test_slices_of_narrow_floats_keep_every_bit(dtype, mode, shape):
    rng = np.random.default_rng(0)
    x, updates = (
        rng.integers(0, 256, (n, *shape[1:], np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0] for n in (6, 5)
    )
    indices = np.array([[1], [-1], [1], [9], [-9]], np.int32)
    got = jaxdml.scatter_nd(x, indices, updates, mode=mode, duplicates="last")
    assert_same_bits(got, reference.scatter_nd(x, indices, updates, mode=mode))
