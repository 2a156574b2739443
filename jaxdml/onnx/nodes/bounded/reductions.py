"""What combines elements along dimensions: where one has a length, the others are neutral."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml._networks.integers import is_integer, truncating_divide
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task, array
from jaxdml.onnx.nodes.bounded.indexing import last
from jaxdml.onnx.values.bounded import bounded, filled, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, product, true

_NEUTRAL: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("L1", "L2", "LogSum", "Mean", "Sum", "SumSquare"), lambda dtype: 0),
    "Prod": lambda dtype: 1,
    "LogSumExp": lambda dtype: -np.inf,
    "Max": lambda dtype: last(dtype, True),
    "Min": lambda dtype: np.inf if jnp.issubdtype(dtype, jnp.floating) else last(dtype, False),
}


def _reduction(kind: str) -> Rule:
    def run(task: Task, x: Value, axes: np.ndarray | None = None) -> tuple[Value, ...]:
        sizes = sizes_of(x)
        given = task.attribute("axes") if task.takes("axes") else () if axes is None else axes.tolist()
        every = not given and not (task.takes("noop_with_empty_axes") and task.attribute("noop_with_empty_axes"))
        places = set(range(len(sizes))) if every else {axis_of(axis, len(sizes)) for axis in given}
        kept = [1 if d in places else n for d, n in enumerate(sizes) if d not in places or task.attribute("keepdims")]
        operands = [] if axes is None else [axes]
        if not is_bounded_in(sizes, tuple(places)):
            return tuple(bounded(y, kept) for y in task.compute(inner(x), *operands))
        masked = filled(array(x), sizes, _NEUTRAL[kind](x.dtype), tuple(places))
        (result,) = task.compute(masked, *operands)
        if kind == "Mean":
            result = _mean(masked, tuple(places), bool(task.attribute("keepdims")), product(sizes[d] for d in places))
        return (bounded(result, kept),)

    return run


def _mean(x: Any, axes: tuple[int, ...], keepdims: bool, count: Any) -> Any:
    total = jnp.sum(x, axes, dtype=x.dtype, keepdims=keepdims)
    number = jnp.asarray(true(count)).astype(x.dtype)
    return truncating_divide(jnp, total, jnp.maximum(number, 1)) if is_integer(x) else total / number


def extreme(greatest: bool) -> Rule:
    """Return the rule for the place of the greatest, or of the least, element."""

    def run(task: Task, x: Value) -> tuple[Value, ...]:
        sizes = list(sizes_of(x))
        axis = task.axis(len(sizes))
        value = inner(x)
        if isinstance(sizes[axis], Length):
            if task.takes("select_last_index") and task.attribute("select_last_index"):
                raise LengthError("the last of equal elements")
            floats = jnp.issubdtype(x.dtype, jnp.floating)
            value = filled(array(x), sizes, np.inf if floats and not greatest else last(x.dtype, greatest), (axis,))
        sizes[axis : axis + 1] = [1] if task.attribute("keepdims") else []
        return tuple(bounded(y, sizes) for y in task.compute(value))

    return run


def softmax(task: Task, x: Value) -> tuple[Value, ...]:
    """Normalize along an axis, or from it on before version 13; what does not count weighs nothing."""
    sizes = sizes_of(x)
    axis = task.axis(len(sizes))
    places = range(axis, len(sizes)) if task.call.handler.defaults["axis"] == 1 else (axis,)
    value = filled(array(x), sizes, -np.inf, places) if is_bounded_in(sizes, places) else inner(x)
    return tuple(bounded(y, sizes) for y in task.compute(value))


def cumulative(neutral: int) -> Rule:
    """Return the rule for what accumulates along an axis."""

    def run(task: Task, x: Value, axis: np.ndarray) -> tuple[Value, ...]:
        sizes = sizes_of(x)
        return tuple(bounded(y, sizes) for y in task.compute(filled(array(x), sizes, neutral), axis))

    return run


RULES: Rules = {
    **{f"Reduce{kind}": _reduction(kind) for kind in _NEUTRAL},
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), softmax),
    "ArgMax": extreme(True),
    "ArgMin": extreme(False),
    "CumProd": cumulative(1),
    "CumSum": cumulative(0),
}
