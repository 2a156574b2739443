"""Sum windows in int32, and round their means."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.residuals import clamp
from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels.average_pooling.pools import real_elements, window_sums
from jaxdml._kernels.average_pooling.rounded_mean import rounded_mean


def average(
    x: jax.Array,
    windows: Windows,
    scales: tuple[jax.Array, jax.Array],
    zx: jax.Array | None,
    zero_point: jax.Array | None,
    include_padding: bool,
    dtype: jnp.dtype,
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
    """
    total, real = window_sums(x, windows), real_elements(windows, x.shape)
    if zx is not None:
        total -= zx * real
    count = np.full_like(real, windows.taps) if include_padding else np.maximum(real, 1)
    return clamp(rounded_mean(total, jnp.asarray(count), *scales), zero_point, dtype)
