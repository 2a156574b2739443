"""Tables are read alike by indices and, as on TPUs, by selects or by a sum of what is wanted."""

from functools import partial

import jax
import numpy as np
import pytest

from jaxdml._networks import lookup
from jaxdml.onnx.integers import tables
from tests.kit import assert_same_bits


def test_a_sum_reads_entries():
    rng = np.random.default_rng(0)
    entries, places = rng.integers(0, 2**31, 256).astype(np.int32), rng.integers(0, 256, (7, 90)).astype(np.int32)
    entries[:2] = 0, 2**31 - 1
    places[0, :2] = 0, 1
    assert_same_bits(jax.jit(lookup._summed)(entries, places), entries[places])
    assert_same_bits(jax.jit(lookup.entries_at)(entries, places), entries[places])


def drawn(dtype):
    """All kinds: random, in order, saturated on both sides, few different entries, and one."""
    rng, limits = np.random.default_rng(1), np.iinfo(dtype)
    every = np.arange(256)
    kinds = (
        rng.integers(limits.min, limits.max + 1, 256),
        every[::-1] + limits.min,
        np.clip(3 * every - 300, limits.min, limits.max),
        np.where(every == 77, limits.max, limits.min),
        np.full(256, limits.max),
    )
    return [kind.astype(dtype) for kind in kinds]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(256,), (2, 128), (0, 256)])
def test_selects_read_entries(dtype, shape):
    places = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    for entries in drawn(dtype):
        assert_same_bits(jax.jit(partial(lookup._selected, entries))(entries, places), entries[places])
        assert_same_bits(tables.look_up(entries, places.astype(np.uint8)), entries[places])


def test_on_tpus_a_table_of_8_bits_is_read_by_elementwise_operations():
    entries, *_ = drawn(np.uint8)
    read = jax.jit(partial(tables.look_up, entries))
    x = jax.ShapeDtypeStruct((8, 128), np.int8)
    text = read.trace(x).lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.select" in text
    assert "stablehlo.reduce" not in text
    assert "stablehlo.gather" not in text
