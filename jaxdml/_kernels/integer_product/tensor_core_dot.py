"""Multiply as ``integer_dot`` does, with the operands stored as tensor cores read them.

Tensor cores read both operands along K, in rows that begin at aligned addresses. XLA's GPU backend stores operands
that way by itself, but its GPU kernels for it take longer than the product. Or it stores one operand in another order,
and then chooses a slow product.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._base.shapes import is_static
from jaxdml._kernels.integer_product.cutting import WHOLE, Cut
from jaxdml._kernels.integer_product.operands import ALIGNMENT, greatest_factor, row_count, with_merged_rows
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, Right, column_sums, matrix_of
from jaxdml._kernels.integer_sums import RawProduct, with_corrections

_GREATEST_FLOAT_SUM = 2**24
LONGEST_FLOAT_SUM, GREATEST_FLOAT_BOUND = _GREATEST_FLOAT_SUM // 128**2, _GREATEST_FLOAT_SUM // 128
"""The greatest K whose sums of int8 products are at most 2**24: float32 holds every integer up to that. It also holds
the sums of int8 times weights of which no column has magnitudes that add up to more than the second number."""

_LEAST_OF_BFLOAT16 = 256
"""How many elements ``a`` and ``b`` must have together, without batch dimensions, to be multiplied as bfloat16.

XLA's GPU backend calls no matrix product for fewer elements than ``xla_gpu_gemm_rewrite_size_threshold``, which is 100.
It multiplies them one by one. For some orders of their dimensions it then rounds each product to bfloat16. From 100 to
256 is a margin, which costs no time."""

_TILE, _DEPTH_OF_TILE, _LEAST_IN_TILE = 128, 32, 2**19
"""XLA's GPU backend splits K where outputs are few: about fewer tiles of so many rows and columns than K has parts of
the second number, and as many products in each as the third. It splits in a power of two of multiples of 16, mostly
eight, and pads both matrices to that."""

_MOST_IN_SECTIONS, _LEAST_DEPTH_TO_COLUMNS = 2**20, 4
"""Larger matrices take most of the time to be read, however K is split. Where XLA pads nothing, K must also be so many
times N: it joins products that share their input, and mostly those are wide."""

_LONG_SECTIONS, _SHORT_SECTIONS = (256, 384), (64, 48, 32)
"""How long the sections of K are, in the order of preference: where XLA pads nothing, and where it does."""


def float_dot(a: jax.Array, b: jax.Array, by_columns: bool = False, devices: int = 1) -> jax.Array:
    """Multiply as bfloat16, which holds every int8 number, summed in float32, which holds every sum: nothing rounds.

    The sums stay float32: a GPU converts numbers more slowly than it adds them. Small matrices are multiplied as
    float32, which holds every product too. ``devices`` is how many may divide the matrices between them. K must be at
    most ``LONGEST_FLOAT_SUM``.
    """
    sizes = *a.shape[-2:], b.shape[-2 if by_columns else -1]
    rows, depth, columns = (size if is_static(size) else 1 for size in sizes)
    small = (rows + columns) * depth < devices * _LEAST_OF_BFLOAT16
    precision, dtype = ("highest", jnp.float32) if small else (None, jnp.bfloat16)
    multiply = partial(jnp.einsum, "...mk,...nk->...mn") if by_columns else jnp.matmul
    return multiply(a.astype(dtype), b.astype(dtype), precision=precision, preferred_element_type=jnp.float32)


def bfloat16_dot(a: jax.Array, za: jax.Array | None, b: Right, zb: jax.Array | None) -> RawProduct:
    """Multiply with ``float_dot``; K must be at most ``LONGEST_FLOAT_SUM``.

    bfloat16 also holds what is left of 8 bits when the zero point is subtracted. So where float32 holds the sums of
    such products too, neither matrix is summed; a packed one has been.
    """
    greatest = a.shape[-1] * greatest_factor(a, za) * greatest_factor(b, zb)
    if not isinstance(b, PackedMatrix) and greatest <= _GREATEST_FLOAT_SUM:
        return RawProduct(float_dot(*_with_merged_batch(*with_merged_rows(_centred(a, za), _centred(b, zb)))))
    left, right = with_merged_rows(a, matrix_of(b))
    total = float_dot(left, right, isinstance(b, PackedMatrix))
    return with_corrections(total, a.shape[-1], za, zb, lambda: _row_sums(a), lambda: column_sums(b))


def _with_merged_batch(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Merge equal batch dimensions. XLA does so, too, but after it has chosen what the kernel of a product takes in."""
    if a.ndim > 3 and a.shape[:-2] == b.shape[:-2]:
        return a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
    return a, b


