"""Functions along axes that keep them: softmax and its like, cumulative sums and products."""

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._operators.argmax import argmax


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _below_greatest(x: Any, axis: tuple[int, ...]) -> Any:
    """Return elements minus the greatest; the greatest counts as constant in a derivative.

    XLA may compute what it reads twice in two ways, one of them rounded less: the difference is then not 0 where an
    element is the greatest. To compare, it must round both. Of an infinity minus itself IEEE's NaN is kept.
    """
    greatest = jnp.max(x, axis, keepdims=True, initial=-jnp.inf)
    difference = jnp.minimum(x - greatest, 0)
    return jnp.where((x >= greatest) & jnp.isfinite(greatest), 0, difference)


@_below_greatest.defjvp
def _below_greatest_jvp(axis: tuple[int, ...], primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    return _below_greatest(*primals, axis), tangents[0]


def softmax(x: Any, axis: tuple[int, ...]) -> Any:
    """Return exponentials, divided by their sum along the axes."""
    exponentials = jnp.exp(_below_greatest(x, axis))
    return exponentials / jnp.sum(exponentials, axis, keepdims=True)


def log_softmax(x: Any, axis: tuple[int, ...]) -> Any:
    """Return the logarithm of ``softmax``."""
    difference = _below_greatest(x, axis)
    return difference - jnp.log(jnp.sum(jnp.exp(difference), axis, keepdims=True))


def hardmax(x: Any, axis: tuple[int, ...]) -> Any:
    """Return 1 where the first of the greatest elements is, else 0."""
    sizes = [x.shape[i] for i in axis]
    if 0 in x.shape:
        return x
    shape = [size if i in axis else 1 for i, size in enumerate(x.shape)]
    positions = jnp.arange(math.prod(sizes)).reshape(shape)
    return (positions == argmax(x, axis=axis, keepdims=True)).astype(x.dtype)


def cumulative_sum(x: Any, axis: int, *, exclusive: bool, reverse: bool) -> Any:
    """Return the sum of all elements up to each one along an axis, without that one if ``exclusive``."""
    return _cumulative(lax.cumsum, 0, x, axis, exclusive, reverse)


def cumulative_product(x: Any, axis: int, *, exclusive: bool, reverse: bool) -> Any:
    """Return the product of all elements up to each one along an axis, without that one if ``exclusive``."""
    return _cumulative(lax.cumprod, 1, x, axis, exclusive, reverse)


def _cumulative(function: Callable[..., Any], neutral: int, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    if exclusive:
        shift = (-1, 1, 0) if reverse else (1, -1, 0)
        x = lax.pad(x, np.asarray(neutral, x.dtype), [shift if i == axis else (0, 0, 0) for i in range(x.ndim)])
    return function(x, axis=axis, reverse=reverse)


def reverse_sequence(xp: ModuleType, x: Any, lengths: Any, axis: int) -> Any:
    """Reverse the first elements along an axis, in NumPy or jax.numpy.

    Args:
      xp: the module.
      x: an array.
      lengths: how many to reverse, of the rank of ``x``, with size 1 at ``axis``.
      axis: the axis.
    """
    size = x.shape[axis]
    places = xp.arange(size, dtype=np.int32).reshape([size if d == axis else 1 for d in range(x.ndim)])
    lengths = xp.minimum(lengths, size).astype(np.int32)
    return xp.take_along_axis(x, xp.where(places < lengths, lengths - 1 - places, places), axis)
