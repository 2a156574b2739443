"""Multiply by a matrix and add a vector, and split the sum into heads, as attention does, or look it up in a table.

In 8 bits the product is rounded before the vector is added. On a GPU product, sum and split are one kernel: heads are a
batch dimension of the product, whose left matrix is the same for all. Else the sums are read and written again, byte by
byte, to bring heads before rows. Where matrices multiply the same rows they are packed as one, and so is their product:
then one more kernel, which moves four numbers at once, takes less time. A sum and a table are one kernel that reads
four numbers at once.
"""

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxdml._arguments.call import Call
from jaxdml._arguments.chains import digest, is_for
from jaxdml._arithmetic.bits import bits_of, with_flipped_sign
from jaxdml._arithmetic.signedness import WORD, as_int8, as_int8_words, int8_of_words
from jaxdml._base.dtypes import QUANTIZED
from jaxdml._base.shapes import is_static
from jaxdml._kernels.integer_product import PackedMatrix, product_on_gpu
from jaxdml._kernels.integer_sums import as_stored
from jaxdml._kernels.requantization import Terms, proved_terms, round_chain_and_sum, round_terms
from jaxdml._networks.lookup import entries_of, of_int8
from jaxdml._networks.reordering import reordered
from jaxdml._operators.quantized_linear_add import quantized_linear_add
from jaxdml._operators.quantized_linear_matrix_multiply import quantized_linear_matrix_multiply
from jaxdml._placement.from_host import from_host
from jaxdml._placement.layout import on_explicit_axes
from jaxdml._placement.lowering import Form, Target, at_lowering

MIN_SIZE_IN_WORDS = 2**21
"""With fewer sums XLA may split K. The next kernel then adds up the parts, too, but not if it reads words."""

MIN_SIZE_OF_PARTS_IN_WORDS = 2**19
"""The same for products that are one: XLA splits K of fewer rows only."""

_ALIGNMENT = 16
"""K must be a multiple of so many bytes: other matrices are padded in each call."""


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


_FIELDS = ["matrix", "factor", "terms", "offset", "among"]


@partial(jax.tree_util.register_dataclass, data_fields=_FIELDS, meta_fields=["of"])
@dataclass(frozen=True, eq=False)
class Projection:
    """Hold a packed matrix with a chain, and what rounds the sum of its products and a vector; a pytree.

    Attributes:
      matrix: ``[K, N]``.
      factor: of the product, float32 ``[N]``, the same number for all columns. XLA takes vectors into the kernel. This
        and the next two are () if the sum is not split into heads: nothing would read them.
      terms: of the vector, float32 ``[N]``.
      offset: float32 ``[N]``, the zero point of the sum, less 128 if that is uint8.
      of: a digest of the sum's parameters. Static.
      among: the ``Place`` of one of ``Projections``, or ``()``.
    """

    matrix: PackedMatrix
    factor: Any
    terms: Any
    offset: Any
    of: str
    among: Any = ()

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


export.register_pytree_node_serialization(
    Projection,
    serialized_name="jaxdml.Projection",
    serialize_auxdata=lambda static: static[0].encode(),
    deserialize_auxdata=lambda text: (text.decode(),),
)


