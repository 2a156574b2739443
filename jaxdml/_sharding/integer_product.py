"""Multiply where K is sharded: multiply on each shard, and add the int32 products once."""

from jax import lax

from jaxdml._lowerings import integer_product
from jaxdml._lowerings.integer_product import Accumulator, DeepAccumulator, Quantized
from jaxdml._sharding.layout import Names, axis_size


def multiply(
    a: Quantized, b: Quantized, implementation: str | None, refusal: str, over: Names
) -> Accumulator | DeepAccumulator:
    """Return the accumulator of the whole product, the same on all shards.

    Args:
      a: as for ``integer_product.multiply``, ``[..., M, K]``.
      b: ``[..., K, N]``.
      implementation: as for ``integer_product.multiply``.
      refusal: as for ``integer_product.multiply``.
      over: the axes that K is sharded over.
    """
    sums = integer_product.multiply(a, b, implementation, refusal)
    if not over:
        return sums
    if isinstance(sums, Accumulator):
        total = integer_product.total(sums, refusal)
        if a[0].shape[-1] * axis_size(over) <= integer_product.longest(a, b):
            return integer_product.of_total(lax.psum(total, over))  # type: ignore[no-untyped-call]
        sums = DeepAccumulator(total & 0xFFFF, total >> 16)
    return integer_product.carried(*lax.psum(tuple(sums), over))  # type: ignore[no-untyped-call]
