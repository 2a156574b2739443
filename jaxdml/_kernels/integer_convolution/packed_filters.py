"""Hold filters stored as convolutions read them, and their sums: convolutions neither transpose nor sum them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._arithmetic.magnitudes import greatest_magnitude
from jaxdml._arithmetic.signedness import as_int8
from jaxdml._base.static_fields import settle
from jaxdml._kernels.integer_product import PackedMatrix

LARGE = 2**18
"""From so many channels times output channels on, a CPU multiplies patches by filters that are stored as rows in less
time than XLA's own convolution takes."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["filters", "sums", "chain", "runs", "edges"],
    meta_fields=["dtype", "dimensions", "by_rows", "k", "bound"],
)
@dataclass(frozen=True, eq=False, kw_only=True)
class PackedFilters:
    """Hold the filters of convolutions in the layout that they read fastest; ``jaxdml.prepack_filters`` makes it.

    It is a pytree of two arrays, and takes the place of ``w`` in every convolution, with the same result.

    Attributes:
      filters: int8, ``[O, *spatial, I]`` if ``by_rows``, else ``[*spatial, I, O]``. If ``w`` is uint8, each number is
        128 less than in ``w``.
      sums: int32 ``[O]``, the sums of the elements of each filter, as stored.
      dtype: the dtype of ``w``, int8 or uint8. Static.
      dimensions: where O, I and the spatial dimensions are in ``w``. Static.
      by_rows: whether the numbers of each filter follow one another. Static.
      k: how many numbers each of ``sums`` adds up. Static.
      bound: no filter has a greater sum of magnitudes; a power of two, or 0 if that is not known. Static. It proves of
        many filters that shorter sums are exact, so other numbers need another bound.
      chain: the vectors with which a GPU rounds sums in the kernel of the product, for the parameters that were known
        when it was packed; ``()`` if none were.
      runs: filters of few channels for two or four windows at once, each a ``WindowRun``; ``()`` where those do not
        serve.
      edges: int32 ``[*spatial, O]``, the sums of what each kind of window has beyond the edges of an image, so that a
        GPU may pad with zeros; ``()`` if they are not needed. Other numbers need other ones.
    """

    filters: jax.Array
    sums: jax.Array
    dtype: np.dtype[Any]
    dimensions: tuple[int, ...]
    by_rows: bool
    k: int
    bound: int = 0
    chain: Any = ()
    runs: tuple[Any, ...] = ()
    edges: Any = ()

    def __post_init__(self) -> None:
        """Accept the name of a dtype, and for static fields the arrays that ``numpy.load`` returns."""
        settle(self, dtype=np.dtype, dimensions=tuple, by_rows=bool, k=int, bound=int)
        for name in ("chain", "runs", "edges"):
            value = getattr(self, name)
            if isinstance(value, np.ndarray) and not value.size:  # What ``numpy.savez`` makes of nothing.
                object.__setattr__(self, name, ())

    @property
    def order(self) -> tuple[int, ...]:
        """Which dimension of ``w`` each dimension of ``filters`` is."""
        return _stored_order(self.dimensions, self.by_rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of ``w``; inside ``jax.shard_map`` that of the block."""
        return tuple(self.filters.shape[d] for d in np.argsort(self.order))

    @property
    def ndim(self) -> int:
        """The number of dimensions of ``w``."""
        return self.filters.ndim

    def unpacked(self) -> jax.Array:
        """Return ``w``."""
        w = lax.transpose(self.filters, np.argsort(self.order))
        return w if w.dtype == self.dtype else with_flipped_sign(w, self.dtype)


export.register_pytree_node_serialization(
    PackedFilters,
    serialized_name="jaxdml.PackedFilters",
    serialize_auxdata=lambda static: (
        f"{static[0]} {','.join(map(str, static[1]))} {int(static[2])} {static[3]} {static[4]}".encode()
    ),
    deserialize_auxdata=lambda text: _static(*text.decode().split()),
)


def _static(
    dtype: str, dimensions: str, by_rows: str, k: str, bound: str = "0"
) -> tuple[np.dtype[Any], tuple[int, ...], bool, int, int]:
    return np.dtype(dtype), tuple(map(int, dimensions.split(","))), by_rows == "1", int(k), int(bound)


Filters = jax.Array | PackedFilters
"""Filters of a convolution: an array, or packed. In a kernel their shape is ``[O, I, *sizes]``."""


def _stored_order(dimensions: tuple[int, ...], by_rows: bool) -> tuple[int, ...]:
    """Return which dimension of ``w`` each stored dimension is."""
    features, depth, *spatial = dimensions
    return (features, *spatial, depth) if by_rows else (*spatial, depth, features)


def in_rows(shape: Sequence[int], dimensions: tuple[int, ...], on_gpu: bool) -> bool:
    """Say whether filters are stored by rows: on GPUs, which read products and convolutions so, and if large.

    Those of one channel each never are.
    """
    features, depth, *sizes = (shape[d] for d in dimensions)
    return depth > 1 and (on_gpu or max(sizes, default=1) == 1 or features * depth >= LARGE)


def pack(w: Any, dimensions: tuple[int, ...], by_rows: bool) -> tuple[PackedFilters, Any]:
    """Pack int8 or uint8 filters; return also the greatest sum of the magnitudes of a filter.

    Args:
      w: the filters, an array of JAX or of NumPy; so is what is packed.
      dimensions: where O, I and the spatial dimensions are.
      by_rows: how to store them, ``in_rows``.
    """
    stored = w.transpose(_stored_order(dimensions, by_rows))
    integers = stored if w.dtype == jnp.int8 else with_flipped_sign(stored, jnp.int8)
    k = math.prod(w.shape[d] for d in dimensions[1:])
    packed = PackedFilters(
        filters=integers, sums=_sums(integers, by_rows), dtype=w.dtype, dimensions=dimensions, by_rows=by_rows, k=k
    )
    return packed, greatest_magnitude(integers, _summed(integers, by_rows))


def _sums(filters: Any, by_rows: bool) -> Any:
    return filters.sum(axis=_summed(filters, by_rows), dtype=np.int32)


def _summed(filters: Any, by_rows: bool) -> tuple[int, ...]:
    return tuple(range(1, filters.ndim) if by_rows else range(filters.ndim - 1))


def sums_of(w: PackedFilters) -> jax.Array:
    """Return the sums of the stored filters; of a block of some channels those of the block."""
    features = w.filters.shape[0 if w.by_rows else -1]
    return w.sums if w.k * features == w.filters.size else _sums(w.filters, w.by_rows)


def rows_of(w: PackedFilters, *leading: int) -> PackedMatrix:
    """Return filters that are stored by rows as the columns of a matrix, in ``leading`` groups of them."""
    k = math.prod(w.shape[1:])
    rows = w.filters.reshape(w.shape[0], k).reshape(*leading, -1, k)
    return PackedMatrix(matrix=rows, sums=sums_of(w).reshape(*leading, -1), dtype=w.dtype, k=k, bound=w.bound)


def filter_sums(w: Filters, integers: jax.Array) -> jax.Array:
    """Return the int32 sums of filters that ``as_int8_filters`` returned as ``integers``; packed ones have them."""
    if isinstance(w, PackedFilters):
        return sums_of(w)
    return jnp.sum(integers, axis=tuple(range(1, integers.ndim)), dtype=jnp.int32)


def in_canonical_order(w: Filters, dimensions: Sequence[int]) -> Filters:
    """Return filters whose dimensions O, I and the spatial ones are at ``dimensions`` as ``[O, I, *sizes]``."""
    if isinstance(w, PackedFilters):
        return replace(w, dimensions=tuple(range(w.ndim)))
    return lax.transpose(w, dimensions)


def as_int8_filters(w: Filters, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Return filters as int8 ``[O, I, *sizes]``, and the int32 zero point of what is stored; None for 0."""
    if not isinstance(w, PackedFilters):
        return as_int8(w, zero_point)
    return lax.transpose(w.filters, np.argsort(w.order)), stored_zero_point(w, zero_point)


def stored_zero_point(w: PackedFilters, zero_point: jax.Array | None) -> jax.Array | None:
    """Return the int32 zero point of the numbers that are stored, or None for 0."""
    wide = None if zero_point is None else zero_point.astype(jnp.int32)
    if w.dtype == jnp.int8:
        return wide
    return jnp.int32(-128) if wide is None else wide - 128
