"""Reductions over axes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.nodes._handler import FIRST, Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axes_of
from jaxdml.onnx.nodes.elementwise import is_integer, truncating_divide

Reduction = Callable[..., Any]
"""``reduction(xp, x, axis=..., keepdims=...)``."""


def _sum(xp: Any, x: Any, **where: Any) -> Any:
    return xp.sum(x, dtype=x.dtype, **where)


def _prod(xp: Any, x: Any, **where: Any) -> Any:
    return xp.prod(x, dtype=x.dtype, **where)


def _l1(xp: Any, x: Any, **where: Any) -> Any:
    return _sum(xp, xp.abs(x), **where)


def _sum_square(xp: Any, x: Any, **where: Any) -> Any:
    return _sum(xp, x * x, **where)


def _l2(xp: Any, x: Any, **where: Any) -> Any:
    return xp.sqrt(_sum_square(xp, x, **where)).astype(x.dtype)


def _log_sum(xp: Any, x: Any, **where: Any) -> Any:
    return xp.log(_sum(xp, x, **where)).astype(x.dtype)


def _log_sum_exp(xp: Any, x: Any, **where: Any) -> Any:
    return jax.nn.logsumexp(x, **where).astype(x.dtype)


def _mean(xp: Any, x: Any, **where: Any) -> Any:
    if not is_integer(x):
        return xp.mean(x, dtype=x.dtype, **where)
    total = _sum(xp, x, **where)
    count = _sum(np, np.ones(x.shape, x.dtype), **where)
    return truncating_divide(xp, total, count)


def _max(xp: Any, x: Any, **where: Any) -> Any:
    return xp.max(x, **_start(x.dtype, 0), **where)


def _min(xp: Any, x: Any, **where: Any) -> Any:
    return xp.min(x, **_start(x.dtype, 1), **where)


def _start(dtype: Any, which: int) -> dict[str, Any]:
    """Return what the greatest, or the least, of nothing is."""
    if dtype.hasobject:  # Sizes that are symbols.
        return {}
    if dtype == np.bool_:
        return {"initial": bool(which)}
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
        return {"initial": np.asarray((limits.min, limits.max)[which], dtype)}
    return {"initial": (-np.inf, np.inf)[which]}


def _axes_attribute(reduction: Reduction) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, *, axes: tuple[int, ...] = (), keepdims: int = 1) -> Any:
        return reduction(call.xp, x, axis=axes_of(axes, x.ndim) or None, keepdims=bool(keepdims))

    return run


def _axes_input(reduction: Reduction) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        axis = () if axes is None else axes_of(axes.tolist(), x.ndim)
        return reduction(call.xp, x, axis=axis if axis or noop_with_empty_axes else None, keepdims=bool(keepdims))

    return run


_REDUCTIONS: dict[str, tuple[int, Reduction]] = {
    "ReduceL1": (18, _l1),
    "ReduceL2": (18, _l2),
    "ReduceLogSum": (18, _log_sum),
    "ReduceLogSumExp": (18, _log_sum_exp),
    "ReduceMax": (18, _max),
    "ReduceMean": (18, _mean),
    "ReduceMin": (18, _min),
    "ReduceProd": (18, _prod),
    "ReduceSum": (13, _sum),
    "ReduceSumSquare": (18, _sum_square),
}
"""By operator: the version since which the axes are an input."""


def _handlers(since: int, reduction: Reduction) -> tuple[Handler, ...]:
    host, selects = reduction is not _log_sum_exp, reduction in (_max, _min)
    facts: dict[str, Any] = {"host": host, "moves": FIRST if selects else 0, "orders": selects}
    return (
        Handler(1, _axes_attribute(reduction), **facts),
        Handler(since, _axes_input(reduction), static="axes", **facts),
    )


TABLE: Table = {name: _handlers(since, reduction) for name, (since, reduction) in _REDUCTIONS.items()}
