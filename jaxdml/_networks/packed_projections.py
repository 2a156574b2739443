"""Hold matrices with what rounds the sum of their products and a vector; several that multiply the same rows as one."""

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jaxdml._arguments.chains import digest
from jaxdml._base.dtypes import QUANTIZED
from jaxdml._kernels.integer_product import ALIGNMENT, PackedMatrix
from jaxdml._kernels.requantization import Terms, proved_terms
from jaxdml._placement.from_host import from_host


class Sum(NamedTuple):
    """Hold the arguments of ``quantized_linear_add`` whose ``a`` is a product: NumPy arrays, or None if not known."""

    a_scale: Any
    a_zero_point: Any
    b: Any
    """int8 or uint8 ``[N]``."""
    b_scale: Any
    b_zero_point: Any
    output_scale: Any
    output_zero_point: Any

    @property
    def dtype(self) -> Any:
        """The dtype of the sum."""
        return self.output_zero_point.dtype


class _OfMatrix:
    """What has the shape and the dtype of a packed matrix, or of a stack of such."""

    matrix: PackedMatrix

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix."""
        return self.matrix.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions of the matrix."""
        return self.matrix.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the matrix."""
        return self.matrix.dtype


_FIELDS = ["matrix", "factor", "terms", "among"]


@partial(jax.tree_util.register_dataclass, data_fields=_FIELDS, meta_fields=["of", "number"])
@dataclass(frozen=True, eq=False)
class Projection(_OfMatrix):
    """Hold a packed matrix with a chain, and what rounds the sum of its products and a vector; a pytree.

    Attributes:
      matrix: ``[K, N]``.
      factor: of the product, float32 ``[N]``, the same number for all columns. XLA takes vectors into the kernel. This
        and the next are () if the sum is not split into heads: nothing would read them.
      terms: of the vector and the zero point of the sum, float32 ``[N]``. XLA takes eight operands into the kernel.
      of: a digest of the sum's parameters. Static.
      among: the stack of projections of which it is one, as in ``Projections``; or ``()``.
      number: its place in that. Static.
    """

    matrix: PackedMatrix
    factor: Any
    terms: Any
    of: str
    among: Any = ()
    number: int = 0


@partial(jax.tree_util.register_dataclass, data_fields=["stacked"], meta_fields=["names", "digests"])
@dataclass(frozen=True, eq=False)
class Projections(_OfMatrix):
    """Hold projections that multiply the same rows; a pytree.

    Attributes:
      stacked: a projection whose arrays have one more dimension, the first: the projections.
      names: of each. Static.
      digests: of each, ``(Projection.of, Chain.of)``. Static.
    """

    stacked: Projection
    names: tuple[str, ...]
    digests: tuple[tuple[str, str], ...]

    @property
    def matrix(self) -> PackedMatrix:  # type: ignore[override]
        """The matrices, ``[projections, K, N]``."""
        return self.stacked.matrix

    def by_name(self) -> dict[str, Projection]:
        """Return each of them, which says where it is ``among`` all."""
        found = {}
        for number, (name, (of, of_chain)) in enumerate(zip(self.names, self.digests, strict=True)):
            one = jax.tree.map(lambda array, number=number: array[number], self.stacked)
            matrix = replace(one.matrix, chain=replace(one.matrix.chain, of=of_chain))
            found[name] = replace(one, matrix=matrix, of=of, among=self.stacked, number=number)
        return found


def _in_tuples(given: Any) -> Any:
    """Return lists, as JSON has them, as tuples."""
    return tuple(map(_in_tuples, given)) if isinstance(given, list) else given


for _record in (Projection, Projections):
    export.register_pytree_node_serialization(
        _record,
        serialized_name=f"jaxdml.{_record.__name__}",
        serialize_auxdata=lambda static: json.dumps(static).encode(),
        deserialize_auxdata=lambda text: _in_tuples(json.loads(text.decode())),
    )


def likeness(projection: Projection) -> Hashable:
    """Return what is equal for projections that may be stacked."""
    leaves = tuple((array.shape, array.dtype) for array in jax.tree.leaves(projection))
    return leaves, projection.dtype, projection.matrix.chain.at_once


def joined(projections: Mapping[str, Projection]) -> Projections:
    """Return projections that multiply the same rows, and are alike, as one."""
    digests = tuple((each.of, each.matrix.chain.of) for each in projections.values())
    bounds = [each.matrix.bound for each in projections.values()]
    bound = max(bounds) if all(bounds) else 0
    alike = [
        replace(each, of="", matrix=replace(each.matrix, bound=bound, chain=replace(each.matrix.chain, of="")))
        for each in projections.values()
    ]
    return Projections(jax.tree.map(lambda *arrays: jnp.stack(arrays), *alike), tuple(projections), digests)


def with_sum(matrix: PackedMatrix, added: Sum, *, by_heads: bool) -> PackedMatrix | Projection:
    """Return a packed matrix with what rounds the sum after its products, if it has a chain and sums can be so rounded.

    Args:
      matrix: ``[K, N]``.
      added: the parameters of the sum.
      by_heads: whether the sum is split into heads.
    """
    depth, columns = matrix.shape
    # Matrices with another K are padded in each call.
    found = proved(added) if matrix.chain and depth % ALIGNMENT == 0 else None
    if found is None or found.terms.terms.size not in (1, columns):
        return matrix
    if not by_heads:
        return Projection(matrix, (), (), of=found.of)
    factor, terms = (np.broadcast_to(each, columns) for each in (found.terms.factor, found.terms.terms))
    return from_host(Projection(matrix, factor, terms, of=found.of))


class Proved(NamedTuple):
    """Hold what rounds a sum, as NumPy arrays."""

    terms: Terms
    of: str
    """A digest of the parameters."""


def proved(added: Sum) -> Proved | None:
    """Return what rounds a sum, or None if its parameters are not known, or nothing is proved to round it."""
    known = facts(added)
    if known is None:
        return None
    scales, zero_points, vector = known[:3], known[3:6], known[6]
    dtypes = [zero.dtype for zero in zero_points]
    found = proved_terms([each.item() for each in scales], [each.item() for each in zero_points], dtypes, vector)
    return None if found is None else Proved(found, digest(known))


def facts(added: Sum) -> list[np.ndarray[Any, Any]] | None:
    """Return three scales, three zero points and the vector as they are digested; None if they are none of this."""
    if not all(isinstance(each, np.ndarray) for each in added):
        return None
    scales = [added.a_scale, added.b_scale, added.output_scale]
    zeros = [added.a_zero_point, added.b_zero_point, added.output_zero_point]
    if any(each.size != 1 for each in (*scales, *zeros)) or any(str(each.dtype) not in QUANTIZED for each in zeros):
        return None
    if added.b.ndim != 1 or added.b.dtype != zeros[1].dtype:
        return None
    return [*(each.astype(np.float32).reshape(1) for each in scales), *(each.reshape(1) for each in zeros), added.b]
