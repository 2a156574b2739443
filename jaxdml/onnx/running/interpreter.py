"""Run a graph's nodes, one after another, while JAX traces."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base import errors
from jaxdml.onnx import nodes
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx._memory import TooLargeError, must_fit
from jaxdml.onnx.nodes import bounded, groups
from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.nodes.operands import described, objection
from jaxdml.onnx.running.needs import must_be_known
from jaxdml.onnx.running.randomness import Randomness
from jaxdml.onnx.values.bounded import NONE, Bounds
from jaxdml.onnx.values.kinds import LAZY, Dequantized, Value, alike, channels_first, computed, is_host, known
from jaxdml.onnx.values.lengths import LengthError
from jaxdml.onnx.values.obstacles import passed
from jaxdml.onnx.values.stored import on_device, unfolded


@dataclass
class Report:
    """What became of nodes, by name."""

    notes: dict[str, str] = field(default_factory=dict)

    def note(self, names: tuple[str, ...], what: str) -> None:
        """Keep what became of some nodes."""
        self.notes.update(dict.fromkeys(names, what))


def run(
    graph: Graph,
    given: Mapping[str, Value],
    *,
    exact: bool,
    report: Report,
    random: Randomness,
    bounds: Bounds = NONE,
    known: frozenset[str] = frozenset(),
) -> list[Value]:
    """Compute a graph's outputs.

    Args:
      graph: what to run.
      given: values by name: inputs, parameters, and for a body whatever is around it.
      exact: whether quantize-dequantize groups run as integer operators.
      report: where to note what became of nodes.
      random: what the keys of nodes follow from.
      bounds: of lengths that depend on values.
      known: the outputs that must be known while tracing, because of what is around a body.
    """
    values: dict[str, Value] = {**graph.constants, **given}

    def body(node: Node, inner: Graph, operands: list[Value], number: Any = None) -> list[Value]:
        names = [value.name for value in inner.inputs]
        inside = values | dict(zip(names, operands, strict=True))
        others: dict[str, Any] = {"exact": exact, "report": report, "random": random.in_turn(node, number)}
        wanted = frozenset(value.name for value in inner.outputs) if must_know(node) else frozenset[str]()
        return run(inner, inside, bounds=bounds, known=wanted, **others)

    @cache
    def all_known() -> frozenset[str]:
        return must_be_known(graph, outputs=known)

    def must_know(node: Node) -> bool:
        return not all_known().isdisjoint(node.outputs)

    for node in graph.needed:
        asked = partial(body, node), report.note, partial(random.of, node), bounds, partial(must_know, node)
        call = NodeCall(node, nodes.runner(node), jnp, exact, *asked)
        for name in node.reads[len(node.inputs) :]:
            computed(values[name])  # Floats that are made within a traced body would not be valid after it.
        operands = [values[name] if name else None for name in node.inputs]
        with _named(call, operands):
            wrong = objection(node, call.handler, operands)
            if wrong:
                raise ValueError(errors.compose("onnx.Model", *wrong))
            results = _compute(call, operands)
            if any(node.outputs[len(results) :]):
                rule = f"{node} makes {len(results)} outputs; the model wants {len(node.outputs)}."
                raise ValueError(errors.compose("onnx.Model", rule, "The model may be malformed."))
            _must_fit(results)  # Within jax.jit nothing is computed yet.
        values |= zip(node.outputs, results, strict=False)  # Nothing reads "", which is what nothing wants.
    return [values[output.name] for output in graph.outputs]


@contextmanager
def _named(call: NodeCall, operands: list[Value]) -> Iterator[None]:
    """Name the node in an error, and show its operands; what Python raises of a malformed node becomes a ValueError."""
    node = call.node
    try:
        yield
    except TooLargeError as error:
        rule = f"{node} makes {error}."
        advice = "A size in the model, or in an input, may be wrong.", "No memory was taken for it."
        raise ValueError(errors.compose("onnx.Model", rule, *advice)) from None
    except LengthError as error:
        rule = f"{node} needs to know {error}, which depends on values that are traced."
        raise bounded.refused(rule) from None
    except (LookupError, AttributeError, ZeroDivisionError, MemoryError) as error:
        rule = f"{node} cannot be computed: {type(error).__name__}: {error}."
        raise ValueError(errors.compose("onnx.Model", rule, "The model may be malformed.")) from error
    except Exception as error:
        within = (each for graph in node.graphs for each in graph.walk())
        if type(error) in (TypeError, ValueError) and not any(str(each) in str(error) for each in (node, *within)):
            raise type(error)(_explained(call, operands, error)) from error
        if not getattr(error, "__notes__", None):
            error.add_note(f"in node {node} of the ONNX model")
        raise


def _explained(call: NodeCall, operands: list[Value], error: Exception) -> str:
    """Compose the message of an error that does not name the node."""
    rule = str(error).partition("\n")[0].removeprefix("jaxdml.onnx.Model: ").rstrip(".")
    given = described(call.handler.names(len(operands)), operands)
    reason = "The shapes of these, or an attribute, do not fit the operator."
    return errors.compose("onnx.Model", f"{call.node} cannot be computed: {rule}.", given, reason)


def _compute(call: NodeCall, operands: list[Value]) -> tuple[Value, ...]:
    if call.bounds.active or call.handler.waiting(operands):
        return passed(call.node, operands, partial(bounded.computed, call, run=_of_fixed_sizes))
    return _of_fixed_sizes(call, operands)


def _of_fixed_sizes(call: NodeCall, operands: list[Value]) -> tuple[Value, ...]:
    if call.exact and any(isinstance(operand, LAZY) for operand in operands):
        result = _on_integers(call, operands)
        if result is not None:
            return result
    return _ordinarily(call, operands)


def _on_integers(call: NodeCall, operands: list[Value]) -> tuple[Value, ...] | None:
    """Compute a node on what dequantized operands stand for, if it means something there."""
    kind, first = call.node.op_type, operands[0]
    if call.node.domain:
        return None
    if isinstance(first, Dequantized) and groups.moves(call.handler, first.quantization):
        call.note((call.node.name,), "the same on integers")
        moved = _of_fixed_sizes(call, [first.integers, *operands[1:]])
        integers, others = moved[: call.handler.moves], moved[call.handler.moves :]  # Such as indices, or a mask.
        return (*(replace(first, integers=x) for x in integers), *others)
    if kind not in groups.GROUPS:
        return None
    floats = partial(_only, call, operands)
    result = groups.GROUPS[kind](call, *operands, floats=floats, **call.node.attributes)
    if isinstance(result, str):
        call.note((call.node.name,), f"float: {result}")
        return None
    return None if result is None else (result,)


def _only(call: NodeCall, operands: list[Value]) -> Value:
    return _ordinarily(call, operands)[0]


def _ordinarily(call: NodeCall, operands: list[Value]) -> tuple[Value, ...]:
    """Compute a node as it is written."""
    _must_fit_before(call, operands)
    if call.handler.raw:
        return _run(call, operands)
    unfold = _unfolded if _of_one_number(call, operands) else lambda result: result
    if not all(is_host(operand) for operand in operands if operand is not None):
        operands, wrap = alike(*operands) if call.handler.elementwise else (_as_arrays(call, operands), lambda x: x)
        return tuple(unfold(wrap(result)) for result in _run(call, operands))
    if call.handler.host:
        if call.handler.elementwise:
            arrays = [operand for operand in operands if operand is not None]
            widest = max((operand.dtype for operand in arrays), key=lambda dtype: dtype.itemsize)
            must_fit(np.broadcast_shapes(*(operand.shape for operand in arrays)), widest)
        with np.errstate(all="ignore"):
            results = _run(replace(call, xp=np), operands)
        # JAX arrays among them are what is too large for the host, or has symbolic sizes.
        return tuple(
            unfold(result) if result is None or isinstance(result, jax.Array) else known(result) for result in results
        )
    else:
        with jax.core.eval_context():
            results = _run(call, _as_arrays(call, operands))
    return tuple(np.asarray(result) if isinstance(result, np.generic | jax.Array) else result for result in results)


def _must_fit_before(call: NodeCall, operands: list[Value]) -> None:
    """Refuse results for which there is no memory, where JAX computes them at once."""
    by_numpy = call.handler.host and all(operand is None or is_host(operand) for operand in operands)
    later = any(isinstance(leaf, (jax.core.Tracer, *LAZY)) for leaf in jax.tree.leaves(operands))
    sequences = any(isinstance(operand, list) for operand in operands)
    if by_numpy or later or sequences or call.node.graphs:
        return  # Operators check the sizes of what NumPy computes, and the nodes of a body theirs.

    def results(arrays: dict[int, Value]) -> None:
        given: list[Value] = [arrays.get(place, operand) for place, operand in enumerate(operands)]
        if not call.handler.raw:
            given = alike(*given)[0] if call.handler.elementwise else _as_arrays(call, given)
        _must_fit(_run(call, given))

    jax.eval_shape(results, {place: x for place, x in enumerate(operands) if not (x is None or is_host(x))})


def _must_fit(results: tuple[Value, ...]) -> None:
    for result in results:
        if isinstance(result, list):
            _must_fit(tuple(result))
        elif result is not None:
            # What is lazy may stay integers of 8 bits.
            must_fit(result.shape, np.int8 if isinstance(result, LAZY) else result.dtype)


def _of_one_number(call: NodeCall, operands: list[Value]) -> bool:
    """Whether no operand has more than one element, but those that must be known, such as shapes."""
    return all(
        operand is None or position in call.handler.at.static or all(size == 1 for size in operand.shape)
        for position, operand in enumerate(operands)
    )


def _unfolded(result: Value) -> Value:
    """Unfold what may be a number that Expand, Tile or another operator repeats."""
    repeats = isinstance(result, jax.Array) and result.ndim > 1 and any(size != 1 for size in result.shape)
    return unfolded(result) if repeats else result


def _as_arrays(call: NodeCall, operands: list[Value]) -> list[Value]:
    """Return operands as JAX arrays in ONNX's order of dimensions, but those that must be known."""
    return [
        operand if operand is None or position in call.handler.at.static else on_device(channels_first(operand))
        for position, operand in enumerate(operands)
    ]


def _run(call: NodeCall, operands: list[Value]) -> tuple[Value, ...]:
    results = call.handler.run(call, *operands, **call.node.attributes)
    return results if type(results) is tuple else (results,)
