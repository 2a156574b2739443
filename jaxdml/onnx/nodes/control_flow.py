"""If, Loop and Scan."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import jaxpr_as_fun

from jaxdml._base import errors
from jaxdml.onnx._errors import NotKnownError, UnsupportedModelError
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx._memory import is_on_host
from jaxdml.onnx.nodes import _body_arity, _decided
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.values.bodies import tracing_a_body
from jaxdml.onnx.values.kinds import Value, channels_first, is_host
from jaxdml.onnx.values.lengths import LengthError
from jaxdml.onnx.values.stored import on_device

FEW = 16
"""A loop of so many steps is written out if it is small; values that are known while tracing stay known."""

LARGE = 1024
"""From so many nodes on, in all steps together, a loop is not small; one with a loop in it never is."""

MANY = 1024
"""So many steps are written out at most, where a loop has to be."""

ENDLESS = 2**31 - 1
"""From this trip count on only the condition ends a loop."""


def if_(call: NodeCall, cond: Value, *, then_branch: Graph, else_branch: Graph) -> tuple[Value, ...]:
    """Run one of two graphs."""
    if is_host(cond):
        return tuple(call.body(then_branch if cond.item() else else_branch, []))
    graphs = then_branch, else_branch
    branches, shapes = traced_branches(
        call.node, *(lambda graph=graph: _arrays(call.body(graph, [])) for graph in graphs)
    )
    if _kinds(shapes[0]) != _kinds(shapes[1]):
        raise _undecided(call.node, f"its branches return {_listed(shapes[0])} and {_listed(shapes[1])}")
    return tuple(lax.cond(_scalar(cond), *branches))


def traced_branches(node: Node, *functions: Callable[[], Any]) -> tuple[list[Callable[..., Any]], list[Any]]:
    """Return the branches of an If as functions that do not trace again, and the shapes of their results."""
    found: list[tuple[Callable[..., Any], Any]] = []
    failed: list[Exception] = []
    for function in functions:
        try:
            found.append(traced(function))
        except (UnsupportedModelError, NotKnownError, LengthError):
            raise
        except Exception as error:  # Of any operator, or of JAX: this branch is not meant for these shapes.
            failed.append(error)
    if len(failed) > 1:
        raise failed[0]
    if failed:
        first, *_ = str(failed[0]).removeprefix("jaxdml.onnx.Model: ").split("\n")
        reason = " ".join([first.removesuffix("."), *getattr(failed[0], "__notes__", ())[:1]])
        raise _undecided(node, f"only one of its branches fits what is given; the other: {reason}") from failed[0]
    branches, shapes = zip(*found, strict=True)
    return list(branches), list(shapes)


def _undecided(node: Node, rule: str) -> NotKnownError:
    """Compose the error about a traced value that decides what a node does; a call then knows it."""
    what = "Which branch is taken" if node.op_type == "If" else "How often it runs"
    why = f"{what} must then be known while tracing."
    return NotKnownError(f"{node}: {rule}.", why, undecided="" if node.decided else node.name)


def loop(call: NodeCall, M: Value = None, cond: Value = None, *carried: Value, body: Graph) -> tuple[Value, ...]:
    """Run a graph again and again: written out, as a scan, or as a while loop without scan outputs."""
    scans = len(body.outputs) - 1 - len(carried)
    count = int(M.item()) if is_host(M) else None
    if count is not None and count >= ENDLESS:
        M = count = None
    cond = np.asarray(True) if cond is None else cond
    if (count is not None and count <= 0) or (is_host(cond) and not cond.item()):
        return _never(call, body, carried)
    settled = is_host(cond) and (M is None or count is not None)
    few = count if settled and count is not None and count <= FEW else 0
    if few and (few == 1 or not _is_large(body, few) or call.must_know()):
        return _written_out(call, body, M, carried)
    turn = _probe(call, body, carried, settled)
    if turn is None or (settled and not turn.alike):
        return _written_out(call, body, M, carried)
    if settled and turn.steady and count is not None:
        return _scanned(turn, count, carried)
    if settled and (turn.steady or scans or few):
        return _written_out(call, body, M, carried)
    return _while(call, turn, M, cond, carried)  # Without scan outputs: their number would have to be known.


def _is_large(body: Graph, count: int) -> bool:
    """Whether writing out a loop takes long: with loops within loops it would take as long as they run."""
    kinds = [node.op_type for node in body.walk()]
    return "Loop" in kinds or count * len(kinds) >= LARGE


def _step(call: NodeCall, body: Graph, number: Any, goes_on: Value, carried: Sequence[Value]) -> list[Value]:
    """Run a body once. It may declare its first two inputs with one dimension."""
    first = [
        value.reshape((1,) * len(declared.shape or ()))
        for value, declared in zip((number, goes_on), body.inputs, strict=False)
    ]
    return call.body(body, [*first, *carried], number)


class _Turn(NamedTuple):
    """A body, traced for one turn. It runs only where the condition is true.

    Attributes:
      run: ``run(number, carried)`` returns the condition and the results.
      steady: whether the condition is known to be always true.
      alike: whether carried values keep their shapes and dtypes.
      results: shapes and dtypes of what is carried out.
    """

    run: Callable[[Any, list[Any]], list[Any]]
    steady: bool
    alike: bool
    results: list[Any]


def _probe(call: NodeCall, body: Graph, carried: Sequence[Value], settled: bool) -> _Turn | None:
    """Trace a body, once: bodies within it would else be traced twice as often with each depth.

    It is None for a body that has to know what it gets while it is traced, and can: it is written out.
    """
    known = []

    def step(number: Any, operands: list[Any]) -> list[Any]:
        condition, *results = _step(call, body, number, np.asarray(True), operands)
        known.append(is_host(condition) and bool(condition.item()))
        return _arrays([condition, *results])

    start = _arrays(carried)
    try:
        run, (_, *results) = traced(step, _number(0), start)
    except NotImplementedError:
        if not settled:
            raise
        return None
    results = results[: len(start)]
    return _Turn(run, known[0], _kinds(start) == _kinds(results), results)


def traced(function: Callable[..., Any], *operands: Any) -> tuple[Callable[..., Any], Any]:
    """Return a function that does not trace this one again, and the shapes of its results."""
    with tracing_a_body():
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*operands)
    structure = jax.tree.structure(shapes)

    def run(*operands: Any) -> Any:
        return jax.tree.unflatten(structure, jaxpr_as_fun(program)(*jax.tree.leaves(operands)))

    return run, shapes


def _number(value: int) -> jax.Array:
    return jnp.asarray(value, jax.dtypes.canonicalize_dtype(np.int64))


def _never(call: NodeCall, body: Graph, carried: Sequence[Value]) -> tuple[Value, ...]:
    """Return what a loop without a step does: empty scan outputs, in the shape of one step."""
    operands = [value if is_host(value) else each for value, each in zip(carried, _arrays(carried), strict=True)]

    def scans() -> list[Any]:
        return _arrays(_step(call, body, np.asarray(0), np.asarray(True), operands)[1 + len(carried) :])

    with tracing_a_body():
        shapes = jax.eval_shape(scans)
    return *operands, *(np.zeros((0, *output.shape), output.dtype) for output in shapes)


def _written_out(call: NodeCall, body: Graph, M: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
    number, condition, values = 0, np.asarray(True), list(carried)
    scans: list[list[Value]] = []
    while M is None or number < M.item():
        if not is_host(condition) and any(scans):
            raise _undecided(call.node, "how often it runs depends on traced values, and so does the size of an output")
        if not is_host(condition):
            turn = _probe(call, body, values, settled=False)
            assert turn is not None  # It would be known.
            return _while(call, turn, M, condition, values, number)
        if not condition.item():
            break
        if number == MANY and not is_on_host():
            rule = f"{call.node} has to be written out while tracing"
            raise NotImplementedError(f"{rule}, and runs more than {MANY} times.")
        condition, *results = _step(call, body, np.asarray(number), condition, values)
        values = results[: len(carried)]
        scans.append(results[len(carried) :])
        number += 1
    return *values, *(_stacked(each) for each in zip(*scans, strict=True))


def _stacked(values: Sequence[Value]) -> Value:
    if all(is_host(value) for value in values):
        return np.stack(values)
    return jnp.stack(_arrays(values))


def _scanned(turn: _Turn, count: int, carried: Sequence[Value]) -> tuple[Value, ...]:
    start = _arrays(carried)

    def step(operands: list[Any], number: Any) -> tuple[list[Any], list[Any]]:
        _, *results = turn.run(number, operands)
        return _like(results[: len(start)], start), results[len(start) :]

    last, scans = lax.scan(step, start, jnp.arange(count, dtype=_number(0).dtype))
    return *last, *scans


def _while(
    call: NodeCall, turn: _Turn, M: Value, cond: Value, carried: Sequence[Value], number: int = 0
) -> tuple[Value, ...]:
    start = _arrays(carried)
    if not turn.alike:
        raise _undecided(call.node, f"it carries {_listed(start)} in and {_listed(turn.results)} out")
    most = None if M is None else _scalar(on_device(M))

    def goes_on(state: tuple[Any, Any, list[Any]]) -> Any:
        number, condition, _ = state
        return condition if most is None else condition & (number < most)

    def step(state: tuple[Any, Any, list[Any]]) -> tuple[Any, Any, list[Any]]:
        number, _, operands = state
        condition, *results = turn.run(number, operands)
        return number + 1, _scalar(condition), _like(results, start)

    return tuple(lax.while_loop(goes_on, step, (_number(number), _scalar(on_device(cond)), start))[2])


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
    arrays = _arrays(operands)
    states = len(operands) - num_scan_inputs
    start, sequences = arrays[:states], arrays[states:]
    outputs = len(body.outputs) - states
    turned = [
        lax.rev(moved, (0,)) if backwards else moved
        for sequence, axis, backwards in _each(sequences, scan_input_axes, scan_input_directions)
        for moved in [jnp.moveaxis(sequence, axis, 0)]
    ]

    def step(state: list[Any], turn: tuple[Any, list[Any]]) -> tuple[list[Any], list[Any]]:
        number, slices = turn
        with tracing_a_body():
            results = _arrays(call.body(body, [*state, *slices], number))
        return _like(results[:states], start), results[states:]

    last, stacked = lax.scan(step, start, (jnp.arange(turned[0].shape[0]), turned))
    return *last, *(
        jnp.moveaxis(lax.rev(output, (0,)) if backwards else output, 0, axis)
        for output, axis, backwards in _each(stacked[:outputs], scan_output_axes, scan_output_directions)
    )


def _each(values: Sequence[Any], axes: Sequence[int], directions: Sequence[int]) -> list[tuple[Any, int, int]]:
    count = len(values)
    return list(zip(values, axes or (0,) * count, directions or (0,) * count, strict=True))


def _arrays(values: Sequence[Value]) -> list[Any]:
    """Bring values to what JAX's control flow takes."""
    return [_array(value) for value in values]


def _array(value: Value) -> Any:
    if isinstance(value, list):
        return _arrays(value)
    return None if value is None else on_device(channels_first(value))


def _like(results: Sequence[Any], start: Sequence[Any]) -> list[Any]:
    """Drop weak types."""
    return jax.tree.map(lambda result, first: lax.convert_element_type(result, first.dtype), list(results), list(start))


def _scalar(value: Any) -> Any:
    return value.reshape(())


def _kinds(values: Sequence[Any]) -> list[Any]:
    return jax.tree.map(lambda value: (value.shape, value.dtype), list(values))


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(
        f"a sequence of {len(value)}" if isinstance(value, list) else errors.describe(value) for value in values
    )


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
