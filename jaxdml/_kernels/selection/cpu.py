"""Select on CPUs. ``python -m benchmarks constants`` times the methods on both sides of each constant."""

import math
from typing import NamedTuple

import jax

from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.selection.chunk_maxima import (
    among_in_order,
    keep_as_selected,
    keep_in_order,
    maxima_in_two_steps,
    maxima_of_integers,
)
from jaxdml._kernels.selection.chunk_maxima import by_chunk_maxima as prune
from jaxdml._kernels.selection.default import LAX_TOP_K_LIMIT, Pruning, chunk_length
from jaxdml._kernels.selection.packed_keys import among_packed, by_packed
from jaxdml._kernels.selection.repeated_maxima import by_repeated_maxima
from jaxdml._kernels.selection.threshold import by_threshold, kept_by_threshold
from jaxdml._kernels.selection.whole_axis import Select, by_float_top_k, by_integer_top_k, by_sort
from jaxdml._placement import jax_versions


class Constants(NamedTuple):
    """Hold the sizes at which one method becomes faster than another on a CPU.

    The heap is that of ``float_top_k``, one sequence after another.
    """

    many_rows: int
    """From so many rows on, use repeated maxima.

    One maximum takes about a microsecond even for a few rows, and a heap takes less for those.
    """

    pruning_of_few_rows: Pruning
    pruning_of_many_rows: Pruning

    max_n_times_k_for_maxima: int
    """Up to this product, on many rows, taking k maxima costs less than finding the k-th key of each row."""

    min_k_for_threshold: int
    """From this k on, on few rows, finding the k-th key by bisection costs less than a heap of size k."""

    max_chunk: int
    """The longest chunk. The two reductions of a longer one read memory that is far apart, which is slow."""


CPU = Constants(
    many_rows=8,
    pruning_of_few_rows=Pruning(min_length=2**11, min_length_per_k=32),
    pruning_of_many_rows=Pruning(min_length=2**8, min_length_per_k=16),
    max_n_times_k_for_maxima=2**14,
    min_k_for_threshold=256,
    max_chunk=2**9,
)

MAXIMA_OF_BYTES = maxima_of_integers if jax_versions.HAS_FAST_MAXIMUM_OF_BYTES else maxima_in_two_steps

repeated_maxima = by_packed(by_repeated_maxima)


def _rows(x: jax.Array) -> int:
    return math.prod(x.shape[:-1])


def _without_pruning(rows: int, n: int, itemsize: int, k: int) -> Select:
    """Choose a method without pruning: XLA's CPU backend has a heap for float32, and sorts other dtypes completely."""
    if itemsize > 4:
        return by_integer_top_k
    if rows < CPU.many_rows:
        return by_float_top_k if k < CPU.min_k_for_threshold else by_threshold
    return repeated_maxima if n * k <= CPU.max_n_times_k_for_maxima else by_threshold


def pruned(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Prune by chunk maxima, whether it pays or not."""
    rows, n = _rows(x), x.shape[-1]
    itemsize = x.dtype.itemsize
    chunk = min(chunk_length(n, k), CPU.max_chunk)
    left = max(n // chunk, k * chunk + n % chunk)
    # On many rows, what is left is pruned again.
    again = rows >= CPU.many_rows and CPU.pruning_of_many_rows.pays(left, k)
    select = best if again else _without_pruning(rows, left, itemsize, k)
    keep, among = keep_in_order(select), among_in_order(select)
    if select is by_threshold:
        keep = kept_by_threshold
    elif select is repeated_maxima:
        # Packed numbers may come in any order, so the selected chunks need not be sorted by position.
        keep, among = keep_as_selected(select), among_packed(by_repeated_maxima)
    return prune(
        *(x, k, direction),
        chunk=chunk,
        keep=keep,
        among=among,
        maxima_of=MAXIMA_OF_BYTES if itemsize == 1 else maxima_in_two_steps,
    )


def best(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select by the method that is best at this size."""
    rows, n = _rows(x), x.shape[-1]
    pruning = CPU.pruning_of_few_rows if rows < CPU.many_rows else CPU.pruning_of_many_rows
    if pruning.pays(n, k):
        return pruned(x, k, direction)
    if n > LAX_TOP_K_LIMIT:
        return by_sort(x, k, direction)
    return _without_pruning(rows, n, x.dtype.itemsize, k)(x, k, direction)
