"""Predicates that more than one operator obeys."""

import numpy as np

from tests.strategies import unsigned


def bits(x) -> np.ndarray:
    """Return the array as integers, so that NaNs and zeros compare by their patterns."""
    x = np.asarray(x)
    if x.dtype == bool:
        return x.astype(np.uint8)
    if x.dtype.kind == "c":
        x = np.stack([x.real, x.imag], axis=-1)
    return x.view(unsigned(x.dtype))


def assert_same_bits(got, want) -> None:
    """Require equal dtype, shape and bits."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(bits(got), bits(want))
