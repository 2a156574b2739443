"""Multiply by a matrix and add a vector, and split the sum into heads, as attention does, or look it up in a table.

In 8 bits the product is rounded before the vector is added. Where matrices multiply the same rows they are packed as
one, and so is their product. On a GPU one more kernel adds the vectors and brings heads before rows, four numbers at
once. A sum and a table are one such kernel, too.
"""

from collections.abc import Callable, Mapping
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
from jaxdml._kernels.integer_product import PackedMatrix, product_on_gpu, stored_as_int8
from jaxdml._kernels.integer_sums import as_stored
from jaxdml._kernels.requantization import Terms, round_chain, round_terms
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
    result: jax.Array = at_lowering(form, (x, by), split, heads=heads)
    return result


def form(target: Target) -> Form:
    """Say who projects where a program is lowered for ``target``: XLA for CUDA if it multiplies int8 rightly."""
    serves = target.alone and target.tiled and target.platform == "cuda"
    return partial(_in_two_kernels, adds=target.adds) if serves else _otherwise


def _otherwise(operands: Any, otherwise: jax.Array, **_: Any) -> jax.Array:
    """Return what the operators compute one by one. In other forms nothing reads it, and XLA does not compute it."""
    del operands
    return otherwise


def _in_two_kernels(
    operands: tuple[jax.Array, Projection], otherwise: jax.Array, *, heads: int, adds: bool
) -> jax.Array:
    """Multiply by all matrices at once; then add the vectors, and move rows of heads. XLA computes that once for all.

    With both roundings the kernel of the product would have more operands than XLA takes into it.
    """
    x, by = operands
    stack: Projection = by.among or jax.tree.map(lambda array: array[None], by)
    matrix = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), stack.matrix)
    rows = stored_as_int8(x, None)[0].reshape(-1, x.shape[-1])
    rounded = _rounded(rows, matrix, adds)
    terms = Terms(stack.factor.reshape(1, -1), stack.terms.reshape(1, -1))
    in_words = rounded.size >= MIN_SIZE_OF_PARTS_IN_WORDS and by.shape[-1] % (heads * WORD) == 0
    if in_words:
        sums = _in_words(as_int8_words(rounded, None)[0], terms, bits_of)
    else:
        sums = round_terms(rounded, terms, dtype=jnp.int8, by_addition=True)
    own = sums.reshape(len(rows), len(stack.factor), heads, sums.shape[-1] // (len(stack.factor) * heads))[:, by.number]
    # An array of one dimension has only one layout: XLA would store the columns of heads as rows, as bfloat16.
    stored = lax.optimization_barrier(jnp.transpose(own, (1, 0, 2)).reshape(-1))  # type: ignore[no-untyped-call]
    sums = (int8_of_words(stored) if in_words else stored).reshape(otherwise.shape)
    return sums if otherwise.dtype == jnp.int8 else with_flipped_sign(sums, otherwise.dtype)


def _rounded(rows: jax.Array, matrix: PackedMatrix, adds: bool) -> jax.Array:
    """Return the products of int8 ``[M, K]`` and a matrix, int8 ``[M, N]``."""
    raw = product_on_gpu(rows, None, replace(matrix, chain=()), None, tiled=True)
    chain = jax.tree.map(lambda vector: vector.reshape(1, -1), matrix.chain)
    return round_chain(as_stored(raw, (len(rows), matrix.shape[-1])), chain, jnp.dtype("int8"), adds=adds)


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
    terms = Terms(found.terms.factor, np.broadcast_to(found.terms.terms, (*[1] * (rounded.ndim - 1), columns)))
    operands = rounded, terms, jnp.asarray(stored.view(np.uint8))
    result: jax.Array = at_lowering(form_of_table, operands, otherwise)
    return result


def form_of_table(target: Target) -> Form:
    """Say who looks up sums where a program is lowered for ``target``."""
    return _in_one_kernel if target.alone and target.platform == "cuda" else _otherwise


def _in_one_kernel(operands: tuple[jax.Array, Terms, jax.Array], otherwise: jax.Array) -> jax.Array:
    """Read and write four numbers at once. XLA has one kernel for it if it is one expression."""
    rounded, by, entries = operands
    words, _ = as_int8_words(as_int8(rounded, None)[0], None)  # As int8, which the product stores.

    def entry(added: jax.Array) -> jax.Array:
        found: jax.Array = entries.at[bits_of(added).astype(jnp.uint32)].get(mode="promise_in_bounds")
        return found

    stored = int8_of_words(_in_words(words, by, entry))
    return stored if otherwise.dtype == jnp.int8 else with_flipped_sign(stored, otherwise.dtype)


def _in_place(place: int, vector: Any) -> Any:
    """Return what belongs to one of the numbers of words, of a vector along the last dimension, or of one number."""
    return vector.reshape(*vector.shape[:-1], -1, WORD)[..., place] if vector.ndim else vector


def _in_words(words: jax.Array, by: Terms, then: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Return words of what ``then``, which returns uint8, makes of the rounded sums of four int8 in each word."""
    joined = jnp.zeros((), jnp.uint32)
    for place in range(WORD):
        terms = jax.tree.map(partial(_in_place, place), by)
        added = round_terms(words << (24 - 8 * place) >> 24, terms, dtype=jnp.int8, by_addition=True)
        joined = joined | then(added).astype(jnp.uint32) << 8 * place
    return lax.bitcast_convert_type(joined, jnp.int32)
