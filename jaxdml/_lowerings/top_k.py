"""Choose the method that selects: by platform, by size, by dtype."""

import math
from functools import partial

import jax

from jaxdml._algorithms import selection
from jaxdml._algorithms.selection import Select
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._lowerings._platform import by_platform

LAX_TOP_K_LIMIT = 2**31 - 1
"""``lax.top_k`` counts in int32."""

MIN_LENGTH_FOR_CHUNKS = 2**10
"""Shorter rows are selected from directly: two extra passes cost more than they save."""

MIN_LENGTH_PER_K_FOR_CHUNKS = 16
"""Below this many elements for each one taken, pruning leaves too many candidates."""


def _chunk_length(n: int, k: int) -> int:
    """Balance n / chunk maxima against k * chunk candidates: a power of two near sqrt(n / k)."""
    return 1 << (math.isqrt(n // k).bit_length() - 1)


def _float_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    # No default: only the CPU orders float32 by its bits in every case, so lowering fails anywhere else.
    return by_platform(x, cpu=partial(selection.by_float_top_k, k=k, direction=direction))


def _direct(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select without pruning."""
    if x.shape[1] > LAX_TOP_K_LIMIT:
        return selection.by_sort(x, k, direction)
    call = partial(selection.by_integer_top_k, k=k, direction=direction)
    if x.dtype.itemsize > 4:
        return call(x)
    # XLA's CPU backend has a partial sort for float32 alone; every other dtype it sorts whole.
    return by_platform(x, cpu=partial(selection.by_float_top_k, k=k, direction=direction), default=call)


def _maxima(keys: jax.Array) -> jax.Array:
    if keys.dtype.itemsize == 1:
        return selection.maxima(keys)  # XLA's CPU backend has a kernel of its own for these.
    return by_platform(keys, cpu=selection.maxima_in_two_steps, default=selection.maxima)


def _chunk_maxima(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    chunk = _chunk_length(x.shape[1], k)
    return selection.by_chunk_maxima(x, k, direction, chunk=chunk, select=_direct, maxima_of=_maxima)


METHODS: dict[str, Select] = {
    "sort": selection.by_sort,
    "integer_top_k": selection.by_integer_top_k,
    "float_top_k": _float_top_k,
    "chunk_maxima": _chunk_maxima,
}


def why_not(method: str, n: int, k: int, itemsize: int) -> str | None:
    """Say why ``method`` cannot select ``k`` of ``n`` elements of this width, or return None where it can."""
    reasons = {
        "integer_top_k": (n > LAX_TOP_K_LIMIT, f"it counts in int32 and n is {n}"),
        "float_top_k": (
            n > LAX_TOP_K_LIMIT or itemsize > 4,
            f"it takes at most {LAX_TOP_K_LIMIT} elements of at most 32 bits; these are {n} of {8 * itemsize}",
        ),
        "chunk_maxima": (n < 4 * k, f"it needs n >= 4 * k, and n is {n}, k is {k}"),
    }
    applies, reason = reasons.get(method, (False, ""))
    return reason if applies else None


def select(x: jax.Array, k: int, direction: AxisDirection, implementation: str | None) -> jax.Array:
    """Return the indices of the first ``k`` of every row of ``x: [b, n]``."""
    if implementation is not None:
        return METHODS[implementation](x, k, direction)
    n = x.shape[1]
    if n >= max(MIN_LENGTH_FOR_CHUNKS, MIN_LENGTH_PER_K_FOR_CHUNKS * k):
        return _chunk_maxima(x, k, direction)
    return _direct(x, k, direction)
