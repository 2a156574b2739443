"""Sum windows in int32, and round their means."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.residuals import clamp
from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels.average_pooling.pools import (
    real_elements,
    window_sums,
    window_sums_at_once,
    window_sums_by_adding,
)
from jaxdml._kernels.average_pooling.rounded_mean import rounded_mean
from jaxdml._kernels.requantization import Multiplier, proved_rounding
from jaxdml._placement.lowering import Form, Target, at_lowering


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
    total = at_lowering(form, x, windows=windows)
    real = real_elements(windows, x.shape)
    if zx is not None:
        total -= zx * real
    count = counts(windows, x.shape, include_padding)
    if multiplier is None:
        return _exactly(total, None, jnp.asarray(count), scales, zero_point, dtype=dtype)
    choose = partial(form_of_rounding, digits=multiplier.digits)
    result: jax.Array = at_lowering(choose, total, multiplier, count, scales, zero_point, dtype=dtype)
    return result


def form(target: Target) -> Form:
    """Say who sums windows where a program is lowered for ``target``."""
    if not target.alone:
        return window_sums
    return {"tpu": window_sums_at_once, "cuda": window_sums_by_adding}.get(target.platform, window_sums)


def form_of_rounding(target: Target, digits: int) -> Form:
    """Say who rounds where a program is lowered for ``target``, given the digits of the proved multiplier."""
    round_total = proved_rounding(target, digits)
    return partial(_by_proof, round_total=round_total) if round_total else _exactly


def _exactly(
    total: jax.Array,
    multiplier: Multiplier | None,
    count: Any,
    scales: Any,
    zero_point: jax.Array | None,
    *,
    dtype: jnp.dtype,
) -> jax.Array:
    del multiplier
    return clamp(rounded_mean(total, count, *scales), zero_point, dtype)


def _by_proof(
    total: jax.Array,
    multiplier: Multiplier,
    count: Any,
    scales: Any,
    zero_point: jax.Array | None,
    *,
    round_total: Form,
    dtype: jnp.dtype,
) -> jax.Array:
    del count, scales
    rounded: jax.Array = round_total(total, multiplier, zero_point, dtype)
    return rounded


def counts(windows: Windows, shape: tuple[int, ...], include_padding: bool) -> np.ndarray[Any, Any]:
    """Return by how many elements each window divides its sum; it broadcasts against the result."""
    real = real_elements(windows, shape)
    return np.full_like(real, windows.taps) if include_padding else np.maximum(real, 1)
