"""Run the cases of an operator on several devices, with one dimension sharded."""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxdml._cases import OPERATORS
from jaxdml._cases.records import SHARDS, Answers, Sharding
from jaxdml._selfcheck.batches import Batch, answers
from jaxdml._selfcheck.planning import Check, generator

Means = Literal["Explicit axes", "Auto axes", "shard_map"]

_AXIS = "devices"

_RUNNING = Lock()
"""Held while a program runs on several devices. Two whose collectives start in different orders may wait for ever."""


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

    @property
    def called(self) -> str:
        """Say how the operator is called."""
        return f"{self.scenario.way}, {self.placement}"

    def ours(self) -> Answers:
        """Return the library's answers."""
        means = self.placement.means
        kind = AxisType.Explicit if means == "Explicit axes" else AxisType.Auto
        mesh = Mesh(np.array(jax.local_devices()[: self.placement.devices]), _AXIS, axis_types=(kind,))
        specs = tuple(map(_spec, self.sharding.arguments))
        arguments = [
            jax.device_put(argument, NamedSharding(mesh, spec))
            for argument, spec in zip(self.arguments, specs, strict=True)
        ]
        function = self.program(**({"axis_name": _AXIS} if means == "shard_map" else {}))
        if means == "shard_map":
            results = jax.tree.map(_spec, self.sharding.result, is_leaf=lambda position: position is None)
            function = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=results)
        program: Any = jax.jit(function).lower(*arguments).compile()
        with _RUNNING:
            return answers(program(*arguments))


def _spec(dimension: int | None) -> P:
    return P() if dimension is None else P(*[None] * dimension, _AXIS)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class ShardedCheck(Check):
    """An operator, dtype and sharding to compare with the oracle: one row of the table of sharded checks."""

    sharding: Sharding
    placement: Placement

    @property
    def label(self) -> str:
        """Say what is being done."""
        return f"{super().label}, {self.placement}"

    def batches(self, seed: int, share: float, thorough: bool) -> Iterator[ShardedBatch]:
        """Draw all cases of every scenario, the same for all meshes and means."""
        del share, thorough
        for number, scenario in enumerate(self.sharding.scenarios):
            rng = generator(seed, f"{super().label} {self.sharding.dimension} {number}")
            arguments = scenario.draw(rng, scenario.cases)
            yield ShardedBatch(self.operator, scenario, arguments, self.sharding, self.placement)


def sharded_checks(thorough: bool, devices: int) -> tuple[ShardedCheck, ...]:
    """Return the checks for so many devices; none for a single one.

    With ``thorough`` they are of all dtypes, and on Auto axes too, where XLA partitions the program.
    """
    shards = min(SHARDS, 1 << devices.bit_length() - 1)
    means: tuple[Means, ...] = ("Explicit axes", "Auto axes", "shard_map")
    return tuple(
        ShardedCheck(record, dtype, sharding, Placement(sharding.dimension, shards, by))
        for record in OPERATORS
        for dtype in (record.dtypes if thorough else record.sharded_dtypes)
        for sharding in record.shardings(dtype)
        for by in means
        if shards > 1 and (thorough or by != "Auto axes") and (sharding.axis_name or by != "shard_map")
    )
