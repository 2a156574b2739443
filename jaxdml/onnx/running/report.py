"""Trace a model without running it: what became of its nodes, on inputs of sizes that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxdml._base import errors
from jaxdml._base.display import lined_up
from jaxdml.onnx._errors import NotKnownError, UnsupportedModelError
from jaxdml.onnx._graph import Graph, TensorType
from jaxdml.onnx.running.calls import Calls
from jaxdml.onnx.running.inputs import declared, dimensions, narrowed
from jaxdml.onnx.running.interpreter import Report
from jaxdml.onnx.running.needs import must_be_known
from jaxdml.onnx.running.open_dimensions import SOME
from jaxdml.onnx.running.program import Program

SIZES = 1, 64, 256, 1024, 4096, 16384
"""What is tried for open dimensions, before the sizes of the model's weights."""

MOST = 16
"""So many sizes of weights are tried."""


@dataclass(frozen=True)
class Traced:
    """What tracing a model has shown.

    Attributes:
      graph: the model's, with each If and Loop decided that could not be traced else.
      inputs: what it was traced with.
      notes: what became of nodes, by name.
    """

    graph: Graph
    inputs: tuple[Any, ...]
    notes: dict[str, str]


def traced(model: Program, inputs: Sequence[Any]) -> Traced:
    """Trace a model with arrays or shapes. Of inputs whose values must be known without one, they are zeros."""
    try:
        return _traced(model, inputs)
    except NotKnownError as error:
        if not error.undecided:
            raise
        return traced(replace(model, graph=model.graph.with_decided(error.undecided)), inputs)


def _traced(model: Program, inputs: Sequence[Any]) -> Traced:
    given = dict(zip((value.name for value in model.inputs), inputs, strict=True))
    within = {value.name for value in model.inputs if value.within}
    known = {name: _zeros(given.pop(name)) for name in must_be_known(model.graph) & given.keys() - within}
    report, key = Report(), jax.random.key(0)  # Nothing is drawn.
    bounds = {node.name: SOME for stage, _ in Calls(model).parts or () if stage.on_host for node in stage.graph.nodes}

    def outputs(params: Any, given: Any) -> Any:
        return model.compute(params, given | known, key, report, bounds)

    jax.eval_shape(outputs, dict(model.params), given)
    return Traced(model.graph, tuple(inputs), report.notes)


def _zeros(given: Any) -> Any:
    return np.zeros(given.shape, given.dtype) if isinstance(given, jax.ShapeDtypeStruct) else given


def fitted(model: Program, batch: int = 1) -> Traced:
    """Trace a model on inputs that it declares, with sizes for open dimensions that it takes.

    Args:
      model: what to trace.
      batch: the size of the first dimensions that are open, and of those that have the same name.
    """
    every = dict.fromkeys(size for value in model.inputs for size in dimensions(value) if not isinstance(size, int))
    firsts = {size for value in model.inputs for size in dimensions(value)[:1]}
    others = [size for size in every if size not in firsts]

    def attempt(sizes: dict[Any, int]) -> Traced:
        return traced(model, tuple(declared(value, dict.fromkeys(every, batch) | sizes) for value in model.inputs))

    sizes, found = _first_that_fits(model, [others, list(every)] if every else [[]], attempt)
    for each in [each for each, size in sizes.items() if size > 1]:
        with suppress(Exception):  # Whatever it is, this size has to be larger.
            found = attempt(sizes | {each: 1})
            sizes[each] = 1
    return found


def _first_that_fits(
    model: Program, groups: Sequence[Sequence[Any]], attempt: Callable[[dict[Any, int]], Traced]
) -> tuple[dict[Any, int], Traced]:
    """Try sizes for one group of open dimensions after the other, each size for all of a group."""
    failed: list[Exception] = []
    tried = [size for size in _sizes(model) if any(groups)] or [1]
    for group in groups:
        for size in tried if group else tried[:1]:
            sizes = dict.fromkeys(group, size)
            try:
                return sizes, attempt(sizes)
            except (NotKnownError, UnsupportedModelError):
                raise
            except Exception as error:  # Of any operator, or of JAX.
                failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    reason = str(failed[0]).split("\n")[0].removeprefix("jaxdml.onnx.Model: ")
    rule = f"none of the sizes {', '.join(map(str, tried))} fits where the model leaves them open; with 1: {reason}"
    declared = f"inputs: {', '.join(map(str, model.inputs))}"
    advice = "Give arrays, or shapes: model.report(*inputs), or --inputs where it is the command."
    raise ValueError(errors.compose("onnx.Model", rule, declared, advice)) from failed[0]


def _sizes(model: Program) -> tuple[int, ...]:
    """Return what to try for dimensions that are open."""
    constants = [array for graph in model.graph.every() for array in graph.constants.values()]
    shapes = [np.shape(array) for array in (*constants, *model.params.values())]
    of_weights = dict.fromkeys(size for shape in shapes if len(shape) > 1 for size in shape if size)
    return tuple(dict.fromkeys([*SIZES, *list(of_weights)[:MOST]]))


def text(model: Program, found: Traced, chosen: bool) -> str:
    """Return a report.

    Args:
      model: of which it is.
      found: what tracing has shown.
      chosen: whether sizes of inputs were chosen here.
    """
    lines = [(node.name, node.kind, found.notes.get(node.name, "as it is written")) for node in found.graph.needed]
    table = lined_up({"node": "left", "operator": "left", "runs as": "left"}, lines)
    return "\n".join([*table, *model.graph.remarks, *_remarks(model, found, chosen), *_of_lengths(model, found)])


def _of_lengths(model: Program, found: Traced) -> Iterator[str]:
    """Yield a sentence for each open dimension of which each length is a program of its own."""
    calls = Calls(replace(model, graph=found.graph))
    if model.lengths == "exact" or calls.parts is not None:
        return
    given = {value.name: x for value, x in zip(model.inputs, found.inputs, strict=True)}
    known = {name: _zeros(given.pop(name)) for name in must_be_known(found.graph) & given.keys()}
    for name, reason in calls.programs.standing_in_the_way(known, partial(calls.open.every, given)).items():
        yield f"Each length of '{name}' is a program of its own: {reason}."


def _is_open(value: TensorType) -> bool:
    return any(not isinstance(size, int) for size in value.shape or ())


def _remarks(model: Program, found: Traced, chosen: bool) -> Iterator[str]:
    pairs = [pair for pair in zip(model.inputs, found.inputs, strict=True) if not pair[0].within]
    if chosen and (sizes := [f"{value.name} {list(given.shape)}" for value, given in pairs if _is_open(value)]):
        yield f"Sizes that the model leaves open are taken as {', '.join(sizes)}."
    clear, known = must_be_known(model.graph), must_be_known(found.graph)
    if decided := [value.name for value, _ in pairs if value.name in known - clear]:
        yield f"Not every branch fits these sizes, so these inputs must be known: {', '.join(decided)}."
    if wide := [value.name for value, _ in pairs if narrowed(value.dtype) and value.name not in known]:
        yield f"Without jax_enable_x64 these inputs are cut to 32 bits where they are traced: {', '.join(wide)}."
