"""Choose the method that selects: by platform, by size, by dtype."""

import math
from functools import partial
from typing import NamedTuple

import jax

from jaxdml._algorithms import selection
from jaxdml._algorithms.repeated_maxima import among_by_repeated_maxima, by_repeated_maxima
from jaxdml._algorithms.selection import Select
from jaxdml._algorithms.threshold import by_threshold, kept_by_threshold
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._lowerings._platform import by_platform

LAX_TOP_K_LIMIT = 2**31 - 1
"""``lax.top_k`` counts in int32."""


class Pruning(NamedTuple):
    """From where on it pays to prune by chunk maxima: two extra passes must cost less than they save."""

    min_length: int
    min_length_per_k: int

    def pays(self, n: int, k: int) -> bool:
        """Tell whether to prune rows of ``n`` for ``k``."""
        return n >= max(self.min_length, self.min_length_per_k * k)


MANY_ROWS = 8
"""From here on CPUs take maxima step by step: a step takes about a microsecond however few the rows, a heap less."""

PRUNING_OF_FEW_ROWS = Pruning(min_length=2**11, min_length_per_k=32)
PRUNING_OF_MANY_ROWS = Pruning(min_length=2**8, min_length_per_k=16)
PRUNING_ELSEWHERE = Pruning(min_length=2**10, min_length_per_k=16)
PRUNINGS = PRUNING_OF_FEW_ROWS, PRUNING_OF_MANY_ROWS, PRUNING_ELSEWHERE

MAX_STEPS_FOR_MAXIMA = 2**14
"""Up to so large a product of n and k, k steps through many rows cost less than finding the k-th keys."""

MIN_K_FOR_THRESHOLD = 256
"""From here on, on few rows, finding the k-th key bit by bit costs less than a heap of k."""

MAX_CHUNK_ON_CPU = 2**9
"""The two steps of longer chunks' maxima are far apart in memory, and slow."""


def _chunk_length(n: int, k: int) -> int:
    """Balance n / chunk maxima against k * chunk candidates: a power of two near sqrt(n / k)."""
    return 1 << (math.isqrt(n // k).bit_length() - 1)


def _direct_on_cpu(rows: int, n: int, itemsize: int, k: int) -> Select:
    """Choose a method without pruning; XLA's CPU backend has a partial sort for float32, and sorts all else whole."""
    if itemsize > 4:
        return selection.by_integer_top_k
    if rows < MANY_ROWS:
        return selection.by_float_top_k if k < MIN_K_FOR_THRESHOLD else by_threshold
    return by_repeated_maxima if n * k <= MAX_STEPS_FOR_MAXIMA else by_threshold


def _chunk_maxima_on_cpu(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    rows, n = x.shape
    itemsize = x.dtype.itemsize
    chunk = min(_chunk_length(n, k), MAX_CHUNK_ON_CPU)
    left = max(n // chunk, k * chunk + n % chunk)
    select = _direct_on_cpu(rows, left, itemsize, k)
    if rows >= MANY_ROWS and PRUNING_OF_MANY_ROWS.pays(left, k):
        # Many steps: what is left gets pruned again.
        select = _on_cpu
    keep, among = selection.keep_in_order(select), selection.among_in_order(select)
    if select is by_threshold:
        keep = kept_by_threshold
    elif select is by_repeated_maxima:
        keep = partial(by_repeated_maxima, direction=AxisDirection.DECREASING)
        among = among_by_repeated_maxima
    return selection.by_chunk_maxima(
        *(x, k, direction),
        chunk=chunk,
        keep=keep,
        among=among,
        maxima_of=selection.maxima_of_integers if itemsize == 1 else selection.maxima_in_two_steps,
    )


def _chunk_maxima_elsewhere(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    select = selection.by_integer_top_k
    return selection.by_chunk_maxima(
        *(x, k, direction),
        chunk=_chunk_length(x.shape[1], k),
        keep=selection.keep_in_order(select),
        among=selection.among_in_order(select),
    )


def _on_cpu(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    rows, n = x.shape
    pruning = PRUNING_OF_FEW_ROWS if rows < MANY_ROWS else PRUNING_OF_MANY_ROWS
    if pruning.pays(n, k):
        return _chunk_maxima_on_cpu(x, k, direction)
    if n > LAX_TOP_K_LIMIT:
        return selection.by_sort(x, k, direction)
    return _direct_on_cpu(rows, n, x.dtype.itemsize, k)(x, k, direction)


def _elsewhere(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    n = x.shape[1]
    if PRUNING_ELSEWHERE.pays(n, k):
        return _chunk_maxima_elsewhere(x, k, direction)
    return (selection.by_sort if n > LAX_TOP_K_LIMIT else selection.by_integer_top_k)(x, k, direction)


def _by_platform(cpu: Select, default: Select) -> Select:
    def select(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
        return by_platform(x, cpu=lambda x: cpu(x, k, direction), default=lambda x: default(x, k, direction))

    return select


def _float_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    # No default: only the CPU orders float32 by its bits in every case, so lowering fails anywhere else.
    return by_platform(x, cpu=partial(selection.by_float_top_k, k=k, direction=direction))


METHODS: dict[str, Select] = {
    "sort": selection.by_sort,
    "integer_top_k": selection.by_integer_top_k,
    "float_top_k": _float_top_k,
    "repeated_maxima": by_repeated_maxima,
    "threshold": by_threshold,
    "chunk_maxima": _by_platform(_chunk_maxima_on_cpu, _chunk_maxima_elsewhere),
}

_AUTOMATIC = _by_platform(_on_cpu, _elsewhere)


def why_not(method: str, n: int, k: int, itemsize: int) -> str | None:
    """Say why ``method`` cannot select ``k`` of ``n`` elements of this width, or return None where it can."""
    wide = itemsize > 4
    reasons = {
        "integer_top_k": (n > LAX_TOP_K_LIMIT, f"it counts in int32 and n is {n}"),
        "float_top_k": (
            n > LAX_TOP_K_LIMIT or wide,
            f"it takes at most {LAX_TOP_K_LIMIT} elements of at most 32 bits; these are {n} of {8 * itemsize}",
        ),
        "repeated_maxima": (
            n > LAX_TOP_K_LIMIT or wide,
            f"it takes at most {LAX_TOP_K_LIMIT} elements of at most 32 bits; these are {n} of {8 * itemsize}",
        ),
        "threshold": (wide, f"it takes elements of at most 32 bits; these have {8 * itemsize}"),
        "chunk_maxima": (n < 4 * k, f"it needs n >= 4 * k, and n is {n}, k is {k}"),
    }
    applies, reason = reasons.get(method, (False, ""))
    return reason if applies else None


def select(x: jax.Array, k: int, direction: AxisDirection, implementation: str | None) -> jax.Array:
    """Return the indices of the first ``k`` of every row of ``x: [b, n]``."""
    method = METHODS[implementation] if implementation else _AUTOMATIC

    @jax.custom_batching.custom_vmap
    def indices(x: jax.Array) -> jax.Array:
        return method(x, k, direction)

    @indices.def_vmap
    def _(axis_size: int, batched: list[bool], x: jax.Array) -> tuple[jax.Array, bool]:
        # An axis of vmap is more rows: the method is chosen again, for all of them.
        rows, n = x.shape[1:]
        return indices(x.reshape(axis_size * rows, n)).reshape(axis_size, rows, k), True

    return indices(x)
