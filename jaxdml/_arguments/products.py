"""Check the matrices of a product, and multiply them on every shard, before an operator finishes the sums."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import jax
from jax import lax

from jaxdml._arguments import packing, quantized
from jaxdml._arguments.call import Call
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.shapes import Shape, broadcast, is_static
from jaxdml._kernels import integer_product
from jaxdml._kernels.integer_product import METHODS, ONLY_ON, Right, longest
from jaxdml._placement.layout import Labels, Layout, Names, axis_size, layout, on_shards


class Matrices(NamedTuple):
    """Hold both matrices of a call."""

    a: jax.Array
    b: Right
    names: Names
    """The mesh axes that K is sharded over in the caller's ``jax.shard_map``."""
    batch: Shape

    @property
    def rows(self) -> Shape:
        """``[..., M, 1]``, the largest shape of a parameter with one value a row."""
        return (*self.batch, self.a.shape[-2], 1)

    @property
    def columns(self) -> Shape:
        """``[..., 1, N]``, the largest shape of a parameter with one value a column."""
        return (*self.batch, 1, self.b.shape[-1])


class Settled(NamedTuple):
    """Hold what is static of a call; ``multiply`` takes it with the operands."""

    b_tree: jax.tree_util.PyTreeDef
    implementation: str | None
    refusal: str
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


def zero_point(call: Call, name: str, dtype: Any, shape: Shape) -> jax.Array | None:
    """Return a zero point, or None; the arguments are those of ``quantized.parameter``."""
    return None if call.operands[name] is None else quantized.parameter(call, name, dtype, shape)


def settled(
    call: Call, given: Matrices, implementation: Any, *parameters: jax.Array | None
) -> tuple[tuple[jax.Array | None, ...], Settled]:
    """Return the operands of ``multiply`` and what is static.

    Args:
      call: the call.
      given: its matrices.
      implementation: the name of a method to force, or None.
      parameters: the zero points of ``a`` and of ``b``, and all other arrays that broadcast against the result.
    """
    a, b, names, batch = given
    k = a.shape[-1]
    deepest = longest((a, parameters[0]), (b, parameters[1])) // axis_size(names)
    if not is_static(k) and not at_most(k, deepest):
        rule = f"K must be known to be at most {deepest} if it is symbolic; got {k}."
        call.fail(ValueError, rule, f"Pass constraints=['{k} <= {deepest}'] to jax.export.symbolic_shape.", "a", "b")
    refusal = call.implementation(implementation, METHODS, only_on=ONLY_ON)
    (matrix, *sums), b_tree = jax.tree.flatten(b)
    rank = len(batch) + 2
    both = (_with_rank(x, rank) for x in (a, matrix))
    operands = (*both, *parameters, *(_with_rank(x, rank - 1) for x in sums))
    batch_labels = tuple(f"batch dimension {d}" for d in range(len(batch)))
    of_b = [("columns", "K"), ("columns",)] if sums else [("K", "columns")]
    labels = ("rows", "K"), of_b[0], *(("rows", "columns"),) * len(parameters), *of_b[1:]
    sizes: dict[Hashable, int] = dict(zip(batch_labels, batch, strict=True))
    sizes |= {"rows": a.shape[-2], "columns": b.shape[-1]}
    where = layout(
        [(x, _labels(x, (*batch_labels, *of), sizes)) for x, of in zip(operands, labels, strict=True)],
        result=(*batch_labels, "rows", "columns"),
        combined={"K": names},
        deciding=2,
        fail=lambda rule: call.fail(ValueError, rule, "Reshard a or b with jax.sharding.reshard.", "a", "b"),
    )
    return operands, Settled(b_tree, implementation, refusal, where)


def multiply(operands: tuple[jax.Array | None, ...], static: Settled, finish: Callable[..., Any]) -> Any:
    """Return ``finish(sums, *parameters)`` of the parameters after the two zero points, on every shard."""

    def part(a: Any, matrix: Any, za: Any, zb: Any, *rest: Any) -> Any:
        parameters = len(rest) - (static.b_tree.num_leaves - 1)
        b = jax.tree.unflatten(static.b_tree, (matrix, *rest[parameters:]))
        over = static.where.over[0]
        sums = integer_product.multiply((a, za), (b, zb), static.implementation, static.refusal, over)
        return finish(sums, *rest[:parameters])

    return on_shards(part, static.where, *operands)


def _with_rank(x: jax.Array, rank: int) -> jax.Array:
    return lax.expand_dims(x, range(rank - x.ndim))


def _labels(x: jax.Array | None, labels: Labels, sizes: Mapping[Hashable, int]) -> Labels:
    """Return the labels of an operand; None for a dimension that is broadcast to the result."""
    shape = () if x is None else x.shape
    each = zip(labels, shape, strict=False)
    return tuple(label if label == "K" or size == sizes[label] else None for label, size in each)
