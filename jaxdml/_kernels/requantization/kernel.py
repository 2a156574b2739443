"""Round accumulators with exact residuals, or on a CPU with multipliers if those decide every output."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.residuals import Scales, by_residuals, clamp
from jaxdml._kernels.integer_product import (
    Accumulator,
    DeepAccumulator,
    PerPart,
    Raw,
    carried,
    finish,
    finished,
    part_by_part,
    whole,
)
from jaxdml._kernels.requantization.digit_products import round_digits
from jaxdml._kernels.requantization.float64_rounding import ON_CPU, ON_CUDA, round_products
from jaxdml._kernels.requantization.multiplier import may_be_doubtful, multiplier_of, rounded_products
from jaxdml._kernels.requantization.proofs import Multiplier
from jaxdml._placement.platforms import Kernel
from jaxdml._placement.when_lowered import Form

FEW_OUTPUTS = 2**13
"""Up to this size use residuals: testing whether a multiplier leaves doubts already evaluates 2,048 accumulators."""

MIN_OUTPUTS_PER_MULTIPLIER = 2**11
"""From so many on, test four accumulators at each of the 512 halves of each multiplier, instead of all outputs."""


def requantize(
    sums: Accumulator | DeepAccumulator,
    scales: Scales,
    zero_point: jax.Array | None,
    dtype: jnp.dtype,
    bias: jax.Array | None = None,
    multiplier: Multiplier | None = None,
) -> jax.Array:
    """Return ``clamp(round((sums + bias) * a_scale * b_scale / output_scale) + zero_point)``, rounded once, correctly.

    Args:
      sums: what ``integer_product.multiply`` returns.
      scales: of ``a``, of ``b`` and of the output: float32 that broadcast against the accumulator.
      zero_point: int32 that broadcasts against the accumulator, or None for 0.
      dtype: int8 or uint8.
      bias: int32 that broadcasts against the accumulator, or None for 0. The sum with it need not fit int32.
      multiplier: what ``proved`` returns for these scales, and for the greatest sum with the bias; or None.
    """
    if isinstance(sums, DeepAccumulator):
        total = sums if bias is None else carried(sums.low + (bias & 0xFFFF), sums.high + (bias >> 16))
        return by_residuals(total.low, total.high, scales, zero_point, dtype)
    by_residuals_of = partial(_by_residuals, shape=sums.shape, dtype=dtype)
    exactly = Kernel(by_residuals_of)
    operands = scales, zero_point, bias
    if multiplier is not None:

        def by_proof(round_total: Form) -> Form:
            return partial(_by_proof, round_total=round_total, shape=sums.shape, dtype=dtype)

        def at_once(form: Form | None) -> Form | None:
            return form and (lambda raw, *operands: form(whole(raw), *operands))

        # On TPUs an image may be a part of a convolution that is computed by itself.
        on = proved_rounding(multiplier).each(by_proof)
        proved = on._replace(
            default=lambda raw, _, *operands: by_residuals_of(raw, *operands),
            cpu=at_once(on.cpu),
            cuda=at_once(on.cuda),
        )
        result: jax.Array = finish(sums, proved, proved, multiplier, *operands)
        return result
    on_cpu = partial(by_multiplier_or_residuals, shape=sums.shape, dtype=dtype, greatest=sums.greatest)
    rounded: jax.Array = finish(sums, exactly._replace(cpu=on_cpu), exactly, *operands)
    return rounded


def _by_proof(
    raw: Raw,
    multiplier: Multiplier,
    scales: Scales,
    zero_point: jax.Array | None,
    bias: jax.Array | None,
    *,
    round_total: Callable[[jax.Array, Multiplier, jax.Array | None, jnp.dtype], jax.Array],
    shape: tuple[int, ...],
    dtype: jnp.dtype,
) -> jax.Array:
    del scales

    def rounded(total: jax.Array) -> jax.Array:
        return round_total(total if bias is None else total + bias, multiplier, zero_point, dtype)

    return finished(raw, shape, rounded)


def proved_rounding(multiplier: Multiplier) -> Kernel:
    """Return ``(total, multiplier, zero_point, dtype) -> clamp(round(total * multiplier) + zero_point)``.

    Only platforms whose arithmetic the proof is about have a form: CPUs, CUDA, and TPUs if some digits suffice.
    """
    cpu, cuda = (partial(round_products, on) for on in (ON_CPU, ON_CUDA))
    return Kernel(cpu=cpu, cuda=cuda, tpu=_by_digits if multiplier.digits else None)


def _by_digits(total: jax.Array, by: Multiplier, zero_point: jax.Array | None, dtype: jnp.dtype) -> jax.Array:
    return round_digits(total, by.high, by.low, by.digits, zero_point, dtype)


def _by_residuals(
    raw: Raw,
    scales: Scales,
    zero_point: jax.Array | None,
    bias: jax.Array | None = None,
    *,
    shape: tuple[int, ...],
    dtype: jnp.dtype,
) -> jax.Array:
    return finished(raw, shape, lambda total: by_residuals(total, None, scales, zero_point, dtype, bias))


def by_multiplier_or_residuals(
    raw: Raw,
    scales: Scales,
    zero_point: jax.Array | None,
    bias: jax.Array | None = None,
    *,
    shape: tuple[int, ...],
    dtype: jnp.dtype,
    greatest: int = 2**31 - 1,
) -> jax.Array:
    """Round with multipliers, or with residuals if a multiplier leaves any output doubtful.

    This takes a branch on the data. On a CPU the branch costs nothing; on a GPU it would wait for the host. A
    multiplier takes int32, so a bias must leave room for ``greatest``, the greatest sum without it.
    """
    outputs = math.prod(shape)
    distinct = math.prod(np.broadcast_shapes(*(scale.shape for scale in scales)))

    def exactly(raw: Raw) -> jax.Array:
        return _by_residuals(raw, scales, zero_point, bias, shape=shape, dtype=dtype)

    if outputs <= FEW_OUTPUTS or distinct * 2 > outputs:
        return exactly(raw)
    multiplier = multiplier_of(scales)
    no_room = jnp.bool_(False)
    if bias is not None:
        room = 2**31 - 1 - greatest
        no_room = jnp.any((bias > room) | (bias < -room))

    def products(total: jax.Array) -> tuple[jax.Array, jax.Array]:
        return rounded_products(total if bias is None else total + bias, multiplier)

    if isinstance(raw, PerPart):

        def likely(total: jax.Array) -> jax.Array:
            """Round, and write whether a result is doubtful above its 8 bits."""
            rounded, doubtful = products(total)
            clamped = bits_of(clamp(rounded, zero_point, dtype)).astype(jnp.uint16)
            return clamped | doubtful.astype(jnp.uint16) << 8

        def part(total: Callable[[], jax.Array]) -> jax.Array:
            both = lax.optimization_barrier(likely(total()))  # type: ignore[no-untyped-call]
            return lax.cond(
                _any(both >> 8),
                lambda _: by_residuals(total(), None, scales, zero_point, dtype, bias),
                lambda both: lax.bitcast_convert_type(both.astype(jnp.uint8), dtype),
                both,
            )

        # What a branch refers to is computed once, before it. Without a branch XLA would compute the multiplier anew
        # for each output. The multiplier is not finite only for scales that have no meaning.
        unusable = no_room | ~jnp.all(jnp.isfinite(multiplier.estimate))
        return lax.cond(unusable, exactly, lambda raw: part_by_part(raw, shape, part), raw)

    # Each branch computes the accumulator from the raw product. Computed before the branch, it would have to be stored.
    def by_multiplier(raw: Raw) -> jax.Array:
        return finished(raw, shape, lambda total: clamp(products(total)[0], zero_point, dtype))

    if distinct * MIN_OUTPUTS_PER_MULTIPLIER <= outputs:
        doubtful = may_be_doubtful(multiplier)
    else:
        doubtful = _any(finished(raw, shape, lambda total: products(total)[1]))
    return lax.cond(doubtful | no_room, exactly, by_multiplier, raw)


def _any(mask: jax.Array) -> jax.Array:
    # Store bytes before the maximum: XLA has a fast maximum of stored bytes, and a slow one of fused values.
    stored = lax.optimization_barrier(mask.astype(jnp.uint8))  # type: ignore[no-untyped-call]
    any_set: jax.Array = jnp.max(stored) > 0
    return any_set
