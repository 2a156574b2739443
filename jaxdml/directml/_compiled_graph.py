"""Turn a graph into a function on arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from jax import export
from jax.typing import ArrayLike

import jaxdml
from jaxdml._base.errors import ErrorContext, compose
from jaxdml.directml._arrays import elements_given, require_x64, x64_enabled
from jaxdml.directml._binding import kept
from jaxdml.directml._c import c_name
from jaxdml.directml._enums import FeatureLevel, TensorFlags
from jaxdml.directml._errors import InvalidDescError, require_level
from jaxdml.directml._graph import Graph, Slot
from jaxdml.directml._graph_checks import graph_violations
from jaxdml.directml._graph_json import graph_from_json, graph_to_json
from jaxdml.directml._graph_plan import Plan, plan
from jaxdml.directml._graph_running import computed, constants, graph_call
from jaxdml.directml._rereading import reread
from jaxdml.directml._tensors import BufferTensorDesc

_OWNED = c_name(TensorFlags.OWNED_BY_DML)


@dataclass(frozen=True)
class CompiledGraph:
    """A valid graph as a function of its inputs, as ``compile_graph`` returns it.

    It is pure and works under ``jit``, ``vmap``, ``jax.export``, and ``grad`` where its operators do, and takes sharded
    arrays. A call compiles all nodes as one program. Nodes that no output needs are not computed.

    Attributes:
      graph: the graph.
      feature_level: the level for which it is valid.
    """

    graph: Graph
    feature_level: FeatureLevel

    def __post_init__(self) -> None:
        """Check the graph. There is no way to a compiled graph around this."""
        if not isinstance(self.graph, Graph):
            raise TypeError(compose("directml.compile_graph", f"graph must be a Graph; got {self.graph!r}."))
        level = require_level("compile_graph", self.feature_level)
        object.__setattr__(self, "feature_level", level)
        if broken := list(graph_violations(self.graph, level)):
            count = "a rule" if len(broken) == 1 else f"{len(broken)} rules"
            raise InvalidDescError(f"the graph breaks {count} at feature level {level.label}.", broken)

    @cached_property
    def _plan(self) -> Plan:
        return plan(self.graph)

    @cached_property
    def inputs(self) -> tuple[BufferTensorDesc | None, ...]:
        """The description of each input: that at the end of its first edge, None if it has no edge."""
        return tuple(slot and slot.tensor for slot in self._plan.inputs)

    @cached_property
    def outputs(self) -> tuple[BufferTensorDesc, ...]:
        """The description of each output."""
        return tuple(slot.tensor for _, slot in self._plan.outputs)

    @cached_property
    def _compute(self) -> Any:
        return partial(computed, self._plan)

    @cached_property
    def _jitted(self) -> Any:
        return jax.jit(self._compute)

    @cached_property
    def _jitted_of_packed(self) -> Any:
        return jaxdml.jit(self._compute)

    def __call__(self, *inputs: ArrayLike | None) -> tuple[jax.Array, ...]:
        """Compute the outputs.

        Args:
          inputs: one argument for each input of the graph. The attribute ``inputs`` describes them: pass an array of
            the described ``Sizes``, or, if there are ``Strides``, a 1-D buffer of at least the described size. For an
            input without edges pass anything.

        Returns:
          An array for each output. One with ``Strides`` is a 1-D buffer of the described size, with zeros in its gaps.

        Raises:
          TypeError: an input does not have the described type, sizes or buffer size, or a data type has 64 bits while
            JAX keeps only 32. An input is OWNED_BY_DML: call ``initialize`` first.
        """
        if owned := self._plan.owned:
            rule = f"{', '.join(map(_label, owned))} must be bound by initialize, since {_OWNED} is set."
            call = graph_call(dict(zip(map(_label, range(len(inputs))), inputs, strict=True)))
            call.fail(TypeError, rule, "Pass them to initialize, and the other inputs to what it returns.")
        return InitializedGraph(self, {})(*inputs)

    def initialize(self, owned: Mapping[int, ArrayLike]) -> InitializedGraph:
        """Bind the inputs that are OWNED_BY_DML, and return the function of the other inputs.

        Weights are prepared here once, for each node that reads them, as by ``CompiledOperator.initialize``.

        Args:
          owned: an array for each input that is OWNED_BY_DML, by its index. NumPy arrays are copied.

        Returns:
          The ``InitializedGraph``.

        Raises:
          TypeError: an input that is OWNED_BY_DML is missing, another one is given, or one is not as described.
        """
        call = graph_call({_label(index): array for index, array in owned.items()})
        if set(owned) != set(self._plan.owned):
            listed = ", ".join(map(_label, self._plan.owned)) or "none"
            rule = f"initialize must be given what is {_OWNED}: {listed}."
            call.fail(TypeError, rule, "Pass a dict of arrays by the indices of the graph's inputs.")
        arrays = {index: kept(_given(call, index, self._plan.inputs[index])) for index in self._plan.owned}
        bound = {}
        for step, read, index in self._plan.bound:
            tensor = reread(arrays[index], self._plan.inputs[index].tensor, read.slot.tensor)
            bound[read.name] = step.desc.operator.prepared(step.desc, read.slot.field, tensor, constants(step))
        return InitializedGraph(self, bound)


@partial(jax.tree_util.register_dataclass, data_fields=["bound"], meta_fields=["graph"])
@dataclass(frozen=True, eq=False)
class InitializedGraph:
    """A graph with bound inputs as a function of its other inputs, as ``CompiledGraph.initialize`` returns it.

    It is a pytree of the bound arrays: pass it to ``jax.jit``, ``jax.device_put`` and so on, or close over it.

    Attributes:
      graph: the compiled graph. Static.
      bound: a dict of what nodes read of the bound inputs, in the form in which their operators take it.
    """

    graph: CompiledGraph
    bound: dict[str, Any]

    def __call__(self, *inputs: ArrayLike | None) -> tuple[jax.Array, ...]:
        """Compute the outputs.

        Args:
          inputs: as for ``CompiledGraph``, without those that are bound.

        Returns:
          What ``CompiledGraph`` returns.

        Raises:
          TypeError: as for ``CompiledGraph``, or a bound array no longer has the described type and sizes.
        """
        of = self.graph._plan
        taken = [index for index in range(len(of.inputs)) if index not in of.owned]
        call = graph_call({_label(index): array for index, array in zip(taken, inputs, strict=False)})
        if len(inputs) != len(taken):
            rule = f"the inputs must be {len(taken)}; got {len(inputs)}."
            call.fail(TypeError, rule, "Pass one for each input of the graph that is not bound by initialize.")
        arrays = {index: _given(call, index, slot) for index in taken if (slot := of.inputs[index])}
        for name, slot in of.wide.items():
            require_x64(call, name, slot.role, slot.tensor)
        # jax.jit would cut 64-bit indices, which NumPy arrays may hold.
        held = (*arrays.values(), *self.bound.values())
        wide = not x64_enabled() and any(isinstance(x, np.ndarray) and x.itemsize > 4 for x in held)
        if wide:
            return self.graph._compute(arrays, self.bound)
        packed = any(isinstance(x, (jaxdml.PackedMatrix, jaxdml.PackedFilters)) for x in self.bound.values())
        return (self.graph._jitted_of_packed if packed else self.graph._jitted)(arrays, self.bound)


def compile_graph(graph: Graph, feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4) -> CompiledGraph:
    """Check a graph against DirectML's rules and return it as a function on arrays.

    All rules are checked, those of every node's description, too. The error names every one that is broken, with the
    node or the edge. What DirectML's pages leave open is refused only where it has no meaning: outputs that nothing
    reads and inputs that go nowhere are accepted.

    Args:
      graph: the graph.
      feature_level: the level whose data types and dimension counts are allowed; the newest by default.

    Returns:
      The ``CompiledGraph``. Call it with arrays. If inputs are OWNED_BY_DML, call its ``initialize`` first.

    Raises:
      TypeError: ``graph`` is not a ``Graph``.
      InvalidDescError: the graph breaks a rule.
      ValueError: ``feature_level`` is not a level.

    Source:
      ``IDMLDevice1::CompileGraph``.

    Example:
      >>> row = dml.BufferTensorDesc(dml.TensorDataType.FLOAT32, (1, 1, 1, 4))
      >>> index = dml.BufferTensorDesc(dml.TensorDataType.UINT32, (1, 1, 1, 4))
      >>> desc = dml.TopKOperatorDesc(
      ...     input_tensor=row, output_value_tensor=row, output_index_tensor=index, axis=3, k=4)
      >>> graph = dml.Graph(
      ...     input_count=1, output_count=1, nodes=[dml.OperatorNode(desc, "sort")],
      ...     input_edges=[dml.InputEdge(0, 0, 0)], output_edges=[dml.OutputEdge(0, 0, 0)])
      >>> dml.compile_graph(graph)(jnp.array([[[[3.0, 1.0, 4.0, 2.0]]]]))
      (Array([[[[4., 3., 2., 1.]]]], dtype=float32),)
    """
    return CompiledGraph(graph, feature_level)


def _to_bytes(static: tuple[CompiledGraph]) -> bytes:
    (compiled,) = static
    return json.dumps([graph_to_json(compiled.graph), compiled.feature_level]).encode()


def _from_bytes(written: bytes) -> tuple[CompiledGraph]:
    graph, level = json.loads(written)
    return (compile_graph(graph_from_json(graph), level),)


export.register_pytree_node_serialization(
    InitializedGraph,
    serialized_name="jaxdml.directml.InitializedGraph",
    serialize_auxdata=_to_bytes,
    deserialize_auxdata=_from_bytes,
)


def _label(index: int) -> str:
    return f"Inputs[{index}]"


def _given(call: ErrorContext, index: int, slot: Slot) -> Any:
    """Check what an input of the graph is given, and return it in the described sizes."""
    return elements_given(call, f"inputs[{index}]", slot.role, slot.tensor, True)