def _centred(x: jax.Array, zero_point: jax.Array | None) -> jax.Array:
    return x.astype(jnp.bfloat16) if zero_point is None else x.astype(jnp.bfloat16) - zero_point.astype(jnp.bfloat16)


def section_of(a: jax.Array, b: PackedMatrix) -> int | None:
    """Return by how long sections of K to multiply few rows by one matrix as bfloat16, or None.

    XLA would split K itself, but shorter, or into parts for which it pads the packed matrix in each call.
    """
    *_, columns, depth = b.matrix.shape
    if b.matrix.size != columns * depth or not is_static(*a.shape, columns, depth):
        return None
    if depth > LONGEST_FLOAT_SUM and not 0 < b.bound <= GREATEST_FLOAT_BOUND:
        return None
    rows = row_count(a, b.matrix)
    tiles = -(-rows // _TILE) * -(-columns // _TILE)
    is_split = tiles * _DEPTH_OF_TILE < depth and min(rows, _TILE) * min(columns, _TILE) * depth >= _LEAST_IN_TILE
    pads = depth % _TILE > 0
    pays = pads or columns * _LEAST_DEPTH_TO_COLUMNS <= depth
    if not is_split or columns * depth > _MOST_IN_SECTIONS or not pays:
        return None
    sections = _SHORT_SECTIONS if pads else _LONG_SECTIONS
    return next((section for section in sections if depth % section == 0 and 2 * section <= depth), None)


def sectioned_dot(
    a: jax.Array, za: jax.Array | None, b: PackedMatrix, zb: jax.Array | None, section: int
) -> RawProduct:
    """Multiply as ``bfloat16_dot`` does, sections of K side by side, and add up."""
    parts = (x.astype(jnp.bfloat16).reshape(x.shape[0], -1, section) for x in with_merged_rows(a, b.matrix))
    total = jnp.einsum("msk,nsk->smn", *parts, preferred_element_type=jnp.float32).sum(0)
    return with_corrections(total, a.shape[-1], za, zb, lambda: _row_sums(a), lambda: column_sums(b))


def packed_dot(
    a: jax.Array, za: jax.Array | None, b: PackedMatrix, zb: jax.Array | None, min_rows: int = 1, cut: Cut = WHOLE
) -> RawProduct:
    """Multiply by a packed matrix, which is already stored as tensor cores read it unless K is unaligned.

    ``a`` is padded to ``min_rows``. The product is ``cut``, as ``cut_in_tiles`` says.
    """
    left, right = with_merged_rows(a, b.matrix)
    missing = max(0, min_rows - left.shape[-2])
    left = lax.pad(left, jnp.int8(0), [(0, 0, 0)] * (left.ndim - 2) + [(0, missing, 0), (0, 0, 0)])
    if a.shape[-1] % ALIGNMENT:
        left, right = _stored_by_rows(left), _stored_by_rows(right)
    total = _dot_in_parts(left, right, cut)
    return with_corrections(total, a.shape[-1], za, zb, lambda: _row_sums(a), lambda: column_sums(b))


def _dot_in_parts(a: jax.Array, b: jax.Array, cut: Cut) -> jax.Array:
    if cut.sections > 1:
        return _added("...msk,...nsk->...smn", *(_in_sections(x, -1, cut.sections) for x in (a, b)))
    if cut.parts_of_rows == 1:
        return _dot_of_rows(a, b)
    parts_of_rows = a.reshape(cut.parts_of_rows, a.shape[0] // cut.parts_of_rows, a.shape[1])
    repeated = jnp.broadcast_to(b, (cut.parts_of_rows, *b.shape))
    return _dot_of_rows(parts_of_rows, repeated).reshape(a.shape[0], b.shape[0])


def _in_sections(x: jax.Array, axis: int, sections: int) -> jax.Array:
    """Divide an axis, which counts from the last one."""
    axis += x.ndim
    return x.reshape(*x.shape[:axis], sections, x.shape[axis] // sections, *x.shape[axis + 1 :])


def _added(products: str, a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply sections, which are a batch dimension ``s`` of the products, and add up."""
    return jnp.einsum(products, a, b, preferred_element_type=jnp.int32).sum(-3, dtype=jnp.int32)


def transposed_dot(
    a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None, cut: Cut = WHOLE
) -> RawProduct:
    """Transpose ``b`` first, in a GPU kernel of its own; its column sums become row sums, which are faster."""
    left, right = with_merged_rows(a, b)
    stored, transposed = _stored_by_rows(left), _stored_by_columns(right)
    total = _dot_in_parts(stored, transposed, cut)

    def row_sums() -> jax.Array:
        if a.shape[-1] % ALIGNMENT == 0:
            return _row_sums(a)
        # Rows of a that begin at unaligned addresses would be read byte by byte. So sum the stored ones, whose padding
        # adds 0.
        return _row_sums(stored)[..., : left.shape[-2], :].reshape(*a.shape[:-1], 1)

    def column_sums() -> jax.Array:
        return jnp.swapaxes(_row_sums(transposed), -1, -2)[..., : b.shape[-1]]

    return with_corrections(total, a.shape[-1], za, zb, row_sums, column_sums)


def padded_dot(a: jax.Array, za: jax.Array | None, b: jax.Array, zb: jax.Array | None, cut: Cut = WHOLE) -> RawProduct:
    """Multiply few rows by ``b`` as it is stored; a row of ones below ``a`` gives the sums of the columns of ``b``."""
    left, right = with_merged_rows(a, b)
    *batch, m, k = left.shape
    ones = jnp.ones((*batch, 0 if za is None else 1, k), jnp.int8)
    left, right = _padded(jnp.concatenate([left, ones], axis=-2)), _padded(right)
    if cut.sections > 1:
        parts = _in_sections(left, -1, cut.sections), _in_sections(right, -2, cut.sections)
        total = _added("...msk,...skn->...smn", *parts)
    else:
        total = jnp.einsum("...mk,...kn->...mn", left, right, preferred_element_type=jnp.int32)

    def column_sums() -> jax.Array:
        return total[..., m : m + 1, : b.shape[-1]]

    return with_corrections(total, k, za, zb, lambda: _row_sums(a), column_sums)


def _dot_of_rows(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply int8 ``[..., M, K]`` by ``[..., N, K]``."""
    return jnp.einsum("...mk,...nk->...mn", a, b, preferred_element_type=jnp.int32)


def _row_sums(x: jax.Array) -> jax.Array:
    return jnp.sum(x, axis=-1, keepdims=True, dtype=jnp.int32)


def _padded(x: jax.Array) -> jax.Array:
    """Pad rows and columns with zeros to multiples of the alignment."""
    missing = [(0, -size % ALIGNMENT, 0) for size in x.shape[-2:]]
    return lax.pad(x, jnp.int8(0), [(0, 0, 0)] * (x.ndim - 2) + missing)


def _stored_by_rows(x: jax.Array) -> jax.Array:
    """Pad ``x`` and store it row by row."""
    padded = _padded(x)
    if padded.shape == x.shape:
        return _in_order(x)
    return _from_words(_words(padded[..., ::2], padded[..., 1::2]))


def _stored_by_columns(x: jax.Array) -> jax.Array:
    """Pad ``x``, transpose it and store it row by row."""
    padded = _padded(x)
    return _from_words(jnp.swapaxes(_words(padded[..., ::2, :], padded[..., 1::2, :]), -1, -2))


def _words(first: jax.Array, second: jax.Array) -> jax.Array:
    """Join bytes to words of two, ``first`` lower: XLA's GPU backend mostly moves words faster than bytes."""
    return bits_of(first).astype(jnp.uint16) | bits_of(second).astype(jnp.uint16) << 8


def _from_words(words: jax.Array) -> jax.Array:
    *rows, count = words.shape
    return lax.bitcast_convert_type(_in_order(words), jnp.int8).reshape(*rows, 2 * count)


def _in_order(x: jax.Array) -> jax.Array:
    """Store ``x`` row by row: a one-dimensional array has no other order, and the barrier keeps it one."""
    return lax.optimization_barrier(x.reshape(-1)).reshape(x.shape)  # type: ignore[no-untyped-call]
