"""If, Loop and Scan."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx._graph import Graph
from jaxdml.onnx._memory import is_on_host
from jaxdml.onnx.nodes import _body_arity, _decided
from jaxdml.onnx.nodes._bodies import as_arrays, like, listed, traced, traced_branches, types_of, undecided
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.values.bodies import tracing_a_body
from jaxdml.onnx.values.kinds import Value, is_host
from jaxdml.onnx.values.lengths import LengthError, has_lengths
from jaxdml.onnx.values.stored import on_device
from jaxdml.onnx.values.tabled import computed

FEW = 16
"""A loop of so many steps is written out if it is small; values that are known while tracing stay known."""

LARGE = 256
"""From so many nodes on, in all steps together, a loop is not small; one with a loop in it never is."""

MANY = 1024
"""So many steps are written out at most, where a loop has to be."""

COUNTED = 4096
"""So many steps are looked at to find out how many there are, or may be."""

ENDLESS = 2**31 - 1
"""From this trip count on only the condition ends a loop."""


def if_(call: NodeCall, cond: Value, *, then_branch: Graph, else_branch: Graph) -> tuple[Value, ...]:
    """Run one of two graphs."""
    if is_host(cond):
        return tuple(call.body(then_branch if cond.item() else else_branch, []))
    graphs = then_branch, else_branch
    branches, shapes = traced_branches(
        call.node, *(lambda graph=graph: as_arrays(call.body(graph, [])) for graph in graphs)
    )
    if types_of(shapes[0]) != types_of(shapes[1]):
        raise undecided(call.node, f"its branches return {listed(shapes[0])} and {listed(shapes[1])}")
    return tuple(lax.cond(cond.reshape(()), *branches))


def loop(call: NodeCall, M: Value = None, cond: Value = None, *carry: Value, body: Graph) -> tuple[Value, ...]:
    """Run a graph again and again: written out, as a scan, or as a while loop without scan outputs."""
    scans = len(body.outputs) - 1 - len(carry)
    count = int(M.item()) if is_host(M) else None
    if count is not None and count >= ENDLESS:
        M = count = None
    cond = np.asarray(True) if cond is None else cond
    if (count is not None and count <= 0) or (is_host(cond) and not cond.item()):
        return _never(call, body, carry)
    settled = is_host(cond) and (M is None or count is not None)
    few = count if settled and count is not None and count <= FEW else 0
    if few and (few == 1 or not _is_large(body, few) or call.must_know()):
        return _written_out(call, body, M, carry)
    turn = _probe(call, body, carry, settled)
    if turn is None or (settled and not turn.alike):
        return _written_out(call, body, M, carry)
    steps = count if turn.steady else None
    if settled and scans and not (turn.steady or call.must_know()):
        with suppress(LengthError):
            steps = turn_count(call, body, ENDLESS if count is None else count, cond, carry)
    if settled and steps is not None and (turn.steady or steps > FEW or _is_large(body, steps)):
        return _scanned(turn, steps, carry)
    if settled and (turn.steady or scans or few):
        return _written_out(call, body, M, carry)
    return _while(call, turn, M, cond, carry)  # Without scan outputs: their number would have to be known.


def _deciding(body: Graph) -> tuple[Graph, list[int]]:
    """Return what of a body decides how often it runs: the condition, and which values of the carry it follows from."""
    wanted = {0}
    while True:
        part = replace(body, outputs=tuple(body.outputs[place] for place in sorted(wanted)))
        read = {value.name for value in part.outputs}.union(*(node.reads for node in part.needed))
        more = {place - 1 for place, value in enumerate(body.inputs) if place > 1 and value.name in read}
        if more <= wanted:
            return part, [place - 1 for place in sorted(wanted)[1:]]
        wanted |= more


def turn_count(call: NodeCall, body: Graph, most: Any, cond: Value, carry: Sequence[Value]) -> Any:
    """Return how many turns run, which has to follow from what is known: what decides it is computed alone.

    Args:
      call: of the loop.
      body: its graph.
      most: how many there may be, perhaps a length.
      cond: whether the first one runs.
      carry: what it gets.
    """
    part, places = _deciding(body)
    values, active, turns = list(carry), cond, np.asarray(0)
    for number in range(COUNTED + 1):
        active = _both(active, computed(np.less, [np.asarray(number), np.array(most, object)]))
        if not has_lengths(active) and not active:
            return turns.item()
        turns = computed(np.add, [turns, active])
        condition, *results = turn_of(call, part, np.asarray(number), np.asarray(True), values)
        active = _both(active, condition)
        for place, value in zip(places, results, strict=True):
            values[place] = value
    raise LengthError("how often it runs")


def _both(active: Value, condition: Value) -> np.ndarray:
    if not (is_host(active) and is_host(condition)):
        raise LengthError("how often it runs")
    return computed(np.logical_and, [active.reshape(()), condition.reshape(())])


def _is_large(body: Graph, count: int) -> bool:
    """Whether writing out a loop takes long: with loops within loops it would take as long as they run."""
    kinds = [node.op_type for node in body.walk()]
    return "Loop" in kinds or count * len(kinds) >= LARGE


def turn_of(call: NodeCall, body: Graph, number: Any, goes_on: Value, carry: Sequence[Value]) -> list[Value]:
    """Run a body once. It may declare its first two inputs with one dimension."""
    first = [
        value.reshape((1,) * len(declared.shape or ()))
        for value, declared in zip((number, goes_on), body.inputs, strict=False)
    ]
    return call.body(body, [*first, *carry], number)


class _Turn(NamedTuple):
    """A body, traced for one turn. It runs only where the condition is true.

    Attributes:
      run: ``run(number, carry)`` returns the condition and the results.
      steady: whether the condition is known to be always true.
      alike: whether the carry keeps its shapes and dtypes.
      results: shapes and dtypes of the carry that comes out.
    """

    run: Callable[[Any, list[Any]], list[Any]]
    steady: bool
    alike: bool
    results: list[Any]


def _probe(call: NodeCall, body: Graph, carry: Sequence[Value], settled: bool) -> _Turn | None:
    """Trace a body, once: bodies within it would else be traced twice as often with each depth.

    It is None for a body that has to know what it gets while it is traced, and can: it is written out.
    """
    known = []

    def step(number: Any, operands: list[Any]) -> list[Any]:
        condition, *results = turn_of(call, body, number, np.asarray(True), operands)
        known.append(is_host(condition) and bool(condition.item()))
        return as_arrays([condition, *results])

    start = as_arrays(carry)
    try:
        run, (_, *results) = traced(step, _number(0), start)
    except NotImplementedError:
        if not settled:
            raise
        return None
    results = results[: len(start)]
    return _Turn(run, known[0], types_of(start) == types_of(results), results)


def _number(value: int) -> jax.Array:
    return jnp.asarray(value, jax.dtypes.canonicalize_dtype(np.int64))


def _never(call: NodeCall, body: Graph, carry: Sequence[Value]) -> tuple[Value, ...]:
    """Return what a loop without a step does: empty scan outputs, in the shape of one step."""
    operands = [value if is_host(value) else each for value, each in zip(carry, as_arrays(carry), strict=True)]

    def scans() -> list[Any]:
        return as_arrays(turn_of(call, body, np.asarray(0), np.asarray(True), operands)[1 + len(carry) :])

    with tracing_a_body():
        shapes = jax.eval_shape(scans)
    return *operands, *(np.zeros((0, *output.shape), output.dtype) for output in shapes)


def _written_out(call: NodeCall, body: Graph, M: Value, carry: Sequence[Value]) -> tuple[Value, ...]:
    number, condition, values = 0, np.asarray(True), list(carry)
    scans: list[list[Value]] = []
    while M is None or number < M.item():
        if not is_host(condition) and any(scans):
            raise undecided(call.node, "how often it runs depends on traced values, and so does the size of an output")
        if not is_host(condition):
            turn = _probe(call, body, values, settled=False)
            assert turn is not None  # It would be known.
            return _while(call, turn, M, condition, values, number)
        if not condition.item():
            break
        if number == MANY and not is_on_host():
            rule = f"{call.node} has to be written out while tracing"
            raise NotImplementedError(f"{rule}, and runs more than {MANY} times.")
        condition, *results = turn_of(call, body, np.asarray(number), condition, values)
        values = results[: len(carry)]
        scans.append(results[len(carry) :])
        number += 1
    return *values, *(_stacked(each) for each in zip(*scans, strict=True))


def _stacked(values: Sequence[Value]) -> Value:
    if all(is_host(value) for value in values):
        return np.stack(values)
    return jnp.stack(as_arrays(values))


def _scanned(turn: _Turn, count: int, carry: Sequence[Value]) -> tuple[Value, ...]:
    start = as_arrays(carry)

    def step(operands: list[Any], number: Any) -> tuple[list[Any], list[Any]]:
        _, *results = turn.run(number, operands)
        return like(results[: len(start)], start), results[len(start) :]

    last, scans = lax.scan(step, start, jnp.arange(count, dtype=_number(0).dtype))
    return *last, *scans


def _while(
    call: NodeCall, turn: _Turn, M: Value, cond: Value, carry: Sequence[Value], number: int = 0
) -> tuple[Value, ...]:
    start = as_arrays(carry)
    if not turn.alike:
        raise undecided(call.node, f"it carries {listed(start)} in and {listed(turn.results)} out")
    most = None if M is None else on_device(M).reshape(())

    def goes_on(state: tuple[Any, Any, list[Any]]) -> Any:
        number, condition, _ = state
        return condition if most is None else condition & (number < most)

    def step(state: tuple[Any, Any, list[Any]]) -> tuple[Any, Any, list[Any]]:
        number, _, operands = state
        condition, *results = turn.run(number, operands)
        return number + 1, condition.reshape(()), like(results, start)

    return tuple(lax.while_loop(goes_on, step, (_number(number), on_device(cond).reshape(()), start))[2])


def scan(
    call: NodeCall,
    *operands: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Value, ...]:
    """Run a graph for each slice of its operands, and stack what it returns."""
    arrays = as_arrays(operands)
    states = len(operands) - num_scan_inputs
    start, sequences = arrays[:states], arrays[states:]
    outputs = len(body.outputs) - states
    turned = [
        lax.rev(moved, (0,)) if backwards else moved
        for sequence, axis, backwards in each_of(sequences, scan_input_axes, scan_input_directions)
        for moved in [jnp.moveaxis(sequence, axis, 0)]
    ]

    def step(state: list[Any], turn: tuple[Any, list[Any]]) -> tuple[list[Any], list[Any]]:
        number, slices = turn
        with tracing_a_body():
            results = as_arrays(call.body(body, [*state, *slices], number))
        return like(results[:states], start), results[states:]

    last, stacked = lax.scan(step, start, (jnp.arange(turned[0].shape[0]), turned))
    return *last, *(
        jnp.moveaxis(lax.rev(output, (0,)) if backwards else output, 0, axis)
        for output, axis, backwards in each_of(stacked[:outputs], scan_output_axes, scan_output_directions)
    )


def each_of(values: Sequence[Any], axes: Sequence[int], directions: Sequence[int]) -> list[tuple[Any, int, int]]:
    """Return what a Scan reads or writes, each with its axis and its direction."""
    count = len(values)
    return list(zip(values, axes or (0,) * count, directions or (0,) * count, strict=True))


TABLE: Table = {
    "If": (
        Handler(1, if_, raw=True, static="cond", refuses=_body_arity.of_if, when=_decided.chosen),
        Handler(1, if_, raw=True, refuses=_body_arity.of_if),
    ),
    "Loop": (
        Handler(1, loop, raw=True, static="M cond", refuses=_body_arity.of_loop, when=_decided.counted),
        Handler(1, loop, raw=True, refuses=_body_arity.of_loop),
    ),
    "Scan": (Handler(9, scan, raw=True, refuses=_body_arity.of_scan),),
}
