"""Multiply where K is sharded: each shard multiplies its part of K."""

from dataclasses import replace

import jax.numpy as jnp

from jaxdml._arithmetic.signedness import Quantized
from jaxdml._kernels.integer_product import kernel as integer_product
from jaxdml._kernels.integer_product.kernel import QuantizedRight
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, pack
from jaxdml._kernels.integer_sums import Accumulator, DeepAccumulator, ShardedSums
from jaxdml._placement.layout import Names, axis_index, axis_size
from jaxdml._placement.lowering import Forced


def multiply(
    a: Quantized, b: QuantizedRight, implementation: Forced | None, over: Names = ()
) -> Accumulator | DeepAccumulator | ShardedSums:
    """Return the accumulator of the product, or of the part of it that a shard of K has.

    Args:
      a: as for ``integer_product.multiply``, ``[..., M, K]``.
      b: ``[..., K, N]``, or packed; a packed block may have the sums of the whole K.
      implementation: as for ``integer_product.multiply``.
      over: the axes that K is sharded over.
    """
    if not over:
        return integer_product.multiply(a, b, implementation)
    one_sum = integer_product.fits(a, b, a[0].shape[-1] * axis_size(over))
    if isinstance(b[0], PackedMatrix):
        b = _with_sums_of_block(b[0], over, one_sum), b[1]
    return ShardedSums(integer_product.multiply(a, b, implementation), one_sum, over)


def _with_sums_of_block(b: PackedMatrix, over: Names, one_sum: bool) -> PackedMatrix:
    """Return a packed block with sums that may be added over the shards.

    The sums may be of several blocks: those along the last axes in ``over``, or along all. Then the first of these
    shards keeps them, and the others get 0. Where one int32 does not hold the whole sum, each shard sums its own block.
    """
    block = b.matrix.shape[-1]
    if b.k == block:
        return b
    if not one_sum:
        return pack(b.matrix, b.dtype, bound=b.bound)
    summed = next(over[i:] for i in range(len(over)) if block * axis_size(over[i:]) == b.k)
    return replace(b, sums=jnp.where(axis_index(summed) == 0, b.sums, 0), k=block)
