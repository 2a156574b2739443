"""Bring nodes into an order in which each reads only what is made before it."""

import heapq
from collections.abc import Collection, Iterator, Sequence

import onnx

from jaxdml.onnx._errors import unsupported

SHOWN = 20
"""Nodes of a cycle that an error names at most."""


def in_order(protos: Sequence[onnx.NodeProto], given: Collection[str], where: str) -> list[onnx.NodeProto]:
    """Sort the nodes of a graph or of a function; of those that may come next, the first of the file does.

    Args:
      protos: the nodes, as a file has them.
      given: names that none of them makes: inputs and initializers.
      where: what they stand in, for errors.
    """
    makers: dict[str, int] = {}
    for place, proto in enumerate(protos):
        for name in proto.output:
            if name and name not in given:
                makers.setdefault(name, place)
    needs = [{makers[name] for name in _reads(proto) if name in makers} for proto in protos]
    if all(maker < place for place, before in enumerate(needs) for maker in before):
        return list(protos)
    order = _sorted(needs)
    if len(order) < len(protos):
        cycle = [protos[place] for place in _cycle(needs, set(range(len(protos))) - set(order))]
        names = [f"{proto.op_type} '{proto.name or next(filter(None, proto.output))}'" for proto in cycle[:SHOWN]]
        rest = f" and {len(cycle) - SHOWN} more" if len(cycle) > SHOWN else ""
        rule = f"nodes of {where} form a cycle: {', '.join(names)}{rest}."
        raise unsupported(
            rule, "Each reads what the next makes, and the last what the first makes.", "No order is legal."
        )
    return [protos[place] for place in order]


def _sorted(needs: Sequence[set[int]]) -> list[int]:
    """Return the places of all nodes that do not depend on a cycle."""
    readers: list[list[int]] = [[] for _ in needs]
    for place, before in enumerate(needs):
        for maker in before:
            readers[maker].append(place)
    waits_for = [len(before) for before in needs]
    ready = [place for place, count in enumerate(waits_for) if not count]  # Ascending, so it is a heap.
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reader in readers[place]:
            waits_for[reader] -= 1
            if not waits_for[reader]:
                heapq.heappush(ready, reader)
    return order


def _cycle(needs: Sequence[set[int]], left: set[int]) -> list[int]:
    """Return a cycle among the nodes that are left: each of them needs another one of them."""
    path: dict[int, None] = {}
    place = min(left)
    while place not in path:
        path[place] = None
        place = min(needs[place] & left)
    visited = list(path)
    return visited[visited.index(place) :]


def _reads(proto: onnx.NodeProto) -> Iterator[str]:
    """Yield what a node reads, and what its inner graphs read of the graphs around them."""
    yield from filter(None, proto.input)
    for graph in _graphs(proto):
        own = {*_given(graph), *(name for node in graph.node for name in node.output)}
        for name in (*(name for node in graph.node for name in _reads(node)), *(value.name for value in graph.output)):
            if name not in own:
                yield name


def _graphs(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    return (attribute.g for attribute in proto.attribute if attribute.HasField("g"))


def _given(part: onnx.GraphProto | onnx.FunctionProto) -> set[str]:
    if isinstance(part, onnx.FunctionProto):
        return set(part.input)
    return {value.name for value in (*part.input, *part.initializer)} | {t.values.name for t in part.sparse_initializer}


def sort_nodes(part: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Sort the nodes of a graph or a function, and those of inner graphs, of a model that has been read."""
    nodes = in_order(part.node, _given(part), "a graph")
    copies = onnx.GraphProto(node=nodes)
    del part.node[:]
    part.node.extend(copies.node)
    for node in part.node:
        for graph in _graphs(node):
            sort_nodes(graph)
