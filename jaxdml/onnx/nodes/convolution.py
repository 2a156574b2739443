"""Convolutions of floats, with channels stored last."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._base.shapes import is_static
from jaxdml._networks.patches import fold
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import refusal
from jaxdml.onnx.nodes._windows import NodeWindows, kernel_of, slices, windows, windows_of_filters
from jaxdml.onnx.nodes.resizing_grid import interpolated
from jaxdml.onnx.values.kinds import channels_first, channels_last
from jaxdml.onnx.values.stored import ChannelsLast, FloatFilters, on_device

_SPATIAL = "0123456789"


def conv(
    call: NodeCall,
    X: Any,
    W: Any,
    B: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> ChannelsLast:
    """Convolve."""
    x = channels_last(X)
    # Filters of a model are stored with their spatial dimensions first.
    stored = isinstance(W, FloatFilters)
    w = W.array if stored else on_device(channels_first(W))
    where = windows_of_filters(
        call, X.shape, W.shape, kernel_shape, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad
    )
    spatial = _SPATIAL[: len(where.sizes)]

    def at_once(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x,
            w,
            where.strides,
            where.padding,
            rhs_dilation=where.dilations,
            dimension_numbers=(f"N{spatial}C", f"{spatial}IO" if stored else f"OI{spatial}", f"N{spatial}C"),
            feature_group_count=group,
            precision=lax.Precision.HIGHEST,
        )

    by_channel = group == W.shape[0] == x.shape[-1] > 1 and math.prod(where.sizes) <= _FEW_TAPS
    if not (by_channel and x.dtype == w.dtype == np.float32):
        return ChannelsLast(_with_bias(at_once(x, w), B))

    def by_slices(x: jax.Array, w: jax.Array) -> jax.Array:
        taps = w if stored else jnp.moveaxis(w, 0, -1)
        return sum_of_slices(x, taps.reshape(-1, w.shape[-1] if stored else w.shape[0]), where)

    result = lax.platform_dependent(x, w, cpu=by_slices, default=at_once)
    return ChannelsLast(_with_bias(result, B))


_FEW_TAPS = 64
"""A CPU convolves each channel by so many slices of an image or fewer."""


def sum_of_slices(x: jax.Array, taps: jax.Array, where: NodeWindows) -> jax.Array:
    """Convolve each channel by a filter of its own: add slices times one number for each channel."""
    nothing: Any = np.float32(0)
    return sum((part * tap for (_, part), tap in zip(slices(x, 1, where, nothing), taps, strict=True)), nothing)


def _with_bias(result: Any, bias: Any) -> Any:
    return result if bias is None else result + on_device(channels_first(bias))


def _conv_transpose(
    call: NodeCall,
    X: Any,
    W: Any,
    B: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> ChannelsLast:
    x, w = channels_last(X), on_device(channels_first(W))
    window = kernel_of(call, w.shape, kernel_shape)
    rank = len(window)
    strides, dilations = tuple(strides) or (1,) * rank, tuple(dilations) or (1,) * rank
    reaches = [(size - 1) * dilation + 1 for size, dilation in zip(window, dilations, strict=True)]
    more = tuple(output_padding) or (0,) * rank
    inputs = x.shape[1:-1]
    # How long the output is if nothing is cut off.
    whole = [
        (n - 1) * stride + reach + extra for n, stride, reach, extra in zip(inputs, strides, reaches, more, strict=True)
    ]
    if output_shape:
        most = [n * stride + reach - 1 for n, stride, reach in zip(inputs, strides, reaches, strict=True)]
        if any(is_static(limit) and n > limit for n, limit in zip(output_shape[-rank:], most, strict=True)):
            raise refusal(f"output_shape is {list(output_shape)}; the input reaches no further than {most}.")
        cut = [_cut(full - n, auto_pad) for full, n in zip(whole, output_shape[-rank:], strict=True)]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        cut = [_cut(full - n * stride, auto_pad) for full, n, stride in zip(whole, inputs, strides, strict=True)]
    else:
        pads = tuple(pads) if pads and auto_pad == "NOTSET" else (0,) * (2 * rank)
        cut = list(zip(pads[:rank], pads[rank:], strict=True))
    padding = [
        (reach - 1 - start, reach - 1 - end + extra)
        for reach, (start, end), extra in zip(reaches, cut, more, strict=True)
    ]
    # A transposed convolution is a convolution of the spread input with mirrored filters.
    grouped = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    filters = jnp.swapaxes(grouped, 1, 2).reshape(group * w.shape[1], w.shape[0] // group, *window)
    spatial = _SPATIAL[:rank]
    result = lax.conv_general_dilated(
        x,
        jnp.flip(filters, range(2, 2 + rank)),
        (1,) * rank,
        padding,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=(f"N{spatial}C", f"OI{spatial}", f"N{spatial}C"),
        feature_group_count=group,
        precision=lax.Precision.HIGHEST,
    )
    return ChannelsLast(_with_bias(result, B))


def _cut(total: int, auto_pad: str) -> tuple[int, int]:
    """Return how much to cut off at the start and at the end; what is missing is added at the end."""
    start = (max(total, 0) + (auto_pad != "SAME_UPPER")) // 2
    return start, total - start


def _col2im(
    call: NodeCall,
    data: Any,
    image_shape: np.ndarray,
    block_shape: np.ndarray,
    *,
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Any:
    image, block = tuple(image_shape.tolist()), tuple(block_shape.tolist())
    where = windows(image, block, strides=strides, dilations=dilations, pads=pads)
    where.taps()  # Not too many.
    return fold(data, image, window=block, **where.options)


def _deform_conv(
    call: NodeCall,
    X: Any,
    W: Any,
    offset: Any,
    B: Any = None,
    mask: Any = None,
    *,
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    offset_group: int = 1,
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Any:
    where = windows_of_filters(call, X.shape, W.shape, kernel_shape, strides=strides, dilations=dilations, pads=pads)
    window = where.sizes
    rank, batch = len(window), X.shape[0] * offset_group
    offsets = offset.reshape(batch, *window, rank, *where.counts)
    places = []
    for d, at in enumerate(where.elements()):
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = at.shape[::-1]
        places.append(jnp.take(offsets, d, 1 + rank) + at.T.reshape(shape).astype(offset.dtype))
    image = jnp.moveaxis(X.reshape(batch, -1, *X.shape[2:]), 1, -1)
    values = interpolated(image, places, "linear")
    if mask is not None:
        values *= mask.reshape(values.shape[:-1])[..., None]
    taps = math.prod(window)
    columns = jnp.moveaxis(values.reshape(batch, taps, -1, values.shape[-1]), -1, 1)
    columns = columns.reshape(X.shape[0], group, -1, columns.shape[-1])
    filters = W.reshape(group, W.shape[0] // group, -1)
    result = jnp.einsum("ngcp,gmc->ngmp", columns, filters, precision="highest")
    result = result.reshape(X.shape[0], W.shape[0], *where.counts)
    return result if B is None else result + B.reshape(-1, *(1,) * rank)


TABLE: Table = {
    "Conv": (Handler(1, conv, raw=True, filters="W"),),
    "ConvTranspose": (Handler(1, _conv_transpose, raw=True),),
    "DeformConv": (Handler(19, _deform_conv),),
    "Col2Im": (Handler(18, _col2im, static="image_shape block_shape"),),
}
