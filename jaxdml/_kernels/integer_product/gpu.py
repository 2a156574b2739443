"""Multiply 8-bit matrices on one GPU, or on several."""

import math
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Quantized, as_int8
from jaxdml._base.shapes import is_static
from jaxdml._kernels.integer_product.cutting import WHOLE, Cut, cut_in_tiles
from jaxdml._kernels.integer_product.operands import ALIGNMENT, row_count
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, Right
from jaxdml._kernels.integer_product.tensor_core_dot import (
    LONGEST_FLOAT_SUM,
    bfloat16_dot,
    float_dot,
    packed_dot,
    padded_dot,
    section_of,
    sectioned_dot,
    transposed_dot,
)
from jaxdml._kernels.integer_product.unmerged_dot import deep_dot, sum_of_segments, unmerged_dot
from jaxdml._kernels.integer_sums import RawProduct
from jaxdml._placement.options import marked

MAX_ROWS_UNTRANSPOSED = 64
"""Transposing the right matrix pays with more rows than this; ``python -m benchmarks constants`` times it."""

MIN_ROWS_APART = 2**11
"""From so many rows on XLA mostly does not split K, and takes the rounding into the kernel of a product."""

MIN_ROWS_AS_BFLOAT16, MIN_SIZE_AS_BFLOAT16 = 2**10, 2**7
"""From so many rows on, and from such a K and N on, the left matrix is converted to bfloat16 before the product. In its
kernel XLA would convert each part anew for each tile of columns; what computes the matrix mostly converts it for
nothing. With fewer columns the bytes that are read decide."""

LEAST_DEPTH_IN_TILES = 32
"""The shortest tile along K. From this K on a product of int8 is faster than one of bfloat16, and with a smaller K if
that need not be padded."""

LONGEST_SINGLE_ROW, MIN_ROWS_IF_LONGER = 2**14, 8
"""XLA's GPU backend computes the product of a single row as a reduction. With a larger K than this, a product of so
many rows is faster; ``python -m benchmarks weights`` times M = 1."""


def on_gpus(
    shards: int, devices: int, a: jax.Array, za: jax.Array | None, b: Right, zb: jax.Array | None
) -> RawProduct:
    """Avoid the int8 products with a small K, as ``on_gpu`` does, on each of several devices.

    K may be divided into so many ``shards``, and the matrices between so many ``devices``.
    """
    k = a.shape[-1]
    if not is_static(k):
        return unmerged_dot(a, za, b, zb, deep_dot)
    segments = math.gcd(k, shards)
    multiply = partial(float_dot, devices=devices)
    if k <= LONGEST_FLOAT_SUM:
        return unmerged_dot(a, za, b, zb, multiply)
    if k <= segments * LONGEST_FLOAT_SUM:
        return sum_of_segments(a, za, b, zb, multiply, segments)
    return unmerged_dot(a, za, b, zb)


def kept_apart(a: jax.Array, b: Right, cut: Cut | None) -> tuple[jax.Array, Right]:
    """Hide from XLA that many rows, or sections of rows, are multiplied by other packed matrices, too.

    It would join the products to one, whose sums are stored, and join the matrices in each call. Few rows are faster
    so: their sums are stored anyway. For sections it would transpose the matrices, too. Where tiles are chosen, and a
    product has a ``cut``, an option keeps many rows apart.
    """
    if not isinstance(b, PackedMatrix):
        return a, b
    sectioned = bool(section_of(a, b)) if cut is None else cut.sections > 1
    if not sectioned and (cut is not None or row_count(a, b.matrix) < MIN_ROWS_APART):
        return a, b
    a, matrix = lax.optimization_barrier((a, b.matrix))  # type: ignore[no-untyped-call]
    return a, replace(b, matrix=matrix)


def stored_as_int8(x: jax.Array, zero_point: jax.Array | None) -> Quantized:
    """Return what ``as_int8`` does, stored as the rows of one product if it has more dimensions.

    XLA for CUDA, in JAX 0.11.2, takes what comes before merged rows into the kernel of the product, and does not
    compile some of these kernels: where bytes get another type and another shape at once, and where dimensions are
    exchanged.
    """
    stored, zero_point = as_int8(x, zero_point)
    if x.ndim > 2:
        stored = _stored(stored.reshape(math.prod(x.shape[:-1]), x.shape[-1])).reshape(x.shape)
    return stored, zero_point


def _stored(x: jax.Array) -> jax.Array:
    result: jax.Array = lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
    return result


def cut_of(a: jax.Array, b: Right, tiled: bool, adds_a_kernel: bool) -> Cut | None:
    """Return how to cut a product of int8 in a ``tiled`` program, where XLA splits no K, or None in others."""
    if not tiled:
        return None
    min_rows = _min_rows(a.shape[-1]) if isinstance(b, PackedMatrix) else ALIGNMENT
    return cut_in_tiles(a, b, adds_a_kernel, min_rows)


def _min_rows(k: int) -> int:
    return MIN_ROWS_IF_LONGER if k > LONGEST_SINGLE_ROW else 1


def stored_for(b: Right, a: jax.Array, zero_point: jax.Array | None) -> Quantized:
    """Return ``a`` as bfloat16 with the zero point of int8 if that pays before a product with ``b``, or as it is."""
    if not isinstance(b, PackedMatrix) or section_of(a, b):
        return a, zero_point
    rows, (k, n) = row_count(a, b.matrix), b.shape[-2:]
    if not is_static(rows, k, n) or rows < MIN_ROWS_AS_BFLOAT16 or min(k, n) < MIN_SIZE_AS_BFLOAT16:
        return a, zero_point
    if k > LONGEST_FLOAT_SUM:
        return a, zero_point
    a, zero_point = as_int8(a, zero_point)
    return lax.optimization_barrier(a.astype(jnp.bfloat16)), zero_point  # type: ignore[no-untyped-call]


def on_gpu(
    a: jax.Array,
    za: jax.Array | None,
    b: Right,
    zb: jax.Array | None,
    cut: Cut | None = None,
) -> RawProduct:
    """Avoid the products that XLA's GPU backend computes wrongly or slowly.

    For int8 products with a small K it can choose a generated GPU kernel with a tile of 16 along K, whose sums are
    wrong (docs/platforms.md). So those are multiplied as bfloat16, unless ``b`` is packed and there is a ``cut``: then
    tiles are chosen, none of which is so short.
    """
    k = a.shape[-1]
    if isinstance(b, PackedMatrix) and cut is None and (section := section_of(a, b)):
        return sectioned_dot(a, za, b, zb, section)
    in_tiles = isinstance(b, PackedMatrix) and cut is not None and (k >= LEAST_DEPTH_IN_TILES or k % ALIGNMENT == 0)
    if k <= LONGEST_FLOAT_SUM and not in_tiles:
        return bfloat16_dot(a, za, b, zb)
    with nullcontext() if cut is None else marked():
        if isinstance(b, PackedMatrix):
            raw = packed_dot(a, za, b, zb, _min_rows(k), cut or WHOLE)
        else:
            few = row_count(a, b) <= MAX_ROWS_UNTRANSPOSED
            raw = (padded_dot if few else transposed_dot)(a, za, b, zb, cut or WHOLE)
    sizes = zip((row_count(a, b), b.shape[-1]), raw.product.shape[-2:], strict=True)
    if any(size == 1 < padded for size, padded in sizes):
        # XLA for CUDA, in JAX 0.11.2, does not compile the kernel of a product that ends with such a cut.
        return raw._replace(product=_stored(raw.product))
    return raw
