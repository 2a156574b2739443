"""Reductions over axes."""

from collections.abc import Callable
from typing import Any

from jaxdml._networks.reductions import REDUCTIONS, Reduction
from jaxdml.onnx.nodes._handler import FIRST, Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axes_of


def _axes_attribute(reduction: Reduction) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, *, axes: tuple[int, ...] = (), keepdims: int = 1) -> Any:
        return reduction(call.xp, x, axis=axes_of(axes, x.ndim) or None, keepdims=bool(keepdims))

    return run


def _axes_input(reduction: Reduction) -> Callable[..., Any]:
    def run(call: NodeCall, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        axis = () if axes is None else axes_of(axes.tolist(), x.ndim)
        return reduction(call.xp, x, axis=axis if axis or noop_with_empty_axes else None, keepdims=bool(keepdims))

    return run


def _handlers(name: str) -> tuple[Handler, ...]:
    reduction, selects = REDUCTIONS[name], name in ("Max", "Min")
    facts: dict[str, Any] = {"host": name != "LogSumExp", "moves": FIRST if selects else 0, "orders": selects}
    return (
        Handler(1, _axes_attribute(reduction), **facts),
        Handler(13 if name == "Sum" else 18, _axes_input(reduction), static="axes", **facts),
    )


TABLE: Table = {f"Reduce{name}": _handlers(name) for name in REDUCTIONS}
