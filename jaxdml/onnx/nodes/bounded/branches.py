"""If, whose branches may return arrays of other sizes: the larger of two bounds holds both."""

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxdml.onnx._graph import Graph
from jaxdml.onnx.nodes._bodies import traced_branches
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import Identical, bounded, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, atom, limits, same, true


def if_(task: Task, cond: Value) -> tuple[Value, ...]:
    """Run one of two graphs, and say which sizes its results have."""
    node = task.call.node
    graphs = [task.call.node.attributes[name] for name in ("then_branch", "else_branch")]
    sizes: list[list[tuple[Any, ...]]] = []

    def of(graph: Graph) -> list[tuple[Any, list[Any]]]:
        values = task.call.body(graph, [])
        if any(value is None or isinstance(value, list) for value in values):
            raise LengthError("a sequence or an optional that a branch returns")
        sizes.append([sizes_of(value) for value in values])
        return [(array(value), [jnp.asarray(true(n), jnp.int32) for n in sizes_of(value)]) for value in values]

    branches, _ = traced_branches(node, *(partial(of, graph) for graph in graphs))
    bounds = []
    for first, second in zip(*sizes, strict=True):
        if len(first) != len(second):
            raise LengthError(f"the rank of what {node} returns")
        bounds.append([max(limits(a).bound, limits(b).bound) for a, b in zip(first, second, strict=True)])

    def padded(branch: Any) -> list[tuple[Any, list[Any]]]:
        return [
            (jnp.pad(x, [(0, n - size) for n, size in zip(most, x.shape, strict=True)]), lengths)
            for (x, lengths), most in zip(branch(), bounds, strict=True)
        ]

    results = lax.cond(array(cond).reshape(()), *(lambda branch=branch: padded(branch) for branch in branches))
    return tuple(
        bounded(x, [_either(*each, node.name) for each in zip(first, second, lengths, strict=True)])
        for (x, lengths), first, second in zip(results, *sizes, strict=True)
    )


def _either(a: Any, b: Any, found: Any, name: str) -> Any:
    """Return the size that one of two branches gives a dimension."""
    if same(a, b) and not isinstance(a, Length):
        return a
    bound = max(limits(a).bound, limits(b).bound)
    return atom(a.own_key if same(a, b) else Identical(found), f"length of '{name}'", found, bound)


RULES: Rules = {"If": if_}
