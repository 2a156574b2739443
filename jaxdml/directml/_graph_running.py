"""Compute the nodes of a graph."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdml._base.errors import ErrorContext
from jaxdml.directml._arrays import as_described
from jaxdml.directml._binding import require_bound
from jaxdml.directml._graph_plan import FromConstant, FromInput, FromNode, Plan, Read, Step
from jaxdml.directml._rereading import constant, reread, same_view
from jaxdml.directml._tensors import BufferTensorDesc


def graph_call(operands: Mapping[str, Any]) -> ErrorContext:
    """Return what errors show of a call of a graph."""
    return ErrorContext("directml.CompiledGraph", operands)


def computed(of: Plan, arrays: Mapping[int, Any], bound: Mapping[str, Any]) -> tuple[Any, ...]:
    """Compute the outputs of a graph.

    Args:
      of: its plan.
      arrays: the inputs that are not bound, by their indices, in the described sizes.
      bound: what nodes read of the others.
    """
    held: dict[FromNode, _Held] = {}

    def read(one: Read, last: bool) -> Any:
        """Return what a node reads, with channels last or in the described order."""
        wanted = one.slot.tensor
        if one.name in bound:
            require_bound(graph_call({}), bound[one.name], one.name, one.slot.role, wanted)
            return _ordered(bound[one.name], False, last)
        match one.source:
            case FromInput(index):
                found = _Held(arrays[index], of.inputs[index].tensor, False)
            case FromConstant(data):
                found = _Held(constant(data, wanted), wanted, False)
            case FromNode():
                found = held[one.source]
            case _:
                return None
        if same_view(found.tensor, wanted):
            return _ordered(found.values, found.last, last)
        return _ordered(reread(_ordered(found.values, found.last, False), found.tensor, wanted), False, last)

    for step in of.steps:
        operator, images = step.desc.operator, _images(step, held)
        compute = operator.channels_last if images else operator.compute
        values = _outputs(step, compute, [read(one, one.slot.field in images) for one in step.reads])
        for place, (slot, value) in enumerate(zip(step.outputs, values, strict=True)):
            held[FromNode(step.node, place)] = _Held(value, slot.tensor, bool(images))
    return tuple(
        as_described(slot.label, slot.tensor, _ordered(held[end].values, held[end].last, False))
        for end, slot in of.outputs
    )


def constants(step: Step) -> dict[str, np.ndarray[Any, Any]]:
    """Return what a node reads of constants, by the names of its fields."""
    return {
        read.slot.field: constant(read.source.data, read.slot.tensor)
        for read in step.reads
        if isinstance(read.source, FromConstant)
    }


class _Held(NamedTuple):
    """What a node has computed.

    Attributes:
      values: an array of the described sizes.
      tensor: the description.
      last: whether dimension 1 is stored last.
    """

    values: Any
    tensor: BufferTensorDesc
    last: bool


def _ordered(values: Any, last: bool, wanted: bool) -> Any:
    """Return an array with its channels last, if wanted so, or in the described order."""
    if last == wanted:
        return values
    of = np if isinstance(values, np.ndarray) else jnp
    return of.moveaxis(values, 1, -1) if wanted else of.moveaxis(values, -1, 1)


def _images(step: Step, held: Mapping[FromNode, _Held]) -> tuple[str, ...]:
    """Return the fields that a node reads with their channels last; none if it does not compute so."""
    operator = step.desc.operator
    read = [one for one in step.reads if one.slot.field in operator.images]
    alike = {one.slot.tensor.dimension_count for one in read if one.slot.tensor} == {_RANK}
    stored = any(isinstance(one.source, FromNode) and held[one.source].last for one in read)
    return operator.images if alike and (stored or operator.channels_last is not operator.compute) else ()


_RANK = 4
"""The dimensions of images, ``{N, C, H, W}``."""


def _outputs(step: Step, compute: Any, values: Sequence[Any]) -> list[Any]:
    """Compute a node from its inputs, one for each slot, and return its outputs likewise."""
    desc, arrays, waiting = step.desc, list[Any](), list(values)
    for name, role in desc.roles().items():
        if not role.output:
            count = len(getattr(desc, name)) if role.several else 1
            taken, waiting = waiting[:count], waiting[count:]
            arrays.append(tuple(taken) if role.several else taken[0])
    options = {name: choices[0] for name, choices in desc.operator.options.items()}
    computed = compute(desc, *arrays, **options)
    several = [role.several for role in desc.roles().values() if role.output]
    each = computed if len(several) > 1 else (computed,)
    return [one for part, of in zip(each, several, strict=True) for one in (part if of else (part,))]
