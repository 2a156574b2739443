"""Calls of a model: one program, or several where shapes depend on values, with what each has compiled."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
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
from jaxdml.onnx.running.program import Program, as_output
from jaxdml.onnx.running.programs import Programs
from jaxdml.onnx.running.stages import Stage, stages
from jaxdml.onnx.values.bounded import NONE, Bounds, Padded, checking, must_be_bounds
from jaxdml.onnx.values.capacities import (
    Capacities,
    Held,
    Places,
    Sizes,
    cut,
    cut_at,
    held,
    keyed,
    keys_of,
    longer,
    opened,
    padded,
    places,
    without_keys,
)
from jaxdml.onnx.values.obstacles import InTheWayError, watched
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

Place = tuple[Known, Hashable]
"""What a program is for: its constants, and all else on which its trace depends."""


class Called(NamedTuple):
    """What a call has returned.

    Attributes:
      results: arrays, lists of them, or None.
      again: computes the same of arrays of the same shapes by name, if that is one program; it does not check them.
    """

    results: tuple[Any, ...]
    again: Callable[[Mapping[str, Any]], tuple[Any, ...]] | None


class Calls:
    """What calls of a model, or of a stage of it, have compiled: a program for each combination of shapes."""

    def __init__(self, program: Program, number: int | None = None) -> None:
        self._program = program
        self._number = number
        self._masking = number is not None
        self._open = OpenDimensions(program.lengths)
        self.capacities = Capacities()
        self.in_the_way: dict[Hashable, str] = {}
        self.programs = Programs()
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
        known = tuple((name, _Known(np.asarray(given[name]))) for name in given if name in self.constants)
        traced = {name: value for name, value in given.items() if name not in self.constants}
        must_not_be_cut(traced)
        if bounds is not None:
            return Called(self._within_bounds(known, traced, key, bounds), None)
        inputs = self._open.keyed((*self._program.inputs, *self._program.optional_inputs), traced)
        named = self._open.named(inputs)
        if self.parts is None:
            outputs, again = self._computed(known, dict(self._program.params), inputs, key, named)
        else:
            outputs, again = self._in_stages(self.parts, known, inputs, key, named), None
        return Called(tuple(map(cut_at, outputs, map(places, outputs))), None if known or key is not None else again)

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
        return tuple(
            (stage, Calls(replace(self._program, graph=stage.graph), number)) for number, stage in enumerate(found)
        )

    def _in_stages(
        self, parts: tuple[tuple[Stage, Calls], ...], known: Known, given: dict[str, Any], key: Any, named: Sizes
    ) -> tuple[Any, ...]:
        """Compute the stages one after another: programs, and what must know their results."""
        values = self._program.as_read(self._program.params) | given
        overridden = [value.name for value in self._program.optional_inputs if value.name in given]
        for number, (stage, part) in enumerate(parts):
            # Nodes are numbered within a stage.
            own = None if key is None else jax.random.fold_in(key, number)
            read = {name: values[name] for name in {*stage.given, *overridden}}
            names = [output.name for output in stage.graph.outputs]
            if stage.on_host:
                results = part._on_host(stage.graph, names, known, read, own)
            else:
                results, _ = part._computed(known, {}, read, own, named)
            values = values | dict(zip(names, results, strict=True))
        return tuple(values[output.name] for output in self._program.outputs)

    def _on_host(
        self, graph: Graph, names: list[str], known: Known, given: dict[str, Any], key: Any
    ) -> tuple[Any, ...]:
        """Compute what must know its operands, on their true shapes."""
        arrays = {name: jax.tree.map(np.asarray, cut(value)) for name, value in given.items()}
        with on_host():
            results = self._program.computed(_on_host, arrays | _arrays(known), key, Report(), NONE)
        return tuple(keyed(graph, name, result) for name, result in zip(names, results, strict=True))

    def _computed(
        self, known: Known, params: Mapping[str, Any], given: Mapping[str, Any], key: Any, named: Sizes
    ) -> Called:
        """Compute a program on arrays that are longer than what counts; what a node cannot mask has its true length."""
        while True:
            fitting = {name: without_keys(value, self.in_the_way) for name, value in given.items()}
            sizes, settled = self.capacities.chosen(fitting.values(), named)
            arrays = {name: longer(value, sizes) for name, value in fitting.items()}
            place = self._place(known, arrays, key)
            try:
                results = self._results(place, params, arrays, key)
            except InTheWayError as error:
                self.programs.drop(place)
                self.in_the_way |= error.why
                self._masking &= bool(error.why)
            else:
                held = {name: value for name, value in arrays.items() if isinstance(value, Held)}
                again = partial(self._again, place, _without_arrays(held), tuple(map(places, results)))
                return Called(results, again if settled else None)

    def _again(
        self, place: Place, held: Mapping[str, Held], cuts: tuple[Places, ...], arrays: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Compute the outputs of arrays of an earlier call's shapes, on which alone lengths and promises depend."""
        more = {
            name: Held(padded(arrays[name], value.array.shape), value.lengths, value.keys)
            for name, value in held.items()
        }
        results, _ = self.compiled(place)(dict(self._program.params), {**arrays, **more}, None)
        return tuple(map(cut_at, results, cuts))

    def _place(self, known: Known, given: Mapping[str, Any], key: Any) -> Place:
        """Return the key of the program that serves arrays of these shapes."""
        leaves, structure = jax.tree.flatten(given)
        shapes = tuple((np.shape(leaf), jax.dtypes.result_type(leaf)) for leaf in leaves)
        return known, (key is None, structure, shapes, jax.dtypes.canonicalize_dtype(np.int64))

    def _results(self, place: Place, params: Any, given: Mapping[str, Any], key: Any) -> tuple[Any, ...]:
        """Compute a program, which is compiled if it was not called for long."""
        results, promises = self.compiled(place)(params, given, key)
        must_be_kept(promises)
        return results

    def compiled(self, place: Place) -> Any:
        """Return a program as a function of parameters, arrays and a key."""
        return self.programs.of(place, lambda: jax.jit(partial(self.traced, place[0])))

    def traced(self, known: Known, params: Any, given: Any, key: Any) -> Any:
        """Return the results of a program, and the promises on which it relies."""
        keys = keys_of(given.values())
        values = self._program.as_read(params) | {name: opened(value) for name, value in given.items()}
        bounds = Bounds({}, self._program.graph.symbols, active=bool(keys) or self._masking)
        with collected() as promises, watched(keys, bounds.active):
            results = self._program.computed(lambda x: x, values | _arrays(known), key, Report(), bounds)
            return tuple(held(result, self._number, place) for place, result in enumerate(results)), promises

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


def _without_arrays(held: Mapping[str, Held]) -> dict[str, Held]:
    """Return arrays as their shapes, with their lengths on the device."""
    return {
        name: replace(value, array=jax.typeof(value.array), lengths=jax.device_put(value.lengths))
        for name, value in held.items()
    }


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
