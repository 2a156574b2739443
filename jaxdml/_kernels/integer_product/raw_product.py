"""Hold a product of 8-bit matrices and the terms of its zero points, and subtract those exactly.

For the stored integers A and B, ``(A - za) @ (B - zb) = A @ B - zb * (rowsum(A) - K * za) - za * colsum(B)``.
int32 wraps around modulo 2**32, so single terms may overflow if the whole sum fits.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._kernels.integer_product.packed_matrix import Right

Zero = jax.Array | None
"""An int32 zero point that broadcasts against its tensor, or None for 0."""


class RawProduct(NamedTuple):
    """Hold ``A @ B`` and the terms to subtract from it for the zero points, all int32 modulo 2**32.

    Only ``product`` is large.
    """

    product: jax.Array
    """``[..., M, N]``, in the leading block of an array that may be padded, or have its batch merged into the rows."""

    zb: jax.Array | None = None
    rows: jax.Array | None = None
    """``[..., M, 1]``: ``zb`` times this is subtracted."""

    za: jax.Array | None = None
    columns: jax.Array | None = None
    """``[..., 1, N]`` or ``[1, N]``: ``za`` times this is subtracted."""


class PerPart(NamedTuple):
    """Hold a product that is computed part by part along the first dimension, each part where it is used.

    So what is computed of one part, such as its int32 sums, stays in the cache of a CPU.
    """

    compute: jax.tree_util.Partial
    """Takes one of ``parts`` and returns its ``RawProduct``."""

    parts: jax.Array
    """``[parts, size, ...]``."""


Raw = RawProduct | PerPart

Product = Callable[[jax.Array, Zero, Any, Zero], RawProduct]
"""Multiplies ``a - za`` by ``b - zb``.

``a`` is int8 or uint8 ``[..., M, K]`` and ``b`` int8 ``[..., K, N]``, or a ``PackedMatrix`` that is stored as int8.
On TPUs both may be uint8.
``za`` and ``zb`` are int32 that broadcast against ``[..., M, 1]`` and ``[..., 1, N]``, or None for 0.
"""

_INT32_MAX = 2**31 - 1


def as_int8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Subtract 128 from uint8 and from its zero point; return int8 and the int32 zero point, None for 0."""
    return _shift(x, zero_point, jnp.int8, -128)


def as_uint8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Add 128 to int8 and to its zero point; return uint8 and the int32 zero point, None for 0."""
    return _shift(x, zero_point, jnp.uint8, 128)


def _shift(x: jax.Array, zero_point: jax.Array | None, dtype: Any, by: int) -> tuple[jax.Array, jax.Array | None]:
    wide = None if zero_point is None else zero_point.astype(jnp.int32)
    if x.dtype == dtype:
        return x, wide
    shifted = jnp.int32(by) if wide is None else wide + by
    return with_flipped_sign(x, dtype), shifted


def longest_exact_sum(greatest_a: int, greatest_b: int) -> int:
    """Return the greatest K for which int32 holds every sum of K products of factors up to these magnitudes."""
    return _INT32_MAX // (greatest_a * greatest_b)


def product_shape(a: jax.Array, b: Right) -> tuple[int, ...]:
    """Return the shape ``[..., M, N]`` of ``a @ b``."""
    return (*jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


def with_merged_rows(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Merge the leading dimensions of ``a`` into its rows if ``b``, however stored, is one matrix for all."""
    if math.prod(b.shape[:-2]) == 1:
        return a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b.reshape(b.shape[-2:])
    return a, b


def row_count(a: jax.Array, matrix: jax.Array) -> int:
    """Return the number of rows that ``with_merged_rows`` makes of ``a``."""
    return math.prod(a.shape[:-1]) if math.prod(matrix.shape[:-2]) == 1 else a.shape[-2]


def accumulator(raw: Raw, shape: tuple[int, ...]) -> jax.Array:
    """Return ``(a - za) @ (b - zb)`` modulo 2**32 as int32 of ``shape``, ``[..., M, N]``."""
    return finished(raw, shape, lambda total: total)


def finished(raw: Raw, shape: tuple[int, ...], finish: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Return ``finish(accumulator)``; ``finish`` works on each element by itself.

    What it refers to must broadcast against a part along the first dimension.
    """
    if isinstance(raw, RawProduct):
        return finish(_accumulator(raw, shape))
    return part_by_part(raw, shape, lambda total: finish(total()))


def whole(raw: Raw) -> RawProduct:
    """Return a product that is computed at once."""
    return raw if isinstance(raw, RawProduct) else raw.compute(raw.parts.reshape(-1, *raw.parts.shape[2:]))


def part_by_part(
    raw: PerPart, shape: tuple[int, ...], finish: Callable[[Callable[[], jax.Array]], jax.Array]
) -> jax.Array:
    """Return what ``finish`` returns for each part; it gets a function that computes the accumulator of the part."""
    count, size = raw.parts.shape[:2]
    of_part = (size, *shape[1:])

    def part(x: jax.Array) -> jax.Array:
        return finish(lambda: _accumulator(raw.compute(x), of_part))

    results: jax.Array = lax.map(part, raw.parts) if count > 1 else part(raw.parts[0])
    return results.reshape(shape)


def _accumulator(raw: RawProduct, shape: tuple[int, ...]) -> jax.Array:
    total = raw.product
    if total.shape != shape:
        height = math.prod(shape[:-1]) if total.ndim == 2 else shape[-2]
        total = total[..., :height, : shape[-1]].reshape(shape)
    if raw.zb is not None and raw.rows is not None:
        total -= raw.zb * raw.rows
    if raw.za is not None and raw.columns is not None:
        total -= raw.za * raw.columns.reshape((1,) * (len(shape) - raw.columns.ndim) + raw.columns.shape)
    return total


def with_corrections(
    product: jax.Array,
    k: int,
    za: jax.Array | None,
    zb: jax.Array | None,
    row_sums: Callable[[], jax.Array],
    column_sums: Callable[[], jax.Array],
) -> RawProduct:
    """Compute the terms to subtract from ``product``. The sums for a zero point that is None are not computed."""
    rows = columns = None
    if zb is not None:
        rows = row_sums() if za is None else row_sums() - k * za
    if za is not None:
        columns = column_sums()
    return RawProduct(product, zb, rows, za, columns)
