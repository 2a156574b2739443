"""A call with sharded arguments: how one writes it with jaxdml and with stock JAX, and what it may send."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

DEVICES = 8
KINDS = {"Auto": AxisType.Auto, "Explicit": AxisType.Explicit}
BY_NAME = "axis_name"
ONE = {"d": DEVICES}
TWO = {"d": 2, "e": 4}
"""Meshes, as the names and sizes of their axes."""

Axes = Mapping[str, int]
Function = Callable[..., Any]
Shape = jax.ShapeDtypeStruct


class Bound(NamedTuple):
    """What a call may send."""

    rule: str
    elements: int
    """Of all collectives together, on one device."""
    collectives: int | None
    """How many there may be. None where XLA chooses them."""

    def keeps(self, elements: int, collectives: int) -> bool:
        """Tell whether a program that sends this is within the bound."""
        return elements <= self.elements and (self.collectives is None or collectives <= self.collectives)


NOTHING = Bound("nothing", 0, 0)


class ByName(NamedTuple):
    """How to write the call on the block of one shard, inside ``jax.shard_map``."""

    ours: Function
    stock: Function


@dataclass(frozen=True)
class Sharded:
    """A call with sharded arguments."""

    operator: str
    sharding: str
    """What is sharded, in words, unique for an operator."""
    axes: Axes
    arguments: tuple[Shape, ...]
    specs: tuple[P, ...]
    results: Any
    """A ``PartitionSpec`` for each result: how one would write them."""
    ours: Function
    stock: Function
    bound: Bound = NOTHING
    by_name: ByName | None = None
    bound_under_auto: Bound | None = None
    """The bound under Auto axes, or None if only the number of collectives may differ there: XLA chooses them."""

    @property
    def name(self) -> str:
        """Return the unique name."""
        return f"{self.operator}: {self.sharding}"

    @property
    def ways(self) -> tuple[str, ...]:
        """Return the ways to write the call: on a mesh of each kind, and with ``axis_name`` where that applies."""
        return (*KINDS, BY_NAME) if self.by_name else tuple(KINDS)

    def bound_of(self, way: str) -> Bound:
        """Return what the call may send, written in this way."""
        if way != "Auto" or self.bound == NOTHING:
            return self.bound
        return self.bound_under_auto or self.bound._replace(collectives=None)

    def program(self, way: str, devices: Any, *, stock: bool = False) -> tuple[Function, tuple[Shape, ...]]:
        """Return the function to compile for these devices, and its arguments with their shardings."""
        kind = KINDS.get(way, AxisType.Explicit)
        mesh = mesh_of(self.axes, devices, kind)
        arguments = tuple(
            Shape(argument.shape, argument.dtype, sharding=NamedSharding(mesh, spec))
            for argument, spec in zip(self.arguments, self.specs, strict=True)
        )
        if self.by_name is None or way != BY_NAME:
            return (self.stock if stock else self.ours), arguments
        # What stock all_gather returns counts as different on each device, though it is not.
        block = self.by_name.stock if stock else self.by_name.ours
        specs = {"in_specs": self.specs, "out_specs": self.results}
        return jax.shard_map(block, mesh=mesh, **specs, check_vma=not stock), arguments


def mesh_of(axes: Axes, devices: Any, kind: AxisType) -> Mesh:
    """Return a mesh of these devices."""
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(kind,) * len(axes), devices=devices)


def shards(axes: Axes, entry: Any) -> int:
    """Return into how many blocks an entry of a ``PartitionSpec`` cuts its dimension."""
    return math.prod(axes[name] for name in _names(entry))


def same(spec: P, other: P) -> bool:
    """Tell whether two specs shard alike: a dimension may be left out, and one name may stand in a tuple."""
    return all(_names(one) == _names(two) for one, two in itertools.zip_longest(spec, other))


def _names(entry: Any) -> tuple[str, ...]:
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def block(axes: Axes, shape: tuple[int, ...], entries: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of the block that one device holds."""
    padded = (*entries, *[None] * (len(shape) - len(entries)))
    return tuple(size // shards(axes, entry) for size, entry in zip(shape, padded, strict=True))
