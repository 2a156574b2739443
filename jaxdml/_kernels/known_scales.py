"""Convolve, multiply and add where scales and zero points are known while tracing, and a proof covers the rounding.

Programs for one CPU and for CUDA use this; ``otherwise`` serves the others.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.windows import Windows, padded, shifted_slices, sums_of_groups
from jaxdml._base.shapes import is_static
from jaxdml._kernels.integer_convolution.kernel import MIN_NATIVE_CHANNELS, MIN_NATIVE_FEATURES
from jaxdml._kernels.integer_convolution.native_convolution import native_sums, with_neighbours
from jaxdml._kernels.integer_convolution.patch_product import patch_rows, patch_sums
from jaxdml._kernels.integer_product.integer_dot import MIN_SIZE, dot, with_min_size
from jaxdml._kernels.requantization.proved_rounding import (
    ON_CPU,
    Addends,
    Arithmetic,
    round_products,
    round_sums,
    shifted_by_128,
)
from jaxdml._placement.partitioning import by_partitioning
from jaxdml._placement.platforms import Kernel, run
from jaxdml._placement.when_lowered import Form

MAX_ROWS_ON_THE_RIGHT = 32
"""Up to so many rows are the right operand of a product with a matrix that is stored by columns."""

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


def where_proved(otherwise: Form, *operands: Any, cpu: Form, cuda: Form | None = None) -> Any:
    """Call ``cpu`` in a program for one CPU, and ``cuda`` for CUDA, if it is given.

    ``otherwise`` serves other programs, and arrays that are empty or explicitly sharded.
    """

    def whatever_ranks(function: Form) -> Form:
        # What is traced when a program is lowered does not have the options of the caller.
        def traced(*operands: Any) -> Any:
            with jax.numpy_rank_promotion("allow"):
                return function(*operands)

        return traced

    general = whatever_ranks(otherwise)
    if not all(map(_is_whole, jax.tree.leaves(operands))):
        return general(*operands)
    on_several = Kernel(general, cuda=cuda and whatever_ranks(cuda))
    on_one = on_several._replace(cpu=whatever_ranks(cpu))
    return by_partitioning(
        lambda *operands: run(on_one, *operands), lambda devices, *operands: run(on_several, *operands), *operands
    )


def _is_whole(x: jax.Array) -> bool:
    """Whether an array has elements, of which its type does not say that they are on several devices."""
    return is_static(*x.shape) and x.size > 0 and not any(jax.typeof(x).sharding.spec)


def stored(x: jax.Array) -> jax.Array:
    """Return ``x``, so that XLA on a CPU stores it instead of computing it anew in each operator that reads it.

    No barrier keeps XLA from that; a branch does. It is always taken.
    """
    taken = x.reshape(-1)[0].astype(jnp.int32) > -(2**31)
    result: jax.Array = lax.cond(taken, lambda x: x, lambda x: x - x, x)
    return result


def rounded(on: Arithmetic, rounding: Rounding, sums: jax.Array) -> jax.Array:
    """Round int32 sums."""
    return shifted_by_128(round_products(on, sums, *rounding), rounding.dtype)


def add(
    by: Addends, zeros: tuple[int, int], zero_point: int, dtype: Any, on: Arithmetic, a: jax.Array, b: jax.Array
) -> jax.Array:
    """Add ``a`` less its zero point times a factor and ``b`` alike, and round."""
    p, q = (_difference(x, zero) for x, zero in zip((a, b), zeros, strict=True))
    return shifted_by_128(round_sums(on, p, q, by, zero_point, dtype), dtype)


def multiply(rounding: Rounding, zeros: tuple[int, int], on: Arithmetic, a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiply ``a`` less its zero point by ``b`` alike, and round."""
    p, q = (_difference(x, zero) for x, zero in zip((a, b), zeros, strict=True))
    return rounded(on, rounding, p * q)