@partial(jax.tree_util.register_dataclass, data_fields=["stacked"], meta_fields=["names", "digests"])
@dataclass(frozen=True, eq=False)
class Projections:
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
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrices, ``[projections, K, N]``."""
        return self.stacked.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions of that."""
        return self.stacked.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the matrices."""
        return self.stacked.dtype

    def by_name(self) -> dict[str, Projection]:
        """Return each of them, with its ``Place`` among all."""
        found = {}
        for number, (name, (of, of_chain)) in enumerate(zip(self.names, self.digests, strict=True)):
            one = jax.tree.map(lambda array, number=number: array[number], self.stacked)
            matrix = replace(one.matrix, chain=replace(one.matrix.chain, of=of_chain))
            found[name] = replace(one, matrix=matrix, of=of, among=Place(self.stacked, number))
        return found


@partial(jax.tree_util.register_dataclass, data_fields=["stacked"], meta_fields=["number"])
@dataclass(frozen=True, eq=False)
class Place:
    """Say which of stacked projections one is; a pytree.

    Attributes:
      stacked: as in ``Projections``.
      number: counted from 0. Static.
    """

    stacked: Projection
    number: int


export.register_pytree_node_serialization(
    Projections,
    serialized_name="jaxdml.Projections",
    serialize_auxdata=lambda static: json.dumps(static).encode(),
    deserialize_auxdata=lambda text: _static(*json.loads(text.decode())),
)


def _static(names: list[str], digests: list[list[str]]) -> tuple[Any, ...]:
    return tuple(names), tuple((of, of_chain) for of, of_chain in digests)


def likeness(projection: Projection) -> Hashable:
    """Return what is equal for projections that may be stacked."""
    return tuple((array.shape, array.dtype) for array in jax.tree.leaves(projection)), projection.dtype


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


class Product(NamedTuple):
    """Hold a product by the matrix of a projection, or the sum that follows it, before it is computed."""

    x: jax.Array
    """int8 or uint8 ``[..., M, K]``."""

    by: Projection

    parameters: Mapping[str, Any]
    """Those of ``quantized_linear_matrix_multiply`` beside ``a`` and ``b``, by name."""

    added: Sum | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """``[..., M, N]``."""
        return (*self.x.shape[:-1], self.by.matrix.shape[-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """int8 or uint8."""
        dtype: np.dtype[Any] = self.parameters["output_dtype"] if self.added is None else self.added.dtype
        return dtype


def with_sum(matrix: PackedMatrix, added: Sum, *, by_heads: bool) -> PackedMatrix | Projection:
    """Return a packed matrix with what rounds the sum after its products, if it has a chain and sums can be so rounded.

    Args:
      matrix: ``[K, N]``.
      added: the parameters of the sum.
      by_heads: whether the sum is split into heads.
    """
    depth, columns = matrix.shape
    found = _proved(added) if matrix.chain and depth % _ALIGNMENT == 0 else None
    if found is None or found.terms.terms.size not in (1, columns):
        return matrix
    if not by_heads:
        return Projection(matrix, (), (), (), of=found.of)
    vectors = found.terms.factor, found.terms.terms, np.float32(found.offset)
    factor, terms, offset = (np.broadcast_to(each, columns) for each in vectors)
    return from_host(Projection(matrix, factor, terms, offset, of=found.of))


class _Proved(NamedTuple):
    """Hold what rounds a sum, as NumPy arrays."""

    terms: Terms

    offset: int
    """The zero point of the sum, less 128 if that is uint8."""

    of: str
    """A digest of the parameters."""


def _proved(added: Sum) -> _Proved | None:
    facts = _facts(added)
    if facts is None:
        return None
    scales, zero_points, known = facts[:3], facts[3:6], facts[6]
    dtypes = [zero.dtype for zero in zero_points]
    found = proved_terms(
        [each.item() for each in scales], [each.item() for each in zero_points], dtypes, known, stored=True
    )
    offset = zero_points[2].item() - (128 if dtypes[2] == np.uint8 else 0)
    return None if found is None else _Proved(found, offset, digest(facts))


def _facts(added: Sum) -> list[np.ndarray[Any, Any]] | None:
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


def is_packed_with(product: Product, added: Sum) -> bool:
    """Say whether the matrix of a product is packed for this sum after it."""
    facts = _facts(added)
    return facts is not None and product.added is None and digest(facts) == product.by.of


def whole(product: Product) -> jax.Array:
    """Return ``[..., M, N]``."""
    rounded = quantized_linear_matrix_multiply(product.x, b=product.by.matrix, **product.parameters)
    return rounded if product.added is None else quantized_linear_add(rounded, **product.added._asdict())


def by_heads(product: Product, heads: int) -> jax.Array:
    """Return ``[heads, ..., M, N / heads]``."""
    x, by, rank = product.x, product.by, product.x.ndim
    sizes = *x.shape[:-1], heads, product.shape[-1] // heads
    split = reordered(whole(product).reshape(sizes), (rank - 1, *range(rank - 1), rank))
    call = Call("quantized_linear_matrix_multiply", **product.parameters)
    has_vectors = not isinstance(by.factor, tuple)
    packed = (
        has_vectors
        and product.added is not None
        and is_for(call, ("a", "b"), x.dtype, by.matrix, call.operands["output_dtype"])
    )
    if not packed or not is_static(*x.shape) or on_explicit_axes(x):
        return split
    result: jax.Array = at_lowering(partial(form, together=bool(by.among)), (x, by), split, heads=heads)
    return result


def form(target: Target, *, together: bool = False) -> Form:
    """Say who projects where a program is lowered for ``target``.

    It is one kernel where XLA for CUDA multiplies int8 rightly for every K, or two for all that are packed together.
    """
    if not (target.alone and target.tiled and target.platform == "cuda"):
        return _otherwise
    return _together if together else _in_one_kernel


def _otherwise(operands: Any, otherwise: jax.Array, **_: Any) -> jax.Array:
    """Return what the operators compute one by one. In other forms nothing reads it, and XLA does not compute it."""
    del operands
    return otherwise


def _in_one_kernel(operands: tuple[jax.Array, Projection], otherwise: jax.Array, *, heads: int) -> jax.Array:
    """Multiply with heads as a batch dimension."""
    x, by = operands
    rows, _ = as_int8(x.reshape(-1, x.shape[-1]), None)
    matrix, sums = by.matrix.matrix, by.matrix.sums
    columns = sums.size // heads
    packed = replace(by.matrix, matrix=matrix.reshape(heads, columns, -1), sums=sums.reshape(heads, columns), chain=())
    repeated = jnp.broadcast_to(rows, (heads, *rows.shape))
    raw = product_on_gpu(repeated, None, packed, None, tiled=True)
    vectors = by.matrix.chain, Terms(by.factor, by.terms), by.offset
    chain, terms, offset = jax.tree.map(lambda vector: vector.reshape(heads, 1, -1), vectors)
    total = as_stored(raw, (heads, rows.shape[0], columns))
    return round_chain_and_sum(total, chain, terms, offset, otherwise.dtype).reshape(otherwise.shape)


def _together(operands: tuple[jax.Array, Projection], otherwise: jax.Array, *, heads: int) -> jax.Array:
    """Multiply by all matrices at once, and move rows of heads. XLA computes that once for all projections."""
    x, by = operands
    stacked: Projection = by.among.stacked
    rows, _ = as_int8(x.reshape(-1, x.shape[-1]), None)
    count, columns = stacked.factor.shape
    flat = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), stacked)
    raw = product_on_gpu(rows, None, replace(flat.matrix, chain=()), None, tiled=True)
    total = as_stored(raw, (rows.shape[0], count * columns))
    vectors = flat.matrix.chain, Terms(flat.factor, flat.terms), flat.offset
    chain, terms, offset = jax.tree.map(lambda vector: vector[None], vectors)
    stored = round_chain_and_sum(total, chain, terms, offset, jnp.dtype("int8"))
    split = stored.reshape(-1, count, heads, columns // heads)
    if total.size >= MIN_SIZE_OF_PARTS_IN_WORDS and split.shape[-1] % WORD == 0:
        words = jnp.transpose(as_int8_words(split, None)[0], (1, 2, 0, 3))
        own = int8_of_words(lax.optimization_barrier(words)[by.among.number])  # type: ignore[no-untyped-call]
    else:
        own = jnp.transpose(split, (1, 2, 0, 3))[by.among.number]
        # An array of one dimension has only one layout: XLA would store the columns of heads as rows, as bfloat16.
        own = lax.optimization_barrier(own.reshape(-1))  # type: ignore[no-untyped-call]
    own = own.reshape(otherwise.shape)
    return own if otherwise.dtype == jnp.int8 else with_flipped_sign(own, otherwise.dtype)


def looked_up(product: Product, entries: np.ndarray[Any, Any]) -> jax.Array:
    """Return the entries of a table for the sum, ``[..., M, N]``.

    Args:
      product: with the sum.
      entries: int8 or uint8 ``[256]``, indexed by the bits of the sum.
    """
    otherwise, found = entries_of(entries, whole(product)), product.added and _proved(product.added)
    size, columns = otherwise.size, product.shape[-1]
    in_words = is_static(size) and size >= MIN_SIZE_IN_WORDS and columns % WORD == 0
    if not found or not in_words or on_explicit_axes(otherwise):
        return otherwise
    rounded = whole(product._replace(added=None))
    stored = of_int8(entries, product.dtype)
    terms = Terms(found.terms.factor, np.broadcast_to(found.terms.terms, columns))
    operands = rounded, terms, np.int8(found.offset), jnp.asarray(stored.view(np.uint8))
    result: jax.Array = at_lowering(form_of_table, operands, otherwise)
    return result


def form_of_table(target: Target) -> Form:
    """Say who looks up sums where a program is lowered for ``target``."""
    return _in_words if target.alone and target.platform == "cuda" else _otherwise


def _in_words(operands: tuple[jax.Array, Terms, jax.Array, jax.Array], otherwise: jax.Array) -> jax.Array:
    """Read and write four numbers at once. XLA has one kernel for it if it is one expression."""
    rounded, by, offset, entries = operands
    words, _ = as_int8_words(as_int8(rounded, None)[0], None)  # As int8, which the product stores.
    joined = jnp.zeros((), jnp.uint32)
    for place in range(WORD):
        terms = Terms(by.factor, by.terms.reshape(-1, WORD)[:, place])
        number = words << (24 - 8 * place) >> 24
        added = round_terms(number, terms, offset, dtype=jnp.int8, by_addition=True)
        entry = entries.at[bits_of(added).astype(jnp.uint32)].get(mode="promise_in_bounds")
        joined = joined | entry.astype(jnp.uint32) << 8 * place
    stored = int8_of_words(lax.bitcast_convert_type(joined, jnp.int32))
    return stored if otherwise.dtype == jnp.int8 else with_flipped_sign(stored, otherwise.dtype)
