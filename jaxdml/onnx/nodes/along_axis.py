"""Operators that run along axes and keep them, and ArgMax and ArgMin."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml._networks.along_axes import cumulative_product, cumulative_sum, hardmax, log_softmax, softmax
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


def _over_one(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, *, axis: int = -1) -> Any:
        return function(x, axis=(axis_of(axis, x.ndim),))

    return run


def _over_rest(function: Callable[..., Any]) -> Callable[..., Any]:
    """Treat the axis and all that follow as one."""

    def run(call: NodeCall, x: Any, *, axis: int = 1) -> Any:
        return function(x, axis=tuple(range(axis_of(axis, x.ndim), x.ndim)))

    return run


def _cumulative(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
        return function(x, axis_of(axis.item(), x.ndim), exclusive=bool(exclusive), reverse=bool(reverse))

    return run


_SOFTMAXES = {"Softmax": softmax, "LogSoftmax": log_softmax, "Hardmax": hardmax}

TABLE: Table = {
    "ArgMax": (Handler(1, _extreme(jaxdml.argmax)),),
    "ArgMin": (Handler(1, _extreme(jaxdml.argmin)),),
    "CumProd": (Handler(26, _cumulative(cumulative_product), static="axis"),),
    "CumSum": (Handler(11, _cumulative(cumulative_sum), static="axis"),),
    **{name: (Handler(1, _over_rest(run)), Handler(13, _over_one(run))) for name, run in _SOFTMAXES.items()},
}
