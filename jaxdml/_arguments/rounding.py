"""Find out what is known of the scales of a call, and of the sums that they round."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arguments.call import Call
from jaxdml._kernels import requantization
from jaxdml._kernels.integer_sums import Accumulator, DeepAccumulator


def multiplier(
    call: Call, scales: Mapping[str, jax.Array | None], greatest: int, count: np.ndarray[Any, Any] | int = 1
) -> requantization.Multiplier | None:
    """Return the multiplier with which a short formula is proved to round every sum, if the scales are known.

    Args:
      call: the call that has the operands.
      scales: of the factors and of the output, by name; they broadcast against the sums. A name without a scale is 1.
      greatest: no sum is greater than this in magnitude.
      count: what sums are divided by too; it broadcasts against the scales.
    """
    known = []
    for name, given in scales.items():
        value = np.ones((), np.float32) if given is None else call.known(name, np.float32)
        if value is None:
            return None
        known.append(value if given is None else value.reshape(given.shape))
    return requantization.proved(known, greatest, count)


def rounded(
    sums: Accumulator | DeepAccumulator,
    a_scale: jax.Array,
    b_scale: jax.Array,
    output_scale: jax.Array,
    bias: jax.Array | None,
    zero_point: jax.Array | None,
    multiplier: requantization.Multiplier | None,
    *,
    dtype: np.dtype[Any],
) -> jax.Array:
    """Return ``clamp(round((sums + bias) * a_scale * b_scale / output_scale) + zero_point)``, without a derivative."""
    scales = lax.stop_gradient((a_scale, b_scale, output_scale))
    wide = None if zero_point is None else zero_point.astype(jnp.int32)
    return requantization.requantize(sums, scales, wide, dtype, bias, multiplier)


def magnitude(call: Call, name: str) -> int:
    """Bound the magnitude of an int32 operand by what is known of it; None is 0."""
    value = call.known(name, np.int32)
    return 2**31 if value is None else int(np.abs(value.astype(np.int64)).max(initial=0))
