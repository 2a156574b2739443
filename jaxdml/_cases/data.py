"""Inputs that any operator can be given, named for the trap that they set."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml._cases.records import Array

Maker = Callable[[np.random.Generator, tuple[int, ...], np.dtype[Any]], Array]

FLOATS = [np.dtype(name) for name in ("float16", "float32")] + [np.dtype(jnp.bfloat16)]
HALVES = [dtype for dtype in FLOATS if dtype.itemsize == 2]
INTEGERS = [np.dtype(name) for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")]
WIDE = [np.dtype(name) for name in ("float64", "int64", "uint64")]
INDEX_DTYPES = [np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]


def unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned integer dtype of the same width."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def any_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw from all bit patterns: for floats, NaNs with payloads and subnormals among them."""
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


def specials_of(dtype: np.dtype[Any]) -> Array:
    """List the values that implementations get wrong: the ends, both zeros, subnormals, infinities, NaNs."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.min + 1, 0, 1, info.max // 2, info.max - 1, info.max], dtype)
    one, infinity = np.array([1, np.inf], dtype).view(unsigned(dtype)).tolist()
    # The pattern of infinity is an exponent of all ones, so its lowest set bit is the least normal number.
    sign, least_normal = 1 << (8 * dtype.itemsize - 1), infinity & -infinity
    quiet = (infinity | infinity >> 1) & (sign - 1)
    # Above infinity are the NaNs: the first is a signalling one, the last a quiet one with a full payload.
    patterns = [0, 1, least_normal - 1, least_normal, one, infinity - 1, infinity, infinity + 1, quiet, sign - 1]
    return np.array([*patterns, *(pattern | sign for pattern in patterns)], unsigned(dtype)).view(dtype)


def specials(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw from ``specials_of``."""
    return rng.choice(specials_of(dtype), shape)


def mixed(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw half from all bit patterns and half from ``specials_of``."""
    return np.where(rng.random(shape) < 0.5, any_bits(rng, shape, dtype), specials(rng, shape, dtype))


def few_distinct(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw from 0 to 3, so that most elements are ties."""
    return rng.integers(0, 4, shape).astype(dtype)


def all_equal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Give every row one value, drawn from ``mixed``."""
    return np.broadcast_to(mixed(rng, (*shape[:-1], *[1] * len(shape[-1:])), dtype), shape).copy()


def ramp(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Let every row rise or fall by 120 values, either once or starting anew every 120 elements."""
    n = shape[-1] if shape else 1
    once, again = np.arange(n) * 120 // max(n, 1), np.arange(n) % 120
    of_row = (*shape[:-1], 1)
    rising = np.where(rng.random(of_row) < 0.5, once, again)
    return np.where(rng.random(of_row) < 0.5, rising, 119 - rising).reshape(shape).astype(dtype)


TRAPS: Mapping[str, Maker] = {
    "any bits": any_bits,
    "specials": specials,
    "mixed": mixed,
    "few distinct": few_distinct,
    "all equal": all_equal,
    "ramp": ramp,
}


def of_every_trap(rng: np.random.Generator, rows: int, n: int, dtype: np.dtype[Any]) -> Array:
    """Draw rows by all traps in turn."""
    drawn = np.empty((rows, n), dtype)
    for first, make in enumerate(TRAPS.values()):
        of_trap = drawn[first :: len(TRAPS)]
        of_trap[...] = make(rng, of_trap.shape, dtype)
    return drawn


CASES, EAGER_CASES = 375, 90
"""How many cases of one shape of indices a full run of the self-check draws; fewer where each is a call of its own."""


def indices_for(
    rng: np.random.Generator,
    sizes: int | Sequence[int],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    out_of_range: bool = True,
) -> Array:
    """Draw indices of dimensions of these sizes, which broadcast against the last axis of ``shape``.

    Some are negative and many occur twice. With ``out_of_range`` some are just outside, and some are wild: at an end of
    the dtype, or in range for those who cut 64 bits to 32.
    """
    info, limits = np.iinfo(dtype), np.asarray(sizes)
    low, high = (-limits - 2, limits + 2) if out_of_range else (-limits, limits - 1)
    low, high = np.maximum(low, info.min), np.minimum(high, min(info.max, 2**63 - 1))
    drawn = rng.integers(low, high, shape, np.int64, endpoint=True).astype(dtype)
    if not out_of_range:
        return drawn
    ends = (info.min, info.max, 2**32, 2**32 + 1, -(2**32))
    wild = np.array([value for value in ends if info.min <= value <= info.max], dtype)
    return np.where(rng.random(shape) < 0.08, rng.choice(wild, shape), drawn)


def plain(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw integers from their whole range, or floats from the normal distribution: no NaNs, hardly any ties."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape, np.float32).astype(dtype, copy=False)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], tame: bool) -> Array:
    """Draw float32 numbers for a sample: small integers, or of any bits, for operators that do not add or multiply."""
    dtype = np.dtype(np.float32)
    return rng.integers(-9, 9, shape).astype(dtype) if tame else mixed(rng, shape, dtype)


def factors(rng: np.random.Generator, shape: tuple[int, ...], tame: bool) -> Array:
    """Draw float32 scales near 1 for a sample: powers of two, or any."""
    return np.asarray(np.exp2(rng.integers(-1, 2, shape)) if tame else rng.uniform(0.5, 2, shape), np.float32)
