"""What combines elements along dimensions: where one has a length, the others are neutral."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml._networks.integers import is_integer, truncating_divide
from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes import _groups_along_axes
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes.bounded import pools
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task, array
from jaxdml.onnx.nodes.bounded.indexing import last
from jaxdml.onnx.values.bounded import bounded, counts, filled, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, product, true

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
        if kind == "Mean" and task.call.exact and rounded_once.is_simple(inner(x)) and places == set(range(2, x.ndim)):
            return _of_images(task, x)
        kept_alone = filled(array(x), sizes, _NEUTRAL[kind](x.dtype), tuple(places))
        (result,) = task.compute(kept_alone, *operands)
        if kind == "Mean":
            result = _mean(
                kept_alone, tuple(places), bool(task.attribute("keepdims")), product(sizes[d] for d in places)
            )
        return (bounded(result, kept),)

    return run


def _of_images(task: Task, x: Value) -> tuple[Value, ...]:
    """Average quantized images as a global average pooling does."""
    (mean,) = pools.global_average(task, x)
    if task.attribute("keepdims"):
        return (mean,)

    def flat(value: Value) -> Any:
        return array(value).reshape(value.shape[:2])

    y = inner(mean)
    meant = replace(y, shape=y.shape[:2], quantized=lambda *out: flat(y.quantized(*out)), to_floats=lambda: flat(y))
    return (bounded(meant, sizes_of(mean)[:2]),)


def _mean(x: Any, axes: tuple[int, ...], keepdims: bool, count: Any) -> Any:
    total = jnp.sum(x, axes, dtype=x.dtype, keepdims=keepdims)
    number = jnp.asarray(true(count)).astype(x.dtype)
    return truncating_divide(jnp, total, jnp.maximum(number, 1)) if is_integer(x) else total / number


def extreme(greatest: bool) -> Rule:
    """Return the rule for the place of the greatest, or of the least, element."""

    def run(task: Task, x: Value) -> tuple[Value, ...]:
        sizes = list(sizes_of(x))
        axis = task.axis(len(sizes))
        size = sizes[axis]
        floats = jnp.issubdtype(x.dtype, jnp.floating)
        (y,) = task.compute(masked(x, sizes, np.inf if floats and not greatest else last(x.dtype, greatest), (axis,)))
        if isinstance(size, Length):  # Where all elements are like the filling, the last one may be part of it.
            y = jnp.minimum(y, jnp.asarray(true(size) - 1, y.dtype))
        sizes[axis : axis + 1] = [1] if task.attribute("keepdims") else []
        return (bounded(y, sizes),)

    return run


def softmax(task: Task, x: Value) -> tuple[Value, ...]:
    """Normalize along an axis, or from it on before version 13; what does not count weighs nothing."""
    sizes = sizes_of(x)
    axis = task.axis(len(sizes))
    places = tuple(range(axis, len(sizes)) if task.call.handler.defaults["axis"] == 1 else (axis,))

    def floats() -> Value:
        return task.compute(masked(x, sizes, -np.inf, places))[0]

    integers = task.call.exact and task.call.node.op_type == "Softmax" and is_bounded_in(sizes, places)
    if integers and rounded_once.is_simple(inner(x)):
        counted = counts(sizes, places), true(product(sizes[d] for d in places))
        result = _groups_along_axes.softmax(
            task.call, inner(x), floats=floats, axis=task.attribute("axis"), counts=counted
        )
        return (bounded(result, sizes),)
    return (bounded(floats(), sizes),)


def cumulative(neutral: int) -> Rule:
    """Return the rule for what accumulates along an axis."""

    def run(task: Task, x: Value, axis: np.ndarray) -> tuple[Value, ...]:
        sizes = sizes_of(x)
        # What comes later counts only where it is added up from the end.
        kept = filled(array(x), sizes, neutral, (axis.item(),)) if task.attribute("reverse") else inner(x)
        return tuple(bounded(y, sizes) for y in task.compute(kept, axis))

    return run


RULES: Rules = {
    **{f"Reduce{kind}": _reduction(kind) for kind in _NEUTRAL},
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), softmax),
    "ArgMax": extreme(True),
    "ArgMin": extreme(False),
    "CumProd": cumulative(1),
    "CumSum": cumulative(0),
}
