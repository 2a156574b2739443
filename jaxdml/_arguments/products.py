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
from jaxdml._base.shapes import Shape, broadcast, is_static
from jaxdml._kernels import integer_product
from jaxdml._kernels.integer_product import METHODS, PackedMatrix, Right, longest
from jaxdml._placement.layout import Labels, Layout, Names, axis_size, layout, on_shards
from jaxdml._placement.platforms import Forced


class Matrices(NamedTuple):
    """Hold both matrices of a call."""

    a: jax.Array
    b: Right
    names: Names
    """The mesh axes that K is sharded over in the caller's ``jax.shard_map``."""
    batch: Shape

    def along(self, tensor: str) -> quantized.Along:
        """Return where a parameter of ``"a"``, of ``"b"`` or of ``"the output"`` may have several values."""
        if tensor == "b":
            return quantized.Along((*self.batch, 1, self.b.shape[-1]), "column", tensor)
        return quantized.Along((*self.batch, self.a.shape[-2], 1), "row", tensor)


class ProductPlan(NamedTuple):
    """Hold what is static of a call; ``multiply`` takes it with the operands."""

    forced: Forced | None
    where: Layout


def matrices(call: Call, axis_name: Any) -> Matrices:
    """Require ``a`` and ``b`` to be 8-bit matrices that can be multiplied; ``b`` may be packed."""
    names = call.axis_names(axis_name)
    a, b = quantized.matrix(call, "a"), packing.right_matrix(call, "b", axis_size(names))
    k, b_k = a.shape[-1], b.shape[-2]
    if k != b_k:
        rule = f"the last dimension of a, {k}, must be the last but one of b; got {b_k}."
        call.fail(TypeError, rule, "Transpose a or b, so that they share K.", "a", "b")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    if batch is None:
        rule = f"leading dimensions must broadcast; got {list(a.shape[:-2])} and {list(b.shape[:-2])}."
        call.fail(TypeError, rule, "Give a and b equal leading dimensions.", "a", "b")
    return Matrices(a, b, names, batch)


def scale(call: Call, name: str, along: quantized.Along) -> jax.Array:
    """Return a scale."""
    return quantized.parameter(call, name, np.dtype(np.float32), along)


def integers(call: Call, name: str, dtype: Any, along: quantized.Along) -> jax.Array | None:
    """Return a zero point or a bias; None stays None."""
    return None if call.operands.get(name) is None else quantized.parameter(call, name, np.dtype(dtype), along)


def greatest_sum(call: Call, given: Matrices, bias: int = 0) -> int:
    """Bound the sums of a call by what is known of its zero points, with a bias of this magnitude."""
    depth = given.a.shape[-1] * axis_size(given.names)
    operands = ((x.dtype, call.known(f"{name}_zero_point", x.dtype)) for name, x in (("a", given.a), ("b", given.b)))
    return integer_product.greatest_sum(depth, *operands) + bias


def plan(call: Call, given: Matrices, implementation: Any, *parameters: Any) -> tuple[tuple[Any, ...], ProductPlan]:
    """Return the operands of ``multiply`` and what is static.

    Args:
      call: the call.
      given: its matrices.
      implementation: the name of a method to force, or None.
      parameters: the zero points of ``a`` and of ``b``, and all other pytrees of arrays that broadcast against the
        result.
    """
    a, b, names, batch = given
    k = a.shape[-1]
    deepest = longest((a, parameters[0]), (b, parameters[1])) // axis_size(names)
    if not is_static(k) and not at_most(k, deepest):
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
    return (a, b, *parameters), ProductPlan(forced, where)


def multiply(operands: tuple[Any, ...], static: ProductPlan, finish: Callable[..., Any]) -> Any:
    """Return ``finish(sums, *parameters)`` of the parameters after the two zero points, on every shard."""

    def part(a: Any, b: Any, za: Any, zb: Any, *parameters: Any) -> Any:
        over = static.where.over[0]
        sums = integer_product.multiply((a, za), (b, zb), static.forced, over)
        return finish(sums, *parameters)

    return on_shards(part, static.where, *operands)


def _with_rank(x: jax.Array, rank: int) -> jax.Array:
    return lax.expand_dims(x, range(rank - x.ndim))


def _labels(x: jax.Array | None, labels: Labels, sizes: Mapping[Hashable, int]) -> Labels:
    """Return the labels of an operand; None for a dimension that is broadcast to the result."""
    shape = () if x is None else x.shape
    each = zip(labels, shape, strict=False)
    return tuple(label if label == "K" or size == sizes[label] else None for label, size in each)
