"""Check the matrices of a product, and multiply them on every shard, before an operator finishes the sums."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxdml._arguments import packing, quantized, rounding
from jaxdml._arguments.call import Call
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.shapes import Shape, broadcast, is_static
from jaxdml._kernels import integer_product
from jaxdml._kernels.integer_product import METHODS, PackedMatrix, Right, longest
from jaxdml._placement.layout import Labels, Names, axis_size, layout, run
from jaxdml._placement.lowering import Forced


class Matrices(NamedTuple):
    """Hold both matrices of a call."""

    a: jax.Array
    b: Right
    names: Names
    """The mesh axes that K is sharded over in the caller's ``jax.shard_map``."""
    batch: Shape

    def along(self, tensor: str) -> quantized.Along:
        """Return where a parameter of ``"a"``, of ``"b"`` or of ``"output"`` may have several values."""
        if tensor == "b":
            return quantized.Along((*self.batch, 1, self.b.shape[-1]), "column", tensor)
        named = "the output" if tensor == "output" else tensor
        return quantized.Along((*self.batch, self.a.shape[-2], 1), "row", named)


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


def scales(call: Call, given: Matrices, *tensors: str) -> dict[str, jax.Array]:
    """Return the scales of some of the tensors ``"a"``, ``"b"`` and ``"output"``, by name."""
    dtype = np.dtype(np.float32)
    return {f"{of}_scale": quantized.parameter(call, f"{of}_scale", dtype, given.along(of)) for of in tensors}


def zero_points(call: Call, given: Matrices, **outputs: Any) -> list[jax.Array | None]:
    """Return the zero points of ``a``, of ``b`` and of ``output``, if its dtype is given; None stays None."""
    dtypes = {"a": given.a.dtype, "b": given.b.dtype, **outputs}
    return [integers(call, f"{of}_zero_point", dtype, given.along(of)) for of, dtype in dtypes.items()]


def integers(call: Call, name: str, dtype: Any, along: quantized.Along) -> jax.Array | None:
    """Return a zero point or a bias; None stays None."""
    return None if call.operands.get(name) is None else quantized.parameter(call, name, np.dtype(dtype), along)


def greatest_sum(call: Call, given: Matrices) -> int:
    """Bound the sums of a call with its bias by what is known of its zero points and its bias."""
    depth = given.a.shape[-1] * axis_size(given.names)
    operands = ((x.dtype, call.known(f"{name}_zero_point", x.dtype)) for name, x in (("a", given.a), ("b", given.b)))
    return integer_product.greatest_sum(depth, *operands) + rounding.magnitude(call, "bias")


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
    return finish(integer_product.multiply((a, za), (b, zb), forced, over[0]), *parameters, **static)


def _with_rank(x: jax.Array, rank: int) -> jax.Array:
    return lax.expand_dims(x, range(rank - x.ndim))


def _labels(x: jax.Array | None, labels: Labels, sizes: Mapping[Hashable, int]) -> Labels:
    """Return the labels of an operand; None for a dimension that is broadcast to the result."""
    shape = () if x is None else x.shape
    each = zip(labels, shape, strict=False)
    return tuple(label if label == "K" or size == sizes[label] else None for label, size in each)
