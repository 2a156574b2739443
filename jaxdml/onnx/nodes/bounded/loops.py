"""Loop and Scan, where sizes have lengths: as many turns as there may be, of which only the first ones run."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx.nodes._bodies import like, traced
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes.bounded._fitting import fitted
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.nodes.control_flow import ENDLESS, FEW, each_of, turn_count, turn_of
from jaxdml.onnx.values.bounded import Bounded, bounded, is_of_a_trace, sizes_of
from jaxdml.onnx.values.kinds import Value, is_host
from jaxdml.onnx.values.lengths import Atom, Length, LengthError, atoms_of, has_lengths, limits, same, true
from jaxdml.onnx.values.promises import equal

Sizes = tuple[Any, ...]


class _Body(NamedTuple):
    """The graph of a loop, traced for one turn.

    Attributes:
      run: ``run(number, carry, *more)`` returns the condition, the carry, what is stacked, the numbers of ``atoms``.
      sizes: of the carry.
      steady: whether the condition is known to be always true.
      stacked: the sizes of what is stacked.
      atoms: of these sizes.
      shapes: of what ``run`` returns.
    """

    run: Callable[..., Any]
    sizes: list[Sizes]
    steady: bool
    stacked: list[Sizes]
    atoms: list[Atom]
    shapes: Any


def _traced(turn: Callable[..., list[Value]], sizes: list[Sizes], *operands: Any) -> _Body:
    """Trace a turn, after which the carry has the sizes that it had before.

    Args:
      turn: gets a number, the carry and whatever else; returns the condition, the carry and what is stacked.
      sizes: of the carry.
      operands: what ``run`` will get.
    """
    steady: list[bool] = []
    stacked: list[Sizes] = []
    atoms: dict[Hashable, Atom] = {}

    def run(number: Any, carry: list[Any], *more: Any) -> Any:
        condition, *results = turn(number, [bounded(*each) for each in zip(carry, sizes, strict=True)], *more)
        for value, own in zip(results, sizes, strict=False):
            if len(sizes_of(value)) != len(own) or not all(map(same, sizes_of(value), own)):
                raise LengthError(f"sizes {list(own)} after a turn that makes {list(sizes_of(value))} of them")
        last = [array(fitted(*each)) for each in zip(results, sizes, strict=False)]
        steady.append(is_host(condition) and not has_lengths(condition) and bool(condition.item()))
        stacked[:] = map(sizes_of, results[len(sizes) :])
        atoms.update((each.key, each) for own in stacked for size in own for each in atoms_of(size))
        numbers = [jnp.asarray(each.true, jnp.int32) for each in atoms.values()]
        return array(condition).reshape(()), like(last, carry), [array(x) for x in results[len(sizes) :]], numbers

    function, shapes = traced(run, *operands)
    return _Body(function, sizes, steady[0], stacked, list(atoms.values()), shapes)


def _first() -> jax.Array:
    return jnp.zeros((), jax.dtypes.canonicalize_dtype(np.int64))


def loop(task: Task, M: Value = None, cond: Value = None, *carry: Value) -> tuple[Value, ...]:
    """Run a graph again and again, as long as a condition holds."""
    graph = task.call.node.attributes["body"]
    known = is_host(M) and not has_lengths(M)
    if (known and M.item() <= FEW) or any(value is None or isinstance(value, list) for value in carry):
        return task.compute(M, cond, *carry)
    most = ENDLESS if M is None or (known and M.item() >= ENDLESS) else M.reshape(-1).tolist()[0] if is_host(M) else M
    cond = np.asarray(True) if cond is None else cond
    start = [array(value) for value in carry]

    def turn(number: Any, values: list[Value]) -> list[Value]:
        return turn_of(task.call, graph, number, np.asarray(True), values)

    body = _traced(turn, [sizes_of(value) for value in carry], _first(), start)
    if not body.stacked:
        last = _while(body, most, cond, start)
        return tuple(bounded(*each) for each in zip(last, body.sizes, strict=True))
    known = is_host(cond) and not has_lengths(cond) and body.steady and cond.item()
    if known and not same(most, ENDLESS):
        count = most
    else:
        try:
            count = turn_count(task.call, graph, most, cond, carry)
        except LengthError:
            if any(isinstance(value, Bounded) for value in carry):
                raise
            return task.compute(M, cond, *carry)
    last, stacked, within = _scanned(body, count, start)
    carried = (bounded(*each) for each in zip(last, body.sizes, strict=True))
    return *carried, *(bounded(y, (count, *own)) for y, own in zip(stacked, within, strict=True))


def _while(body: _Body, most: Any, cond: Value, start: list[Any]) -> list[Any]:
    most = array(most).reshape(()) if isinstance(most, jax.Array) else true(most)

    def goes_on(state: tuple[Any, Any, list[Any]]) -> Any:
        return state[1] & (state[0] < most)

    def step(state: tuple[Any, Any, list[Any]]) -> tuple[Any, Any, list[Any]]:
        condition, results, *_ = body.run(state[0], state[2])
        return state[0] + 1, condition, results

    return lax.while_loop(goes_on, step, (_first(), array(cond).reshape(()), start))[2]


def _scanned(body: _Body, count: Any, start: list[Any], slices: Callable[[Any], list[Any]] | None = None) -> Any:
    """Run turns and stack what they make; return the last carry, what is stacked, and the sizes of each of these.

    Args:
      body: of the loop.
      count: how many turns run: a number or a length.
      start: the carry.
      slices: what a turn reads beside the carry, by its number.
    """
    _, _, *others = body.shapes
    nothing, zeros = jax.tree.map(lambda like: jnp.zeros(like.shape, like.dtype), others)

    def step(state: tuple[list[Any], list[Any]], number: Any) -> tuple[tuple[list[Any], list[Any]], list[Any]]:
        def runs() -> Any:
            _, carry, stacked, numbers = body.run(number, state[0], *([] if slices is None else [slices(number)]))
            return (carry, numbers), stacked

        return lax.cond(number < true(count), runs, lambda: (state, nothing)) if isinstance(count, Length) else runs()

    numbers = jnp.arange(limits(count).bound, dtype=_first().dtype)
    (last, found), stacked = lax.scan(step, (start, zeros), numbers)
    numbers_of = dict(zip((each.key for each in body.atoms), found, strict=True))
    return last, stacked, [[_outside(size, numbers_of) for size in own] for own in body.stacked]


def _outside(size: Any, numbers: Mapping[Hashable, Any]) -> Any:
    """Return a size that a turn has found, with the numbers that it has returned: no other is there after it."""
    if not isinstance(size, Length):
        return size
    if is_of_a_trace(size.key):
        raise LengthError(f"{size}, which may differ from turn to turn")
    terms = (
        (times, tuple(a._replace(true=numbers[a.key], fraction=None, table=None) for a in atoms))
        for times, atoms in size.terms
    )
    return Length(tuple(terms))


def scan(task: Task, *operands: Value) -> tuple[Value, ...]:
    """Run a graph for each slice of its operands, and stack what it returns."""
    states = len(operands) - task.attribute("num_scan_inputs")
    carry, graph = operands[:states], task.call.node.attributes["body"]
    reads = each_of(operands[states:], task.attribute("scan_input_axes"), task.attribute("scan_input_directions"))
    axes = [axis_of(axis, x.ndim) for x, axis, _ in reads]
    count = equal(task.call.node, *(sizes_of(x)[axis] for (x, *_), axis in zip(reads, axes, strict=True)))
    within = [[n for d, n in enumerate(sizes_of(x)) if d != axis] for (x, *_), axis in zip(reads, axes, strict=True)]
    arrays = [
        jnp.moveaxis(array(fitted(x, [*own[:axis], count, *own[axis:]])), axis, 0)
        for (x, *_), axis, own in zip(reads, axes, within, strict=True)
    ]

    def turn(number: Any, values: list[Value], given: list[Any]) -> list[Value]:
        slices = [bounded(x, own) for x, own in zip(given, within, strict=True)]
        return [np.asarray(True), *task.call.body(graph, [*values, *slices], number)]

    def slices(number: Any) -> list[Any]:
        places = (true(count) - 1 - number if backwards else number for *_, backwards in reads)
        return [lax.dynamic_index_in_dim(x, place, keepdims=False) for x, place in zip(arrays, places, strict=True)]

    start = [array(value) for value in carry]
    body = _traced(turn, [sizes_of(value) for value in carry], _first(), start, [x[0] for x in arrays])
    last, stacked, sizes = _scanned(body, count, start, slices)
    writes = each_of(stacked, task.attribute("scan_output_axes"), task.attribute("scan_output_directions"))
    results = []
    for (y, axis, backwards), own in zip(writes, sizes, strict=True):
        place, turns = axis_of(axis, y.ndim), lax.iota(jnp.int32, len(y))
        kept = jnp.take(y, true(count) - 1 - turns, axis=0, mode="clip") if backwards else y
        results.append(bounded(jnp.moveaxis(kept, 0, place), [*own[:place], count, *own[place:]]))
    return *(bounded(*each) for each in zip(last, body.sizes, strict=True)), *results


RULES: Rules = {"Loop": loop, "Scan": scan}
