"""Reductions over axes, in NumPy or jax.numpy."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._networks.integers import is_integer, truncating_divide

Reduction = Callable[..., Any]
"""``reduction(xp, x, axis=..., keepdims=...)``; it returns the type of ``x``."""


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


REDUCTIONS: Mapping[str, Reduction] = {
    "L1": _l1,
    "L2": _l2,
    "LogSum": _log_sum,
    "LogSumExp": _log_sum_exp,
    "Max": _max,
    "Mean": _mean,
    "Min": _min,
    "Prod": _prod,
    "Sum": _sum,
    "SumSquare": _sum_square,
}
"""By the name that ONNX has for it, without ``Reduce``."""
