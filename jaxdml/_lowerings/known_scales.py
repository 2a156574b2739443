"""Convolve, multiply and add where scales and zero points are known while tracing, and a proof covers the rounding.

Only programs for one CPU use this; ``otherwise`` serves the others.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.quantized.native_convolution import native_sums
from jaxdml._algorithms.quantized.patch_product import patch_sums
from jaxdml._algorithms.quantized.proved_rounding import round_products, round_sums, shifted_by_128
from jaxdml._algorithms.quantized.windows import Windows, padded, shifted_slices, sums_of_groups
from jaxdml._lowerings._partitioning import by_partitioning
from jaxdml._lowerings._platform import Kernel, run
from jaxdml._lowerings._when_lowered import Form

OUTPUTS_PER_PART = 2**18
"""Images are convolved together if they have so few outputs, and one after the other if they have more. The int32 sums
of a part then stay in the cache."""

MIN_NATIVE_CHANNELS, MIN_NATIVE_FEATURES = 16, 17
"""XLA's own convolution is faster than a product of patches from so many channels and output channels on."""


_MULTIPLE = 4
"""A product of int8 is slow where the number of terms is no multiple of this."""


class Rounding(NamedTuple):
    """How to round int32 sums: NumPy arrays and numbers, known while tracing."""

    multipliers: np.ndarray
    """float32 ``[2, 1]`` or ``[2, O]``, proved."""

    zero_point: int
    dtype: Any
    """Of the result, int8 or uint8."""


class Stored(NamedTuple):
    """What int8 operands of a convolution mean: NumPy arrays and numbers, known while tracing."""

    x_zero_point: int
    """Of int8 ``x``: if it is given as uint8, 128 less than that."""

    w_zero_point: np.ndarray | None
    """int32 ``[1]`` or ``[O]`` of int8 filters; None for 0."""

    bias: np.ndarray | None
    """int32 ``[O]``."""


def on_one_cpu(form: Form, otherwise: Form, *operands: Any) -> Any:
    """Call ``form`` in a program for one CPU, and ``otherwise`` in other ones."""
    kernel = Kernel(otherwise, cpu=form)
    return by_partitioning(
        lambda *operands: run(kernel, *operands), lambda devices, *operands: otherwise(*operands), *operands
    )


def apart(form: Form, *operands: jax.Array) -> jax.Array:
    """Call a form that returns int8, so that XLA neither merges it with what comes before nor with what comes after.

    A branch keeps XLA from that, as no barrier does on a CPU. It is always taken.
    """
    least = min(operands, key=lambda x: x.dtype.itemsize)
    shape = jax.eval_shape(form, *operands).shape
    taken = least.reshape(-1)[0].astype(jnp.int32) > -(2**31)
    result: jax.Array = lax.cond(taken, form, lambda *operands: jnp.zeros(shape, jnp.int8), *operands)
    return result


def rounded(sums: jax.Array, rounding: Rounding) -> jax.Array:
    """Round int32 sums."""
    return shifted_by_128(round_products(sums, *rounding), rounding.dtype)


def add(
    factors: np.ndarray, zeros: tuple[int, int], zero_point: int, dtype: Any, a: jax.Array, b: jax.Array
) -> jax.Array:
    """Add ``a`` less its zero point times a factor and ``b`` alike, and round."""

    def form(a: jax.Array, b: jax.Array) -> jax.Array:
        return round_sums(*_differences(zeros, a, b), factors, zero_point, dtype)

    # A sum is often read twice, by the next convolution and the next sum. If each computed it anew, and the sums
    # before it, every sum of a model would take longer than the one before.
    return shifted_by_128(apart(form, shifted_by_128(a, jnp.int8), shifted_by_128(b, jnp.int8)), dtype)


