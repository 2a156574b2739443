"""Where the programs of tests/test_composition.py run: on one device, or on a mesh in four ways."""

from functools import partial
from typing import Any

import jax
import numpy as np

from tests.kit import meshes
from tests.matrix.compositions import layouts, operator
from tests.matrix.layouts import Layout
from tests.matrix.transformations import Cell

PLACEMENTS = ("one", "auto", "explicit", "shard_map", "axis_name")
"""``one`` is one device, ``auto`` and ``explicit`` are arrays sharded over such a mesh. The last two call the operator
on blocks inside ``jax.shard_map``: on blocks that need not know of each other, or with ``axis_name``."""


def layouts_of(name: str, placement: str) -> dict[str, Layout]:
    """Return the layouts that an operator can have there, the main one first."""
    every = layouts(name)
    if placement == "axis_name":
        return {label: layout for label, layout in every.items() if layout.axis_name}
    if placement == "shard_map":
        return {label: layout for label, layout in reversed(every.items()) if layout.independent}
    return dict([next(iter(every.items()))]) if placement == "one" else every


def mesh_of(placement: str) -> jax.sharding.Mesh:
    """Return the mesh; one device can be a mesh, too."""
    # Explicit axes are JAX's default. On Auto ones, a stock sum fails in vmap(shard_map(...), spmd_axis_name=...) too.
    kind = "auto" if placement == "auto" else "explicit"
    return meshes.mesh_of(kind, x=1, y=1) if placement == "one" else meshes.mesh_of(kind)


def placed_operator(name: str, placement: str, layout: Layout, **options: Any):
    """Return the operator as a function of whole arrays."""
    if placement == "shard_map":
        return _over_blocks(partial(operator, name, **options), placement, layout.specs, layout.results)
    if placement == "axis_name":
        blocks = partial(operator, name, axis_name=layout.axis_name, **options)
        return _over_blocks(blocks, placement, layout.specs, layout.results)
    return partial(operator, name, **options)


def placed_program(name: str, placement: str, cell: Cell):
    """Return the program as a function of whole arrays."""
    if placement in cell.inside:
        by_name = {"axis_name": cell.layout.axis_name} if placement == "axis_name" else {}
        program = partial(cell.program, partial(operator, name, **by_name))
        return _over_blocks(program, placement, cell.specs, cell.results)
    return partial(cell.program, placed_operator(name, placement, cell.layout))


def _over_blocks(function, placement, specs, results):
    return jax.shard_map(function, mesh=mesh_of(placement), in_specs=specs, out_specs=results)


def put(placement: str, inputs: tuple[Any, ...], specs: tuple[Any, ...]) -> tuple[jax.Array, ...]:
    """Put the inputs on the devices."""
    if placement == "one":
        return jax.device_put(inputs)
    mesh = mesh_of(placement)
    return tuple(meshes.put(mesh, np.asarray(x), *spec) for x, spec in zip(inputs, specs, strict=True))
