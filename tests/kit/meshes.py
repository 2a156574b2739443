"""Meshes over the devices that JAX sees: eight virtual ones on a CPU (tests/conftest.py), or those of a GPU machine."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

COUNT = max(size for size in (1, 2, 4, 8) if size <= len(jax.devices()))
"""How many devices the meshes use."""

KINDS = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}

needs_devices = pytest.mark.skipif(COUNT == 1, reason="a mesh needs more devices than the one that JAX sees")


def mesh_of(kind: str, **sizes: int) -> Mesh:
    """Return a mesh with axes of these names and sizes; by default ``x`` of 2 and ``y`` of the rest."""
    sizes = sizes or {"x": 2, "y": COUNT // 2}
    devices = np.array(jax.devices()[: int(np.prod(list(sizes.values())))])
    return Mesh(devices.reshape(tuple(sizes.values())), tuple(sizes), axis_types=(KINDS[kind],) * len(sizes))


def put(mesh: Mesh, x, *spec):
    """Put an array on the devices of a mesh, sharded as ``PartitionSpec(*spec)`` says."""
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec(*spec)))