def multiply(rounding: Rounding, zeros: tuple[int, int], a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply ``a`` less its zero point by ``b`` alike, and round."""

    def form(a: jax.Array, b: jax.Array) -> jax.Array:
        p, q = _differences(zeros, a, b)
        return round_products(p * q, *rounding)

    return shifted_by_128(apart(form, shifted_by_128(a, jnp.int8), shifted_by_128(b, jnp.int8)), rounding.dtype)


def _differences(zeros: tuple[int, int], a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return int8 arrays less their zero points, as int32."""
    return a.astype(jnp.int32) - np.int32(zeros[0]), b.astype(jnp.int32) - np.int32(zeros[1])


def convolve(
    stored: Stored, rounding: Rounding, windows: Windows, x: jax.Array, w: jax.Array, sums: jax.Array
) -> jax.Array:
    """Convolve ``[N, *spatial, C]``, and round.

    Args:
      stored: what the operands mean.
      rounding: how to round.
      windows: where windows lie; channels are last.
      x: int8 or uint8.
      w: int8 ``[*sizes, C / groups, O]``.
      sums: int32 ``[O]``, the sums of the filters.
    """
    offset, zw = -stored.x_zero_point * sums, stored.w_zero_point
    if stored.bias is not None:
        offset += stored.bias
    if zw is not None:
        offset += stored.x_zero_point * math.prod(w.shape[:-1]) * zw
    by_channel = w.shape[-2] == 1 and windows.groups > 1
    total = partial(_by_channel if by_channel else _by_product, windows, zw)

    def of_part(x: jax.Array) -> jax.Array:
        read = padded(shifted_by_128(x, jnp.int8), np.asarray(stored.x_zero_point), windows)
        return round_products(total(read, w) + offset, *rounding)

    counts, features = windows.counts(x.shape), w.shape[-1]
    size = _images_per_part(x.shape[0], math.prod(counts) * features)
    if size == x.shape[0]:
        results = of_part(x)
    else:
        results = lax.map(of_part, x.reshape(x.shape[0] // size, size, *x.shape[1:]))
    return shifted_by_128(results.reshape(x.shape[0], *counts, features), rounding.dtype)


def _images_per_part(images: int, outputs: int) -> int:
    """Return how many of the images, with so many outputs each, are convolved together: a divisor of their number."""
    most = max(1, OUTPUTS_PER_PART // max(1, outputs))
    return next((size for size in range(min(images, most), 0, -1) if images % size == 0), images)


def _by_product(windows: Windows, zw: np.ndarray | None, x: jax.Array, w: jax.Array) -> jax.Array:
    """Return the sums of products of padded int8 ``x`` less what the zero points of the filters add."""
    depth, features = w.shape[-2:]

    def by_patches(x: jax.Array, w: jax.Array) -> jax.Array:
        columns = w.reshape(windows.taps * depth, windows.groups, features // windows.groups)
        return patch_sums(x, jnp.swapaxes(columns, 0, 1), windows)

    is_image = len(windows.sizes) == 2 and windows.groups == 1
    if is_image and windows.taps > 1 and depth >= MIN_NATIVE_CHANNELS and features >= MIN_NATIVE_FEATURES:
        total = native_sums(x, w, windows, jnp.int32, by_patches)
    elif is_image and windows.taps > 1 and windows.dilations == (1, 1):
        total = _by_rows(windows, x, w)
    else:
        total = by_patches(x, w)
    return total if zw is None else total - sums_of_groups(x, windows, features) * zw


def _by_rows(windows: Windows, x: jax.Array, w: jax.Array) -> jax.Array:
    """Return the sums of products of padded int8 ``x`` of few channels: of patches that are gathered row by row.

    So many neighbours are copied together that a window is read in few steps. What is read beyond a window is
    multiplied by 0.
    """
    (height, width), (down, right) = windows.sizes, windows.strides
    rows, columns = windows._replace(start_padding=(0, 0), end_padding=(0, 0)).counts(x.shape)
    channels, features = w.shape[-2:]
    steps = -(-width // right)
    beyond = (columns - 1 + steps) * right - x.shape[2]
    x = lax.pad(x, np.int8(0), [(0, 0, 0), (0, 0, 0), (0, beyond, 0), (0, 0, 0)])
    x = x.reshape(*x.shape[:2], columns - 1 + steps, right * channels)
    missing = -steps * right * channels % _MULTIPLE
    filling = [jnp.zeros((*x.shape[:2], columns, missing), jnp.int8)] if missing else []
    x = lax.concatenate([x[:, :, step : step + columns] for step in range(steps)] + filling, 3)
    x = lax.concatenate([x[:, row : row + (rows - 1) * down + 1 : down] for row in range(height)], 3)
    w = lax.pad(w, np.int8(0), [(0, 0, 0), (0, steps * right - width, 0), (0, 0, 0), (0, 0, 0)])
    w = lax.pad(w.reshape(height, -1, features), np.int8(0), [(0, 0, 0), (0, missing, 0), (0, 0, 0)])
    ones = (1, 1)
    return patch_sums(x, w.reshape(1, -1, features), windows._replace(sizes=ones, strides=ones))


def _by_channel(windows: Windows, zw: np.ndarray | None, x: jax.Array, w: jax.Array) -> jax.Array:
    """Add shifted slices times one number for each channel; the same as ``_by_product``."""
    features, channels = w.shape[-1], x.shape[-1]
    # int8 times a difference of two int8 fits int16.
    weights = w.reshape(windows.taps, channels, features // channels).astype(jnp.int16)
    if zw is not None:
        weights -= np.broadcast_to(zw, features).astype(np.int16).reshape(1, *weights.shape[1:])
    # Without the barrier XLA would pad anew for each slice.
    read = lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
    total = jnp.int32(0)
    for numbers, weight in zip(shifted_slices(read, windows), weights, strict=True):
        if features == channels:
            total += (numbers.astype(jnp.int16) * weight.reshape(channels)).astype(jnp.int32)
        else:
            total += (numbers[..., None].astype(jnp.int16) * weight).astype(jnp.int32)
    return total.reshape(*total.shape[: x.ndim - 1], features)
