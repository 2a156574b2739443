"""Calls of a model: one program, or several where shapes depend on values, with what each has compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import checkify

from jaxdml._base import errors
from jaxdml.onnx._errors import NotKnownError
from jaxdml.onnx._graph import Graph
from jaxdml.onnx._memory import on_host
from jaxdml.onnx.running.inputs import must_not_be_cut
from jaxdml.onnx.running.interpreter import Report
from jaxdml.onnx.running.open_dimensions import OpenDimensions
from jaxdml.onnx.running.parameters import constant_inputs
from jaxdml.onnx.running.program import Program, as_output, jit_for
from jaxdml.onnx.running.programs import Known, KnownArray, Programs, arrays_of
from jaxdml.onnx.running.stages import Stage, stages
from jaxdml.onnx.values.bounded import NONE, Padded, checking, must_be_bounds
from jaxdml.onnx.values.held import Sizes, cut, cut_at, keyed, places


class Called(NamedTuple):
    """What a call has returned.

    Attributes:
      results: arrays, lists of them, or None.
      again: computes the same of arrays of the same shapes by name, if that is one program; it does not check them.
    """

    results: tuple[Any, ...]
    again: Callable[[Mapping[str, Any]], tuple[Any, ...]] | None


class Calls:
    """What calls of a model have compiled, and what they have shown of its open dimensions."""

    def __init__(self, program: Program, programs: Programs | None = None) -> None:
        self._program = program
        self.open = OpenDimensions((*program.inputs, *program.optional_inputs), program.lengths)
        self.programs = Programs(program) if programs is None else programs
        self._later: Calls | None = None

    def call(self, given: Mapping[str, Any], key: Any, bounds: Mapping[str, int] | None) -> Called:
        """Compute the outputs from inputs by name, which are checked.

        What decides an If or a Loop is known from the first call on that could not be traced without.
        """
        if self._later is None:
            try:
                return self._call(given, key, bounds)
            except NotKnownError as error:
                if not error.undecided:
                    raise
                graph = self._program.graph.with_decided(error.undecided)
            self._later = Calls(replace(self._program, graph=graph))
        return self._later.call(given, key, bounds)

    def _call(self, given: Mapping[str, Any], key: Any, bounds: Mapping[str, int] | None) -> Called:
        known = tuple((name, KnownArray(np.asarray(given[name]))) for name in given if name in self.constants)
        traced = {name: value for name, value in given.items() if name not in self.constants}
        must_not_be_cut(traced)
        if bounds is not None:
            return Called(self._within_bounds(known, traced, key, bounds), None)
        inputs, named = self.open.keyed(traced)
        if self.parts is not None:
            outputs = self._in_stages(self.parts, known, inputs, key, named)
            return Called(tuple(map(cut_at, outputs, map(places, outputs))), None)
        call = self.programs.computed(known, inputs, key, named)
        cuts = tuple(map(places, call.results))
        again = self.programs.again(call, cuts) if call.settled and not known and key is None else None
        return Called(tuple(map(cut_at, call.results, cuts)), again)

    @cached_property
    def constants(self) -> frozenset[str]:
        """Names of the inputs that are constants of a program, because shapes depend on their values."""
        inputs = (*self._program.inputs, *self._program.optional_inputs)
        return constant_inputs(self._program.graph) - {value.name for value in inputs if value.within}

    @cached_property
    def parts(self) -> tuple[tuple[Stage, Programs], ...] | None:
        """The stages of a call, each with the programs of its own; None where all is one program."""
        traced = {value.name for value in self._program.inputs} - constant_inputs(self._program.graph)
        found = stages(self._program.graph, traced | self._program.weights)
        if len(found) == 1 and not found[0].on_host:
            return None

        compile_by = jit_for(self._program.params)

        def programs(stage: Stage, number: int) -> Programs:
            params = self._program.params_of(stage.given)
            return Programs(replace(self._program, graph=stage.graph, params=params), number, compile_by)

        return tuple((stage, programs(stage, number)) for number, stage in enumerate(found))

    def _in_stages(
        self, parts: tuple[tuple[Stage, Programs], ...], known: Known, given: dict[str, Any], key: Any, named: Sizes
    ) -> tuple[Any, ...]:
        """Compute the stages one after another: programs, and what must know their results."""
        values: dict[str, Any] = given
        overridden = [value.name for value in self._program.optional_inputs if value.name in given]
        for number, (stage, part) in enumerate(parts):
            # Nodes are numbered within a stage.
            own = None if key is None else jax.random.fold_in(key, number)
            read = {name: values[name] for name in {*stage.given, *overridden} & values.keys()}
            names = [output.name for output in stage.graph.outputs]
            if stage.on_host:
                params = self._program.as_read(self._program.params_of(stage.given))
                results = self._on_host(stage.graph, names, known, params | read, own)
            else:
                results = part.computed(known, read, own, named).results
            values = values | dict(zip(names, results, strict=True))
        names = [output.name for output in self._program.outputs]
        values = self._program.as_read(self._program.params_of(names)) | values
        return tuple(values[name] for name in names)

    def _on_host(
        self, graph: Graph, names: list[str], known: Known, given: dict[str, Any], key: Any
    ) -> tuple[Any, ...]:
        """Compute what must know its operands, on their true shapes."""
        arrays = {name: jax.tree.map(np.asarray, cut(value)) for name, value in given.items()}
        with on_host():
            stage = replace(self._program, graph=graph)
            results = stage.computed(_on_host, arrays | arrays_of(known), key, Report(), NONE)
        return tuple(keyed(graph, name, result) for name, result in zip(names, results, strict=True))

    def _within_bounds(
        self, known: Known, traced: dict[str, Any], key: Any, bounds: Mapping[str, int]
    ) -> tuple[Any, ...]:
        """Compute all in one program, and cut what it returns to its true shape."""
        must_be_bounds(self._program.graph, bounds)
        error, results = self.bounded(known, tuple(sorted(bounds.items())), dict(self._program.params), traced, key)
        if error.get():
            rule = error.get().split("\n")[0].removesuffix(" (`check` failed)")
            raise ValueError(errors.compose("onnx.Model", f"{rule}."))
        return tuple(map(unpadded, results))

    @cached_property
    def bounded(self) -> Any:
        """The program within bounds, with checks."""

        def checked(known: Known, bounds: Any, params: Any, traced: Any, key: Any) -> Any:
            with checking(True):
                return self._program.compute(params, traced | arrays_of(known), key, bounds=dict(bounds))

        @partial(jax.jit, static_argnums=(0, 1))
        def compiled(known: Known, bounds: Any, *operands: Any) -> Any:
            return checkify.checkify(partial(checked, known, bounds), errors=checkify.user_checks)(*operands)

        return compiled


def _on_host(result: Any) -> Any:
    """Return what the host has computed, as it is if it has."""
    return result if isinstance(result, np.ndarray) else as_output(result)


def unpadded(result: Any) -> Any:
    """Return an array that is padded in its true shape, and any other value as it is."""
    if not isinstance(result, Padded):
        return result
    sizes = tuple(map(int, np.asarray(result.lengths)))
    return jax.device_put(np.asarray(result.array)[tuple(map(slice, sizes))])
