"""Find the greatest or the least element along some axes, by a method chosen by platform."""

from functools import partial

import jax
from jax import lax

from jaxdml._algorithms.selection.extremes import Axes, Find, Rule, by_pair_reduction, by_two_reductions
from jaxdml._algorithms.selection.greatest_chunk import Lengths, by_greatest_chunk
from jaxdml._base.shapes import is_static
from jaxdml._lowerings._partitioning import by_partitioning
from jaxdml._lowerings._platform import Kernel, run

CPU = Lengths(lanes=32, chunks_of_rows=(64, 512), chunk_of_columns=16, short_row=256, short_column=32)
"""Long chunks need fewer maxima, but more elements are read again. ``python -m benchmarks argmax`` times the result.

A vector has 16 lanes of 32 bits, and twice as many bring no less. Up to 32 elements, comparing one after another takes
less than two reductions, and compiles in half a second.
"""

METHODS: dict[str, Find] = {
    "two_reductions": by_two_reductions,
    "pair_reduction": by_pair_reduction,
    "greatest_chunk": partial(by_greatest_chunk, lengths=CPU),
}

_BEST = Kernel(by_two_reductions, METHODS["greatest_chunk"], by_pair_reduction)
"""XLA's CPU backend does not vectorize a reduction of pairs. On a GPU the time is that of reading; pairs read once."""

_BEST_PARTITIONED = Kernel(by_two_reductions, gpu=by_pair_reduction)
"""XLA partitions these reductions along any dimension, with two small collectives."""


def why_not(method: str, *sizes: int) -> str | None:
    """Say why ``method`` cannot search axes of these sizes, or return None if it can."""
    unknown = [size for size in sizes if not is_static(size)]
    if method != "greatest_chunk" or not unknown:
        return None
    return f"it needs to know the length of an axis, which is the symbolic size {unknown[0]}"


def find(x: jax.Array, axes: Axes, rule: Rule, implementation: str | None) -> tuple[jax.Array, jax.Array]:
    """Return the key of the element that the rule chooses, and its position, row-major over the axes."""
    x = lax.stop_gradient(x)
    if implementation:
        return METHODS[implementation](x, axes, rule)

    def best(x: jax.Array, kernel: Kernel) -> tuple[jax.Array, jax.Array]:
        found: tuple[jax.Array, jax.Array] = run(
            Kernel(*(form and partial(form, axes=axes, rule=rule) for form in kernel)), x
        )
        return found

    def partitioned(devices: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        del devices
        return best(x, _BEST_PARTITIONED)

    found: tuple[jax.Array, jax.Array] = by_partitioning(partial(best, kernel=_BEST), partitioned, x)
    return found
