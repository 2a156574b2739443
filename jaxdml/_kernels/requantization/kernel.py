"""Round accumulators with exact residuals, or on a CPU with multipliers if those decide every output."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.residuals import Scales, by_residuals, clamp
from jaxdml._kernels.integer_sums import (
    Accumulator,
    DeepAccumulator,
    PerPart,
    Raw,
    RawProduct,
    accumulator,
    as_stored,
    finish,
    finished,
    normalized,
    part_by_part,
    whole,
)
from jaxdml._kernels.requantization.digit_products import round_digits
from jaxdml._kernels.requantization.float32_chain import round_chain
from jaxdml._kernels.requantization.float64_rounding import ON_CPU, ON_CUDA, round_products
from jaxdml._kernels.requantization.multiplier import may_be_doubtful, multiplier_of, rounded_products
from jaxdml._kernels.requantization.proofs import Multiplier
from jaxdml._placement.lowering import Form, Target

FEW_OUTPUTS = 2**13
"""Up to this size use residuals: testing whether a multiplier leaves doubts already evaluates 2,048 accumulators."""

MIN_OUTPUTS_PER_MULTIPLIER = 2**11
"""From so many on, test four accumulators at each of the 512 halves of each multiplier, instead of all outputs."""


def requantize(
    sums: Accumulator | DeepAccumulator,
    a_scale: jax.Array,
    b_scale: jax.Array,
    output_scale: jax.Array,
    bias: jax.Array | None,
    zero_point: jax.Array | None,
    multiplier: Multiplier | None,
    *,
    dtype: jnp.dtype,
) -> jax.Array:
    """Return ``clamp(round((sums + bias) * a_scale * b_scale / output_scale) + zero_point)``, rounded once, correctly.

    It has no derivative.

    Args:
      sums: what ``integer_product.multiply`` returns.
      a_scale: float32 that broadcasts against the accumulator, as do all that follow.
      b_scale: float32.
      output_scale: float32.
      bias: int32, or None for 0. The sum with it need not fit int32.
      zero_point: integers, or None for 0.
      multiplier: what ``proved`` returns for these scales, and for the greatest sum with the bias; or None.
      dtype: int8 or uint8.
    """
    scales = lax.stop_gradient((a_scale, b_scale, output_scale))
    zero_point = None if zero_point is None else zero_point.astype(jnp.int32)
    if isinstance(sums, DeepAccumulator):
        total = sums if bias is None else normalized(sums.low + (bias & 0xFFFF), sums.high + (bias >> 16))
        return by_residuals(total.low, total.high, scales, zero_point, dtype)
    choose = partial(
        form,
        outputs=math.prod(sums.shape),
        scales=tuple(scale.shape for scale in scales),
        digits=multiplier.digits if multiplier else None,
        chained=bool(multiplier and multiplier.chain and (multiplier.chain.of_complete_sums or not sums.corrected)),
    )
    how = Rounding(sums.shape, dtype, sums.greatest)
    rounded: jax.Array = finish(sums, choose, multiplier, scales, zero_point, bias, how=how)
    return rounded


class Rounding(NamedTuple):
    """Hold what is static of the rounding of one accumulator."""

    shape: tuple[int, ...]
    """That of the accumulator."""

    dtype: jnp.dtype

    greatest: int = 2**31 - 1
    """No sum without the bias is greater than this in magnitude."""


def form(
    target: Target, outputs: int, scales: Sequence[tuple[int, ...]], digits: int | None, chained: bool = False
) -> Form:
    """Say who rounds where a program is lowered for ``target``.

    A proved multiplier rounds in float64 on CPUs and CUDA, and in digits on TPUs. CUDA rounds in the kernel of the
    product if weights were packed for these parameters, or if the multiplier is one number. Without a proof a CPU
    rounds many outputs with multipliers, in a branch on whether these leave any output doubtful. There the branch costs
    nothing; on a GPU it would wait for the host. All else is rounded with exact residuals.

    Args:
      target: the target.
      outputs: how many there are.
      scales: the shapes of the scales.
      digits: those of the multiplier that is proved, or None.
      chained: whether it has a chain.
    """
    if chained and target.alone and target.platform == "cuda":
        return partial(_by_chain, adds=target.adds)
    if digits is not None:
        round_total = proved_rounding(target, digits)
        # On TPUs an image may be a part of a convolution that is computed by itself.
        at_once = target.platform != "tpu"
        return partial(_by_proof, round_total=round_total, at_once=at_once) if round_total else _by_residuals
    if not target.alone or target.platform != "cpu":
        return _by_residuals
    distinct = math.prod(np.broadcast_shapes(*scales))
    if outputs <= FEW_OUTPUTS or distinct * 2 > outputs:
        return _by_residuals
    return partial(_by_multiplier, test_halves=distinct * MIN_OUTPUTS_PER_MULTIPLIER <= outputs)


def proved_rounding(target: Target, digits: int) -> Form | None:
    """Return ``(total, multiplier, zero_point, dtype) -> clamp(round(total * multiplier) + zero_point)``, or None.

    Only platforms whose arithmetic the proof is about have one: CPUs, CUDA, and TPUs if some digits suffice.
    """
    if target.platform == "tpu":
        return _by_digits if digits else None
    arithmetic = {"cpu": ON_CPU, "cuda": ON_CUDA}.get(target.platform)
    return arithmetic and partial(round_products, arithmetic)


def _by_digits(total: jax.Array, by: Multiplier, zero_point: jax.Array | None, dtype: jnp.dtype) -> jax.Array:
    return round_digits(total, by.high, by.low, by.digits, zero_point, dtype)


def _by_proof(
    raw: Raw,
    multiplier: Multiplier,
    scales: Scales,
    zero_point: jax.Array | None,
    bias: jax.Array | None,
    *,
    round_total: Form,
    at_once: bool,
    how: Rounding,
) -> jax.Array:
    del scales
    return finished(
        whole(raw) if at_once else raw,
        how.shape,
        lambda total: round_total(total if bias is None else total + bias, multiplier, zero_point, how.dtype),
    )


def _by_chain(
    raw: RawProduct,
    multiplier: Multiplier,
    scales: Scales,
    zero_point: jax.Array | None,
    bias: jax.Array | None,
    *,
    adds: bool,
    how: Rounding,
) -> jax.Array:
    """Round what is stored, if the chain subtracts what belongs to zero points and the bias; or the complete sums."""
    del scales, zero_point
    chain, total = multiplier.chain, as_stored(raw, how.shape)
    if raw.chain is not None:
        return round_chain(total.reshape(-1, raw.chain.first.size), raw.chain, how.dtype, adds=adds).reshape(how.shape)
    if chain.of_complete_sums and not (raw.rows is None and raw.columns is None and bias is None):
        total = accumulator(raw, how.shape)
        total = total if bias is None else total + bias
    if adds and chain.of_complete_sums and total.ndim > 3:
        # XLA would end the kernel of the product before its batch dimension is divided again.
        flat = total.reshape(-1, *total.shape[-2:])
        return round_chain(flat, chain, how.dtype, adds=adds).reshape(how.shape)
    return round_chain(total, chain, how.dtype, adds=adds)


def _by_residuals(
    raw: Raw,
    multiplier: Multiplier | None,
    scales: Scales,
    zero_point: jax.Array | None,
    bias: jax.Array | None,
    *,
    how: Rounding,
) -> jax.Array:
    del multiplier
    return finished(raw, how.shape, lambda total: by_residuals(total, None, scales, zero_point, how.dtype, bias))


def _by_multiplier(
    raw: Raw,
    multiplier: None,
    scales: Scales,
    zero_point: jax.Array | None,
    bias: jax.Array | None,
    *,
    test_halves: bool,
    how: Rounding,
) -> jax.Array:
    """Round with multipliers, or with residuals if a multiplier leaves any output doubtful.

    A multiplier takes int32, so a bias must leave room for the greatest sum without it.
    """
    by = multiplier_of(scales)
    no_room = jnp.bool_(False)
    if bias is not None:
        room = 2**31 - 1 - how.greatest
        no_room = jnp.any((bias > room) | (bias < -room))

    def exactly(raw: Raw) -> jax.Array:
        return _by_residuals(raw, multiplier, scales, zero_point, bias, how=how)

    def products(total: jax.Array) -> tuple[jax.Array, jax.Array]:
        return rounded_products(total if bias is None else total + bias, by)

    if isinstance(raw, PerPart):
        part = partial(_part, products=products, scales=scales, zero_point=zero_point, bias=bias, dtype=how.dtype)
        # What a branch refers to is computed once, before it. Without a branch XLA would compute the multiplier anew
        # for each output. The multiplier is not finite only for scales that have no meaning.
        unusable = no_room | ~jnp.all(jnp.isfinite(by.estimate))
        return lax.cond(unusable, exactly, lambda raw: part_by_part(raw, how.shape, part), raw)

    # Each branch computes the accumulator from the raw product. Computed before the branch, it would have to be stored.
    def by_products(raw: RawProduct) -> jax.Array:
        return finished(raw, how.shape, lambda total: clamp(products(total)[0], zero_point, how.dtype))

    doubtful = may_be_doubtful(by) if test_halves else _any(finished(raw, how.shape, lambda total: products(total)[1]))
    return lax.cond(doubtful | no_room, exactly, by_products, raw)


def _part(
    total: Callable[[], jax.Array],
    *,
    products: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    scales: Scales,
    zero_point: jax.Array | None,
    bias: jax.Array | None,
    dtype: jnp.dtype,
) -> jax.Array:
    """Round a part with multipliers, and with residuals if a result of it is doubtful."""
    rounded, doubtful = products(total())
    # Above the 8 bits of a result stands whether it is doubtful.
    both = bits_of(clamp(rounded, zero_point, dtype)).astype(jnp.uint16) | doubtful.astype(jnp.uint16) << 8
    stored = lax.optimization_barrier(both)  # type: ignore[no-untyped-call]
    result: jax.Array = lax.cond(
        _any(stored >> 8),
        lambda _: by_residuals(total(), None, scales, zero_point, dtype, bias),
        lambda stored: lax.bitcast_convert_type(stored.astype(jnp.uint8), dtype),
        stored,
    )
    return result


def _any(mask: jax.Array) -> jax.Array:
    # Store bytes before the maximum: XLA has a fast maximum of stored bytes, and a slow one of fused values.
    stored = lax.optimization_barrier(mask.astype(jnp.uint8))  # type: ignore[no-untyped-call]
    any_set: jax.Array = jnp.max(stored) > 0
    return any_set
