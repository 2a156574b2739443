"""Check the matrices of a product, and multiply them on every shard, before an operator finishes the sums."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxdml._arguments import packing, quantized
from jaxdml._arguments.call import Call
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.shapes import Shape, broadcast, broadcasts_to, is_static
from jaxdml._kernels import integer_product
from jaxdml._kernels.integer_product import METHODS, PackedMatrix, Right, longest
from jaxdml._kernels.integer_sums import finish_everywhere
from jaxdml._placement.layout import Labels, Names, axis_size, layout, run
from jaxdml._placement.lowering import Forced


class Matrices(NamedTuple):
    """Hold both matrices of a call."""

    a: jax.Array
    b: Right
    names: Names
    """The mesh axes that K is sharded over in the caller's ``jax.shard_map``."""
    batch: Shape
    terms: int
    """How many products a sum adds up: K of all shards."""


def matrices(call: Call, axis_name: Any) -> Matrices:
    """Require ``a`` and ``b`` to be 8-bit matrices that can be multiplied; ``b`` may be packed."""
    names = call.axis_names(axis_name)
    shards = axis_size(names)
    a, b = quantized.matrix(call, "a"), call.operands["b"]
    is_packed = isinstance(b, PackedMatrix)
    b = packing.right_matrix(call, "b", b, shards) if is_packed else quantized.matrix(call, "b")
    k, b_k = a.shape[-1], b.shape[-2]
    if k != b_k:
        rule = f"the last dimension of a, {k}, must be the last but one of b; got {b_k}."
        call.fail(TypeError, rule, "Transpose a or b, so that they share K.", "a", "b")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    if batch is None:
        rule = f"leading dimensions must broadcast; got {list(a.shape[:-2])} and {list(b.shape[:-2])}."
        call.fail(TypeError, rule, "Give a and b equal leading dimensions.", "a", "b")
    return Matrices(a, b, names, batch, k * shards)


def parameters(call: Call, given: Matrices, **dtypes: Any) -> dict[str, jax.Array | None]:
    """Return parameters of these dtypes by name, with the rank of the result; None stays None, but not for a scale."""
    values = {name: quantized.optional(call, name, np.dtype(dtype)) for name, dtype in dtypes.items()}
    aligned = {name: value if value is None else _aligned(call, name, value, given) for name, value in values.items()}
    return quantized.without_zeros(call, aligned)


_BY_COLUMN = "b_scale", "b_zero_point", "bias"
"""The parameters that have one value, or one for each column. The others have one for each row."""


def _aligned(call: Call, name: str, value: jax.Array, given: Matrices) -> jax.Array:
    """Require a parameter to broadcast against the result, and give it the rank of that."""
    rank = len(given.batch) + 2
    if value.ndim == 0:
        return _with_rank(value, rank)
    rows, columns = given.a.shape[-2], given.b.shape[-1]
    per_row = name not in _BY_COLUMN
    size, shape = (rows, (*given.batch, rows, 1)) if per_row else (columns, (*given.batch, 1, columns))
    aligned = (*value.shape, 1) if per_row and value.ndim == 1 else value.shape
    if not broadcasts_to(aligned, shape):
        kind = "row" if per_row else "column"
        tensor = "b" if not per_row else "the output" if name.startswith("output") else "a"
        rule = f"{name} must be one value, or one per {kind}, {size}, or broadcast to {list(shape)}"
        advice = f"Pass one value, or {size}: one for each {kind} of {tensor}."
        if per_row and value.shape[-1:] == (columns,) and value.size == value.shape[-1] != size:
            advice = f"Pass one value, or {size}: {name} per column is not supported."
        elif per_row and value.ndim > 1 and broadcasts_to((*value.shape, 1), shape):
            advice = f"Reshape {name} to {[*value.shape, 1]}."
        elif value.size in (1, size):
            advice = f"Reshape {name} to {list(shape[-2:]) if value.size == size else [1]}."
        call.fail(TypeError, f"{rule}; got {list(value.shape)}.", advice, "a", "b", name)
    trailing = range(rank - len(aligned) + value.ndim, rank)
    return lax.expand_dims(value, (*range(rank - len(aligned)), *trailing))


def multiply(
    call: Call, given: Matrices, implementation: Any, finish: Callable[..., Any], *parameters: Any, **static: Any
) -> jax.Array:
    """Return ``finish(sums, *parameters, **static)`` of the parameters after the two zero points, on every shard.

    Args:
      call: the call.
      given: its matrices.
      implementation: the name of a method to force, or None.
      finish: a function of a module; it takes what ``integer_product.multiply`` returns.
      parameters: the zero points of ``a`` and of ``b``, and all other pytrees of arrays that broadcast against the
        result.
      static: what else ``finish`` takes; hashable.
    """
    a, b, names, batch, _ = given
    k = a.shape[-1]
    deepest = None if is_static(k) else longest((a, parameters[0]), (b, parameters[1])) // axis_size(names)
    if deepest is not None and not at_most(k, deepest):
        rule = f"K must be known to be at most {deepest} if it is symbolic; got {k}."
        call.fail(ValueError, rule, f"Pass constraints=['{k} <= {deepest}'] to jax.export.symbolic_shape.", "a", "b")
    forced = call.implementation(implementation, METHODS, only_on=METHODS)
    rank = len(batch) + 2
    a, of_a = _with_rank(a, rank), ("rows", "K")
    of_b: tuple[Labels, ...] = (("K", "columns"),)
    if isinstance(b, PackedMatrix):
        b = replace(b, matrix=_with_rank(b.matrix, rank), sums=_with_rank(b.sums, rank - 1))
        of_b = (("columns", "K"), ("columns",))
    else:
        b = _with_rank(b, rank)
    batch_labels = tuple(f"batch dimension {d}" for d in range(len(batch)))
    sizes: dict[Hashable, int] = dict(zip(batch_labels, batch, strict=True))
    sizes |= {"rows": a.shape[-2], "columns": b.shape[-1]}
    labelled = [(a, of_a), *zip(jax.tree.leaves(b), of_b, strict=True)]
    labelled += [(x, ("rows", "columns")) for x in jax.tree.leaves(parameters, is_leaf=lambda x: x is None)]
    where = layout(
        [(x, _labels(x, (*batch_labels, *of), sizes)) for x, of in labelled],
        result=(*batch_labels, "rows", "columns"),
        combined={"K": names},
        deciding=2,
        fail=lambda rule: call.fail(ValueError, rule, "Reshard a or b with jax.sharding.reshard.", "a", "b"),
    )
    result: jax.Array = run(_multiplied, where, a, b, *parameters, forced=forced, finish=finish, **static)
    return result


def _multiplied(
    a: Any,
    b: Any,
    za: Any,
    zb: Any,
    *parameters: Any,
    over: tuple[Names, ...],
    forced: Forced | None,
    finish: Callable[..., Any],
    **static: Any,
) -> Any:
    """Multiply on one shard, and finish; ``over`` has the mesh axes that K is sharded over."""
    sums = integer_product.multiply((a, za), (b, zb), forced, over[0])
    return finish_everywhere(finish, sums, *parameters, **static)


def _with_rank(x: jax.Array, rank: int) -> jax.Array:
    return lax.expand_dims(x, range(rank - x.ndim))


def _labels(x: jax.Array | None, labels: Labels, sizes: Mapping[Hashable, int]) -> Labels:
    """Return the labels of an operand; None for a dimension that is broadcast to the result."""
    shape = () if x is None else x.shape
    each = zip(labels, shape, strict=False)
    return tuple(label if label == "K" or size == sizes[label] else None for label, size in each)
