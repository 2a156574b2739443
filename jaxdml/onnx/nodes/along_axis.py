"""Operators that run along axes and keep them, and ArgMax and ArgMin."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of


def _extreme(search: Callable[..., Any]) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        dtype = jax.dtypes.canonicalize_dtype(np.int64)
        kept = [1 if d == axis % x.ndim else n for d, n in enumerate(x.shape) if keepdims or d != axis % x.ndim]
        if 0 in kept:
            return jnp.zeros(kept, dtype)  # Of no sequences none has to have elements.
        last = bool(select_last_index)
        return search(x, axis=axis, keepdims=bool(keepdims), select_last_index=last, index_dtype=dtype)

    return run


def _hardmax(x: Any, axis: tuple[int, ...]) -> Any:
    """Return 1 where the first of the greatest elements is, else 0."""
    sizes = [x.shape[i] for i in axis]
    if 0 in x.shape:
        return x
    shape = [size if i in axis else 1 for i, size in enumerate(x.shape)]
    positions = jnp.arange(math.prod(sizes)).reshape(shape)
    return (positions == jaxdml.argmax(x, axis=axis, keepdims=True)).astype(x.dtype)


def _over_one(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, *, axis: int = -1) -> Any:
        return function(x, axis=(axis_of(axis, x.ndim),))

    return run


def _over_rest(function: Callable[..., Any]) -> Callable[..., Any]:
    """Treat the axis and all that follow as one."""

    def run(call: NodeCall, x: Any, *, axis: int = 1) -> Any:
        return function(x, axis=tuple(range(axis_of(axis, x.ndim), x.ndim)))

    return run


def _cumulative(function: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
        axis = axis_of(axis.item(), x.ndim)
        if exclusive:
            shift = (-1, 1, 0) if reverse else (1, -1, 0)
            x = lax.pad(x, np.asarray(neutral, x.dtype), [shift if i == axis else (0, 0, 0) for i in range(x.ndim)])
        return function(x, axis=axis, reverse=bool(reverse))

    return run


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _below_greatest(x: Any, axis: tuple[int, ...]) -> Any:
    """Return elements minus the greatest; the greatest counts as constant in a derivative.

    XLA may compute what it reads twice in two ways, one of them rounded less: the difference is then not 0 where an
    element is the greatest. To compare, it must round both. Of an infinity minus itself IEEE's NaN is kept.
    """
    greatest = jnp.max(x, axis, keepdims=True, initial=-jnp.inf)
    difference = jnp.minimum(x - greatest, 0)
    return jnp.where((x >= greatest) & jnp.isfinite(greatest), 0, difference)


@_below_greatest.defjvp
def _below_greatest_jvp(axis: tuple[int, ...], primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    return _below_greatest(*primals, axis), tangents[0]


def softmax(x: Any, axis: tuple[int, ...]) -> Any:
    """Return exponentials, divided by their sum along the axes."""
    exponentials = jnp.exp(_below_greatest(x, axis))
    return exponentials / jnp.sum(exponentials, axis, keepdims=True)


def _log_softmax(x: Any, axis: tuple[int, ...]) -> Any:
    difference = _below_greatest(x, axis)
    return difference - jnp.log(jnp.sum(jnp.exp(difference), axis, keepdims=True))


_SOFTMAXES = {"Softmax": softmax, "LogSoftmax": _log_softmax, "Hardmax": _hardmax}

TABLE: Table = {
    "ArgMax": (Handler(1, _extreme(jaxdml.argmax)),),
    "ArgMin": (Handler(1, _extreme(jaxdml.argmin)),),
    "CumProd": (Handler(26, _cumulative(lax.cumprod, 1), static="axis"),),
    "CumSum": (Handler(11, _cumulative(lax.cumsum, 0), static="axis"),),
    **{name: (Handler(1, _over_rest(run)), Handler(13, _over_one(run))) for name, run in _SOFTMAXES.items()},
}
