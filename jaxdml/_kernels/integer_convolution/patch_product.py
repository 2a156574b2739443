"""Convolve by a product of filters and patches. A patch is all that a window contains, taps by channels.

Where another dimension is sharded, JAX accepts a reshape only if it splits one dimension or merges neighbours into one.
So no reshape here does both.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Zero, int8_of_words
from jaxdml._arithmetic.windows import Windows, shifted_slices, slices_at, sums_of_groups
from jaxdml._kernels.integer_product import MIN_SIZE, PackedMatrix, Product, Right, dot, product_shape, with_min_size
from jaxdml._kernels.integer_sums import RawProduct, accumulator, as_stored


def filter_columns(w: jax.Array, groups: int) -> jax.Array:
    """Return filters ``[O, I, *sizes]`` as the columns of ``[groups, taps * I, O / groups]``."""
    # One transposition, which cancels that of filters which were given in this order.
    return grouped_columns(lax.transpose(w, (*range(2, w.ndim), 1, 0)), groups)


def grouped_columns(w: jax.Array, groups: int) -> jax.Array:
    """Return filters ``[*sizes, I, O]`` as the columns of ``[groups, taps * I, O / groups]``."""
    *sizes, depth, features = w.shape
    columns = w.reshape(math.prod(sizes) * depth, features)
    return jnp.swapaxes(columns.reshape(columns.shape[0], groups, features // groups), 0, 1)


def filter_rows(w: jax.Array, groups: int) -> jax.Array:
    """Return filters ``[O, I, *sizes]`` as the rows of ``[groups, O / groups, taps * I]``."""
    features, depth, *sizes = w.shape
    rows = lax.transpose(w, (0, *range(2, w.ndim), 1)).reshape(features, math.prod(sizes) * depth)
    return rows.reshape(groups, features // groups, rows.shape[1])


def patch_product(product: Product, x: jax.Array, zx: Zero, columns: Right, zw: Zero, windows: Windows) -> RawProduct:
    """Convolve padded ``x`` with ``product``, which gets the patches as rows and the filters as columns.

    The filters are ``[1, groups, taps * I, O / groups]``. The zero points are ``[1]``, or ``[O]`` that of the filters,
    or None for 0. If ``x`` is int32, each number holds four channels of int8, as ``as_int8_words`` joins them.
    """
    rows = patch_rows(x, windows) if x.dtype != jnp.int32 else patch_rows_of_words(x, windows)
    zx = None if zx is None else zx.reshape(1, 1, 1, 1)
    raw = product(rows, zx, columns, None if zw is None else by_group(zw, windows.groups))
    counts, shape = _counts(x, windows), product_shape(rows, columns)
    if not isinstance(columns, PackedMatrix):
        return RawProduct(in_order(accumulator(raw, shape), counts, windows))
    # The sums of packed filters may be rounded by a chain, which subtracts from what is stored.
    rows_of_group = raw.rows if raw.rows is None or windows.groups == 1 else jnp.broadcast_to(raw.rows, shape)
    of_rows = None if rows_of_group is None else in_order(rows_of_group, counts, windows)
    zb, of_columns = (
        None if each is None else windows.along_channels(each.reshape(-1)) for each in (raw.zb, raw.columns)
    )
    za = None if raw.za is None else raw.za.reshape(())
    return RawProduct(in_order(as_stored(raw, shape), counts, windows), zb, of_rows, za, of_columns)


def by_group(parameter: jax.Array, groups: int) -> jax.Array:
    """Return ``[1]`` or ``[O]`` so that it broadcasts against a product ``[N, groups, windows, O / groups]``."""
    return parameter.reshape(1, groups if parameter.size > 1 else 1, 1, -1)


def patch_rows(x: jax.Array, windows: Windows) -> jax.Array:
    """Return the patches of padded ``x`` as the rows of ``[N, groups, windows, taps * C / groups]``."""
    if not windows.channels_last:
        # Without the barrier XLA would transpose each slice, or the patches.
        x = lax.optimization_barrier(jnp.moveaxis(x, 1, -1))  # type: ignore[no-untyped-call]
    return _patches(x, windows.with_channels_last())


def patch_rows_of_words(words: jax.Array, windows: Windows) -> jax.Array:
    """Return the patches of padded int8 in words, ``[N, *spatial, C / 4]``, as ``patch_rows`` returns those of int8."""
    if windows.groups > 1 or windows.dilations[-1] > 1:
        return int8_of_words(patch_rows(words, windows))
    read = gathered_patches(words, windows)
    return int8_of_words(read.reshape(len(read), 1, math.prod(read.shape[1:-1]), read.shape[-1]))


def gathered_patches(x: jax.Array, windows: Windows, missing: int = 0) -> jax.Array:
    """Return the patches of padded ``[N, *spatial, C]``, stored as ``[N, *counts, taps * C + missing]``.

    Each row of a window is one slice of neighbours. In a concatenation of shifted images a GPU would compute for each
    number which of them has it.

    Args:
      x: the images.
      windows: where the windows lie, without padding and without a dilation along the last dimension.
      missing: how many zeros follow each patch.
    """
    *front, width, channels = x.shape
    counts, (*rows, row) = _counts(x, windows), windows.sizes
    # The window counts first, then the rows of a window.
    grid = (*counts, *rows)
    starts = [
        lax.broadcasted_iota(jnp.int32, grid, d) * windows.strides[d]
        + lax.broadcasted_iota(jnp.int32, grid, len(counts) + d) * windows.dilations[d]
        for d in range(len(rows))
    ]
    starts.append(lax.broadcasted_iota(jnp.int32, grid, len(rows)) * (windows.strides[-1] * channels))
    read = slices_at(x.reshape(*front, width * channels), starts, row * channels)
    patches = read.reshape(x.shape[0], *counts, math.prod(rows) * row * channels)
    patches = lax.pad(patches, jnp.zeros((), x.dtype), [(0, 0, 0)] * (len(grid) - len(rows) + 1) + [(0, missing, 0)])
    # XLA for CUDA aborts where it fuses a product with what reads so: issue 47381 of openxla/xla.
    stored: jax.Array = lax.optimization_barrier(patches)  # type: ignore[no-untyped-call]
    return stored


def in_order(product: jax.Array, counts: tuple[int, ...], windows: Windows) -> jax.Array:
    """Return a product ``[N, groups, windows, O / groups]`` in the order of the output."""
    order = (0, 2, 1, 3) if windows.channels_last else (0, 1, 3, 2)
    return _with_spatial(lax.transpose(product, order), counts, windows)


def _with_spatial(product: jax.Array, counts: tuple[int, ...], windows: Windows) -> jax.Array:
    """Merge the groups of ``[N, windows, groups, C]`` or ``[N, groups, C, windows]``, and split the windows."""
    batch, one, two, three = product.shape
    if windows.channels_last:
        return product.reshape(batch, one, two * three).reshape(batch, *counts, two * three)
    return product.reshape(batch, one * two, three).reshape(batch, one * two, *counts)


def patch_sums(x: jax.Array, filters: jax.Array, windows: Windows) -> jax.Array:
    """Sum the products of stored numbers on a CPU, without a transposition: patches are multiplied as they are stored.

    Args:
      x: padded, int8 or uint8.
      filters: ``filter_columns`` if the channels are last, else ``filter_rows``; the left operand may be uint8.
      windows: where the windows lie.
    """
    read, counts = _patches(x, windows), _counts(x, windows)
    batch, groups = read.shape[:2]
    if windows.channels_last:
        features = filters.shape[2]
        columns = with_min_size(filters, 2)
        if groups == 1:
            count, k = read.shape[2:]
            rows = with_min_size(read.reshape(batch * count, k), 0)
            total: jax.Array = dot(rows, columns)[: batch * count, :features].reshape(batch, *counts, features)
            return total
        rows = with_min_size(read, 2)
        return in_order(dot(rows, columns[None])[:, :, : read.shape[2], :features], counts, windows)
    features = filters.shape[1]
    rows = with_min_size(filters, 1)
    product = dot(rows[None], with_min_size(read, 3))[:, :, :features, : read.shape[3]]
    return _with_spatial(product, counts, windows)


def corrected(
    total: jax.Array,
    filter_sums: Zero,
    zx: Zero,
    zw: Zero,
    x: jax.Array,
    windows: Windows,
    depth: int,
) -> RawProduct:
    """Return the sums of products of stored numbers, and what to subtract from them for the zero points.

    Args:
      total: the sums.
      filter_sums: the sums of the filters, int32 ``[O]``, or None if ``zx`` is.
      zx: the int32 zero point, ``[1]``, or None for 0.
      zw: the int32 zero points, ``[1]`` or ``[O]``, or None for 0.
      x: padded, int8 or uint8.
      windows: where the windows lie.
      depth: the number of products in a sum.
    """
    rows = columns = None
    zx = None if zx is None else windows.along_channels(zx)
    if zw is not None:
        rows = sums_of_groups(x, windows, total.shape[windows.channel_axis])
        if zx is not None:
            rows = rows - depth * zx
        zw = windows.along_channels(zw)
    if zx is not None and filter_sums is not None:
        columns = windows.along_channels(filter_sums)
    return RawProduct(total, zw, rows, zx, columns)


def sums_of_filters(filters: jax.Array, windows: Windows) -> jax.Array:
    """Sum each of the filters that ``patch_sums`` takes, as products with ones, which are fast on CPUs."""
    groups, k = filters.shape[0], filters.shape[1 if windows.channels_last else 2]
    if windows.channels_last:
        sums = dot(jnp.ones((groups, MIN_SIZE, k), jnp.int8), with_min_size(filters, 2))[:, 0]
        return sums[:, : filters.shape[2]].reshape(-1)
    sums = dot(with_min_size(filters, 1), jnp.ones((groups, k, MIN_SIZE), jnp.int8))[..., 0]
    return sums[:, : filters.shape[1]].reshape(-1)


def _counts(x: jax.Array, windows: Windows) -> tuple[int, ...]:
    """Return the number of windows along each spatial dimension of padded ``x``."""
    return windows.without_padding().counts(x.shape)


def _patches(x: jax.Array, windows: Windows) -> jax.Array:
    """Return patches as ``[N, groups, windows, K]`` if channels are last, else as ``[N, groups, K, windows]``."""
    batch, groups, taps = x.shape[0], windows.groups, windows.taps
    slices = [*shifted_slices(x, windows)]
    count, axis = math.prod(_counts(x, windows)), windows.channel_axis
    depth = x.shape[axis] // groups
    read = lax.concatenate(slices, axis) if taps > 1 else slices[0]
    if max(windows.strides) > 1:
        # XLA for CUDA aborts where it fuses a product with a strided slice, and that with a reshape before it: issue
        # 47381 of openxla/xla. It does not fuse across a barrier.
        read = lax.optimization_barrier(read)  # type: ignore[no-untyped-call]
    if windows.channels_last:
        parts = read.reshape(batch, count, read.shape[-1]).reshape(batch, count, taps, groups, depth)
        return jnp.moveaxis(parts, 3, 1).reshape(batch, groups, count, taps * depth)
    parts = read.reshape(batch, read.shape[1], count).reshape(batch, taps, groups, depth, count)
    return jnp.swapaxes(parts, 1, 2).reshape(batch, groups, taps * depth, count)
