"""How operators treat arrays of which only a part counts. Those that are not here refuse them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from jaxdml._base import errors
from jaxdml.onnx._errors import NotKnownError, UnsupportedModelError
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes import control_flow, groups
from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.nodes.bounded import (
    attending,
    branches,
    caching,
    drawing,
    elementwise,
    images,
    indexing,
    joining,
    loops,
    movement,
    normalizing,
    pools,
    products,
    recurrent,
    reductions,
    resizing,
    rows,
    selecting,
    sequences,
    signal,
    slicing,
    windows,
)
from jaxdml.onnx.nodes.bounded._sizes import on_sizes
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task, array
from jaxdml.onnx.values.bounded import Bounded, Identical, length_of, needs_bound, on_inner, report
from jaxdml.onnx.values.kinds import Dequantized, Value, is_host
from jaxdml.onnx.values.lengths import LengthError, as_traced, has_lengths

SELECTING = selecting.RULES
"""By operator: what needs a bound."""

RULES: Mapping[str, Rules] = {
    "": {
        **attending.RULES,
        **branches.RULES,
        **drawing.RULES,
        **elementwise.RULES,
        **images.RULES,
        **indexing.RULES,
        **joining.RULES,
        **loops.RULES,
        **movement.RULES,
        **normalizing.RULES,
        **pools.RULES,
        **products.RULES,
        **recurrent.RULES,
        **reductions.RULES,
        **resizing.RULES,
        **rows.RULES,
        **sequences.RULES,
        **signal.RULES,
        **slicing.RULES,
        **SELECTING,
        **windows.RULES,
    },
    "ai.onnx.ml": {**rows.CLASSICAL},
    "com.microsoft": {
        **attending.MICROSOFT,
        **caching.MICROSOFT,
        **joining.MICROSOFT,
        **pools.MICROSOFT,
        **products.MICROSOFT,
        **recurrent.MICROSOFT,
        **rows.MICROSOFT,
        **windows.MICROSOFT,
    },
}
"""By domain and operator."""


COUNTED = ("ConstantOfShape", "Range", "Slice", "TopK")
"""Operators that take an integer that a program computes as a size, where it has a bound."""


def _rule(call: NodeCall) -> Rule | None:
    found = RULES.get(call.node.domain, {}).get(call.node.op_type)
    return elementwise.elementwise if found is None and call.handler.elementwise else found


def counted(node: Node, operand: Value) -> bool:
    """Whether an operand that must be known may be a number with a bound instead."""
    is_integer = np.issubdtype(operand.dtype, np.integer) and all(size == 1 for size in operand.shape)
    return is_integer and not node.domain and node.op_type in COUNTED


def _bound(call: NodeCall, place: int, operand: Value) -> int | None:
    """Return the bound of an operand that is one integer."""
    return call.bounds.of(call.node, call.node.inputs[place]) if counted(call.node, operand) else None


def computed(
    call: NodeCall, operands: list[Value], run: Callable[[NodeCall, list[Value]], tuple[Value, ...]]
) -> tuple[Value, ...]:
    """Compute a node of a call where sizes may depend on values, or one that waits for a value that must be known.

    Args:
      call: the node.
      operands: values, some of them perhaps with lengths.
      run: computes a node on operands without any, and returns a tuple.
    """
    task = Task(call, run)
    rule = _rule(call)
    makes = _makes_lengths(task, rule, operands)
    if not makes and (waiting := call.handler.waiting(operands)):
        operands = [
            _as_length(task, place, operand) if place in waiting else operand for place, operand in enumerate(operands)
        ]
    if not makes and not any(_is_bounded(operand) or has_lengths(operand) for operand in operands):
        return task.compute(*operands)
    static = call.handler.at.static
    of_shape = any(has_lengths(operand) and place in static for place, operand in enumerate(operands))
    if not (makes or of_shape) and all(operand is None or is_host(operand) for operand in operands):
        try:
            return on_sizes(task, operands)
        except (LengthError, TypeError):  # It is computed when the program runs.
            pass
    if not makes:
        operands = [
            as_traced(operand) if has_lengths(operand) and place not in static else operand
            for place, operand in enumerate(operands)
        ]
        if not of_shape and not any(map(_is_bounded, operands)):
            return task.compute(*operands)
    if rule is None:
        raise refused(
            f"{call.node} has an operand with a length that is not known while tracing, and no rule masks it."
        )
    return _on_integers(task, rule, operands) or rule(task, *operands)


def _on_integers(task: Task, rule: Rule, operands: list[Value]) -> tuple[Value, ...] | None:
    """Move the integers of a dequantized array, if the node moves, selects or orders elements."""
    first, handler = next(iter(operands), None), task.call.handler
    if not (task.call.exact and isinstance(first, Bounded) and isinstance(first.value, Dequantized)):
        return None
    x = first.value
    if not groups.moves(handler, x.quantization):
        return None
    task.call.note((task.call.node.name,), "the same on integers")
    moved = rule(task, replace(first, value=x.integers), *operands[1:])
    results = (on_inner(integers, lambda y: replace(x, integers=y)) for integers in moved[: handler.moves])
    return (*results, *moved[handler.moves :])


def _makes_lengths(task: Task, rule: Rule | None, operands: list[Value]) -> bool:
    """Whether a node makes lengths of operands that have none."""
    if rule in (branches.if_, loops.loop) and not task.call.bounds.active:
        return False
    if rule is branches.if_:
        return not _is_known(operands[0])
    if rule is loops.loop:  # How often it runs may be the size of an output.
        most = operands[0] if operands else None
        waits = any(operand is not None and not is_host(operand) for operand in operands[:2])
        many = most is None or has_lengths(most) or (is_host(most) and most.item() > control_flow.COUNTED)
        return 0 in task.call.handler.at.static and many and not waits
    return rule in SELECTING.values() and bool(task.call.handler.waiting(operands))


def _is_bounded(operand: Value) -> bool:
    return isinstance(operand, Bounded) or sequences.has_bounded(operand)


def _is_known(operand: Value) -> bool:
    return is_host(operand) and not has_lengths(operand)


def _as_length(task: Task, place: int, operand: Value) -> Value:
    """Return an integer that a program computes as a length."""
    bound = _bound(task.call, place, operand)
    if bound is None:
        raise _unknown(task.call.node, place, operand)
    if task.call.node.op_type == "Slice":
        end = array(operand).reshape(())
        report(end >= 0, f"{task.call.node} has a bound, but {{end}} counts from the end", end=end)
    length = length_of(task.call.node, Identical(operand), array(operand), bound)
    return np.array([length], object).reshape(operand.shape)


def _unknown(node: Node, position: int, operand: Value) -> NotKnownError:
    """Compose the error about an operand that must be known, and is not."""
    rule = f"input {position} of {node} is '{node.inputs[position]}', which depends on values that are traced."
    if counted(node, operand):
        return NotKnownError(rule, *needs_bound(node))
    return NotKnownError(rule, "It must be known while tracing, since shapes depend on it.")


def refused(rule: str) -> UnsupportedModelError:
    """Compose the error about an operand with a length that is refused."""
    advice = "Call the model itself, or leave out the bounds that lead here."
    return UnsupportedModelError(errors.compose("onnx.Model", rule, advice))
