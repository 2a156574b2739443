"""Draw the data of the self-check: adversarial as well as random."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Arguments = tuple[Array | None, ...]
Answers = tuple[Array, ...]


def answers(result: Any) -> Answers:
    """Bring one result, or a tuple of them, to NumPy."""
    return tuple(np.asarray(part) for part in (result if isinstance(result, tuple) else (result,)))


def stacked(results: list[Any]) -> Answers:
    """Stack the results of single cases along a new leading axis."""
    return tuple(np.stack(parts) for parts in zip(*map(answers, results), strict=True))


def unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned integer dtype of the same width."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _specials(dtype: np.dtype[Any]) -> Array:
    """List the values at which implementations go astray: the ends, both zeros, subnormals, infinities, NaNs."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], dtype)
    one, infinity = np.array([1, np.inf], dtype).view(unsigned(dtype)).tolist()
    # As an integer, infinity is its exponent, all ones: its lowest bit is the least normal number.
    sign, least_normal = 1 << (8 * dtype.itemsize - 1), infinity & -infinity
    # After infinity come the NaNs: the least is a signalling one, the last a quiet one with a full payload.
    patterns = [0, 1, least_normal - 1, least_normal, one, infinity - 1, infinity, infinity + 1, sign - 1]
    return np.array([*patterns, *(pattern | sign for pattern in patterns)], unsigned(dtype)).view(dtype)


def any_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


def _some_specials(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return rng.choice(_specials(dtype), shape)


def mixed(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.where(rng.random(shape) < 0.5, any_bits(rng, shape, dtype), _some_specials(rng, shape, dtype))


def _few_distinct(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return rng.integers(0, 3, shape).astype(dtype)


def _all_equal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.broadcast_to(mixed(rng, (*shape[:-1], 1), dtype), shape)


def _ascending(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    ramp = np.arange(shape[-1]) * 120 // shape[-1]
    falling = rng.random((*shape[:-1], 1)) < 0.5
    return np.where(falling, ramp[::-1], ramp).astype(dtype)


KINDS = (any_bits, _some_specials, mixed, _few_distinct, _all_equal, _ascending)
