"""Tables are read alike by indices and, as on TPUs, by a sum of what is wanted."""

import jax
import numpy as np
import pytest

from jaxdml.onnx import _tables
from tests.kit import assert_same_bits


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_a_sum_reads_entries(dtype):
    rng = np.random.default_rng(0)
    low, high = (0, 2**31) if dtype == np.int64 else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    entries, places = rng.integers(low, high, 256).astype(dtype), rng.integers(0, 256, (7, 90)).astype(np.int32)
    entries[:2] = low, high - 1
    places[0, :2] = 0, 1
    with jax.enable_x64(True):
        assert_same_bits(jax.jit(_tables._summed)(entries, places), entries[places])
        assert_same_bits(jax.jit(_tables.entries_at)(entries, places), entries[places])
