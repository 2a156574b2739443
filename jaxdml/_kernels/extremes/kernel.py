"""Find the greatest or the least element along some axes, by a method chosen by platform."""

import math
from functools import partial

import jax
import numpy as np
from jax import lax

from jaxdml._arithmetic.sizes import index_dtype
from jaxdml._base.shapes import is_static
from jaxdml._kernels.extremes.greatest_chunk import Lengths, by_greatest_chunk
from jaxdml._kernels.extremes.reductions import Axes, Find, Rule, by_pair_reduction, by_two_reductions
from jaxdml._placement.lowering import Form, Target, at_lowering

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

_SHORT_ROW_BYTES = 512
"""Up to this length, two reductions of rows take less time than one of pairs on an H200: from 0.35 to 0.95 of it."""

_LARGE_ARRAY = 2**25
"""From so many elements of 8 or 16 bits on, chunks of rows take from 0.35 to 0.9 of the time of pairs on an H200."""


def _on_gpu(x: jax.Array, axes: Axes, rule: Rule, dtype: np.dtype[np.integer]) -> tuple[jax.Array, jax.Array]:
    """Choose a method for one GPU. Pairs read once, but XLA reduces pairs with elements of 8 or 16 bits slowly."""
    row = math.prod(x.shape[axis] for axis in axes)
    if is_static(*x.shape) and axes == tuple(range(x.ndim - len(axes), x.ndim)):
        if row * x.dtype.itemsize <= _SHORT_ROW_BYTES:
            return by_two_reductions(x, axes, rule, dtype)
        if x.dtype.itemsize <= 2 and x.size >= _LARGE_ARRAY:
            return METHODS["greatest_chunk"](x, axes, rule, dtype)
    return by_pair_reduction(x, axes, rule, dtype)


def form(target: Target) -> Form:
    """Say who serves where a program is lowered for ``target``.

    XLA's CPU backend does not vectorize a reduction of pairs. On GPUs and TPUs the time is mostly that of reading, and
    pairs are read once. XLA partitions reductions along any dimension, with two small collectives.
    """
    if not target.alone:
        return by_pair_reduction if target.is_gpu else by_two_reductions
    if target.is_gpu:
        return _on_gpu
    return {"cpu": METHODS["greatest_chunk"], "tpu": by_pair_reduction}.get(target.platform, by_two_reductions)


def why_not(method: str, *sizes: int) -> str | None:
    """Say why ``method`` cannot search axes of these sizes, or return None if it can."""
    unknown = [size for size in sizes if not is_static(size)]
    if method != "greatest_chunk" or not unknown:
        return None
    return f"it needs to know the length of an axis, which is the symbolic size {unknown[0]}"


def find(
    x: jax.Array, axes: Axes, rule: Rule, implementation: str | None, wanted: np.dtype[np.integer]
) -> tuple[jax.Array, jax.Array]:
    """Return the key of the element that the rule chooses, and its position, row-major over the axes.

    Positions have the dtype that is wanted if it has 32 bits; searching with 64 where 32 do takes longer.
    """
    x = lax.stop_gradient(x)
    dtype = wanted if wanted.itemsize == 4 else index_dtype(math.prod(x.shape[axis] for axis in axes))
    if implementation:
        return METHODS[implementation](x, axes, rule, dtype)
    found: tuple[jax.Array, jax.Array] = at_lowering(form, x, axes=axes, rule=rule, dtype=dtype)
    return found
