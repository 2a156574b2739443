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


class RawProduct(NamedTuple):
    """Hold ``A @ B`` and the terms to subtract from it for the zero points, all int32 modulo 2**32.

    Only ``product`` is large.
    """

    product: jax.Array
    """``[..., M, N]``, in the leading block of an array that may be padded, or have its batch merged into the rows; it
    may be float32 that holds the same integers, as units for floats return them."""

    zb: jax.Array | None = None
    rows: jax.Array | None = None
    """``[..., M, 1]``: ``zb`` times this is subtracted."""

    za: jax.Array | None = None
    columns: jax.Array | None = None
    """``[..., 1, N]`` or ``[1, N]``: ``za`` times this is subtracted."""

    chain: Any = None
    """A ``Chain`` for these sums in place of the caller's: with twice the columns if a row of the product holds two
    windows. Only ``requantize`` reads it."""


class PerPart(NamedTuple):
    """Hold a product that is computed part by part along the first dimension, each part where it is used.

    So what is computed of one part, such as its int32 sums, stays in the cache of a CPU.
    """

    compute: jax.tree_util.Partial
    """Takes one of ``parts`` and returns its ``RawProduct``."""

    parts: jax.Array
    """``[parts, size, ...]``."""


Raw = RawProduct | PerPart


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


def as_stored(raw: RawProduct, shape: tuple[int, ...]) -> jax.Array:
    """Return ``A @ B`` in the shape of the accumulator, int32 or float32."""
    total = raw.product
    if total.shape == shape:
        return total
    height = math.prod(shape[:-1]) if total.ndim == 2 else shape[-2]
    return total[..., :height, : shape[-1]].reshape(shape)


def _accumulator(raw: RawProduct, shape: tuple[int, ...]) -> jax.Array:
    total = as_stored(raw, shape).astype(jnp.int32)
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
