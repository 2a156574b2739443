"""Multiply floats by a packed matrix, by the method that its layout, the platform and the number of rows ask for."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._base.shapes import is_static
from jaxdml._kernels.block_product.packed_blocks import PackedBlocks
from jaxdml._placement.layout import on_explicit_axes
from jaxdml._placement.lowering import Form, Target, at_lowering

_FEW_ROWS = 8
"""Up to so many rows, adding up products takes less time than writing the floats and reading them: on an H100 and on an
AMD EPYC. ``benchmarks/results/block-products.json`` has the times."""

_BYTE, _MOST_BYTES = 8, 2**24
"""One row times a matrix of so many bytes reads it byte by byte: its elements lie as those of the row do, so XLA takes
what computes the row into the kernel. That is worth more than what words gain: on an H100 576 x 1536 took 3.0 µs as
bytes and 3.1 in words, 2048 x 8192 12.3 and 11.7. At 576 x 49152, 27.6 and 22.4, it is worth less."""

_LEAST_UNPACKED, _MOST_UNPACKED = {(2, 4): 2, (2, 8): 2, (4, 4): 4, (4, 8): 6}, {2: 128, 4: 256}
"""From how many rows on, by the bytes of a float and the bits, and up to how many, by the bytes alone, a product that
unpacks in its kernel takes less time than other forms: on an H200, most sizes."""

_OUTPUTS, _SHORTEST = 2**15, 256
"""Such a product is cut into sections of K: at most so many sums for each row, each of at least so many products."""

_ELEMENTS = {4: jnp.int4, _BYTE: jnp.int8}
"""By bits, the elements that XLA for CUDA converts in the kernel of a product."""


@jax.custom_jvp
def multiply(a: jax.Array, b: PackedBlocks) -> jax.Array:
    """Return the product of ``a``, ``[..., K]``, and the floats that ``b``, ``[K, N]``, stands for.

    It is added up in float32, and has the dtype of ``a``.
    """
    if on_explicit_axes(*jax.tree.leaves((a, b))):
        return by_dimensions(a, b)  # On Explicit axes no dimension that is sharded can be merged or taken apart.
    rows = math.prod(a.shape[:-1]) if is_static(*a.shape) else 0
    choose = partial(form, few=0 < rows <= _FEW_ROWS, by_columns=b.by_columns, unpacked=_is_unpacked(a, b, rows))
    product: jax.Array = at_lowering(choose, a, b)
    return product


@multiply.defjvp
def _(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[jax.Array, jax.Array]:
    (a, b), (tangent, _) = primals, tangents
    return multiply(a, b), by_dimensions(tangent, b)


def form(target: Target, *, few: bool, by_columns: bool, unpacked: bool) -> Form:
    """Say who serves where a program is lowered for ``target``: of few rows, and of columns of words, or of rows.

    ``unpacked`` tells whether a product may unpack the words in its kernel.
    """
    if not target.alone:
        return by_dimensions
    if target.platform == "cpu":
        return partial(
            _inside_of_loops, multiply=by_sums if by_columns and few else partial(by_floats, dtype=jnp.float32)
        )
    if target.platform == "cuda":
        if unpacked and target.unpacks:
            return partial(by_unpacking, precision=lax.DotAlgorithmPreset.TF32_TF32_F32_X3)
        return by_sums if few and not by_columns else partial(by_floats, alone=True)
    return by_floats


def _inside_of_loops(a: jax.Array, b: PackedBlocks, *, multiply: Form) -> jax.Array:
    """Multiply so that nothing is computed before a loop that contains the product.

    XLA for CPUs moves what does not change out of loops: before the first token it would unpack all matrices of a
    language model to floats, and each token would read these.
    """
    product: jax.Array = multiply(*lax.optimization_barrier((a, b)))  # type: ignore[no-untyped-call]
    return product


def by_sums(a: jax.Array, b: PackedBlocks) -> jax.Array:
    """Multiply the elements by each row of ``a``, and add up: no float of the matrix is written."""
    by_word = _in_words(a.astype(jnp.float32) if b.by_columns else a, b)
    rows = by_word.reshape(math.prod(a.shape[:-1]), *by_word.shape[-3:])
    result = jnp.stack([_sums_of_columns(row, b) for row in rows] if b.by_columns else _sums_of_rows(rows, b))
    return result.astype(a.dtype).reshape(*a.shape[:-1], b.shape[-1])


def _sums_of_rows(rows: jax.Array, b: PackedBlocks) -> list[jax.Array]:
    sizes = b.words.shape
    few_bytes = is_static(*sizes) and math.prod(sizes) * b.words.itemsize <= _MOST_BYTES
    if len(rows) == 1 and b.bits == _BYTE and b.is_signed and few_bytes:
        return [_sums_of_bytes(rows[0], b)]
    # First elements of all words, then second ones: neighbouring threads of a GPU read what is side by side.
    stored = jnp.moveaxis(rows, -1, 0)
    if len(rows) > 1 or rows.dtype.itemsize > 2:
        # Else XLA may compute the row anew for each column, and store all products.
        stored = lax.optimization_barrier(stored)  # type: ignore[no-untyped-call]
    wide = [field.astype(jnp.float32) for field in stored]
    differences, scale = b.differences(), b.along_words(b.scale)

    def summed(row: list[jax.Array]) -> jax.Array:
        products = [part * field[None] for field, part in zip(row, differences, strict=True)]
        return jnp.sum(sum(products[1:], products[0]) * scale, (-1, -2))

    return [summed([field[at] for field in wide]) for at in range(len(rows))]


def _sums_of_bytes(row: jax.Array, b: PackedBlocks) -> jax.Array:
    values = map(b.along_words, (b.stored_zero, b.scale))
    zero, scale = (value[..., None] if value.ndim else value for value in values)
    differences = lax.bitcast_convert_type(b.words, jnp.int8).astype(jnp.float32) - zero
    return jnp.sum(row.astype(jnp.float32)[None] * differences * scale, (-1, -2, -3))


def _sums_of_columns(row: jax.Array, b: PackedBlocks) -> jax.Array:
    """Add up words first: what stands for 0, and the scale, are then applied once for each."""
    products = [part * row[..., i, None] for i, part in enumerate(b.fields())]
    scale, total = b.along_words(b.scale), jnp.sum(row, 2)[..., None]
    # XLA for CPUs hands the sum to its fast routine if the last operation before it is an addition, not a product.
    sums = sum(products[1:], products[0]) * scale + scale * (-b.along_words(b.stored_zero) * total)
    return jnp.sum(sums, (0, 1))


def by_floats(a: jax.Array, b: PackedBlocks, dtype: Any = None, *, alone: bool = False) -> jax.Array:
    """Multiply by the matrix as floats of a dtype; None for that of ``a``.

    XLA merges products with the same ``a`` unless each is ``alone``. For CUDA it then copies the floats once more.
    """
    wanted = dtype or a.dtype
    n, length = b.shape[-1], math.prod(b.words.shape[d] for d in (b.order.blocks, b.order.words))
    shape = (length, n) if b.by_columns else (n, length)
    # In the order in which they come out of words; the few rows of ``a`` are brought to it.
    parts = [part.astype(wanted).reshape(shape) for part in b.floats()]
    matrix = jnp.concatenate(parts, 0 if b.by_columns else 1)
    rows = jnp.moveaxis(_in_words(a.astype(wanted), b), -1, -3).reshape(*a.shape[:-1], length * len(parts))
    if alone:
        rows, matrix = lax.optimization_barrier((rows, matrix))  # type: ignore[no-untyped-call]
    return _dot(rows, matrix, (rows.ndim - 1,), (0 if b.by_columns else 1,)).astype(a.dtype)


def _is_unpacked(a: jax.Array, b: PackedBlocks, rows: int) -> bool:
    """Whether ``by_unpacking`` serves in programs with the options for blocks: it is right, and the fastest form.

    XLA takes no conversion of scales in, and no subtraction in loops. Zero points that are multiplied apart would make
    NaN of infinities.
    """
    if b.bits not in _ELEMENTS or b.by_columns or not b.is_signed or b.has_zeros or b.scale.dtype != a.dtype:
        return False
    return _LEAST_UNPACKED[a.dtype.itemsize, b.bits] <= rows <= _MOST_UNPACKED[a.dtype.itemsize]


def by_unpacking(a: jax.Array, b: PackedBlocks, *, precision: Any = lax.Precision.HIGHEST) -> jax.Array:
    """Multiply by elements that become floats of the dtype of ``a`` in the kernel of the product.

    ``b`` has no zero points. ``precision`` is that of a product of float32.
    """
    n, blocks, _ = b.words.shape
    count = _sections(n, blocks, b.block_size)
    sections = count, blocks // count, b.block_size
    elements = lax.bitcast_convert_type(b.words, _ELEMENTS[b.bits]).reshape(n, *sections)
    sums = lax.dot_general(
        _whole_blocks(a, b).reshape(math.prod(a.shape[:-1]), *sections),
        elements.astype(a.dtype) * b.scale.reshape(n, *sections[:2], 1),
        (((2, 3), (2, 3)), ((1,), (1,))),
        # Said for the others, too: else the default of the caller would hold.
        precision=precision if a.dtype == jnp.float32 else lax.Precision.DEFAULT,
        preferred_element_type=jnp.float32,
    )
    return jnp.sum(sums, 0).astype(a.dtype).reshape(*a.shape[:-1], n)


def _sections(n: int, blocks: int, block_size: int) -> int:
    """Return into how many sections blocks of ``n`` columns are cut, so that a GPU is busy: a divisor of ``blocks``."""
    most = max(min(_OUTPUTS // max(n, 1), blocks * block_size // _SHORTEST), 1)
    return max(count for count in range(1, most + 1) if blocks % count == 0)


def by_dimensions(a: jax.Array, b: PackedBlocks) -> jax.Array:
    """Multiply by the matrix as floats without merging any dimension, so that each may be sharded."""
    matrix = jnp.stack(b.floats()).astype(a.dtype)
    rows, order = _in_words(a, b), b.order
    contracted = 0, matrix.ndim + order.blocks, matrix.ndim + order.words
    return _dot(rows, matrix, (rows.ndim - 1, rows.ndim - 3, rows.ndim - 2), contracted).astype(a.dtype)


def _in_words(a: jax.Array, b: PackedBlocks) -> jax.Array:
    """Return ``[..., K]`` as ``[..., blocks, words, elements of a word]``, with zeros where the last block has none."""
    blocks, words = (b.words.shape[d] for d in (b.order.blocks, b.order.words))
    return _whole_blocks(a, b).reshape(*a.shape[:-1], blocks, words, b.block_size // words)


def _whole_blocks(a: jax.Array, b: PackedBlocks) -> jax.Array:
    """Return ``[..., K]`` with zeros at the end that fill the last block."""
    missing = b.words.shape[b.order.blocks] * b.block_size - a.shape[-1]
    return jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, missing)]) if missing else a


def _dot(a: jax.Array, b: jax.Array, of_a: tuple[int, ...], of_b: tuple[int, ...]) -> jax.Array:
    return lax.dot_general(
        a, b, ((of_a, of_b), ((), ())), precision=lax.Precision.HIGHEST, preferred_element_type=jnp.float32
    )
