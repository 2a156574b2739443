"""Bring nodes into an order in which each reads only what is made before it."""

import heapq
from collections.abc import Collection, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

import onnx

from jaxdml.onnx._errors import UnsupportedModelError, unsupported

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
    sorter = TopologicalSorter(dict(enumerate(needs)))
    try:
        sorter.prepare()
    except CycleError as error:
        raise _refusal([protos[place] for place in _from_the_first(error.args[1])], where) from None
    ready = sorted(sorter.get_ready())
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(protos[place])
        sorter.done(place)
        for reader in sorter.get_ready():
            heapq.heappush(ready, reader)
    return order


def _from_the_first(cycle: Sequence[int]) -> Sequence[int]:
    """Return a cycle in which each place needs the next one, from the first place of the file on."""
    places = cycle[:0:-1]  # ``graphlib`` has what is needed first, and the first place at both ends.
    start = places.index(min(places))
    return [*places[start:], *places[:start]]


def _refusal(cycle: Sequence[onnx.NodeProto], where: str) -> UnsupportedModelError:
    names = [f"{proto.op_type} '{proto.name or next(filter(None, proto.output))}'" for proto in cycle[:SHOWN]]
    rest = f" and {len(cycle) - SHOWN} more" if len(cycle) > SHOWN else ""
    rule = f"nodes of {where} form a cycle: {', '.join(names)}{rest}."
    why = "Each reads what the next makes, and the last what the first makes."
    return unsupported(rule, why, "No order is legal.")


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
