"""Run another form of a computation where XLA partitions the program over several devices.

A program for one device, and the block of one device in ``jax.shard_map``, may merge dimensions, pad them and branch on
data. If XLA partitions the program, each of these can make it move whole arrays between devices. The number of devices
is known when a program is lowered, so this module asks for it then. No other module asks.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import batching, mlir
from jax.sharding import AxisType, PartitionSpec

from jaxdml._base.shapes import is_static
from jaxdml._lowerings._platform import Form

PartitionedForm = Callable[..., Any]
"""A form that takes the number of devices before the operands, 1 if only a size is symbolic."""


def by_partitioning(single: Form, partitioned: PartitionedForm, *operands: Any) -> Any:
    """Call ``partitioned(devices, *operands)`` if XLA partitions the program or a size is symbolic, else ``single``.

    Both return the same shapes and dtypes. It cannot be differentiated.
    """
    leaves, tree = jax.tree.flatten(operands)
    if not all(is_static(*leaf.shape) for leaf in leaves):
        return partitioned(1, *operands)
    jaxpr, shapes = jax.make_jaxpr(single, return_shape=True)(*operands)

    def flat(devices: int, *leaves: Any) -> list[Any]:
        return jax.tree.leaves(partitioned(devices, *jax.tree.unflatten(tree, leaves)))

    results = _by_partitioning.bind(*leaves, single=jaxpr, partitioned=flat)  # type: ignore[no-untyped-call]
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


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


_by_partitioning = Primitive("jaxdml_by_partitioning")
_by_partitioning.multiple_results = True


@_by_partitioning.def_impl  # type: ignore[untyped-decorator]
def _(*operands: Any, single: ClosedJaxpr, partitioned: PartitionedForm) -> Any:
    """Evaluate the single form where JAX runs operation by operation, because ``jax.jit`` is disabled."""
    del partitioned
    return jaxpr_as_fun(single)(*operands)


@_by_partitioning.def_abstract_eval  # type: ignore[untyped-decorator]
def _(*operands: Any, single: ClosedJaxpr, partitioned: PartitionedForm) -> Any:
    del operands, partitioned
    return single.out_avals


def _lower(context: mlir.LoweringRuleContext, *operands: Any, single: ClosedJaxpr, partitioned: PartitionedForm) -> Any:
    devices = _partitioned_devices(context.module_context.axis_context)
    form = jaxpr_as_fun(single) if devices == 1 else lambda *leaves: partitioned(devices, *leaves)
    return mlir.lower_fun(form)(context, *operands)


mlir.register_lowering(_by_partitioning, _lower)


def _partitioned_devices(axes: Any) -> int:
    """Return over how many devices XLA partitions what is lowered in this context."""
    mesh = getattr(axes, "mesh", None)
    if mesh is None:
        return getattr(axes, "num_devices", 1)
    return math.prod(size for name, size in mesh.shape.items() if name not in axes.manual_axes)


def _batch(operands: Any, axes: Any, *, single: ClosedJaxpr, partitioned: PartitionedForm) -> Any:
    def mapped(form: Form) -> Form:
        return jax.vmap(form, axes)

    results = by_partitioning(
        mapped(jaxpr_as_fun(single)),
        lambda devices, *leaves: mapped(lambda *leaves: partitioned(devices, *leaves))(*leaves),
        *operands,
    )
    return results, [0] * len(results)


batching.primitive_batchers[_by_partitioning] = _batch
