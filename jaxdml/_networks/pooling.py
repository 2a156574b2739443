"""Poolings of floats and integers, of arrays whose spatial dimensions come last if nothing else is said."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._arithmetic.windows import slices_at
from jaxdml._base.shapes import is_static
from jaxdml._placement.layout import on_explicit_axes
from jaxdml._placement.lowering import Form, Target, at_lowering


class Pool(NamedTuple):
    """Hold where windows lie, with one number for each spatial dimension. Static."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]

    counts: tuple[int, ...]
    """How many windows there are; the last ones may reach over the end by any padding that they need."""


def least(dtype: Any) -> Any:
    """Return the value that never wins against another."""
    return -math.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def greatest_by_int8(pool: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Return the greatest elements of windows of uint8, from int8, which the operators before and after it store."""
    return with_flipped_sign(pool(with_flipped_sign(x, np.int8)), np.uint8)


def greatest_inside(x: jax.Array, pool: Pool, otherwise: jax.Array) -> jax.Array:
    """Return the greatest elements of windows of integers ``[N, *spatial, C]``, which ``otherwise`` has, too.

    One GPU reads them without padding: a place beyond an edge counts as the nearest one inside, which the window has
    as well. XLA's kernel would ask of each element of a padded array where it lies.
    """
    lengths = x.shape[1:-1]
    if set(pool.dilations) != {1} or not is_static(*x.shape) or on_explicit_axes(x):
        return otherwise
    each = zip(lengths, pool.sizes, pool.strides, pool.start_padding, pool.counts, strict=True)
    # Each window has an element inside. Without dilations it then has the one that is nearest to any place beyond.
    if not all(
        start < size and max((count - 1) * stride - start, 0) < length for length, size, stride, start, count in each
    ):
        return otherwise
    result: jax.Array = at_lowering(partial(_form_of_greatest, pool=pool), x, otherwise)
    return result


def _form_of_greatest(target: Target, pool: Pool) -> Form:
    return partial(_greatest_inside, pool=pool) if target.alone and target.platform == "cuda" else _otherwise


def _otherwise(x: jax.Array, otherwise: jax.Array) -> jax.Array:
    """Return what was computed before. XLA leaves that out of programs with another form, which do not read it."""
    del x
    return otherwise


def _greatest_inside(x: jax.Array, otherwise: jax.Array, *, pool: Pool) -> jax.Array:
    del otherwise
    if x.dtype == jnp.uint8:
        return greatest_by_int8(partial(_greatest_of_nearest, pool=pool), x)
    return _greatest_of_nearest(x, pool)


def _greatest_of_nearest(x: jax.Array, pool: Pool) -> jax.Array:
    def read(places: Sequence[int]) -> jax.Array:
        each = zip(places, pool.strides, pool.start_padding, x.shape[1:-1], strict=True)
        found = [
            jnp.clip(lax.broadcasted_iota(jnp.int32, pool.counts, d) * stride + (place - start), 0, length - 1)
            for d, (place, stride, start, length) in enumerate(each)
        ]
        return slices_at(x, found, x.shape[-1])

    result, *others = map(read, itertools.product(*map(range, pool.sizes)))
    for other in others:
        result = jnp.maximum(result, other)
    return result


def reduced(x: jax.Array, pool: Pool, reduce: Callable[..., Any], neutral: Any) -> jax.Array:
    """Reduce the elements of each window with an associative function; padding has its neutral element."""
    neutral = np.asarray(neutral, x.dtype)
    return lax.reduce_window(_read(x, pool, neutral), neutral, reduce, *_window(x, pool))


def greatest(x: jax.Array, pool: Pool) -> tuple[jax.Array, jax.Array]:
    """Return the greatest element of each window, and which element of the whole array it is: the first of equal ones.

    A NaN is greater than every number. A window of padding alone has the least number, and index 0.
    """
    nowhere = np.int32(2**31 - 1)
    places = lax.iota(jnp.int32, x.size).reshape(x.shape)
    neutral = np.asarray(least(x.dtype), x.dtype)

    def better(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        (value, place), (other, there) = a, b
        nan, other_nan = jnp.isnan(value), jnp.isnan(other)
        tie = (value == other) | (nan & other_nan)
        wins = (value > other) | (nan & ~other_nan) | (tie & (place < there))
        return jnp.where(wins, value, other), jnp.where(wins, place, there)

    operands = _read(x, pool, neutral), _read(places, pool, nowhere)
    values, indices = lax.reduce_window(operands, (neutral, nowhere), better, *_window(x, pool))
    return values, jnp.where(indices == nowhere, 0, indices)


def mean(x: jax.Array, pool: Pool, include_padding: bool) -> jax.Array:
    """Return the mean of each window, of a float32 array.

    With ``include_padding`` all places of a window count, and else those in the array; where none is, the mean is 0.
    """
    total = reduced(x, pool, lax.add, 0)
    if include_padding:
        return total / math.prod(pool.sizes)
    count = np.maximum(_populations(x.shape[-len(pool.sizes) :], pool), 1)
    return total / count.astype(np.float32).reshape((1,) * (x.ndim - count.ndim) + count.shape)


def norm(x: jax.Array, pool: Pool, p: int) -> jax.Array:
    """Return the p-norm of each window, of a float32 array."""
    total = reduced(lax.integer_pow(jnp.abs(x), p), pool, lax.add, 0)
    return {1: lambda: total, 2: lambda: jnp.sqrt(total)}.get(p, lambda: total ** (1 / p))()


def _populations(inputs: Sequence[int], pool: Pool) -> Any:
    """Return how many elements of the array each window has."""
    result: Any = np.ones((), np.int64)
    for length, size, stride, dilation, start, count in zip(inputs, *pool, strict=True):
        at = stride * np.arange(count)[:, None] - start + dilation * np.arange(size)
        result = np.multiply.outer(result, ((at >= 0) & (at < length)).sum(1))
    return result


def _read(x: jax.Array, pool: Pool, neutral: Any) -> jax.Array:
    """Return what the windows read, no more: XLA's CPU backend up to 0.10.1 computes windows of products wrong else."""
    edges = [(0, 0, 0)] * (x.ndim - len(pool.sizes))
    for length, size, stride, dilation, start, count in zip(x.shape[len(edges) :], *pool, strict=True):
        read = (count - 1) * stride + (size - 1) * dilation + 1
        edges.append((start, read - start - length, 0))
    return lax.pad(x, neutral, edges)


def _window(x: jax.Array, pool: Pool) -> tuple[Any, ...]:
    """Return the further arguments of ``lax.reduce_window``."""
    whole = (1,) * (x.ndim - len(pool.sizes))
    return (*whole, *pool.sizes), (*whole, *pool.strides), "VALID", None, (*whole, *pool.dilations)
