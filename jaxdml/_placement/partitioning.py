"""Run another form of a computation where XLA partitions the program over several devices.

A program for one device, and the block of one device in ``jax.shard_map``, may merge dimensions, pad them and branch on
data. If XLA partitions the program, each of these can make it move whole arrays between devices. The number of devices
is known when a program is lowered. No other module asks for it.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
from jax.sharding import AxisType, PartitionSpec

from jaxdml._base.shapes import is_static
from jaxdml._placement.when_lowered import Form, when_lowered

PartitionedForm = Callable[..., Any]
"""A form that takes the number of devices before the operands, 1 if only a size is symbolic."""


def by_partitioning(single: Form, partitioned: PartitionedForm, *operands: Any) -> Any:
    """Call ``partitioned(devices, *operands)`` if XLA partitions the program or a size is symbolic, else ``single``.

    Both return the same shapes and dtypes. It cannot be differentiated.
    """
    if not all(is_static(*leaf.shape) for leaf in jax.tree.leaves(operands)):
        return partitioned(1, *operands)

    on_devices = cache(partial(partial, partitioned))
    return when_lowered(lambda _, devices: single if devices == 1 else on_devices(devices), single, *operands)


def on_batch_shards(function: Form, x: jax.Array) -> Any:
    """Call ``function`` on every shard of ``x`` where ``jax.vmap`` has left its batch sharded over Explicit axes.

    ``function`` takes any batch dimensions, and keeps them: ``[..., n]`` to ``[..., k]``.
    """
    mesh = jax.sharding.get_abstract_mesh()
    explicit = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit}
    if not explicit:
        return function(x)
    *batch, _ = jax.typeof(x).sharding.spec
    in_specs, out_specs = jax.typeof(x).sharding.spec, PartitionSpec(*batch, None)  # type: ignore[no-untyped-call]
    return jax.shard_map(function, in_specs=in_specs, out_specs=out_specs, axis_names=explicit)(x)