def _difference(x: jax.Array, zero: int) -> jax.Array:
    """Return int8 or uint8 less the zero point of the int8, as int32."""
    return shifted_by_128(x, jnp.int8).astype(jnp.int32) - np.int32(zero)


def stored_integers(integers: Form, *operands: jax.Array) -> jax.Array:
    """Return the 8-bit integers that a form computes, so that XLA on a CPU stores them.

    Integers are often read twice, or transposed. If each reader computed them anew, and what comes before them, every
    sum of a model would take longer than the one before; and a loop over a transposed array is slow.
    """
    result = integers(*operands)
    return shifted_by_128(stored(shifted_by_128(result, jnp.int8)), result.dtype)


def multiply_matrices(
    meaning: Stored, rounding: Rounding, by_columns: bool, x: jax.Array, w: jax.Array, sums: jax.Array | None
) -> jax.Array:
    """Multiply ``[..., M, K]`` by a matrix, and round, on a CPU.

    Args:
      meaning: of the operands.
      rounding: how to round.
      by_columns: whether ``w`` is stored by columns.
      x: int8 or uint8.
      w: int8 or uint8 ``[K, N]``, or ``[N, K]`` if it is stored by columns.
      sums: int32 ``[N]``, the sums of the columns of ``w`` as int8, or None.
    """
    depth, columns = x.shape[-1], shifted_by_128(w, jnp.int8)
    rows = shifted_by_128(x, jnp.int8).reshape(-1, depth)
    if sums is None:
        sums = _product(jnp.ones((MIN_SIZE, depth), jnp.int8), columns, by_columns)[0]
    total = _product(rows, columns, by_columns)
    if meaning.w_zero_point is not None:
        of_rows = dot(with_min_size(rows, 0), jnp.ones((depth, MIN_SIZE), jnp.int8))[: rows.shape[0], :1]
        total -= (of_rows - depth * meaning.x_zero_point) * meaning.w_zero_point
    offset = -meaning.x_zero_point * sums
    if meaning.bias is not None:
        offset += meaning.bias
    return rounded(ON_CPU, rounding, total + offset).reshape(*x.shape[:-1], sums.shape[0])


def _product(rows: jax.Array, w: jax.Array, by_columns: bool) -> jax.Array:
    """Multiply int8 ``[M, K]`` by int8 ``[K, N]``, or ``[N, K]`` if it is stored by columns, to int32."""
    count, features = rows.shape[0], w.shape[0 if by_columns else 1]
    rows = with_min_size(rows, 0)
    columns = with_min_size(w, 0 if by_columns else 1)
    if not (by_columns and count <= MAX_ROWS_ON_THE_RIGHT):
        return dot(rows, columns, by_columns)[:count, :features]
    # Without the barrier XLA would exchange the operands to save the transposition.
    transposed = lax.optimization_barrier(dot(columns, rows, by_columns=True))  # type: ignore[no-untyped-call]
    return jnp.swapaxes(transposed, 0, 1)[:count, :features]


