"""What shapes the operands of a node must have, where a computation would broadcast, cut or clip others.

``standard`` and ``microsoft`` are the table. ONNX's definitions and the checks of onnxruntime say what it holds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jaxdml
from jaxdml._base import errors
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler
from jaxdml.onnx.nodes.operands import microsoft, standard
from jaxdml.onnx.nodes.operands._language import first_wrong, named
from jaxdml.onnx.nodes.operands._rule import Operands, Rule
from jaxdml.onnx.values.bounded import Bounded

_BY_DOMAIN = {"": standard.RULES, "ai.onnx.preview": standard.PREVIEW, "com.microsoft": microsoft.RULES}

RULES: Mapping[tuple[str, str], Rule] = {
    (domain, name): rule for domain, rules in _BY_DOMAIN.items() for name, rule in rules.items()
}
"""By domain and operator."""


def objection(node: Node, handler: Handler, values: Sequence[Any]) -> tuple[str, str, str] | None:
    """Say which operand of a node has a wrong shape, what came, and what the operator takes; None if all fit.

    Args:
      node: the node.
      handler: who runs it.
      values: its operands by position: whatever has a shape, a dtype or both; None where nothing is known.
    """
    rule = RULES.get((node.domain, node.op_type))
    if rule is None:
        return None
    shapes = [_sizes(value) for value in values]
    attributes = {**handler.defaults, **node.attributes}
    texts = rule(Operands(node.opset, attributes, shapes, values, node.inputs)) if callable(rule) else rule
    rules = (texts,) if isinstance(texts, str) else texts
    found = [(each.position, rule, each) for rule in rules if (each := first_wrong(rule, shapes, attributes))]
    if not found or len(found) < len(rules):
        return None
    # Of several layouts, that which fits the most operands is meant.
    position, rule, each = max(found)
    came = f"{node}: {each.name} must have the shape {each.expected}, not {list(shapes[position] or ())}."
    return came, described(named(rule), values), f"It takes {rule}."


def _sizes(value: Any) -> Sequence[Any] | None:
    """Return the sizes of an operand if they are known; several operands that are packed as one fit."""
    if isinstance(value, Bounded):
        return value.sizes
    return None if isinstance(value, jaxdml.PackedBlocks) else getattr(value, "shape", None)


def described(names: Sequence[str], values: Sequence[Any]) -> str:
    """Write operands with their dtypes and shapes, by name."""
    each = zip(names, values, strict=False)
    return ", ".join(f"{name}: {errors.describe(value)}" for name, value in each if value is not None)
