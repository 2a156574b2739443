"""The laws of the keys that stand for elements wherever elements are compared."""

import jax
import numpy as np
import pytest

from jaxdml import AxisDirection
from jaxdml._arithmetic import order_keys
from tests.kit import FLOATS, HALVES, INTEGERS, WIDE, assert_same_bits, data, is_float, unsigned

NARROW = [dtype for dtype in FLOATS + INTEGERS if dtype.itemsize < 4]
keys_of = jax.jit(order_keys.order_keys, static_argnums=1)
greater_key_of_pairs = jax.jit(order_keys.greater_key_of_pairs, static_argnums=1)


def every_pattern(dtype):
    return np.arange(1 << 8 * dtype.itemsize).astype(unsigned(dtype)).view(dtype)


def many_patterns(dtype):
    """What stands beside every power of two, of both signs, and any bits."""
    width = 8 * dtype.itemsize
    ends = [1 << place for place in range(width)]
    if is_float(dtype):
        ends.append(int(np.array(np.inf, dtype).view(unsigned(dtype))))
    beside = [pattern + step & (1 << width) - 1 for pattern in ends for step in (-1, 0, 1)]
    special = np.array([pattern ^ sign for pattern in beside for sign in (0, 1 << width - 1)], unsigned(dtype))
    return np.concatenate([special.view(dtype), data("any bits", 1, (100_000,), dtype)])


def ranks(x):
    """Number the values from the least: NumPy has -0.0 equal to 0.0, and every NaN equal to every other, and last."""
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling NaNs.
        values = x.astype(np.float64) if is_float(x.dtype) else x
    return np.unique(values, return_inverse=True)[1]


def check(x):
    x = np.random.default_rng(0).permutation(x)
    down, up = (np.asarray(keys_of(x, towards)) for towards in (AxisDirection.DECREASING, AxisDirection.INCREASING))
    assert down.dtype == unsigned(x.dtype)
    np.testing.assert_array_equal(ranks(down), ranks(x))
    assert_same_bits(up, ~down)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_pattern_there_is_has_its_place(dtype):
    check(every_pattern(dtype))


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS + INTEGERS if dtype.itemsize == 4], ids=str)
def test_wider_patterns_have_their_places(dtype):
    check(many_patterns(dtype))


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_64_bit_patterns_have_their_places(dtype):
    with jax.enable_x64(True):
        check(many_patterns(dtype))


@pytest.mark.parametrize("direction", AxisDirection)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_greater_of_a_pair_is_one_of_its_keys(dtype, direction):
    patterns = every_pattern(dtype)
    bits = patterns.view(np.uint16)
    # Beside its neighbour, beside its negative, and beside anything.
    negatives = np.stack([bits, bits ^ 0x8000], -1).view(dtype).reshape(2, -1)
    x = np.stack([patterns, *negatives, *(np.random.default_rng(seed).permutation(patterns) for seed in (0, 1))])
    keys = np.asarray(keys_of(x, direction))
    greater = np.asarray(greater_key_of_pairs(x, direction))
    assert greater.dtype == np.uint32
    assert_same_bits((greater >> 16).astype(np.uint16), np.maximum(keys[:, ::2], keys[:, 1::2]))
    assert_same_bits(greater_key_of_pairs(x[0], direction), greater[0])
