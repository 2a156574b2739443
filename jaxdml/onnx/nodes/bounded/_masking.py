"""Fill what does not count, in the order in which an array is stored."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from jaxdml.onnx.values.bounded import counts, inner, is_bounded_in
from jaxdml.onnx.values.kinds import Dequantized, Value, computed
from jaxdml.onnx.values.lengths import Length, true
from jaxdml.onnx.values.stored import stored, stored_axis

Filled = Callable[[jax.Array, Any, Callable[[int], int]], jax.Array]
"""``change(array, filling, axis_of)`` returns an array stored alike; ``axis_of`` says where it has a dimension."""


def changed(value: Value, filling: Any, change: Filled) -> Value:
    """Change an array as it is stored. Integers that stand for real numbers remain, and their zero point stands for 0.

    Args:
      value: without lengths.
      filling: a number that ``change`` gets.
      change: what to do.
    """
    if isinstance(value, Dequantized) and value.quantization.per_tensor and isinstance(filling, int) and not filling:
        zero = value.quantization.zero_point
        return replace(value, integers=changed(computed(value.integers), 0 if zero is None else zero, change))
    value = computed(value)
    data, wrap = stored(value)
    return wrap(change(data, jnp.asarray(filling).astype(data.dtype), lambda d: stored_axis(value, d)))


def masked(value: Value, sizes: Sequence[Any], filling: Any, dimensions: Sequence[int] | None = None) -> Value:
    """Return what a bounded value has in it, with a number where no element counts along some dimensions."""
    where = range(len(sizes)) if dimensions is None else dimensions
    if not is_bounded_in(sizes, where):
        return inner(value)

    def fill(x: jax.Array, number: Any, axis_of: Callable[[int], int]) -> jax.Array:
        return jnp.where(counts(in_order(sizes, axis_of), [axis_of(d) for d in where]), x, number)

    return changed(inner(value), filling, fill)


def in_order(sizes: Sequence[Any], axis_of: Callable[[int], int]) -> list[Any]:
    """Return sizes in the order in which an array is stored."""
    return [sizes[d] for d in sorted(range(len(sizes)), key=axis_of)]


def extended(value: Value, sizes: Sequence[Any], dimensions: Sequence[int]) -> Value:
    """Return what a bounded value has in it, with the last element that counts behind it along some dimensions."""

    def extend(x: jax.Array, number: Any, axis_of: Callable[[int], int]) -> jax.Array:
        for d in dimensions:
            if isinstance(sizes[d], Length) and x.size:
                axis, last = axis_of(d), jnp.maximum(true(sizes[d]) - 1, 0)
                edge = jax.lax.dynamic_slice_in_dim(x, last, 1, axis)
                shape = [n if i == axis else 1 for i, n in enumerate(x.shape)]
                x = jnp.where(jax.lax.broadcasted_iota(jnp.int32, shape, axis) <= last, x, edge)
        return x

    return changed(inner(value), 0, extend)
