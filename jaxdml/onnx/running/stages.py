"""Divide a graph whose shapes depend on values: into programs, and what is computed on the host between them.

A node that must know an operand that a program computes, such as ``NonZero``, runs on the host with NumPy arrays. What
it returns has its true shape; ``values.held`` makes of it what the next program gets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from jaxdml.onnx._graph import Graph, Node, TensorType
from jaxdml.onnx.running.needs import required
from jaxdml.onnx.running.parameters import computed_from


@dataclass(frozen=True, eq=False)
class Stage:
    """A part of a graph.

    Attributes:
      graph: its nodes, and as outputs what later stages and the caller read.
      given: what it reads that is not known while tracing: inputs, parameters and values of stages before it.
      on_host: whether it runs on the host.
    """

    graph: Graph
    given: tuple[str, ...]
    on_host: bool


class _Order(NamedTuple):
    """When values are there: even numbers are programs, odd ones the host.

    Attributes:
      first: the number of the stage that computes a value, by name.
      traced: the values that are not known while a program is traced.
    """

    first: dict[str, int]
    traced: frozenset[str]


def stages(graph: Graph, traced: Iterable[str]) -> tuple[Stage, ...]:
    """Return the stages of a graph in order: one program if no node has to wait for a value.

    Args:
      graph: of a model.
      traced: the inputs and the parameters that are not known while tracing.
    """
    order = _order(graph, traced)
    made_by = {name: node for node in graph.needed for name in node.outputs if name}
    wanted: dict[int, set[str]] = {}
    for output in graph.outputs:
        wanted.setdefault(order.first.get(output.name, 0), set()).add(output.name)
    found: list[Stage] = []
    for number in range(max(wanted), -1, -1):
        if names := wanted.get(number):
            kept, given = _closure(names, number, order, made_by)
            for name in given & made_by.keys():
                wanted.setdefault(order.first[name], set()).add(name)
            outputs = tuple(TensorType(name, None, None) for name in sorted(names))
            part = tuple(node for node in graph.nodes if node.name in kept)
            found.append(Stage(replace(graph, nodes=part, outputs=outputs), tuple(sorted(given)), number % 2 == 1))
    return tuple(reversed(found))


def _order(graph: Graph, traced: Iterable[str]) -> _Order:
    order = _Order({}, computed_from(graph, traced))
    for node in graph.needed:
        number = max((order.first.get(name, 0) for name in node.reads), default=0)
        number = number | 1 if order.traced & required(node) else number + number % 2
        order.first.update((name, number) for name in node.outputs if name)
    return order


def _closure(
    names: Iterable[str], number: int, order: _Order, made_by: Mapping[str, Node]
) -> tuple[set[str], set[str]]:
    """Return the nodes that make values of a stage, and what they read that is not known and made before it.

    What is known while tracing, such as shapes, is computed again in each stage.
    """
    kept: set[str] = set()
    given: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        node = made_by.get(name)
        if name in order.traced and (node is None or order.first[name] < number):
            given.add(name)
        elif node is not None and node.name not in kept:
            kept.add(node.name)
            waiting.extend(node.reads)
    return kept, given
