"""Compiled programs of a stage of a model, each for many lengths, of which those are kept that were called of late."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdml._base import errors
from jaxdml.onnx._errors import UnsupportedModelError
from jaxdml.onnx.running.interpreter import Report
from jaxdml.onnx.running.program import Program, jit_for
from jaxdml.onnx.values.bounded import Bounds
from jaxdml.onnx.values.capacities import Capacities
from jaxdml.onnx.values.held import (
    Free,
    Held,
    Places,
    Sizes,
    cut_at,
    held,
    keys_of,
    longer,
    opened,
    padded,
    without_keys,
)
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.obstacles import InTheWayError, watched
from jaxdml.onnx.values.promises import collected, must_be_kept

MOST = 64
"""So many programs are kept for each stage of a model."""


class KnownArray:
    """An array as a static argument of jax.jit: compared by its bytes."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self._key = (array.shape, array.dtype.str, array.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnownArray) and self._key == other._key


Known = tuple[tuple[str, KnownArray], ...]
"""Names and arrays of inputs that are constants of a program."""

Place = tuple[Known, Hashable]
"""What a program is for: its constants, and all else on which its trace depends."""


class Computed(NamedTuple):
    """What a program has returned.

    Attributes:
      results: arrays, some of them longer than what counts.
      place: what the program is for.
      given: what it got.
      settled: whether further calls with such lengths get the same program.
    """

    results: tuple[Any, ...]
    place: Place
    given: Mapping[str, Any]
    settled: bool


_LOCK = Lock()  # Of all models: one that has a lock of its own could not be copied.


class Newest:
    """What was asked for of late, by key."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}

    def of(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the function that ``jax.jit`` returned for a key, as the newest."""
        with _LOCK:
            found = self._kept.pop(key, None)
            if found is None:
                found = make()
                if len(self._kept) == MOST:
                    self._kept.pop(next(iter(self._kept))).clear_cache()
            self._kept[key] = found
            return found

    def drop(self, key: Hashable) -> None:
        """Let go of what could not be compiled."""
        with _LOCK:
            self._kept.pop(key, None)

    def __len__(self) -> int:
        return len(self._kept)


class Programs:
    """The programs of a model, or of a stage of it, and why some dimensions have their true lengths in them."""

    def __init__(
        self, program: Program, number: int | None = None, compile_by: Callable[..., Any] | None = None
    ) -> None:
        self._program = program
        self._number = number
        self._compile_by = compile_by or jit_for(program.params)
        self._masking = number is not None
        self._capacities = Capacities()
        self._newest = Newest()
        self.in_the_way: dict[Hashable, str] = {}

    def __len__(self) -> int:
        return len(self._newest)

    def computed(self, known: Known, given: Mapping[str, Any], key: Any, named: Sizes) -> Computed:
        """Compute a program on arrays that are longer than what counts; what a node cannot mask has its true length."""
        while True:
            refused = _named_in_vain(self.in_the_way, named)
            fitting = {name: without_keys(value, self.in_the_way) for name, value in given.items()}
            sizes, settled = self._capacities.chosen(fitting.values(), named)
            arrays = {name: longer(value, sizes) for name, value in fitting.items()}
            place = self._place(known, arrays, key)
            try:
                if refused:  # Unless an If that has to be decided first stands in the way: the trace raises its error.
                    jax.eval_shape(partial(self.traced, known), self._program.leaves, arrays, key)
                    raise refused
                results = self._results(place, arrays, key)
            except InTheWayError as error:
                self._newest.drop(place)
                self.in_the_way |= error.why
                self._masking &= bool(error.why)
            else:
                return Computed(results, place, arrays, settled)

    def again(self, call: Computed, cuts: tuple[Places, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        """Return how to compute outputs of arrays of a call's shapes, on which alone lengths and promises depend."""
        held = {name: value for name, value in call.given.items() if isinstance(value, Held)}
        lengths = jax.device_put({key: length for value in held.values() for key, length in _lengths(value)})
        shapes = {
            name: (value.array.shape, tuple(lengths[key] for key, _ in _lengths(value)), value.keys)
            for name, value in held.items()
        }

        def compute(arrays: Mapping[str, Any]) -> tuple[Any, ...]:
            more = {name: Held(padded(arrays[name], shape), *others) for name, (shape, *others) in shapes.items()}
            compiled = self.compiled(call.place)
            results, _ = compiled(self._program.passed_to(compiled), {**arrays, **more}, None)
            return tuple(map(cut_at, results, cuts))

        return compute

    def standing_in_the_way(self, known: Mapping[str, np.ndarray], shapes: Any) -> dict[str, str]:
        """Return by name of dimensions why they have to have their true lengths; ``shapes`` of what is left."""
        constants = tuple((name, KnownArray(array)) for name, array in known.items())
        while True:
            given = shapes(self.in_the_way)
            try:
                jax.eval_shape(partial(self.traced, constants), self._program.leaves, given, jax.random.key(0))
            except InTheWayError as error:
                self.in_the_way |= error.why
            else:
                return {key.name: reason for key, reason in self.in_the_way.items() if isinstance(key, Free)}

    def _place(self, known: Known, given: Mapping[str, Any], key: Any) -> Place:
        """Return the key of the program that serves arrays of these shapes."""
        leaves, structure = jax.tree.flatten(given)
        shapes = tuple((leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in leaves)
        return known, (key is None, structure, shapes, jax.dtypes.canonicalize_dtype(np.int64))

    def _results(self, place: Place, given: Mapping[str, Any], key: Any) -> tuple[Any, ...]:
        """Compute a program, which is compiled if it was not called for long."""
        compiled = self.compiled(place)
        results, promises = compiled(self._program.passed_to(compiled), given, key)
        must_be_kept(promises)
        return results

    def compiled(self, place: Place) -> Any:
        """Return a program as a function of the leaves of parameters, arrays and a key."""
        return self._newest.of(place, lambda: self._compile_by(partial(self.traced, place[0])))

    def traced(self, known: Known, leaves: Sequence[Any], given: Any, key: Any) -> Any:
        """Return the results of a program, and the promises on which it relies."""
        keys = keys_of(given.values())
        params = self._program.params_from(leaves)
        values = self._program.as_read(params) | {name: opened(value) for name, value in given.items()}
        bounds = Bounds({}, self._program.graph.symbols, active=bool(keys) or self._masking)
        with collected() as promises, watched(keys, bounds.active):
            numbers = count()

            def returned(result: Value) -> Any:
                return held(result, self._number, next(numbers))

            results = self._program.computed(returned, values | arrays_of(known), key, Report(), bounds)
        return results, promises


def _lengths(value: Held) -> Iterator[tuple[Hashable, Any]]:
    return zip((key for key in value.keys if key is not None), value.lengths, strict=True)


def _named_in_vain(why: Mapping[Hashable, str], named: Sizes) -> UnsupportedModelError | None:
    """Return the error about lengths that a caller has named for dimensions that have to have their true lengths."""
    for key, reason in why.items():
        if key in named and isinstance(key, Free):
            rule = f"lengths are named for '{key.name}', along which nothing can be added: {reason}."
            return UnsupportedModelError(errors.compose("onnx.Model", rule, 'Say "exact" for it, or leave it out.'))
    return None


def arrays_of(known: Known) -> dict[str, np.ndarray]:
    """Return the constants of a program by name."""
    return {name: each.array for name, each in known}
