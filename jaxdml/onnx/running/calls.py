"""Calls of a model: one program, or several where shapes depend on values, with what each has compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import jax
import numpy as np
from jax.experimental import checkify

from jaxdml._base import errors
from jaxdml.onnx._errors import NotKnownError, UnsupportedModelError
from jaxdml.onnx._graph import Graph
from jaxdml.onnx._memory import on_host
from jaxdml.onnx.running.inputs import must_not_be_cut
from jaxdml.onnx.running.interpreter import Report
from jaxdml.onnx.running.parameters import constant_inputs
from jaxdml.onnx.running.program import Program, as_output
from jaxdml.onnx.running.stages import Stage, stages
from jaxdml.onnx.values.bounded import NONE, Bounded, Bounds, Padded, checking, must_be_bounds
from jaxdml.onnx.values.capacities import Seen, cut, cut_on_device, held, opened, rounded
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.promises import collected, must_be_kept


class _Known:
    """An array as a static argument of jax.jit: compared by its bytes."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self._key = (array.shape, array.dtype.str, array.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self._key == other._key


Known = tuple[tuple[str, _Known], ...]
"""Names and arrays of inputs that are constants of a program."""


class Calls:
    """What calls of a model have compiled. Each program is compiled once for each combination of shapes."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._later: Calls | None = None

    def call(self, given: Mapping[str, Any], key: Any, bounds: Mapping[str, int] | None) -> tuple[Any, ...]:
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

    def _call(self, given: Mapping[str, Any], key: Any, bounds: Mapping[str, int] | None) -> tuple[Any, ...]:
        known = tuple((name, _Known(np.asarray(given[name]))) for name in given if name in self.constants)
        traced = {name: value for name, value in given.items() if name not in self.constants}
        must_not_be_cut(traced)
        if bounds is not None:
            return self._within_bounds(known, traced, key, bounds)
        if self.parts is None:
            return self.whole(known, dict(self._program.params), traced, key)
        return self._in_stages(self.parts, known, traced, key)

    def one_program(self, given: Iterable[str]) -> bool:
        """Whether calls with inputs of these names are one program for one combination of shapes."""
        return self._later is None and self.parts is None and self.constants.isdisjoint(given)

    @cached_property
    def constants(self) -> frozenset[str]:
        """Names of the inputs that are constants of a program, because shapes depend on their values."""
        inputs = (*self._program.inputs, *self._program.optional_inputs)
        return constant_inputs(self._program.graph) - {value.name for value in inputs if value.within}

    @cached_property
    def parts(self) -> tuple[tuple[Stage, Calls], ...] | None:
        """The stages of a call, each with the programs of its own; None where all is one program."""
        traced = {value.name for value in self._program.inputs} - constant_inputs(self._program.graph)
        found = stages(self._program.graph, traced | set(self._program.params))
        if len(found) == 1 and not found[0].on_host:
            return None
        return tuple((stage, Calls(replace(self._program, graph=stage.graph))) for stage in found)

    @cached_property
    def whole(self) -> Any:
        """The program of all that there is."""

        @partial(jax.jit, static_argnums=0)
        def compiled(known: Known, params: Any, traced: Any, key: Any) -> Any:
            return self._program.compute(params, traced | _arrays(known), key)

        return compiled

    def _in_stages(
        self, parts: tuple[tuple[Stage, Calls], ...], known: Known, traced: dict[str, Any], key: Any
    ) -> tuple[Any, ...]:
        """Compute the stages one after another: programs, and what must know their results."""
        values = self._program.as_read(self._program.params) | traced
        overridden = [value.name for value in self._program.optional_inputs if value.name in traced]
        for number, (stage, part) in enumerate(parts):
            # Nodes are numbered within a stage.
            own = None if key is None else jax.random.fold_in(key, number)
            given = {name: values[name] for name in {*stage.given, *overridden}}
            names = [output.name for output in stage.graph.outputs]
            if stage.on_host:
                results = part._on_host(stage.graph, names, known, given, own)
            else:
                results = part._with_rounded_lengths(number, known, given, own)
            values = values | dict(zip(names, results, strict=True))
        return tuple(cut_on_device(values[output.name]) for output in self._program.outputs)

    def _on_host(
        self, graph: Graph, names: list[str], known: Known, given: dict[str, Any], key: Any
    ) -> tuple[Any, ...]:
        """Compute what must know its operands, on their true shapes; lengths of what it finds are rounded up."""
        arrays = {name: jax.tree.map(np.asarray, cut(value)) for name, value in given.items()}
        with on_host():
            results = self._program.computed(_on_host, arrays | _arrays(known), key, Report(), NONE)
        return rounded(graph, names, results, self._seen)

    def _with_rounded_lengths(self, number: int, known: Known, given: dict[str, Any], key: Any) -> tuple[Any, ...]:
        """Compute a program of a call on arrays that are longer than what counts, or else on their true shapes."""
        if not self._refusing:
            try:
                results: tuple[Any, ...]
                results, promises = self.rounding(known, number, given, key)
            except (NotImplementedError, UnsupportedModelError):
                self._refusing.append(number)
            else:
                must_be_kept(promises)
                return results
        return self.whole(known, {}, {name: cut(value) for name, value in given.items()}, key)

    @cached_property
    def _seen(self) -> Seen:
        """The lengths that calls have found here."""
        return {}

    @cached_property
    def _refusing(self) -> list[int]:
        """Whether an operator refuses arrays that are longer than what counts: holds the number of the stage then."""
        return []

    @cached_property
    def rounding(self) -> Any:
        """The program on arrays that are longer than what counts: its results, and the promises on which it relies."""

        @partial(jax.jit, static_argnums=(0, 1))
        def compiled(known: Known, number: int, given: Any, key: Any) -> Any:
            places = count()

            def returned(result: Value) -> Any:
                place = next(places)
                return held(result, number, place) if isinstance(result, Bounded) else as_output(result)

            values = {name: opened(value) for name, value in given.items()} | _arrays(known)
            with collected() as promises:
                results = self._program.computed(returned, values, key, Report(), Bounds(active=True))
            return results, promises

        return compiled

    def _within_bounds(
        self, known: Known, traced: dict[str, Any], key: Any, bounds: Mapping[str, int]
    ) -> tuple[Any, ...]:
        """Compute all in one program, and cut what it returns to its true shape."""
        must_be_bounds(self._program.graph, bounds)
        error, results = self.bounded(known, tuple(sorted(bounds.items())), dict(self._program.params), traced, key)
        if error.get():
            rule = error.get().split("\n")[0].removesuffix(" (`check` failed)")
            raise ValueError(errors.compose("onnx.Model", f"{rule}."))
        return tuple(map(_cut, results))

    @cached_property
    def bounded(self) -> Any:
        """The program within bounds, with checks."""

        def checked(known: Known, bounds: Any, params: Any, traced: Any, key: Any) -> Any:
            with checking(True):
                return self._program.compute(params, traced | _arrays(known), key, bounds=dict(bounds))

        @partial(jax.jit, static_argnums=(0, 1))
        def compiled(known: Known, bounds: Any, *operands: Any) -> Any:
            return checkify.checkify(partial(checked, known, bounds), errors=checkify.user_checks)(*operands)

        return compiled


def _arrays(known: Known) -> dict[str, np.ndarray]:
    return {name: each.array for name, each in known}


def _on_host(result: Any) -> Any:
    """Return what the host has computed, as it is if it has."""
    return result if isinstance(result, np.ndarray) else as_output(result)


def _cut(result: Any) -> Any:
    """Return an output in its true shape."""
    if not isinstance(result, Padded):
        return result
    sizes = tuple(map(int, np.asarray(result.lengths)))
    return jax.device_put(np.asarray(result.array)[tuple(map(slice, sizes))])
