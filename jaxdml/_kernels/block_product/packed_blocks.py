"""Hold a matrix of 2, 4 or 8 bits with a scale for each block, as products read it."""

from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from jaxdml._base.static_fields import settle

BITS = MappingProxyType({"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8})
"""How many bits an element takes, by dtype."""


class _Order(NamedTuple):
    """Where the dimensions of the stored words are, counted from the end."""

    n: int
    blocks: int
    words: int
    dtype: np.dtype[Any]


_ORDERS = {True: _Order(-1, -3, -2, np.dtype(np.uint32)), False: _Order(-3, -2, -1, np.dtype(np.int16))}
"""By whether columns are stored side by side. A CPU's vector takes a word from each of several columns. On an H100 a
product with one row reads words of 16 bits in 0.56 to 1.02 of the time of 32 bits."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["words", "scale", "zero_point"],
    meta_fields=["dtype", "block_size", "k", "by_columns"],
)
@dataclass(frozen=True, eq=False, kw_only=True)
class PackedBlocks:
    """Hold a matrix of few bits with a scale for each block of a column; ``jaxdml.prepack_blocks`` makes it.

    It is a pytree of two or three arrays, and the right matrix of ``jaxdml.matrix_multiply_block_quantized``.

    Attributes:
      words: int16 ``[..., N, blocks, words]``, or uint32 ``[..., blocks, words, N]`` if ``by_columns``. A word holds
        successive elements of a column, the first in the lowest bits. Words of int16 hold signed elements:
        ``2**(bits - 1)`` is subtracted from unsigned ones. Others hold unsigned ones: it is added to signed ones.
      scale: float32, float16 or bfloat16, ``[..., N, blocks]``, or ``[..., blocks, N]`` if ``by_columns``.
      zero_point: int8 or uint8, shaped as ``scale``, shifted as elements are; None where all are 0.
      dtype: of the elements: int2, uint2, int4, uint4, int8 or uint8. Static.
      block_size: how many elements of a column share a scale. Static.
      k: how many elements a column has. Static.
      by_columns: whether the words of neighbouring columns follow one another. Static.
    """

    words: jax.Array
    scale: jax.Array
    zero_point: jax.Array | None
    dtype: np.dtype[Any]
    block_size: int
    k: int
    by_columns: bool

    def __post_init__(self) -> None:
        """Accept the name of a dtype, and for static fields the arrays that ``numpy.load`` returns."""
        settle(self, dtype=np.dtype, block_size=int, k=int, by_columns=bool)

    @property
    def order(self) -> _Order:
        """Where the dimensions of ``words`` are."""
        return _ORDERS[self.by_columns]

    @property
    def shape(self) -> tuple[int, ...]:
        """``[..., K, N]``; inside ``jax.shard_map`` that of the block."""
        stored = self.words.shape
        k = min(self.k, stored[self.order.blocks] * self.block_size)
        return (*stored[:-3], k, stored[self.order.n])

    @property
    def ndim(self) -> int:
        """The number of dimensions of ``shape``."""
        return self.words.ndim - 1

    @property
    def bits(self) -> int:
        """How many bits an element takes."""
        return BITS[str(self.dtype)]

    @property
    def is_signed(self) -> bool:
        """Whether elements are stored as signed ones."""
        return self.words.dtype == np.int16

    @property
    def has_zeros(self) -> bool:
        """Whether something else than a stored 0 stands for 0."""
        return self.zero_point is not None or self.stored_zero != 0

    @property
    def stored_zero(self) -> Any:
        """What stands for 0 among the elements as they are stored: an integer, or one for each block."""
        return _added(self.dtype, self.is_signed) if self.zero_point is None else self.zero_point

    def along_words(self, value: ArrayLike) -> jax.Array:
        """Return one number, or what there is one of for each block, in float32, so that it broadcasts to words."""
        wide = jnp.asarray(value).astype(jnp.float32)
        return jnp.expand_dims(wide, self.order.words) if wide.ndim else wide

    @property
    def _shifts(self) -> range:
        """Where the bits of each element of a word begin."""
        return range(0, 8 * self.words.dtype.itemsize, self.bits)

    def fields(self) -> list[jax.Array]:
        """Return elements that are stored with no sign, in float32.

        The first ones of all words come first, then the second ones, and so on.
        """
        kind = self.words.dtype.type
        parts = [self.words >> kind(shift) & kind(2**self.bits - 1) for shift in self._shifts]
        return [part.astype(jnp.int32).astype(jnp.float32) for part in parts]

    def differences(self) -> list[jax.Array]:
        """Return the elements less what stands for 0, in the order of ``fields``."""
        zero = self.along_words(self.stored_zero)
        if not self.is_signed:
            return [field - zero for field in self.fields()]
        # Bits below an exponent are a float that is larger by a power of two: no integer is converted. The highest bit
        # of each element is flipped, which adds ``half``.
        half, words, differences = 2 ** (self.bits - 1), self.words.astype(jnp.int32), []
        for shift in self._shifts:
            larger = np.int32((127 + 23 - shift) << 23 | half << shift)
            bits = words & np.int32((2**self.bits - 1) << shift) ^ larger
            differences.append(lax.bitcast_convert_type(bits, jnp.float32) - (2.0 ** (23 - shift) + half + zero))
        return differences

    def floats(self) -> list[jax.Array]:
        """Return the floats that the elements stand for, in float32, in the order of ``fields``."""
        scale = self.along_words(self.scale)
        return [difference * scale for difference in self.differences()]

    def dequantized(self) -> jax.Array:
        """Return the matrix as floats ``[..., K, N]`` of the dtype of ``scale``."""
        return jnp.swapaxes(self._rows(), -1, -2)

    def columns(self, indices: jax.Array) -> jax.Array:
        """Return the columns at these indices as floats, ``[*indices.shape, K]``; nothing else is read.

        An index out of range reads the first or the last column. It is for a matrix without further dimensions.
        """

        def taken(array: jax.Array) -> jax.Array:
            """Read ``[indices, ...]`` from ``[..., N]`` or ``[N, ...]``."""
            by_column = jnp.moveaxis(array, self.order.n, 0) if self.by_columns else array
            at, rest = jax.typeof(places).sharding, jax.typeof(by_column).sharding
            spec = PartitionSpec(*at.spec, *rest.spec[1:])  # type: ignore[no-untyped-call]
            # Of the array that has a mesh: no mesh need be set.
            sharding = NamedSharding(at.mesh if any(at.spec) else rest.mesh, spec) if any(spec) else None
            return by_column.at[places].get(mode="clip", out_sharding=sharding)

        places = indices if indices.ndim else indices[None]
        zero = None if self.zero_point is None else taken(self.zero_point)
        some = replace(self, words=taken(self.words), scale=taken(self.scale), zero_point=zero, by_columns=False)
        return some._rows() if indices.ndim else some._rows()[0]

    def _rows(self) -> jax.Array:
        """Return the columns one after another, as floats ``[..., N, K]`` of the dtype of ``scale``."""
        elements = jnp.moveaxis(jnp.stack(self.floats(), -1), self.order.n - 1, -4)
        *batch, n, blocks, words, of_word = elements.shape
        return elements.reshape(*batch, n, blocks * words * of_word)[..., : self.shape[-2]].astype(self.scale.dtype)


export.register_pytree_node_serialization(
    PackedBlocks,
    serialized_name="jaxdml.PackedBlocks",
    serialize_auxdata=lambda static: " ".join([str(static[0]), *(str(int(number)) for number in static[1:])]).encode(),
    deserialize_auxdata=lambda text: _static(*text.decode().split()),
)


def _static(dtype: str, block_size: str, k: str, by_columns: str) -> tuple[np.dtype[Any], int, int, bool]:
    return jnp.dtype(dtype), int(block_size), int(k), by_columns == "1"


def _added(dtype: Any, signed: bool) -> int:
    """Return what is added to elements so that they are stored as signed ones, or as unsigned ones."""
    are_signed = not str(dtype).startswith("u")
    return (are_signed - signed) * 2 ** (BITS[str(dtype)] - 1)


def pack(
    b: jax.Array, scale: jax.Array, zero_point: jax.Array | None, block_size: int, *, by_columns: bool
) -> PackedBlocks:
    """Pack ``b``, ``[..., K, N]``; scale and zero point are ``[..., blocks, N]``."""
    order, bits, blocks = _ORDERS[by_columns], BITS[str(b.dtype)], scale.shape[-2]
    *batch, k, n = b.shape
    added = _added(b.dtype, signed=not by_columns)
    wide = b.astype(jnp.int32) + added & 2**bits - 1
    wide = jnp.pad(wide, [*[(0, 0)] * len(batch), (0, blocks * block_size - k), (0, 0)]).astype(order.dtype)
    elements = 8 * order.dtype.itemsize // bits
    fields = wide.reshape(*batch, blocks, block_size // elements, elements, n)
    parts = [fields[..., i, :] << order.dtype.type(bits * i) for i in range(elements)]
    words = sum(parts[1:], parts[0])

    def placed(array: jax.Array) -> jax.Array:
        return array if by_columns else jnp.moveaxis(array, -1, len(batch))

    kind = jnp.uint8 if by_columns else jnp.int8
    stored_zero = None if zero_point is None else placed((zero_point.astype(jnp.int32) + added).astype(kind))
    return PackedBlocks(
        words=placed(words),
        scale=placed(scale),
        zero_point=stored_zero,
        dtype=b.dtype,
        block_size=block_size,
        k=k,
        by_columns=by_columns,
    )
