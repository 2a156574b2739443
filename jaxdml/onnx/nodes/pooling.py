"""Poolings of floats, with channels stored last."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._networks.pooling import Pool, greatest_by_int8, greatest_inside
from jaxdml.onnx.nodes import pooling_regions
from jaxdml.onnx.nodes._handler import FIRST, Handler, NodeCall, Table
from jaxdml.onnx.nodes._windows import NodeWindows, slices, windows
from jaxdml.onnx.values.kinds import Value, channels_first, channels_last
from jaxdml.onnx.values.stored import ChannelsLast, on_device, widened

_FEW_TAPS = 16
"""Of so many elements a window is read by slices."""


def least(dtype: Any) -> np.ndarray:
    """Return the value that never wins."""
    return np.array(-np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min, dtype)


def _max_pool(
    call: NodeCall,
    X: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    storage_order: int = 0,
    strides: Sequence[int] = (),
) -> Any:
    where = windows(
        X.shape[2:],
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    if len(call.outputs) > 1 and call.outputs[1]:
        return _max_with_indices(on_device(channels_first(X)), where, storage_order)
    x = channels_last(X)
    neutral = least(x.dtype)
    reduced = partial(_reduced, where=where, reduce=lax.max, neutral=neutral)
    by_slices = partial(_greatest_of_slices, where=where)
    if jnp.issubdtype(x.dtype, jnp.integer) and int(np.prod(where.sizes)) <= _FEW_TAPS:
        # A CPU has no fast reduce_window of integers. The TPU's compiler aborts on some fusions of strided slices.
        on_cuda = partial(greatest_by_int8, by_slices) if x.dtype == np.uint8 else by_slices
        found = lax.platform_dependent(x, default=by_slices, cuda=on_cuda, tpu=reduced)
        pool = Pool(where.sizes, where.strides, where.dilations, where.start_padding, where.counts)
        return ChannelsLast(greatest_inside(x, pool, found))
    # A dilated reduce_window has no derivative.
    return ChannelsLast((reduced if set(where.dilations) <= {1} else by_slices)(x))


def _greatest_of_slices(x: jax.Array, where: NodeWindows) -> jax.Array:
    result, *others = (value for _, value in slices(x, 1, where, least(x.dtype)))
    for value in others:
        result = jnp.maximum(result, value)
    return result


def _reduced(x: jax.Array, where: NodeWindows, reduce: Callable[..., Any], neutral: np.ndarray) -> jax.Array:
    """Reduce the windows of an array with channels last.

    They get no more of it than they read: where elements are left over, XLA's CPU backend up to 0.10.1 computes windows
    of a product wrong, or writes past its memory.
    """
    ends, padding = where.read()
    return lax.reduce_window(
        lax.slice(x, (0,) * x.ndim, (x.shape[0], *ends, x.shape[-1])),
        neutral,
        reduce,
        (1, *where.sizes, 1),
        (1, *where.strides, 1),
        ((0, 0), *padding, (0, 0)),
        window_dilation=(1, *where.dilations, 1),
    )


def _max_with_indices(x: jax.Array, where: NodeWindows, storage_order: int) -> tuple[jax.Array, jax.Array]:
    """Return the largest elements, and which elements of the whole input they are; the first of equal ones.

    A NaN is larger than every number, as it is where no indices are asked for.
    """
    places = np.arange(np.prod(where.inputs)).reshape(where.inputs, order="F" if storage_order else "C")
    inside, at = where.inside(), list(where.elements())
    found = np.zeros(where.counts, np.bool_)
    best: Any = None
    index: Any = 0
    for tap, value in slices(x, 2, where, least(x.dtype)):
        columns = [of[:, i] for of, i in zip(at, tap, strict=True)]
        clipped = [np.clip(column, 0, n - 1) for column, n in zip(columns, where.inputs, strict=True)]
        valid = _outer([of[:, i] for of, i in zip(inside, tap, strict=True)])
        better = valid & ~found if best is None else valid & (~found | ~(value <= best) & ~jnp.isnan(best))
        best = value if best is None else jnp.where(better, value, best)
        index = jnp.where(better, places[np.ix_(*clipped)], index)
        found |= valid
    integer = jax.dtypes.canonicalize_dtype(np.int64)
    batch, channels = (lax.broadcasted_iota(integer, best.shape, d) for d in (0, 1))
    return best, (batch * x.shape[1] + channels) * places.size + index.astype(integer)


def _outer(masks: Sequence[np.ndarray]) -> np.ndarray:
    result = np.ones((), np.bool_)
    for mask in masks:
        result = np.logical_and.outer(result, mask)
    return result


def _average_pool(
    call: NodeCall,
    X: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> ChannelsLast:
    where = windows(
        X.shape[2:],
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    count: Any = np.prod(where.sizes)
    return averaged(X, where, where.populations(bool(count_include_pad))[None, ..., None] if where.padded else count)


def averaged(X: Value, where: NodeWindows, count: Any) -> ChannelsLast:
    """Average windows of so many elements each; a window of padding alone has the mean 0."""
    x = channels_last(X)
    wide = widened(x)
    total = _reduced(wide, where, lax.add, np.zeros((), wide.dtype))
    return ChannelsLast((total / jnp.maximum(jnp.asarray(count, wide.dtype), 1)).astype(x.dtype))


def _lp_pool(
    call: NodeCall,
    X: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] = (),
    p: int = 2,
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> ChannelsLast:
    where = windows(
        X.shape[2:],
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    x = channels_last(X)
    powers = _power(x, p)
    return ChannelsLast(_root(_reduced(powers, where, lax.add, np.zeros((), powers.dtype)), p).astype(x.dtype))


def _power(x: jax.Array, p: int) -> jax.Array:
    return lax.integer_pow(jnp.abs(widened(x)), p)


def _root(x: jax.Array, p: int) -> jax.Array:
    return {1: lambda: x, 2: lambda: jnp.sqrt(x)}.get(p, lambda: x ** (1 / p))()


def _over_space(reduce: Callable[[jax.Array, tuple[int, ...]], jax.Array]) -> Callable[[NodeCall, Value], ChannelsLast]:
    """Return a function that reduces each channel to one element."""

    def run(call: NodeCall, X: Value) -> ChannelsLast:
        x = channels_last(X)
        return ChannelsLast(reduce(widened(x), tuple(range(1, x.ndim - 1))).astype(x.dtype))

    return run


def _global_lp_pool(call: NodeCall, X: Value, *, p: int = 2) -> ChannelsLast:
    def reduce(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
        return _root(_power(x, p).sum(axes, keepdims=True), p)

    return _over_space(reduce)(call, X)


def _max_unpool(
    call: NodeCall,
    X: Any,
    indices: Any,
    output_shape: np.ndarray | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Any:
    rank = len(kernel_shape)
    pads, strides = tuple(pads) or (0,) * (2 * rank), tuple(strides) or (1,) * rank
    each = zip(X.shape[2:], strides, kernel_shape, pads[:rank], pads[rank:], strict=True)
    spatial = tuple((n - 1) * stride + size - start - end for n, stride, size, start, end in each)
    shape = (*X.shape[:2], *spatial)
    flat = jnp.zeros(np.prod(shape), X.dtype).at[indices.reshape(-1)].set(X.reshape(-1), mode="drop")
    result = flat.reshape(shape)
    if output_shape is None:
        return result
    # The indices count in what was pooled; a larger output is filled with zeros at its ends.
    return lax.pad(
        result, jnp.zeros((), X.dtype), [(0, int(wanted) - n, 0) for wanted, n in zip(output_shape, shape, strict=True)]
    )


TABLE: Table = {
    **pooling_regions.TABLE,
    "MaxPool": (Handler(1, _max_pool, raw=True, moves=FIRST, orders=True),),
    "AveragePool": (Handler(7, _average_pool, raw=True),),
    "LpPool": (Handler(2, _lp_pool, raw=True),),
    "GlobalAveragePool": (Handler(1, _over_space(lambda x, axes: x.mean(axes, keepdims=True)), raw=True),),
    "GlobalMaxPool": (Handler(1, _over_space(lambda x, axes: x.max(axes, keepdims=True)), raw=True),),
    "GlobalLpPool": (Handler(2, _global_lp_pool, raw=True),),
    "MaxUnpool": (Handler(9, _max_unpool, static="output_shape"),),
}
