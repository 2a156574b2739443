"""Rounding float32 by one addition."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from benchmarks.compiling import compilers
from jaxdml._arithmetic.nearest import nearest, nearest_without_ties
from tests.kit import assert_same_bits


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("traced", [False, True])
def test_it_rounds_ties_to_even_and_saturates(dtype, traced):
    limits = np.iinfo(dtype)
    ties = np.arange(-(2**17), 2**17) + 0.5
    halves = np.concatenate(
        [ties, np.nextafter(np.float32(ties), np.float32(np.inf)), np.nextafter(np.float32(ties), 0)]
    )
    values = np.concatenate([halves, [-np.inf, np.inf, -3e38, 3e38, 2**22, -(2**22), 2**31, 0.0, -0.0]]).astype(
        np.float32
    )
    for zero in sorted({0, limits.min, limits.min + 1, 3, limits.max}):
        want = np.clip(np.rint(values.astype(np.float64)) + zero, limits.min, limits.max).astype(dtype)
        if traced:
            got = jax.jit(lambda values, zero: nearest(values, zero, np.dtype(dtype)))(values, dtype(zero))
        else:
            got = jax.jit(lambda values, zero=zero: nearest(values, jnp.asarray(zero, dtype), np.dtype(dtype)))(values)
        assert_same_bits(got, want)
        if not zero:
            assert_same_bits(nearest(jnp.asarray(values), None, np.dtype(dtype)), want)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("traced", [False, True])
def test_it_rounds_the_same_without_ties(dtype, traced):
    limits = np.iinfo(dtype)
    halves = np.float32(np.arange(-600, 600) + 0.5)
    near = [np.nextafter(halves, np.float32(to)) for to in (-np.inf, np.inf)]
    ends = [-np.inf, np.inf, -3e38, 3e38, -(2**23), 2**22 - 1, 2**22, 2**23 + 1, 2**31, -0.0]
    values = np.float32(np.concatenate([*near, np.arange(-600, 600), ends]))
    for zero in (0, limits.min, limits.min + 1, 3, limits.max):
        of = jax.jit(lambda values, zero: nearest_without_ties(values, zero, np.dtype(dtype)))
        got = of(values, dtype(zero)) if traced else nearest_without_ties(values, jnp.asarray(zero, dtype), dtype)
        want = np.clip(np.rint(values.astype(np.float64)) + zero, limits.min, limits.max).astype(dtype)
        assert_same_bits(got, want)
        if not zero:
            assert_same_bits(nearest_without_ties(jnp.asarray(values), None, dtype), want)


@pytest.mark.skipif(not compilers.has("cuda"), reason="the compiler for CUDA is not installed")
@pytest.mark.parametrize("rounding", [nearest, nearest_without_ties])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("zero", [None, "min", 0, 100, "max"])
def test_no_byte_of_a_float_is_stored(tmp_path, rounding, dtype, zero):
    """NVIDIA's assembler converts such a float."""
    x = jax.ShapeDtypeStruct((4096,), np.float32, sharding=SingleDeviceSharding(compilers.devices_of("cuda")[0]))
    zero_point = None if zero is None else dtype(getattr(np.iinfo(dtype), str(zero), zero))
    traced = jax.jit(lambda values: rounding(values, zero_point, np.dtype(dtype))).trace(x)
    traced.lower().compile({"xla_dump_to": str(tmp_path), "xla_dump_emitter_re": ".*"})
    text = "".join(file.read_text() for file in tmp_path.glob("*.ptx"))
    stored = [name for line in re.findall(r"st\.global\S*\.b8 .*", text) for name in re.findall(r"%r\w+", line)]
    made = {name: operation for operation, name in re.findall(r"^\s+(\S+)\s+(%r\w+),", text, re.MULTILINE)}
    assert any("add.rn.f32" in operation for operation in made.values())
    assert stored
    assert not [name for name in stored if "f32" in made[name]]
