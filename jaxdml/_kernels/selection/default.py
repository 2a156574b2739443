"""Select on platforms without methods of their own, with what every platform can run."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax

from jaxdml._base.axis_direction import AxisDirection
from jaxdml._base.shapes import is_static
from jaxdml._kernels.selection.chunk_maxima import among_by_sort, among_in_order, ascending, keep_in_order
from jaxdml._kernels.selection.chunk_maxima import by_chunk_maxima as prune
from jaxdml._kernels.selection.segments import Merging, by_adding, with_keys
from jaxdml._kernels.selection.whole_axis import Select, by_integer_top_k, by_sort, by_sort_with_keys

LAX_TOP_K_LIMIT = 2**31 - 1
"""The longest axis that ``lax.top_k`` takes: its indices are int32."""


class Pruning(NamedTuple):
    """Hold the sizes from which pruning by chunk maxima pays: its two extra passes must cost less than they save."""

    min_length: int
    """The shortest axis to prune."""

    min_length_per_k: int
    """The shortest axis to prune, divided by k."""

    def pays(self, n: int, k: int) -> bool:
        """Tell whether to prune sequences of ``n`` for ``k``."""
        return n >= max(self.min_length, self.min_length_per_k * k)


PRUNING = Pruning(min_length=2**10, min_length_per_k=16)

PARTITIONED_PRUNING = Pruning(min_length=2**13, min_length_per_k=16)
"""The sizes from which pruning pays on a TPU where XLA partitions the program.

``python -m benchmarks traffic --platforms tpu`` shows what the TPU's compiler estimates, with any value here. At 2,048
and 4,096 elements it gives a sort of all of them at most a quarter of the time of pruning, which reads single elements.
It counts a sort as one pass over memory, so sequences for which it gains less are pruned.
"""


def chunk_length(n: int, k: int) -> int:
    """Return a power of two near ``sqrt(n / k)``: it balances ``n / chunk`` maxima with ``k * chunk`` candidates."""
    return 1 << (math.isqrt(n // k).bit_length() - 1)


def pruned(
    x: jax.Array,
    k: int,
    direction: AxisDirection,
    *,
    select: Select = by_integer_top_k,
    ascending: Callable[[jax.Array], jax.Array] = ascending,
) -> jax.Array:
    """Prune by chunk maxima, whether it pays or not; ``select`` selects chunks, and then among candidates."""
    return prune(
        *(x, k, direction),
        chunk=chunk_length(x.shape[-1], k),
        keep=keep_in_order(select, ascending),
        among=among_in_order(select),
    )


def best(x: jax.Array, k: int, direction: AxisDirection, *, pruned: Select = pruned) -> jax.Array:
    """Select by the method that is best at this size."""
    n = x.shape[-1]
    if PRUNING.pays(n, k):
        return pruned(x, k, direction)
    return (by_sort if n > LAX_TOP_K_LIMIT else by_integer_top_k)(x, k, direction)


def best_partitioned(
    x: jax.Array, k: int, direction: AxisDirection, *, pruning: Pruning = PARTITIONED_PRUNING
) -> tuple[jax.Array, jax.Array]:
    """Select by the best method whose batch XLA can partition; ``lax.top_k`` would gather the whole of ``x``."""
    if not is_static(x.shape[-1]) or not pruning.pays(x.shape[-1], k):
        return by_sort_with_keys(x, k, direction)
    return with_keys(x, k, direction, select=partial(pruned, select=by_sort))


MERGING = Merging(by_adding, among_by_sort)
