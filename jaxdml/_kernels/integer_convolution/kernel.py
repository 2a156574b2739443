"""Sum the windows of 8-bit arrays times filters exactly; choose the algorithm by platform and shape."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.signedness import WORD, Quantized, Zero, as_int8, as_int8_words
from jaxdml._arithmetic.windows import Windows, padded
from jaxdml._base.shapes import is_static
from jaxdml._kernels import integer_product
from jaxdml._kernels.integer_convolution import cpu, cuda, tpu, window_runs
from jaxdml._kernels.integer_convolution.channel_convolution import (
    channel_weights,
    convolve_channels,
    convolve_words,
    serves_words,
)
from jaxdml._kernels.integer_convolution.packed_filters import (
    Filters,
    PackedFilters,
    as_int8_filters,
    rows_of,
)
from jaxdml._kernels.integer_convolution.patch_product import (
    by_group,
    filter_columns,
    in_order,
    patch_product,
    patch_rows,
)
from jaxdml._kernels.integer_product import Product, Right
from jaxdml._kernels.integer_sums import Accumulator, DeepAccumulator, RawProduct
from jaxdml._placement.lowering import Forced, Form, Target

QuantizedFilters = tuple[Filters, jax.Array | None]
"""Filters, and their zero point; None means 0."""

METHODS = {"integer_dot": None, "mixed_dot": "cpu", "native_convolution": "cpu", "shifted_slices": None}
"""Products of patches, of int8 or of uint8 x int8; XLA's own convolution; sums of slices times one number a channel. Of
each the platform if only one can be forced to take it."""

MIN_NUMBERS_IN_WORDS = 2**20
"""With at least so many numbers, a GPU copies patches in words. Fewer are as fast in bytes, and XLA for CUDA may
compute the images in the kernel that copies them; not so if they become words, since it takes nothing before a bitcast.
On an H200 patches of 1568 x 4608 took 3.7 us in words, and 9.9 in bytes."""


def convolve(
    x: Quantized, w: QuantizedFilters, windows: Windows, implementation: Forced | None
) -> Accumulator | DeepAccumulator:
    """Return the accumulator, in the order of dimensions of ``x``.

    Args:
      x: int8 or uint8 ``[N, *spatial, C]`` or ``[N, C, *spatial]``, as ``windows`` tells, and its zero point ``[1]``.
      w: int8 or uint8 ``[O, C / groups, *sizes]``, and its zero point ``[1]`` or ``[O]``.
      windows: where the windows lie.
      implementation: one of ``METHODS`` that ``why_not`` allows, or None to choose.
    """
    counts, depth = windows.counts(x[0].shape), windows.taps * w[0].shape[1]
    if not integer_product.fits(x, w, depth):
        return _deep(x, w, windows, counts, implementation)
    method = implementation.method if implementation else cpu.fastest(x[0], w[0], windows)
    by_rows = isinstance(w[0], PackedFilters) and w[0].by_rows
    positions = x[0].shape[0] * math.prod(counts)
    bound, runs = getattr(w[0], "bound", 0), getattr(w[0], "runs", ())
    either = (False, True)
    on_cuda = tuple(cuda.serves(depth, windows, positions, bound, by_rows and tiled) for tiled in either)
    run = tuple(window_runs.chosen(runs, w[0].shape, windows, counts, x[0].shape[0], tiled) for tiled in either)
    choose = partial(
        form, method=method, windows=windows, on_cuda=on_cuda, by_rows=by_rows, forced=implementation, run=run
    )
    shape = windows.with_channels(x[0].shape[0], counts, w[0].shape[0])
    return Accumulator(choose, (*x, *w), shape, integer_product.greatest_total(x, w, depth))


def form(
    target: Target,
    method: str,
    windows: Windows,
    on_cuda: tuple[bool, ...],
    by_rows: bool,
    forced: Forced | None,
    run: tuple[int | None, ...],
) -> Form:
    """Say who convolves where a program is lowered for ``target``.

    Args:
      target: the target.
      method: the method of CPUs: the one that is forced, or the fastest.
      windows: where the windows lie.
      on_cuda: whether XLA's own convolution serves there, if tiles are not chosen, and if they are.
      by_rows: whether the filters are packed, and stored as rows.
      forced: the method that is forced, or None.
      run: the place of the run of windows whose patches are multiplied, as ``window_runs`` does, or None, likewise.
    """
    if forced:
        forced.require(target)
    at = run[target.tiled]
    if target.alone and target.platform == "cuda" and not forced and at is not None:
        return partial(window_runs.convolve, integer_product.form_of_patches(target, True, None), windows, at)
    if target.alone and target.platform == "cpu":
        return partial(cpu.convolve, windows, method)
    moves = method == "shifted_slices" or windows.taps > 1 or max(windows.strides) > 1
    if target.alone and target.platform == "tpu" and not forced and moves:
        return partial(tpu.convolve, windows)
    if method == "shifted_slices":
        return partial(_by_slices, target.is_gpu, target.is_gpu and target.alone, windows)
    if target.alone and target.platform == "cuda" and not forced and on_cuda[target.tiled]:
        return partial(cuda.convolve, windows)
    by_patches = _by_patches_of_int8 if target.is_gpu and target.alone else _by_patches
    return partial(by_patches, integer_product.form_of_patches(target, by_rows, forced), windows)


def why_not(method: str, depth: int, windows: Windows, longest: int) -> str | None:
    """Tell why a method cannot run a convolution, or return None if it can.

    Args:
      method: one of ``METHODS``.
      depth: how many channels a filter reads.
      windows: where the windows lie.
      longest: the greatest number of products that int32 holds the sum of.
    """
    if method == "shifted_slices" and depth != 1:
        return f"each filter reads {depth} channels, and it serves one"
    if method == "native_convolution" and not cpu.is_native(windows):
        return "it serves two spatial dimensions, channels last and one group"
    if method in ("shifted_slices", "native_convolution") and windows.taps * depth > longest:
        return f"it serves filters of up to {longest} elements"
    return None


def _by_patches(product: Product, windows: Windows, x: jax.Array, zx: Zero, w: Filters, zw: Zero) -> RawProduct:
    return patch_product(product, padded(x, zx, windows), zx, *_columns(w, zw, windows.groups), windows)


def _by_patches_of_int8(product: Product, windows: Windows, x: jax.Array, zx: Zero, w: Filters, zw: Zero) -> RawProduct:
    """Copy int8, which the operator before stores. A product would convert uint8 in its kernel, which takes longer."""
    x, zx = as_int8(x, zx)
    columns, zw = _columns(w, zw, windows.groups)
    read, zero = as_int8_words(x, zx) if _serves_words(x, w.shape[1], windows) else (x, zx)
    return patch_product(product, padded(read, zero, windows), zx, columns, zw, windows)


def _serves_words(x: jax.Array, depth: Any, windows: Windows) -> bool:
    """Tell whether to copy patches four channels at a time: there are many, and each reads whole words."""
    if windows.taps == 1 or not windows.channels_last or not is_static(*x.shape, depth) or depth % WORD:
        return False
    return x.shape[0] * math.prod(windows.counts(x.shape)) * windows.taps * x.shape[-1] >= MIN_NUMBERS_IN_WORDS


def _columns(w: Filters, zw: Zero, groups: int) -> tuple[Right, Zero]:
    """Return filters as the columns of a product with patches, and their zero point."""
    if isinstance(w, PackedFilters) and w.by_rows:
        return rows_of(w, 1, groups), zw
    array, zw = (w, zw) if isinstance(w, jax.Array) else as_int8_filters(w, zw)
    return filter_columns(array, groups)[None], zw


def _by_slices(
    on_gpu: bool, in_words: bool, windows: Windows, x: jax.Array, zx: Zero, w: Filters, zw: Zero
) -> RawProduct:
    """Convolve channels by themselves. A GPU widens the filters where it reads them, in the kernel that rounds."""
    weights = channel_weights(w, zw, windows, jnp.int32 if on_gpu else jnp.int16)
    if in_words and serves_words(x, w.shape[0], windows):
        return convolve_words(weights, zx, x, windows)
    x, zx = as_int8(x, zx)
    if on_gpu:
        return convolve_channels(weights, zx, padded(x, zx, windows), windows)
    return cpu.channels_of_part(windows, weights.stored(), zx, x)


def _deep(
    x: Quantized,
    w: QuantizedFilters,
    windows: Windows,
    counts: tuple[int, ...],
    implementation: Forced | None,
) -> DeepAccumulator:
    """Multiply the patches in slices along K."""
    rows = patch_rows(padded(*x, windows), windows)
    array, zw = (w[0], w[1]) if isinstance(w[0], jax.Array) else as_int8_filters(*w)
    columns = filter_columns(array, windows.groups)[None]
    zx, zw = (None if z is None else by_group(z, windows.groups) for z in (x[1], zw))
    sums: Any = integer_product.multiply((rows, zx), (columns, zw), implementation)
    return DeepAccumulator(*(in_order(part, counts, windows) for part in (sums.low, sums.high)))
