"""A graph with its parameters, as a function of values by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, starmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from jaxdml._networks.packed_projections import Projections
from jaxdml.onnx._graph import Graph, TensorType
from jaxdml.onnx.running.interpreter import Report, run
from jaxdml.onnx.running.open_dimensions import Lengths
from jaxdml.onnx.running.parameters import Parameter
from jaxdml.onnx.running.randomness import randomness
from jaxdml.onnx.values.bounded import Bounded, Bounds, must_be_bounds, padded
from jaxdml.onnx.values.kinds import Value, channels_first
from jaxdml.onnx.values.stored import FloatFilters, on_device, without_uniform_constants

NUMERICS = ("exact", "literal")

_LARGEST_CONSTANT = 2**14
"""In bytes. Each program holds its constants once more: 0.5 MB of those of an int8 ResNet-50, whose weights have 26."""


@dataclass(frozen=True, eq=False)
class Program:
    """What ``Model`` calls and traces.

    Attributes:
      graph: what it computes.
      params: its weights by name; several that are packed as one have the name of the first.
      numerics: one of ``NUMERICS``.
      lengths: of open dimensions, for which calls compile programs.
    """

    graph: Graph
    params: Mapping[str, Parameter]
    numerics: str
    lengths: Lengths = "rounded"

    @property
    def inputs(self) -> tuple[TensorType, ...]:
        """Name, dtype and shape of each input."""
        return self.graph.inputs

    @property
    def optional_inputs(self) -> tuple[TensorType, ...]:
        """Name, dtype and shape of each initializer that a call may override by name."""
        return self.graph.optional

    @property
    def outputs(self) -> tuple[TensorType, ...]:
        """Name, dtype and shape of each output."""
        return self.graph.outputs

    def compute(
        self,
        params: Mapping[str, Any],
        given: Mapping[str, Any],
        key: Any = None,
        report: Report | None = None,
        bounds: Mapping[str, int] | None = None,
    ) -> tuple[Any, ...]:
        """Compute the outputs from parameters and inputs by name, without checks."""
        values = {**self.as_read(params), **given}
        limits = must_be_bounds(self.graph, bounds)
        if any(isinstance(value, Bounded) for value in given.values()):
            limits = replace(limits, active=True)
        return self.computed(as_output, values, key, report or Report(), limits)

    @property
    def weights(self) -> frozenset[str]:
        """The names of values of the graph that are parameters."""
        return frozenset(chain.from_iterable(starmap(_values_of, self.params.items())))

    @cached_property
    def leaves(self) -> list[Any]:
        """The arrays of the parameters. A call that is given these flattens no records of packed weights.

        That would take 67 us of 721 in each call of an int8 ResNet-50 on a GPU.
        """
        return jax.tree.leaves(dict(self.params))

    @cached_property
    def _constants(self) -> dict[int, np.ndarray[Any, Any]]:
        """The leaves that may be constants of a program, by their places: small arrays that decide no device.

        An array of equal numbers is none: XLA would make it a broadcast, and write it in each call.
        """
        arrays = ((at, x) for at, x in enumerate(self.leaves) if isinstance(x, jax.Array) and not x.committed)
        on_host = ((at, np.asarray(x)) for at, x in arrays if x.nbytes <= _LARGEST_CONSTANT)
        return {at: x for at, x in on_host if x.size > 1 and (x != x.flat[0]).any()}

    @cached_property
    def _others(self) -> list[Any]:
        return [leaf for at, leaf in enumerate(self.leaves) if at not in self._constants]

    def passed_to(self, compiled: Any) -> list[Any]:
        """Return the leaves that a compiled function gets, and makes parameters of by ``params_from``.

        A call takes 1.1 us for each array on a GPU, and most are vectors with one number for each channel. Where XLA
        takes constants into the kernels of products, small arrays are constants of the program.
        """
        takes_constants = getattr(compiled, "takes_constants", None)
        return self._others if takes_constants and takes_constants() else self.leaves

    def params_from(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Return the parameters with other arrays in the place of ``leaves``, or of those that are no constants."""
        every = leaves
        if len(leaves) < len(self.leaves):
            others = iter(leaves)
            constants = {at: _opaque(constant) for at, constant in self._constants.items()}
            every = [constants[at] if at in constants else next(others) for at in range(len(self.leaves))]
        params: dict[str, Any] = jax.tree.unflatten(jax.tree.structure(dict(self.params)), every)
        return params

    def params_of(self, values: Iterable[str]) -> dict[str, Parameter]:
        """Return the parameters of which some values of the graph are made."""
        wanted = frozenset(values)
        return {name: each for name, each in self.params.items() if not wanted.isdisjoint(_values_of(name, each))}

    def as_read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters as values of the graph: filters say so, and matrices that are packed as one come apart."""
        values = {name: FloatFilters(x) if name in self.graph.filters else x for name, x in params.items()}
        for packed in params.values():
            if isinstance(packed, Projections):
                values |= packed.by_name()
        return values

    def computed(
        self, returned: Callable[[Value], Any], given: Mapping[str, Any], key: Any, report: Report, bounds: Bounds
    ) -> tuple[Any, ...]:
        """Compute the outputs, each changed by ``returned``, from values by name."""
        random, exact = randomness(self.graph, key), self.numerics == "exact"
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            values = without_uniform_constants(given)
            results = run(self.graph, values, exact=exact, report=report, random=random, bounds=bounds)
            return tuple(map(returned, results))


def _values_of(name: str, parameter: Parameter) -> tuple[str, ...]:
    """Return the names of the values that a parameter of this name is."""
    return parameter.names if isinstance(parameter, Projections) else (name,)


def _opaque(x: np.ndarray[Any, Any]) -> jax.Array:
    """Return a constant of which XLA knows no more than of an argument: it would join factors, and round otherwise."""
    constant: jax.Array = lax.optimization_barrier(jnp.asarray(x))  # type: ignore[no-untyped-call]
    return constant


def jit_for(params: Mapping[str, Any]) -> Callable[..., Any]:
    """Return what compiles a program: ``jaxdml.jit`` if it has packed weights. Floats keep XLA's own options."""
    integers = jaxdml.PackedMatrix, jaxdml.PackedFilters
    packed = *integers, jaxdml.PackedBlocks
    kinds = set(map(type, jax.tree.leaves(dict(params), is_leaf=lambda x: isinstance(x, packed))))
    if not kinds.isdisjoint(integers):
        return jaxdml.jit
    return partial(jaxdml.jit, weights="blocks") if jaxdml.PackedBlocks in kinds else jax.jit


def as_output(result: Any) -> Any:
    """Return what the model returns for a value: an array, a list of them, or None."""
    if isinstance(result, list):
        return [as_output(each) for each in result]
    if isinstance(result, Bounded):
        return padded(on_device(channels_first(result.value)), result.sizes)
    return None if result is None else on_device(channels_first(result))
