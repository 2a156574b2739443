"""Integers of three limbs, against Python's."""

import jax
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jaxdml._networks import limbs
from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.values.kinds import Dequantized, Quantization
from tests.kit.scattering import few_draws

words = st.integers(0, 2**32 - 1)


def limbs_of(number):
    return [np.uint32(number >> 21 * place & (2**21 - 1)) for place in range(3)]


def value(found):
    return sum(int(limb) << 21 * place for place, limb in enumerate(found))


@few_draws
@given(first=words, second=words, shift=st.integers(0, 30), other=st.integers(0, 30))
def test_numbers_are_added_at_their_places(first, second, shift, other):
    got = limbs.of((np.uint32(first), shift), (np.uint32(second), other))
    assert value(got) == (first << shift) + (second << other)


@few_draws
@given(number=st.integers(0, 2**63 - 1), factor=st.integers(1, 2**40), small=st.integers(0, 2**11 - 1))
@example(number=(2**51 - 1) * (2**12 - 1), factor=2**12 - 1, small=2**11 - 1)
@example(number=(2**42 - 1) * (2**20 - 1), factor=2**20 - 1, small=2**11 - 1)
def test_products_are_exact(number, factor, small):
    fitting = number // factor
    assert value(limbs.times(limbs_of(fitting), factor)) == fitting * factor
    fitting = number // max(small, 1)
    assert value(limbs.product(limbs_of(fitting), np.uint32(small))) == fitting * small
    assert abs(float(limbs.as_float(limbs_of(number))) - number) <= number * 2.0**-22


@pytest.mark.parametrize("count", [0, 1, 7, 2**12, 70_000])
def test_sums_do_not_wrap_around(count):
    terms = np.full((2, count), 2**30, np.uint32)
    terms[1, 1::2] = 2**30 - 1
    got = jax.jit(lambda terms: limbs.total(terms, (1,), count))(terms)
    want = terms.astype(np.int64).sum(1)
    assert [value(limb[row, 0] for limb in got) for row in range(2)] == want.tolist()


def test_softmax_of_more_than_can_be_summed_is_left_to_floats():
    known = Quantization(np.asarray(0.5, np.float32), None)

    def normalized(x):
        return rounded_once.softmax(Dequantized(x, known, np.dtype(np.float32)), (1,), known, np.uint8)

    assert jax.eval_shape(normalized, jax.ShapeDtypeStruct((1, 2**31), np.uint8)) is None
    assert jax.eval_shape(normalized, jax.ShapeDtypeStruct((1, 2**31 - 1), np.uint8)).shape == (1, 2**31 - 1)


def test_softmax_adds_exponentials_of_20_bits_or_is_left_to_floats():
    known, out = (Quantization(np.asarray(scale, np.float32), None) for scale in (0.5, 1 / 255))

    def normalized(x):
        return rounded_once.softmax(Dequantized(x, known, np.dtype(np.float32)), (1,), out, np.uint8)

    # The sum of all terms, times the numerator of the scale, which has 24 bits, fits 61 bits.
    assert jax.eval_shape(normalized, jax.ShapeDtypeStruct((1, 2**17), np.uint8)).shape == (1, 2**17)
    assert jax.eval_shape(normalized, jax.ShapeDtypeStruct((1, 2**18), np.uint8)) is None


@few_draws
@given(number=st.integers(0, 2**63 - 2), other=st.integers(0, 2**63 - 1), tie=st.booleans())
def test_comparisons_are_exact(number, other, tie):
    for right in (other, number, number + 1, max(number - 1, 0)):
        got = limbs.exceeds(limbs_of(number), limbs_of(right), np.bool_(tie))
        assert bool(got) == (number > right or (tie and number == right))
