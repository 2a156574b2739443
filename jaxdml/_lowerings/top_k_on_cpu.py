"""Choose the method that selects on CPUs; ``python -m benchmarks.thresholds`` makes the figures of the constants."""

import jax

from jaxdml._algorithms import selection
from jaxdml._algorithms.packed import among_packed, by_packed
from jaxdml._algorithms.repeated_maxima import by_repeated_maxima
from jaxdml._algorithms.selection import Select
from jaxdml._algorithms.threshold import by_threshold, kept_by_threshold
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._lowerings.top_k_elsewhere import LAX_TOP_K_LIMIT, Pruning, chunk_length

MANY_ROWS = 8
"""From here on maxima are taken step by step: a step takes about a microsecond however few the rows, a heap less."""

PRUNING_OF_FEW_ROWS = Pruning(min_length=2**11, min_length_per_k=32)
PRUNING_OF_MANY_ROWS = Pruning(min_length=2**8, min_length_per_k=16)

MAX_STEPS_FOR_MAXIMA = 2**14
"""Up to so large a product of n and k, k steps through many rows cost less than finding the k-th keys."""

MIN_K_FOR_THRESHOLD = 256
"""From here on, on few rows, finding the k-th key by halves costs less than a heap of k."""

MAX_CHUNK = 2**9
"""The two steps of longer chunks' maxima are far apart in memory, and slow."""

repeated_maxima = by_packed(by_repeated_maxima)


def _direct(rows: int, n: int, itemsize: int, k: int) -> Select:
    """Choose a method without pruning; XLA's CPU backend has a partial sort for float32, and sorts all else whole."""
    if itemsize > 4:
        return selection.by_integer_top_k
    if rows < MANY_ROWS:
        return selection.by_float_top_k if k < MIN_K_FOR_THRESHOLD else by_threshold
    return repeated_maxima if n * k <= MAX_STEPS_FOR_MAXIMA else by_threshold


def by_chunk_maxima(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Prune, whether it pays or not."""
    rows, n = x.shape
    itemsize = x.dtype.itemsize
    chunk = min(chunk_length(n, k), MAX_CHUNK)
    left = max(n // chunk, k * chunk + n % chunk)
    # Many steps: what is left gets pruned again.
    again = rows >= MANY_ROWS and PRUNING_OF_MANY_ROWS.pays(left, k)
    select = choose if again else _direct(rows, left, itemsize, k)
    keep, among = selection.keep_in_order(select), selection.among_in_order(select)
    if select is by_threshold:
        keep = kept_by_threshold
    elif select is repeated_maxima:
        # Packed numbers need no order, so the chunks stay as they come.
        keep, among = selection.keep_as_selected(select), among_packed(by_repeated_maxima)
    return selection.by_chunk_maxima(
        *(x, k, direction),
        chunk=chunk,
        keep=keep,
        among=among,
        maxima_of=selection.maxima_of_integers if itemsize == 1 else selection.maxima_in_two_steps,
    )


def choose(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select by the method that is best here."""
    rows, n = x.shape
    pruning = PRUNING_OF_FEW_ROWS if rows < MANY_ROWS else PRUNING_OF_MANY_ROWS
    if pruning.pays(n, k):
        return by_chunk_maxima(x, k, direction)
    if n > LAX_TOP_K_LIMIT:
        return selection.by_sort(x, k, direction)
    return _direct(rows, n, x.dtype.itemsize, k)(x, k, direction)
