"""Hold a right matrix stored by columns, and the sums of its columns, so that products neither transpose nor sum it."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._base.static_fields import settle


@partial(jax.tree_util.register_dataclass, data_fields=["matrix", "sums", "chain"], meta_fields=["dtype", "k", "bound"])
@dataclass(frozen=True, eq=False, kw_only=True)
class PackedMatrix:
    """Hold the right matrix of products in the layout that they read fastest; ``jaxdml.prepack`` makes it.

    It is a pytree of two arrays, and takes the place of ``b`` in every product, with the same result. Its leading
    dimensions are those of ``b``, so it can be mapped, scanned, donated and saved like an array.

    Attributes:
      matrix: int8 or uint8 ``[..., N, K]``, the columns of ``b`` as rows. If it is int8 and ``b`` is uint8, each number
        is 128 less than in ``b``; in the opposite case, 128 more.
      sums: int32 ``[..., N]``, the sums of the rows of ``matrix``.
      dtype: the dtype of ``b``, int8 or uint8. Static.
      k: how many numbers each of ``sums`` adds up. It is K, and stays the whole K where ``jax.shard_map`` gives devices
        blocks of ``matrix``. Static.
      bound: no column has a greater sum of magnitudes, as int8; a power of two, or 0 if that is not known. Static. It
        proves of many matrices that shorter sums are exact, so other numbers need another bound.
      chain: the vectors with which a GPU rounds sums in the kernel of the product, for the parameters that were known
        when it was packed; ``()`` if none were.
    """

    matrix: jax.Array
    sums: jax.Array
    dtype: np.dtype[Any]
    k: int
    bound: int = 0
    chain: Any = ()

    def __post_init__(self) -> None:
        """Accept the name of a dtype, and for static fields the 0-d arrays that ``numpy.load`` returns."""
        settle(self, dtype=np.dtype, k=int, bound=int)
        if isinstance(self.chain, np.ndarray):  # What ``numpy.savez`` makes of nothing.
            object.__setattr__(self, "chain", ())

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of ``b``, ``[..., K, N]``; inside ``jax.shard_map`` that of the block."""
        *batch, n, k = self.matrix.shape
        return (*batch, k, n)

    @property
    def ndim(self) -> int:
        """The number of dimensions of ``b``."""
        return self.matrix.ndim

    def unpacked(self) -> jax.Array:
        """Return ``b``."""
        b = jnp.swapaxes(self.matrix, -1, -2)
        return b if b.dtype == self.dtype else with_flipped_sign(b, self.dtype)


export.register_pytree_node_serialization(
    PackedMatrix,
    serialized_name="jaxdml.PackedMatrix",
    serialize_auxdata=lambda static: " ".join(map(str, static)).encode(),
    deserialize_auxdata=lambda text: _static(*text.decode().split()),
)


def _static(dtype: str, k: str, bound: str = "0") -> tuple[np.dtype[Any], int, int]:
    return np.dtype(dtype), int(k), int(bound)


Right = jax.Array | PackedMatrix
"""The right matrix of a product: an array ``[..., K, N]``, or packed."""


def pack(matrix: Any, dtype: np.dtype[Any], stored: Any = None, bound: int = 0) -> PackedMatrix:
    """Pack int8 or uint8 ``[..., N, K]``, the columns as rows; what is packed is of NumPy if the matrix is.

    Args:
      matrix: the columns.
      dtype: that of the matrix to multiply by.
      stored: the dtype to store it in, int8 or uint8; None for its own.
      bound: on the magnitudes, or 0 if none is known.
    """
    if stored is not None and matrix.dtype != stored:
        matrix = with_flipped_sign(matrix, stored)
    sums = matrix.sum(axis=-1, dtype=np.int32)
    return PackedMatrix(matrix=matrix, sums=sums, dtype=dtype, k=matrix.shape[-1], bound=bound)


def stored_as(stored: Any, b: PackedMatrix, zero_point: jax.Array | None) -> tuple[PackedMatrix, jax.Array | None]:
    """Return ``b`` stored as int8 or uint8, and the int32 zero point of the numbers that are stored; None for 0."""
    wide: Any = None if zero_point is None else zero_point.astype(jnp.int32)
    by = _offset(stored) - _offset(b.dtype)
    if by:
        wide = jnp.int32(by) if wide is None else wide + by
    if b.matrix.dtype == stored:
        return b, wide
    sums = b.sums + b.k * jnp.int32(_offset(stored) - _offset(b.matrix.dtype))
    return replace(b, matrix=with_flipped_sign(b.matrix, stored), sums=sums), wide


def matrix_of(b: Right) -> jax.Array:
    """Return the stored matrix: ``[..., N, K]`` of a packed one, else ``[..., K, N]``."""
    return b.matrix if isinstance(b, PackedMatrix) else b


def column_sums(b: Right) -> jax.Array:
    """Return the sums of the columns, int32 ``[..., 1, N]``."""
    if isinstance(b, PackedMatrix):
        return jnp.expand_dims(b.sums, -2)
    return jnp.sum(b, axis=-2, keepdims=True, dtype=jnp.int32)


def slice_along_k(b: Right, start: Any, size: int) -> Right:
    """Return the part of a right matrix for one slice of K: ``size`` numbers of each column, from ``start`` on."""
    if isinstance(b, PackedMatrix):
        return pack(lax.dynamic_slice_in_dim(b.matrix, start, size, axis=-1), b.dtype, bound=b.bound)
    return lax.dynamic_slice_in_dim(b, start, size, axis=-2)


def split_along_k(b: Right, segments: int) -> Right:
    """Split K into segments, which become the last batch dimension."""
    if isinstance(b, PackedMatrix):
        *batch, n, k = b.matrix.shape
        parts = b.matrix.reshape(*batch, n, segments, k // segments)
        return pack(jnp.moveaxis(parts, -2, -3), b.dtype, bound=b.bound)
    *batch, k, n = b.shape
    return b.reshape(*batch, segments, k // segments, n)


def _offset(dtype: Any) -> int:
    return 128 if dtype == jnp.uint8 else 0
