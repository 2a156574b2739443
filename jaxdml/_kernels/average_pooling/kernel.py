"""Sum windows in int32, and round their means."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.residuals import clamp
from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels.average_pooling.pools import real_elements, window_sums, window_sums_at_once
from jaxdml._kernels.average_pooling.rounded_mean import rounded_mean
from jaxdml._kernels.requantization import Multiplier, proved_rounding
from jaxdml._placement.partitioning import by_partitioning
from jaxdml._placement.platforms import Kernel, run
from jaxdml._placement.when_lowered import Form


def average(
    x: jax.Array,
    windows: Windows,
    scales: tuple[jax.Array, jax.Array],
    zx: jax.Array | None,
    zero_point: jax.Array | None,
    include_padding: bool,
    dtype: jnp.dtype,
    multiplier: Multiplier | None = None,
) -> jax.Array:
    """Return ``clamp(round(mean(x - zx) * x_scale / output_scale) + zero_point)``, rounded once and correctly.

    Args:
      x: int8 or uint8.
      windows: where they lie; padding stands for the real number 0.
      scales: of ``x`` and of the output, float32 that broadcast against the result, as the zero points.
      zx: int32, or None for 0.
      zero_point: int32, or None for 0.
      include_padding: whether the mean counts the padding. If not, the mean of padding alone is 0.
      dtype: int8 or uint8.
      multiplier: what ``requantization.proved`` returns for the scales, sums and ``counts``, or None.
    """
    by_platform = partial(
        run, Kernel(partial(window_sums, windows=windows), tpu=partial(window_sums_at_once, windows=windows))
    )
    total = by_partitioning(by_platform, lambda devices, x: window_sums(x, windows), x)
    real = real_elements(windows, x.shape)
    if zx is not None:
        total -= zx * real
    count = counts(windows, x.shape, include_padding)

    def exactly(total: jax.Array, multiplier: Any, scales: Any, zero_point: Any) -> jax.Array:
        return clamp(rounded_mean(total, jnp.asarray(count), *scales), zero_point, dtype)

    if multiplier is None:
        return exactly(total, None, scales, zero_point)

    def by_proof(round_total: Form) -> Form:
        return lambda total, multiplier, _, zero_point: round_total(total, multiplier, zero_point, dtype)

    kernel = proved_rounding(multiplier).each(by_proof)._replace(default=exactly)
    return run(kernel, total, multiplier, scales, zero_point)


def counts(windows: Windows, shape: tuple[int, ...], include_padding: bool) -> np.ndarray[Any, Any]:
    """Return by how many elements each window divides its sum; it broadcasts against the result."""
    real = real_elements(windows, shape)
    return np.full_like(real, windows.taps) if include_padding else np.maximum(real, 1)
