"""Run the cases of an operator on several devices, with one dimension sharded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from threading import Lock
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml._cases import OPERATORS, dimensions
from jaxdml._cases.dimensions import Dimensions, Letters
from jaxdml._cases.records import SHARDS, Answers, Sharding
from jaxdml._selfcheck.batches import Batch, answers
from jaxdml._selfcheck.planning import Check, generator

Means = Literal["Explicit axes", "Auto axes", "shard_map"]

_AXIS = "devices"

_RUNNING = Lock()
"""Taken while a program runs on several devices. Two whose collectives start in different orders may wait for ever."""


@dataclass(frozen=True)
class Placement:
    """How the arrays of a check lie on the devices."""

    dimension: str
    devices: int
    means: Means
    """What the operator learns it from; in ``shard_map`` from ``axis_name``."""

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.dimension} sharded over {self.devices} devices with {self.means}"


@dataclass(frozen=True)
class ShardedBatch(Batch):
    """Cases of one scenario, to be sharded over several devices."""

    sharding: Sharding
    placement: Placement
    dimensions: Dimensions

    @property
    def called(self) -> str:
        """Say how the operator is called."""
        return f"{self.scenario.way}, {self.placement}"

    @property
    def specs(self) -> tuple[tuple[P, ...], tuple[P, ...]]:
        """Return how arguments and results are sharded. Results have as many more dimensions as the first argument."""
        arguments, results, _ = self.dimensions
        more = [0 if x is None else x.ndim - len(letters) for x, letters in zip(self.arguments, arguments, strict=True)]
        return tuple(map(self._spec, arguments, more)), tuple(self._spec(letters, more[0]) for letters in results)

    def _spec(self, letters: Letters, more: int) -> P:
        if self.sharding.letter not in letters:
            return P()  # type: ignore[no-untyped-call]
        return P(*[None] * (more + letters.index(self.sharding.letter)), _AXIS)  # type: ignore[no-untyped-call]

    def ours(self) -> Answers:
        """Return the library's answers."""
        means = self.placement.means
        kind = AxisType.Explicit if means == "Explicit axes" else AxisType.Auto
        mesh = Mesh(np.array(jax.local_devices()[: self.placement.devices]), _AXIS, axis_types=(kind,))
        specs, results = self.specs
        arguments = [
            jax.device_put(argument, NamedSharding(mesh, spec))
            for argument, spec in zip(self.arguments, specs, strict=True)
        ]
        function = self.program(**({"axis_name": _AXIS} if means == "shard_map" else {}))
        if means == "shard_map":
            function = jax.shard_map(_as_tuple(function), mesh=mesh, in_specs=specs, out_specs=results)
        program: Any = jax.jit(function).lower(*arguments).compile()
        with _RUNNING:
            return answers(program(*arguments))


def _as_tuple(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    return lambda *arguments: tuple(jax.tree.leaves(function(*arguments)))


@dataclass(frozen=True)
class ShardedCheck(Check):
    """An operator, dtype and sharding to compare with the oracle: one row of the table of sharded checks."""

    sharding: Sharding
    placement: Placement

    @property
    def label(self) -> str:
        """Say what is being done."""
        return f"{super().label}, {self.placement}"

    @property
    def dimensions(self) -> Dimensions:
        """Return the dimensions of the cases."""
        return dimensions.of(self.sharding.dimensions or self.record.dimensions)

    @property
    def by_name(self) -> bool:
        """Tell whether the operator can be called in ``shard_map`` with the ``axis_name`` of the dimension."""
        takes = "axis_name" in signature(getattr(jaxdml, self.operator)).parameters
        return takes and self.sharding.letter in self.dimensions.combined

    def batches(self, seed: int, share: float, thorough: bool) -> Iterator[ShardedBatch]:
        """Draw all cases of every scenario, the same for all meshes and means."""
        del share, thorough
        for number, scenario in enumerate(self.sharding.scenarios):
            rng = generator(seed, f"{super().label} {self.sharding.dimension} {number}")
            arguments = scenario.draw(rng, scenario.cases)
            yield ShardedBatch(self.operator, scenario, arguments, self.sharding, self.placement, self.dimensions)


def sharded_checks(thorough: bool, devices: int) -> tuple[ShardedCheck, ...]:
    """Return the checks for so many devices; none for a single one.

    With ``thorough`` they are of all dtypes, and on Auto axes too, where XLA partitions the program.
    """
    shards = min(SHARDS, 1 << devices.bit_length() - 1)
    means: tuple[Means, ...] = ("Explicit axes", "Auto axes", "shard_map")
    every = (
        ShardedCheck(record, dtype, sharding, Placement(sharding.dimension, shards, by))
        for record in OPERATORS
        for dtype in (record.dtypes if thorough else record.sharded_dtypes)
        for sharding in record.shardings(dtype)
        for by in means
        if shards > 1 and (thorough or by != "Auto axes")
    )
    return tuple(check for check in every if check.by_name or check.placement.means != "shard_map")
