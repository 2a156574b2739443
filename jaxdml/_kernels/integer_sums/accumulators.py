"""Hold sums over K that are not computed yet, or that do not fit int32, and finish them."""

from functools import partial
from typing import Any, NamedTuple

import jax

from jaxdml._kernels.integer_sums.raw import RawProduct, accumulator
from jaxdml._placement.lowering import Choice, Form, at_lowering


class Accumulator(NamedTuple):
    """Hold a product that is not computed yet: the int32 sum over K of ``(a - za) * (b - zb)``."""

    product: Choice
    """Returns for a target what makes a ``Raw`` of the operands; its shapes differ between targets."""

    operands: Any
    shape: tuple[int, ...]
    """``[..., M, N]``."""

    greatest: int = 2**31 - 1
    """No sum is greater than this in magnitude."""

    corrected: bool = False
    """Whether the terms of zero points are subtracted already."""


class DeepAccumulator(NamedTuple):
    """Hold sums over K that do not fit int32: ``low + 2**16 * high``, int32 ``[..., M, N]``, ``0 <= low < 2**16``."""

    low: jax.Array
    high: jax.Array


def of_total(total: jax.Array) -> Accumulator:
    """Return the accumulator of a product that is already computed: the int32 ``total``."""
    return Accumulator(lambda target: RawProduct, (total,), total.shape, corrected=True)


def total(sums: Accumulator) -> jax.Array:
    """Compute the int32 sums of an ``Accumulator``."""
    computed: jax.Array = finish(sums, lambda target: accumulator, shape=sums.shape)
    return computed


def finish(sums: Accumulator, then: Choice, *others: Any, **static: Any) -> Any:
    """Return what the form of a target makes of the ``Raw`` of an ``Accumulator`` and of other operands.

    Args:
      sums: the accumulator.
      then: returns the form for a target.
      others: the other operands.
      static: what else the form takes.
    """
    # The choice must not refer to the operands, which belong to the trace of the caller.
    product = sums.product
    return at_lowering(
        lambda target: partial(_finished, product(target), then(target)), sums.operands, *others, **static
    )


def _finished(product: Form, then: Form, operands: Any, *others: Any, **static: Any) -> Any:
    return then(product(*operands), *others, **static)


def wrapped(sums: Accumulator | DeepAccumulator) -> jax.Array:
    """Return what ``multiply`` returned, or sums of that over shards, as int32 modulo 2**32."""
    if isinstance(sums, DeepAccumulator):
        return sums.low + (sums.high << 16)
    return total(sums)


def normalized(low: jax.Array, high: jax.Array) -> DeepAccumulator:
    """Return the deep accumulator of sums of lower and of upper 16 bits; fewer than 2**15 of each were added."""
    return DeepAccumulator(low & 0xFFFF, high + (low >> 16))
