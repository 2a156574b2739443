"""Round sums in a chain of int32 and float32 operations, by factors that are proved to round them correctly.

XLA for CUDA takes what follows a product into its kernel, so that the int32 sums are never stored, if it is a chain: a
vector that is subtracted, a conversion, vectors that are multiplied, a rounding, a clamp. float64, shifts, and whatever
reads a number twice end the chain. So do vectors that are constants of the program or computed in it: they must be
ready before.

``float32(sum) * first * second`` never decreases as the sum grows, and nor does its rounding. So it is right for every
sum if it is on both sides of each half, an integer plus 1/2. Only sums whose product is within a relative ``_NEAR`` of
a half can be wrong. Whether one is depends on the last bits of the factors as if by chance, and there are few. So other
factors of the same product are tried until all are right.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._kernels.requantization.proofs import HALVES

_NEAR = 2.0**-22
"""Three roundings to float32 have a smaller relative error."""

_LEAST = 2.0**-13
"""From this multiplier on only the two sums next to a half can be so near."""

_BEYOND = np.float32(2.0**64)
"""A greater product of a sum and a first factor saturates, as this does: a second one is more than a half."""

_BITS, _TRIALS, _AT_ONCE = 10, 2**17, 2**8
"""First factors of up to so many bits are tried, since the product of a sum with one is mostly exact, then so many
others; and so many at once."""


@partial(jax.tree_util.register_dataclass, data_fields=["subtracted", "first", "second", "offset"], meta_fields=["of"])
@dataclass(frozen=True, eq=False)
class Chain:
    """Hold the vectors with which sums are rounded, one number for each column; a pytree of operands.

    A number of the program would make a kernel of each layer, which XLA compiles and times anew. So all are operands.

    Attributes:
      subtracted: from the sums of products of int8 numbers: the terms of the zero point, less the bias. float32 if that
        holds all of these numbers and sums, else int32. () if the chain is for complete sums, by one number each.
      first: float32, which the difference is multiplied by.
      second: float32, which that is multiplied by.
      offset: float32, the zero point of the output, less 128 if that is uint8, which is added to what is rounded.
      of: a digest of the parameters that all of it is computed from. Static.
    """

    subtracted: Any
    first: Any
    second: Any
    offset: Any
    of: str

    @property
    def of_complete_sums(self) -> bool:
        """Whether nothing is subtracted."""
        return isinstance(self.subtracted, tuple)


export.register_pytree_node_serialization(
    Chain,
    serialized_name="jaxdml.Chain",
    serialize_auxdata=lambda static: static[0].encode(),
    deserialize_auxdata=lambda text: (text.decode(),),
)


def factors(multipliers: np.ndarray, greatest: int, reach: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two float32 factors of each multiplier that round every sum correctly, or None if none are found.

    Args:
      multipliers: float64 ``[N]``, which round every sum correctly.
      greatest: no sum is greater in magnitude.
      reach: results beyond this magnitude saturate, at most 255.
    """
    sizes = np.abs(multipliers)
    if (sizes < _LEAST).any():
        return None
    sums, nearest = _near_halves(sizes, greatest, HALVES[: reach + 1])
    unit = np.exp2(np.floor(np.log2(sizes)))
    first, second = sizes.astype(np.float32), np.ones(sizes.size, np.float32)
    left = np.arange(sizes.size)
    for tried in _candidates():
        trials = (unit[left, None] * tried).astype(np.float32)
        others = (sizes[left, None] / trials).astype(np.float32)
        products = sums[left, None].astype(np.float32) * trials[..., None] * others[..., None]
        right = (np.rint(products) == nearest[left, None]).all(-1)
        found, which = right.any(-1), right.argmax(-1)
        first[left[found]], second[left[found]] = (x[found, which[found]] for x in (trials, others))
        left = left[~found]
        if not left.size:
            return np.copysign(first, multipliers).astype(np.float32), second
    return None


def _candidates() -> Iterator[np.ndarray]:
    """Return first factors in units of a power of two."""
    of_bits = (1 + np.arange(1, 1 << bits, 2) / (1 << bits) for bits in range(1, _BITS + 1))
    few = np.concatenate([np.ones(1), *of_bits])
    yield from np.split(few, range(_AT_ONCE, few.size, _AT_ONCE))
    random = np.random.default_rng(0)
    for _ in range(_TRIALS // _AT_ONCE):
        yield random.uniform(1, 2, _AT_ONCE)


def _near_halves(sizes: np.ndarray, greatest: int, halves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each multiplier the sums that may be rounded wrongly, and their rounded products; 0 if fewer."""
    below = np.floor(halves / sizes[:, None])
    sums, twice = np.concatenate([below, below + 1], -1), np.concatenate([halves, halves])
    near = (np.abs(sums * sizes[:, None] - twice) <= _NEAR * twice) & (sums <= greatest)
    count = max(1, int(near.sum(-1).max(initial=0)))
    order = np.argsort(~near, -1, kind="stable")[:, :count]
    kept = np.where(np.take_along_axis(near, order, -1), np.take_along_axis(sums, order, -1), 0)
    return kept, np.rint(kept * sizes[:, None])


def round_chain(total: jax.Array, by: Chain, dtype: jnp.dtype) -> jax.Array:
    """Return ``clamp(round((total - subtracted) * first * second) + offset)`` as int8, or 128 more as uint8.

    Args:
      total: int32 or float32, the sums of products as stored, or complete sums.
      by: what it is rounded with, broadcast against ``total``.
      dtype: int8 or uint8.
    """
    first, second, offset = by.first, by.second, by.offset
    if by.of_complete_sums:
        # Behind a barrier, numbers that are known are operands of the kernel. XLA takes such scalars, and no arrays.
        scalars = tuple(jnp.reshape(each, ()) for each in (first, second, offset))
        first, second, offset = lax.optimization_barrier(scalars)  # type: ignore[no-untyped-call]
    # Of two integers that float32 holds it returns their difference rounded once, as int32 and a conversion do.
    difference = total if by.of_complete_sums else total.astype(by.subtracted.dtype) - by.subtracted
    # XLA would join factors that are constants, and a vector of one number is such a constant, too. So a limit stands
    # between them.
    once = jnp.maximum(difference.astype(jnp.float32) * first, -_BEYOND)
    # Both are integers. Where float32 does not hold their sum, it saturates.
    whole = lax.round(once * second, lax.RoundingMethod.TO_NEAREST_EVEN) + offset
    # A conversion to uint8 would end the chain, and so would a bitcast of a float.
    stored = jnp.clip(whole, -128, 127).astype(jnp.int32).astype(jnp.int8)
    return stored if dtype == jnp.int8 else with_flipped_sign(stored, dtype)
