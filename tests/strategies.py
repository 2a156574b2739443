"""Inputs, named for the trap that they set."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

FLOATS = [np.dtype(name) for name in ("float16", "float32")] + [np.dtype(jnp.bfloat16)]
HALVES = [dtype for dtype in FLOATS if dtype.itemsize == 2]
INTEGERS = [np.dtype(name) for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")]
WIDE = [np.dtype(name) for name in ("float64", "int64", "uint64")]
INDEX_DTYPES = [np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]

Maker = Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray]


def unsigned(dtype: np.dtype) -> np.dtype:
    """Return the unsigned integer dtype of the same width."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def is_float(dtype: np.dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _any_bits(rng, shape, dtype):
    """Every pattern there is: for floats, NaNs with payloads and subnormals among them."""
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


def _specials(rng, shape, dtype):
    bits = 8 * dtype.itemsize
    if is_float(dtype):
        info = jnp.finfo(dtype)
        numbers = np.array([0, 1, info.max, info.tiny, info.smallest_subnormal, np.nan, np.inf], dtype)
        patterns = numbers.view(unsigned(dtype))
        patterns = np.append(patterns, patterns[-1] + 1)  # One above infinity: a signalling NaN.
        pool = np.concatenate([patterns, patterns | patterns.dtype.type(1 << (bits - 1))]).view(dtype)
    else:
        info = np.iinfo(dtype)
        pool = np.array([info.min, info.min + 1, 0, 1, info.max // 2, info.max - 1, info.max], dtype)
    return rng.choice(pool, shape)


def _few_distinct(rng, shape, dtype):
    return rng.choice(np.array([0, 1, 2], dtype), shape)


def _all_equal(rng, shape, dtype):
    return np.full(shape, _any_bits(rng, (), dtype), dtype)


def _ramp(rng, shape, dtype):
    """Ascending or descending, starting again now and then."""
    steps = np.arange(int(np.prod(shape))) % 120
    return (steps if rng.integers(2) else 119 - steps).reshape(shape).astype(dtype)


DATA: dict[str, Maker] = {
    "any bits": _any_bits,
    "specials": _specials,
    "few distinct": _few_distinct,
    "all equal": _all_equal,
    "ramp": _ramp,
}

kinds = st.sampled_from(list(DATA))
seeds = st.integers(0, 2**32 - 1)


def data(kind: str, seed: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Make an array of the named kind."""
    return DATA[kind](np.random.default_rng(seed), tuple(shape), np.dtype(dtype))


def indices_for(
    rng: np.random.Generator, size: int, shape: tuple[int, ...], dtype: np.dtype, out_of_range: bool = True
) -> np.ndarray:
    """Draw indices of a dimension, some negative, some just outside, some at the dtype's ends."""
    info = np.iinfo(dtype)
    low, high = (-size - 2, size + 2) if out_of_range else (-size, size - 1)
    drawn = rng.integers(max(low, info.min), min(high, info.max), shape, np.int64, endpoint=True).astype(dtype)
    if out_of_range and drawn.size:
        wild = rng.choice(np.array([info.min, info.max], dtype), shape)
        drawn = np.where(rng.random(shape) < 0.1, wild, drawn)
    return drawn
