"""Check and run DML_OPERATOR_CONVOLUTION_INTEGER."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax import lax
from jax.typing import ArrayLike

from jaxdml._arguments import convolutions
from jaxdml._arguments.call import Call
from jaxdml._kernels.integer_convolution import PackedFilters
from jaxdml._kernels.integer_sums import wrapped


def convolution_integer(
    x: ArrayLike,
    x_zero_point: ArrayLike | None,
    w: ArrayLike | PackedFilters,
    w_zero_point: ArrayLike | None,
    *,
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
    start_padding: int | Sequence[int] = 0,
    end_padding: int | Sequence[int] = 0,
    group_count: int = 1,
    dimension_numbers: tuple[str, str, str] | lax.ConvDimensionNumbers | None = None,
    axis_name: str | tuple[str, ...] | None = None,
    implementation: str | None = None,
) -> jax.Array:
    """Convolve 8-bit integers with zero points, summed in int32.

    Each window of ``x - x_zero_point`` times each filter of ``w - w_zero_point``, modulo ``2**32``. Up to 33,025
    elements of a filter no sum wraps around. Padding adds nothing to a sum: it stands for ``x_zero_point``.

    The filters are not reversed. The options of spatial dimensions are one integer, or one for each of them.

    Args:
      x: int8 or uint8, ``[N, C, *spatial]``, with one to three spatial dimensions or more.
      x_zero_point: dtype of ``x``, one value; None means 0.
      w: int8 or uint8, ``[M, C / group_count, *spatial]``.
      w_zero_point: dtype of ``w``, one value or one per output channel; None means 0.
      strides: the distance between neighbouring windows. Static, like all options.
      dilations: the distance between neighbouring elements of a window.
      start_padding: how many elements to add before ``x``, none less than 0.
      end_padding: how many elements to add after ``x``, none less than 0.
      group_count: into how many groups the channels of ``x`` and of the result fall; it is C for a depthwise
        convolution.
      dimension_numbers: the order of dimensions of ``x``, ``w`` and the result, as ``jax.lax.conv_general_dilated``
        takes it, such as ``("NHWC", "HWIO", "NHWC")``; None means channels first.
      axis_name: inside ``jax.shard_map``, the mesh axis that the channels of each group are sharded over, or a tuple of
        axes. ``x`` and ``w`` are then blocks, and every shard gets the result for all channels.
      implementation: the name of a method to force; None lets the library choose.

    Returns:
      int32, ``[N, M, *spatial]``, or as ``dimension_numbers`` says.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype, rank or shape.
      ValueError: an option is out of range, or a window is larger than the padded ``x``. ``implementation`` is unknown.
        A zero point is a Python number that its dtype cannot hold. A spatial dimension is sharded over an Explicit
        axis.
      NotImplementedError: the program is lowered for a platform without the forced ``implementation``.

    Source:
      DML_CONVOLUTION_INTEGER_OPERATOR_DESC: ``InputTensor``, ``InputZeroPointTensor``, ``FilterTensor``,
      ``FilterZeroPointTensor``, ``Strides``, ``Dilations``, ``StartPadding``, ``EndPadding``, ``GroupCount``. One and
      three spatial dimensions and ``dimension_numbers`` are ours; see docs/departures.md.

    Example:
      >>> x, w = jnp.array([[[2, 3, 4, 5]]], jnp.uint8), jnp.array([[[1, -1]]], jnp.int8)
      >>> jaxdml.convolution_integer(x, 2, w, None, start_padding=1)
      Array([[[ 0, -1, -1, -1]]], dtype=int32)
    """
    call = Call("convolution_integer", x=x, x_zero_point=x_zero_point, w=w, w_zero_point=w_zero_point)
    options = {
        "strides": strides,
        "dilations": dilations,
        "start_padding": start_padding,
        "end_padding": end_padding,
        "group_count": group_count,
    }
    given = convolutions.convolution(call, axis_name, dimension_numbers, options)
    zeros = convolutions.parameters(call, given, x_zero_point=given.x.dtype, w_zero_point=given.w.dtype)
    return convolutions.convolve(call, given, implementation, wrapped, *zeros.values())
