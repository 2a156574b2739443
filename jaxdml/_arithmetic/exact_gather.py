"""Read elements at indexed positions without changing a bit of them, differentiably."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of, by_bits
from jaxdml._arithmetic.canonical_indices import limits_along_last

Take = Callable[[jax.Array, jax.Array, lax.GatherDimensionNumbers, str, bytes], jax.Array]
"""Takes what ``gather`` takes, of floats."""


def over_batch(function: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """Map ``function`` over the first ``rank`` dimensions of all its arguments."""
    for _ in range(rank):
        function = jax.vmap(function)
    return function


def _gather(x: jax.Array, indices: jax.Array, numbers: lax.GatherDimensionNumbers, mode: str, fill: bytes) -> jax.Array:
    single = numbers.collapsed_slice_dims + numbers.operand_batching_dims
    sizes = tuple(1 if d in single else size for d, size in enumerate(x.shape))
    fill_value = np.frombuffer(fill, x.dtype)[0] if fill else None
    return lax.gather(x, indices, numbers, sizes, mode=mode, fill_value=fill_value)


def _gather_narrow(
    bits: jax.Array, indices: jax.Array, numbers: lax.GatherDimensionNumbers, mode: str, fill: bytes
) -> jax.Array:
    """Take slices in mode ``"fill"``, of the bits of narrow floats.

    A ``select`` would change bits: the CPU's compiler makes it one of bfloat16 if the result becomes bfloat16, and that
    widens both values. So shift the fill value to the place of an element, which no compiler takes for a ``select``.
    """
    del mode
    outside = _outside(bits.shape, indices, numbers)
    return _filled(_gather(bits, indices, numbers, "clip", fill), outside, fill)


def _outside(shape: tuple[int, ...], indices: jax.Array, numbers: lax.GatherDimensionNumbers) -> jax.Array:
    """Return which slices have an index that is too high."""
    limits = limits_along_last([shape[d] for d in numbers.start_index_map], indices.ndim, indices.dtype)
    return jnp.expand_dims((indices >= limits).any(axis=-1), numbers.offset_dims)


def _filled(bits: jax.Array, outside: jax.Array, fill: bytes) -> jax.Array:
    """Return ``bits``, of 8 or 16 bits each, but those of ``fill`` where they are ``outside``."""
    width = 8 * bits.dtype.itemsize
    both = bits.astype(jnp.uint32) | (np.uint32(int.from_bytes(fill, sys.byteorder)) << np.uint32(width))
    return (both >> (outside.astype(jnp.uint32) * jnp.uint32(width))).astype(bits.dtype)


def gather_then_bits(
    x: jax.Array, indices: jax.Array, numbers: lax.GatherDimensionNumbers, mode: str, fill: bytes
) -> jax.Array:
    """Take slices of floats as they are, and fill the bits of what was read: nothing passes over all of ``x``.

    This is for a device that moves floats without a change of their bits, and has all of ``x`` in its own memory.
    """
    if mode != "fill":
        return _gather(x, indices, numbers, mode, fill)
    bits = bits_of(_gather(x, indices, numbers, "clip", fill))
    outside = _outside(x.shape, indices, numbers)
    if bits.dtype.itemsize <= 2:
        return lax.bitcast_convert_type(_filled(bits, outside, fill), x.dtype)
    return lax.bitcast_convert_type(jnp.where(outside, np.frombuffer(fill, bits.dtype)[0], bits), x.dtype)


def gather_bits(
    x: jax.Array, indices: jax.Array, numbers: lax.GatherDimensionNumbers, mode: str, fill: bytes
) -> jax.Array:
    """Take slices of the bits of floats."""
    narrow = mode == "fill" and jnp.finfo(x.dtype).bits in (8, 16)
    return by_bits(lambda moved: (_gather_narrow if narrow else _gather)(moved, indices, numbers, mode, fill), x)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4, 5))
def _gather_floats(
    x: jax.Array, indices: jax.Array, numbers: lax.GatherDimensionNumbers, mode: str, fill: bytes, take: Take
) -> jax.Array:
    return take(x, indices, numbers, mode, fill)


@_gather_floats.defjvp
def _gather_floats_jvp(
    numbers: lax.GatherDimensionNumbers,
    mode: str,
    fill: bytes,
    take: Take,
    primals: tuple[jax.Array, jax.Array],
    tangents: tuple[jax.Array, jax.Array],
) -> tuple[jax.Array, jax.Array]:
    x, indices = primals
    # The fill value is a constant, and bytes that are 0 are its derivative.
    tangent = _gather(tangents[0], indices, numbers, mode, bytes(len(fill)))
    return _gather_floats(x, indices, numbers, mode, fill, take), tangent


def gather(
    x: jax.Array,
    indices: jax.Array,
    numbers: lax.GatherDimensionNumbers,
    mode: str = "promise_in_bounds",
    fill: bytes = b"",
    take: Take = gather_bits,
) -> jax.Array:
    """Take whole slices of ``x`` bit for bit, as ``lax.gather`` does.

    The derivative is the same gather of the tangent, so every order of it exists.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: integers ``[..., t]``, none of them counted from the end.
      numbers: says what the indices address. A slice has one index of each dimension that they address, and all of the
        others.
      mode: ``"clip"``, ``"fill"`` or ``"promise_in_bounds"``.
      fill: in mode ``"fill"``, the bytes of the element that an index out of range reads.
      take: takes slices of floats and keeps their bits; it need not be differentiable.
    """
    if jnp.issubdtype(x.dtype, jnp.floating):
        return _gather_floats(x, indices, numbers, mode, fill, take)
    return _gather(x, indices, numbers, mode, fill)


def along(axis: int, rank: int) -> lax.GatherDimensionNumbers:
    """Say that each element has an index ``[..., 1]`` of ``axis``, and its own position in the other dimensions."""
    others = tuple(d for d in range(rank) if d != axis)
    return lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )


def take_along_last(x: jax.Array, indices: jax.Array) -> jax.Array:
    """Take ``x[..., indices[..., j]]`` bit for bit; ``x: [..., n]``, ``indices: [..., k]``, all in range."""
    return gather(x, indices[..., None], along(x.ndim - 1, x.ndim))


def take_tangents_along_last(tangents: jax.Array, indices: jax.Array) -> jax.Array:
    """Take the tangents of what ``take_along_last`` takes: a linear function, so its transpose exists."""
    return _gather(tangents, indices[..., None], along(tangents.ndim - 1, tangents.ndim), "promise_in_bounds", b"")


def on_all_devices(x: jax.Array, axis: int) -> jax.Array:
    """Return ``x``, and have XLA put the whole of ``axis`` on every device.

    The result of a gather is sharded as its indices are, here not at all. Otherwise XLA might keep ``axis`` sharded,
    exchange parts of it for every operation that follows, and shard the output of the program.
    """
    last = jnp.moveaxis(x, axis, -1)
    every = lax.broadcasted_iota(jnp.uint32, (*last.shape, 1), last.ndim - 1)
    whole = _gather(last, every, along(last.ndim - 1, last.ndim), "promise_in_bounds", b"")
    return jnp.moveaxis(whole, -1, axis)