def convolve(
    meaning: Stored,
    rounding: Rounding,
    windows: Windows,
    on: Arithmetic,
    total: Form,
    x: jax.Array,
    w: jax.Array,
    sums: jax.Array,
) -> jax.Array:
    """Convolve ``[N, *spatial, C]``, and round.

    Args:
      meaning: of the operands.
      rounding: how to round.
      windows: where windows lie; channels are last.
      on: the platform's arithmetic.
      total: takes padded int8 ``x`` and ``w``; returns their int32 sums of products of ``x`` and ``w - w_zero_point``.
      x: int8 or uint8.
      w: int8 filters, as ``total`` reads them.
      sums: int32 ``[O]``, the sums of the filters.
    """
    offset, zw = -meaning.x_zero_point * sums, meaning.w_zero_point
    if meaning.bias is not None:
        offset += meaning.bias
    if zw is not None:
        offset += meaning.x_zero_point * (w.size // sums.size) * zw
    read = padded(shifted_by_128(x, jnp.int8), jnp.asarray(meaning.x_zero_point), windows)
    return rounded(on, rounding, total(read, w) + offset)


def sums_on_cpu(windows: Windows, zw: np.ndarray | None, by_rows: bool, x: jax.Array, w: jax.Array) -> jax.Array:
    """Return the sums that ``convolve`` wants.

    Args:
      windows: where windows lie; channels are last.
      zw: the zero point of the filters.
      by_rows: whether filters are stored as ``[O, *sizes, C / groups]``, and not as ``[*sizes, C / groups, O]``.
      x: padded, int8.
      w: the filters, int8.
    """
    if by_rows and windows.groups > 1:
        w, by_rows = jnp.moveaxis(w, 0, -1), False
    if w.shape[-2] == 1 and windows.groups > 1:
        return _by_channel(windows, zw, x, w)
    total = (_by_filters_in_rows if by_rows else _by_product)(windows, x, w)
    return total if zw is None else total - sums_of_groups(x, windows, total.shape[-1]) * zw


def _by_filters_in_rows(windows: Windows, x: jax.Array, w: jax.Array) -> jax.Array:
    """Return the sums of products of padded int8 ``x`` and filters ``[O, *sizes, C]``."""
    patches = patch_rows(x, windows)
    batch, _, count, depth = patches.shape
    total = _product(patches.reshape(batch * count, depth), w.reshape(w.shape[0], depth), by_columns=True)
    return total.reshape(batch, *windows.without_padding().counts(x.shape), w.shape[0])


def _by_product(windows: Windows, x: jax.Array, w: jax.Array) -> jax.Array:
    """Return the sums of products of padded int8 ``x`` and filters ``[*sizes, C / groups, O]``."""
    depth, features = w.shape[-2:]

    def by_patches(x: jax.Array, w: jax.Array) -> jax.Array:
        columns = w.reshape(windows.taps * depth, windows.groups, features // windows.groups)
        return patch_sums(x, jnp.swapaxes(columns, 0, 1), windows)

    is_image = len(windows.sizes) == 2 and windows.groups == 1
    if is_image and windows.taps > 1 and depth >= MIN_NATIVE_CHANNELS and features >= MIN_NATIVE_FEATURES:
        return native_sums(x, w, windows, jnp.int32, by_patches)
    if is_image and windows.taps > 1 and windows.dilations == (1, 1):
        return _by_neighbours(windows, x, w)
    return by_patches(x, w)


def _by_neighbours(windows: Windows, x: jax.Array, w: jax.Array) -> jax.Array:
    """Return the sums of products of padded int8 ``x`` of few channels."""
    x, w, of_rows = with_neighbours(x, w, windows, _MULTIPLE)
    features = w.shape[-1]

    def by_patches(x: jax.Array, w: jax.Array) -> jax.Array:
        return patch_sums(x, w.reshape(1, -1, features), of_rows)

    if w.shape[2] >= MIN_NATIVE_CHANNELS and features >= MIN_NATIVE_FEATURES:
        return native_sums(x, w, of_rows, jnp.int32, by_patches)
    return by_patches(x, w)


def _by_channel(windows: Windows, zw: np.ndarray | None, x: jax.Array, w: jax.Array) -> jax.Array:
    """Add shifted slices times one number for each channel, less the zero point ``zw`` of the filters."""
    features, channels = w.shape[-1], x.shape[-1]
    weights = w.reshape(windows.taps, channels, features // channels).astype(jnp.int32)
    if zw is not None:
        weights -= np.broadcast_to(zw, features).reshape(1, *weights.shape[1:])
    weights = stored(weights)  # Else XLA would widen them for each element of the result.
    # Without the barrier XLA would pad anew for each slice.
    read = lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
    total = jnp.int32(0)
    for numbers, weight in zip(shifted_slices(read, windows), weights, strict=True):
        if features == channels:
            total += numbers.astype(jnp.int32) * weight.reshape(channels)
        else:
            total += numbers[..., None].astype(jnp.int32) * weight
    return total.reshape(*total.shape[: x.ndim - 1], features)
