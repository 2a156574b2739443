"""Round accumulators with exact residuals, or on a CPU with multipliers if those decide every output."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.quantized.multiplier import may_be_doubtful, multiplier_of, rounded_products
from jaxdml._algorithms.quantized.raw_product import RawProduct, accumulator
from jaxdml._algorithms.quantized.residuals import Scales, by_residuals, clamp
from jaxdml._lowerings._partitioning import by_partitioning
from jaxdml._lowerings._platform import Kernel, chain, run
from jaxdml._lowerings.integer_product import Accumulator, DeepAccumulator

FEW_OUTPUTS = 2**13
"""Up to this size use residuals: testing whether a multiplier leaves doubts already evaluates 2,048 accumulators."""

MIN_OUTPUTS_PER_MULTIPLIER = 2**11
"""From so many on, test four accumulators at each of the 512 halves of each multiplier, instead of all outputs."""


def requantize(
    sums: Accumulator | DeepAccumulator,
    scales: Scales,
    zero_point: jax.Array | None,
    dtype: jnp.dtype,
    refusal: str,
) -> jax.Array:
    """Return ``clamp(round(sums * a_scale * b_scale / output_scale) + zero_point)``, rounded once and correctly.

    Args:
      sums: what ``integer_product.multiply`` returns.
      scales: of ``a``, of ``b`` and of the output: float32 that broadcast against the accumulator.
      zero_point: int32 that broadcasts against the accumulator, or None for 0.
      dtype: int8 or uint8.
      refusal: the text of the error if the program is lowered for a platform without the product.
    """
    if isinstance(sums, DeepAccumulator):
        return by_residuals(sums.low, sums.high, scales, zero_point, dtype)
    exactly = Kernel(partial(_by_residuals, shape=sums.shape, dtype=dtype))
    rounding = exactly._replace(cpu=partial(by_multiplier_or_residuals, shape=sums.shape, dtype=dtype))
    # Forms for XLA's partitioning must not refer to the operands, which belong to the trace of the caller.
    product, partitioned = sums.product, sums.partitioned
    return by_partitioning(
        lambda *operands: run(chain(product, rounding), *operands, refusal=refusal),
        lambda devices, *operands: run(chain(partitioned(devices), exactly), *operands, refusal=refusal),
        *(sums.operands, scales, zero_point),
    )


def _by_residuals(
    raw: RawProduct, scales: Scales, zero_point: jax.Array | None, *, shape: tuple[int, ...], dtype: jnp.dtype
) -> jax.Array:
    return by_residuals(accumulator(raw, shape), None, scales, zero_point, dtype)


def by_multiplier_or_residuals(
    raw: RawProduct, scales: Scales, zero_point: jax.Array | None, *, shape: tuple[int, ...], dtype: jnp.dtype
) -> jax.Array:
    """Round with multipliers, or with residuals if a multiplier leaves any output doubtful.

    This takes a branch on the data. On a CPU the branch costs nothing; on a GPU it would wait for the host.
    """
    outputs = math.prod(shape)
    distinct = math.prod(np.broadcast_shapes(*(scale.shape for scale in scales)))

    def exactly(raw: RawProduct) -> jax.Array:
        return _by_residuals(raw, scales, zero_point, shape=shape, dtype=dtype)

    if outputs <= FEW_OUTPUTS or distinct * 2 > outputs:
        return exactly(raw)
    multiplier = multiplier_of(scales)

    # Each branch computes the accumulator from the raw product. Computed before the branch, it would have to be stored.
    def by_multiplier(raw: RawProduct) -> jax.Array:
        rounded, _ = rounded_products(accumulator(raw, shape), multiplier)
        return clamp(rounded, zero_point, dtype)

    if distinct * MIN_OUTPUTS_PER_MULTIPLIER <= outputs:
        doubtful = may_be_doubtful(multiplier)
    else:
        _, where = rounded_products(accumulator(raw, shape), multiplier)
        # Store bytes before the maximum: XLA has a fast maximum of stored bytes, and a slow one of fused values.
        stored = lax.optimization_barrier(where.astype(jnp.uint8))  # type: ignore[no-untyped-call]
        doubtful = jnp.max(stored) > 0
    return lax.cond(doubtful, exactly, by_multiplier, raw)
