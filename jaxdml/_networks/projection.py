"""Multiply by a matrix and add a vector, and split the sum into heads, as attention does, or look it up in a table.

In 8 bits the product is rounded before the vector is added. On a GPU product, sum and split are one kernel: heads are a
batch dimension of the product, whose left matrix is the same for all. Else the sums are read and written again, byte by
byte, to bring heads before rows. Where matrices multiply the same rows they are packed as one, and so is their product:
then one more kernel, which moves four numbers at once, takes less time. A sum and a table are one kernel that reads
four numbers at once.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arguments.call import Call
from jaxdml._arguments.chains import digest, is_for
from jaxdml._arithmetic.bits import bits_of, with_flipped_sign
from jaxdml._arithmetic.signedness import WORD, as_int8, as_int8_words, int8_of_words
from jaxdml._base.shapes import is_static
from jaxdml._kernels.integer_product import product_on_gpu
from jaxdml._kernels.integer_sums import as_stored
from jaxdml._kernels.requantization import Terms, round_chain_and_sum, round_terms
from jaxdml._networks.lookup import entries_of, of_int8
from jaxdml._networks.packed_projections import Projection, Sum, facts, proved
from jaxdml._networks.reordering import reordered
from jaxdml._operators.quantized_linear_add import quantized_linear_add
from jaxdml._operators.quantized_linear_matrix_multiply import quantized_linear_matrix_multiply
from jaxdml._placement.layout import on_explicit_axes
from jaxdml._placement.lowering import Form, Target, at_lowering

MIN_SIZE_IN_WORDS = 2**21
"""With fewer sums K may be cut. The next kernel then adds up the sections, too, but not if it reads words."""

MIN_SIZE_OF_PARTS_IN_WORDS = 2**19
"""The same for products that are one: K is cut of fewer rows only."""


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


def is_packed_with(product: Product, added: Sum) -> bool:
    """Say whether the matrix of a product is packed for this sum after it."""
    found = facts(added)
    return found is not None and product.added is None and digest(found) == product.by.of


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
    of_heads = jax.tree.map(lambda array: array.reshape(heads, -1, *array.shape[1:]), replace(by, among=()))
    return _sums(jnp.broadcast_to(rows, (heads, *rows.shape)), of_heads, otherwise.dtype).reshape(otherwise.shape)


def _together(operands: tuple[jax.Array, Projection], otherwise: jax.Array, *, heads: int) -> jax.Array:
    """Multiply by all matrices at once, and move rows of heads. XLA computes that once for all projections."""
    x, by = operands
    rows, _ = as_int8(x.reshape(-1, x.shape[-1]), None)
    count, columns = by.among.factor.shape
    all_columns = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), by.among)
    split = _sums(rows, all_columns, jnp.dtype("int8")).reshape(-1, count, heads, columns // heads)
    if split.size >= MIN_SIZE_OF_PARTS_IN_WORDS and split.shape[-1] % WORD == 0:
        words = jnp.transpose(as_int8_words(split, None)[0], (1, 2, 0, 3))
        own = int8_of_words(lax.optimization_barrier(words)[by.number])  # type: ignore[no-untyped-call]
    else:
        own = jnp.transpose(split, (1, 2, 0, 3))[by.number]
        # An array of one dimension has only one layout: XLA would store the columns of heads as rows, as bfloat16.
        own = lax.optimization_barrier(own.reshape(-1))  # type: ignore[no-untyped-call]
    own = own.reshape(otherwise.shape)
    return own if otherwise.dtype == jnp.int8 else with_flipped_sign(own, otherwise.dtype)


def _sums(rows: jax.Array, by: Projection, dtype: Any) -> jax.Array:
    """Return rounded sums of int8 rows ``[..., M, K]`` and a projection, whose arrays have the same batch first."""
    raw = product_on_gpu(rows, None, replace(by.matrix, chain=()), None, tiled=True)
    vectors = by.matrix.chain, Terms(by.factor, by.terms), by.offset
    chain, terms, offset = jax.tree.map(lambda vector: jnp.expand_dims(vector, -2), vectors)
    total = as_stored(raw, (*rows.shape[:-1], by.shape[-1]))
    return round_chain_and_sum(total, chain, terms, offset, dtype)


def looked_up(product: Product, entries: np.ndarray[Any, Any]) -> jax.Array:
    """Return the entries of a table for the sum, ``[..., M, N]``.

    Args:
      product: with the sum.
      entries: int8 or uint8 ``[256]``, indexed by the bits of the sum.
    """
    otherwise, found = entries_of(entries, whole(product)), product.added and proved(product.added)
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
