"""``Known`` keeps scales and zero points known while JAX traces."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import Known
from tests.kit import assert_same_bits, quick

pytestmark = quick

SCALES = np.float32([0.5, 0.25, 0.75])
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
A, B = np.arange(12, dtype=np.uint8).reshape(3, 4), np.arange(-6, 6, dtype=np.int8).reshape(4, 3)


def test_it_is_a_tree_without_leaves():
    leaves, tree = jax.tree.flatten(Known(SCALES))
    assert not leaves
    assert jax.tree.unflatten(tree, leaves) == Known(SCALES.copy())


@pytest.mark.parametrize(
    "different",
    [
        (Known(0.0), Known(-0.0)), (Known(1), Known(1.0)), (Known(1.0), Known(np.float32(1))),
        (Known(np.float32(1)), Known(np.ones(1, np.float32))), (Known(np.int8(1)), Known(np.uint8(1))),
        (Known(1.0), 1.0), (Known(SCALES), Known(SCALES[::-1])),
    ],
)  # fmt: skip
def test_values_of_other_bits_shapes_and_dtypes_are_different(different):
    one, other = different
    assert one != other
    assert other != one


@pytest.mark.parametrize("value", [np.nan, 2**70, -0.0, SCALES, np.int8(-3), jnp.bfloat16(0.5), jnp.float32(2)])
def test_equal_ones_have_the_same_hash_also_when_copied(value):
    known = Known(value)
    for other in (Known(value), copy.deepcopy(known), pickle.loads(pickle.dumps(known))):
        assert other == known
        assert hash(other) == hash(known)
        assert repr(other) == repr(known)


def test_it_cannot_be_changed():
    given = SCALES.copy()
    known = Known(given)
    given[0] = 7
    assert known == Known(SCALES)
    with pytest.raises(ValueError, match="read-only"):
        known.value[0] = 7
    with pytest.raises(AttributeError, match="value cannot be set"):
        known.value = 7


def equations(call, *arguments):
    return len(jax.make_jaxpr(call)(*arguments).eqns)


CALLS = {
    "quantize_linear": lambda of: jaxdml.quantize_linear(X, of(SCALES), of(np.uint8([1, 2, 3])), axis=1),
    "dequantize_linear": lambda of: jaxdml.dequantize_linear(B, of(0.5), of(np.int8(3))),
    "fake_quantize": lambda of: jaxdml.fake_quantize(X, of(SCALES), of(np.int8(3))),
    "requantize": lambda of: jaxdml.requantize(B.astype(np.int32), of(0.5), of(SCALES), of(0.1), of(np.int8(3))),
    "product": lambda of: jaxdml.quantized_linear_matrix_multiply(
        A, of(0.5), of(3), B, of(SCALES), of(np.int8(1)), of(0.3), of(np.uint8(9))
    ),
    "packed product": lambda of: jaxdml.quantized_linear_matrix_multiply(
        A, of(0.5), of(3), jaxdml.prepack(B), of(SCALES), None, of(0.3), of(np.uint8(9))
    ),
    "product to float": lambda of: jaxdml.matrix_multiply_integer_to_float(A, of(0.5), of(3), B, of(SCALES), None),
    "integers": lambda of: jaxdml.matrix_multiply_integer(A, of(np.uint8(3)), B, of(1)),
    "sum": lambda of: jaxdml.quantized_linear_add(A, of(0.5), of(3), A, of(0.25), None, of(0.3), of(np.uint8(9))),
    "blocks": lambda of: jaxdml.matrix_multiply_block_quantized(
        np.ones((2, 4), np.float32),
        jaxdml.prepack_blocks(B, of(SCALES[None]), of(np.ones((1, 3), np.int8)), block_size=4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_that_of_the_value(call):
    of = CALLS[call]
    want = of(lambda value: value)
    assert_same_bits(of(Known), want)
    assert equations(lambda: of(Known)) == equations(lambda: of(lambda value: value))


def test_it_stays_known_through_transformations():
    def call(x, scale):
        return jaxdml.quantize_linear(x, scale, output_dtype="int8")

    known, want = Known(0.05), call(X, 0.05)
    assert equations(call, X, known) == equations(lambda x: call(x, 0.05), X)
    assert_same_bits(jax.jit(call)(X, known), want)
    assert_same_bits(jax.vmap(call, in_axes=(0, None))(X, known), want)
    assert_same_bits(jax.lax.scan(lambda scale, x: (scale, call(x, scale)), known, X)[1], want)


def test_a_program_is_compiled_once_for_each_value():
    traces = []

    @jax.jit
    def call(x, scale):
        traces.append(scale)
        return jaxdml.quantize_linear(x, scale, output_dtype="int8")

    for value in (0.5, 0.25, 0.5):
        call(X, Known(value))
    assert traces == [Known(0.5), Known(0.25)]


@pytest.mark.parametrize("scale", [0.5, np.float32(0.5), SCALES, jnp.bfloat16(0.5), 1])
def test_a_program_with_it_as_an_argument_is_exported(scale):
    call = jax.jit(jaxdml.dequantize_linear)
    known = Known(scale)
    data = jax.export.export(call)(B, known).serialize()
    assert_same_bits(jax.export.deserialize(data).call(B, known), call(B, known))
    with pytest.raises(ValueError, match="Known"):
        jax.export.deserialize(data).call(B, Known(0.75))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: jax.jit(Known)(1.0),
            "jaxdml.Known: value must be known; got one that is traced.\n  value: float32[]\n  "
            "Make it outside of the function that JAX traces, or pass the array itself as data.",
        ),
        (
            lambda: Known("0.5"),
            "jaxdml.Known: value must hold real numbers.\n  value: str\n  Pass a number, or an array of numbers.",
        ),
        (
            lambda: Known(1j),
            "jaxdml.Known: value must hold real numbers.\n  value: complex\n  Pass a number, or an array of numbers.",
        ),
    ],
)
def test_what_cannot_be_known_is_refused(make, text):
    with pytest.raises(TypeError) as error:
        make()
    assert str(error.value) == text
