"""Choose the method that selects where nothing is known of the platform but what every one of them can do."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax

from jaxdml._algorithms import selection
from jaxdml._algorithms.selection import Select
from jaxdml._base.axis_direction import AxisDirection

LAX_TOP_K_LIMIT = 2**31 - 1
"""``lax.top_k`` counts in int32."""


class Pruning(NamedTuple):
    """From where on it pays to prune by chunk maxima: two extra passes must cost less than they save."""

    min_length: int
    min_length_per_k: int

    def pays(self, n: int, k: int) -> bool:
        """Tell whether to prune rows of ``n`` for ``k``."""
        return n >= max(self.min_length, self.min_length_per_k * k)


PRUNING = Pruning(min_length=2**10, min_length_per_k=16)


def chunk_length(n: int, k: int) -> int:
    """Balance n / chunk maxima against k * chunk candidates: a power of two near sqrt(n / k)."""
    return 1 << (math.isqrt(n // k).bit_length() - 1)


def by_chunk_maxima(
    x: jax.Array,
    k: int,
    direction: AxisDirection,
    ascending: Callable[[jax.Array], jax.Array] = selection.ascending,
) -> jax.Array:
    """Prune, whether it pays or not."""
    select = selection.by_integer_top_k
    return selection.by_chunk_maxima(
        *(x, k, direction),
        chunk=chunk_length(x.shape[1], k),
        keep=selection.keep_in_order(select, ascending),
        among=selection.among_in_order(select),
    )


def choose(x: jax.Array, k: int, direction: AxisDirection, prune: Select = by_chunk_maxima) -> jax.Array:
    """Select by the method that is best here."""
    n = x.shape[1]
    if PRUNING.pays(n, k):
        return prune(x, k, direction)
    return (selection.by_sort if n > LAX_TOP_K_LIMIT else selection.by_integer_top_k)(x, k, direction)
