"""Bring the arrays of a node to one capacity: arrays that share a length may be longer than it, each in its own way."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxdml.onnx.nodes._sizes import resized
from jaxdml.onnx.nodes.bounded._masking import changed, in_order
from jaxdml.onnx.values.bounded import Bounded, bounded, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import LengthError, bounds, same, true
from jaxdml.onnx.values.promises import may_be_one


def fitted(value: Value, sizes: Sequence[Any]) -> Value:
    """Return a value in the capacity of sizes that are equal to its own, whatever names these have."""
    kept, shape = inner(value), bounds(sizes)
    if tuple(value.shape) != shape:
        kept = changed(kept, 0, lambda x, _, axis_of: resized(x, in_order(shape, axis_of)))
    return bounded(kept, sizes)


def stretched(value: Value, sizes: Sequence[Any]) -> Value:
    """Return a value whose capacity broadcasts as its sizes do: a length may be one, and is repeated then."""
    own = sizes_of(value)
    wanted = [1 if same(n, 1) else size for n, size in zip(own, sizes[len(sizes) - len(own) :], strict=True)]
    repeated = [not same(n, size) and may_be_one(n) for n, size in zip(own, wanted, strict=True)]
    if not any(repeated):
        return fitted(value, wanted)

    def repeat(x: Any, _: Any, axis_of: Callable[[int], int]) -> Any:
        x = resized(x, in_order(bounds(wanted), axis_of))
        for d, n in enumerate(own):
            if repeated[d] and x.size:
                x = jnp.where(true(n) == 1, lax.slice_in_dim(x, 0, 1, axis=axis_of(d)), x)
        return x

    return bounded(changed(inner(value), 0, repeat), wanted)


def must_not_have_lengths(operands: Iterable[Value], dimensions: Sequence[int] | None = None) -> None:
    """Refuse operands whose sizes, or those of some dimensions, have lengths."""
    for operand in operands:
        if isinstance(operand, Bounded) and is_bounded_in(operand.sizes, dimensions or range(operand.ndim)):
            raise LengthError(f"the result for an operand of sizes {list(operand.sizes)}")
