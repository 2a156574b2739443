"""Bring the arrays of a node to one capacity: arrays that share a length may be longer than it, each in its own way."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxdml.onnx.nodes._sizes import not_empty, resized
from jaxdml.onnx.nodes.bounded._task import array
from jaxdml.onnx.values.bounded import Bounded, bounded, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import LengthError, bounds, limits, same, true
from jaxdml.onnx.values.promises import may_be_one


def fitted(value: Value, sizes: Sequence[Any]) -> Value:
    """Return a value in the capacity of sizes that are equal to its own, whatever names these have."""
    kept = inner(value) if tuple(value.shape) == bounds(sizes) else resized(array(value), bounds(sizes))
    return bounded(kept, sizes)


def stretched(value: Value, sizes: Sequence[Any]) -> Value:
    """Return a value whose capacity broadcasts as its sizes do: a length may be one, and is repeated then."""
    own = sizes_of(value)
    wanted = [1 if same(n, 1) else size for n, size in zip(own, sizes[len(sizes) - len(own) :], strict=True)]
    for d, (n, size) in enumerate(zip(own, wanted, strict=True)):
        if not same(n, size) and may_be_one(n):
            places = jnp.where(true(n) == 1, 0, lax.iota(jnp.int32, limits(size).bound))
            value = jnp.take(not_empty(array(value), (d,)), places, axis=d, mode="clip")
    return fitted(value, wanted)


def must_not_have_lengths(operands: Iterable[Value], dimensions: Sequence[int] | None = None) -> None:
    """Refuse operands whose sizes, or those of some dimensions, have lengths."""
    for operand in operands:
        if isinstance(operand, Bounded) and is_bounded_in(operand.sizes, dimensions or range(operand.ndim)):
            raise LengthError(f"the result for an operand of sizes {list(operand.sizes)}")
