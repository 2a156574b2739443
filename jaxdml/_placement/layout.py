"""Settle how the arrays of a call lie on a mesh, and run a function on every shard.

An operator labels the dimensions of its arrays; equal labels mean the same dimension. If the types of the arrays have
Explicit mesh axes, the labels tell how each array must be sharded and what the result is sharded over, and the operator
runs in ``jax.shard_map``. Otherwise it runs as it is, on a whole array or on the block of the caller's ``shard_map``.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxdml._arithmetic.bits import by_bits
from jaxdml._base.scoped import scoped
from jaxdml._placement import jax_versions

Labels = tuple[Hashable, ...]
"""A label for each dimension of an array; None for one that is whole on every device."""

Names = tuple[Hashable, ...]
"""Names of mesh axes, the outermost first."""


class Layout(NamedTuple):
    """Hold how the arrays of one call lie on a mesh. Static."""

    mesh: AbstractMesh | None
    """None if no axis is Explicit."""

    operands: tuple[P | None, ...]
    result: P | None
    over: tuple[Names, ...]
    """For each combined dimension the axes that it is sharded over, in the block on which the function runs."""

    shards: tuple[int, ...]
    """For each combined dimension the number of Explicit shards."""


def layout(
    operands: Sequence[tuple[Any, Labels]],
    result: Labels,
    combined: Mapping[Hashable, Names],
    deciding: int,
    fail: Callable[[str], NoReturn],
) -> Layout:
    """Settle the layout of one call.

    Args:
      operands: each array, or None, with the labels of its dimensions.
      result: the labels of every result.
      combined: the dimensions that the function has to treat across shards, each with the names of the axes over which
        the caller's ``shard_map`` has sharded it.
      deciding: how many operands decide how dimensions are sharded. The others are resharded to match.
      fail: raises an error that begins with the given rule.
    """
    mesh = _explicit_mesh([x for x, _ in operands if x is not None])
    if mesh is None:
        return Layout(None, (), None, tuple(combined.values()), (1,) * len(combined))
    names: dict[Hashable, Names] = {}
    for x, labels in operands[:deciding]:
        for label, axes in zip(labels, _spec(x), strict=True):
            if label is not None and axes and names.setdefault(label, axes) != axes:
                fail(f"{label} is sharded over {_shown(names[label])} and over {_shown(axes)}.")
    used: dict[Hashable, Hashable] = {}
    for label in result:
        for axis in names.get(label, ()):
            if axis in used:
                fail(f"mesh axis {axis!r} shards both {used[axis]} and {label} of the result.")
            used[axis] = label
    for label in combined:
        # A mesh axis that shards the result cannot shard a dimension that the result does not have. And XLA fails on
        # some sums over an axis of one device, which are not needed.
        axes = names.get(label, ())
        one_shard = math.prod(mesh.shape[axis] for axis in axes) == 1
        if axes and label not in result and (one_shard or not used.keys().isdisjoint(axes)):
            del names[label]

    def spec(labels: Labels) -> P:
        return P(*(names.get(label) for label in labels))  # type: ignore[no-untyped-call]

    return Layout(
        mesh,
        tuple(None if x is None else spec(labels) for x, labels in operands),
        spec(result),
        tuple((*outer, *names.get(label, ())) for label, outer in combined.items()),
        tuple(math.prod(mesh.shape[axis] for axis in names.get(label, ())) for label in combined),
    )


def run(function: Callable[..., Any], where: Layout, /, *operands: Any, **static: Any) -> Any:
    """Call ``function(*operands, over=where.over, **static)`` on every shard, as one program where JAX is eager.

    Args:
      function: of a module.
      where: how the operands and the results lie on a mesh.
      operands: pytrees whose leaves are those of the layout, in its order.
      static: what else ``function`` takes; hashable.
    """
    return _run(function, where, operands, tuple(static.items()))


@partial(jax.jit, static_argnums=(0, 1, 3), inline=True)
def _run(
    function: Callable[..., Any], where: Layout, operands: tuple[Any, ...], static: tuple[tuple[str, Any], ...]
) -> Any:
    return on_shards(partial(function, over=where.over, **dict(static)), where, *operands)


def on_shards(function: Callable[..., Any], where: Layout, *operands: Any) -> Any:
    """Call ``function`` on the operands, or in ``jax.shard_map`` on each shard of them.

    Operands are pytrees whose leaves are those of the layout, in its order.
    """
    if where.mesh is None:
        return function(*operands)
    mesh = where.mesh
    leaves, tree = jax.tree.flatten(operands, is_leaf=lambda x: x is None)

    def of_leaves(*leaves: Any) -> Any:
        return function(*jax.tree.unflatten(tree, leaves))

    placed = [
        x if spec is None else _resharded(x, NamedSharding(mesh, spec))
        for x, spec in zip(leaves, where.operands, strict=True)
    ]
    # An empty set means all axes except those over which jax.vmap maps; naming one of those is an error. But Auto axes
    # have to stay as they are. If the mesh has any, name the axes that shard something.
    names = set()
    if any(kind != AxisType.Explicit for kind in mesh.axis_types):
        names = {
            name
            for spec in (*where.operands, where.result)
            if spec is not None
            for axes in spec
            for name in _names(axes)
        }
        if not names:
            return of_leaves(*placed)
    mapped = jax.shard_map(of_leaves, mesh=mesh, in_specs=where.operands, out_specs=where.result, axis_names=names)
    with scoped(_nested, bool(jax.sharding.get_abstract_mesh().manual_axes)):
        return mapped(*placed)


def on_batch_shards(function: Callable[[jax.Array], Any], x: jax.Array) -> Any:
    """Call ``function`` on every shard of ``x`` where ``jax.vmap`` has left its batch sharded over Explicit axes.

    ``function`` takes any batch dimensions, and keeps them: ``[..., n]`` to ``[..., k]``.
    """
    mesh = jax.sharding.get_abstract_mesh()
    explicit = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Explicit}
    if not explicit:
        return function(x)
    *batch, _ = jax.typeof(x).sharding.spec
    in_specs, out_specs = jax.typeof(x).sharding.spec, P(*batch, None)  # type: ignore[no-untyped-call]
    return jax.shard_map(function, in_specs=in_specs, out_specs=out_specs, axis_names=explicit)(x)


def _resharded(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    return (_reshard_floats if jnp.issubdtype(x.dtype, jnp.floating) else _reshard)(x, sharding)


def _reshard(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    return jax.sharding.reshard(x, sharding)  # type: ignore[no-untyped-call]


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _reshard_floats(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    return by_bits(lambda moved: _reshard(moved, sharding), x)


@_reshard_floats.defjvp
def _reshard_floats_jvp(
    sharding: NamedSharding, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    return _reshard_floats(*primals, sharding), _reshard(*tangents, sharding)


def axis_size(names: Names) -> int:
    """Return the number of shards over axes that are bound here; raise ``NameError`` if one is not."""
    return math.prod(lax.axis_size(name) for name in names)


def axis_index(names: Names) -> jax.Array:
    """Return which shard this is over axes that are bound here, counted in their order.

    JAX 0.10.1 fails to lower ``lax.axis_index`` in a ``shard_map`` that is inside another one. There each of ``n``
    shards scatters the numbers of all, and gets ``n`` times its own.
    """
    if jax_versions.NESTED_SHARDS_HAVE_AN_INDEX or not _nested.get():
        return lax.axis_index(names)
    shards = axis_size(names)
    numbers = lax.pcast(jnp.arange(shards), names, to="varying")
    scattered: jax.Array = lax.psum_scatter(numbers, names, tiled=True)  # type: ignore[no-untyped-call]
    return scattered[0] // shards


_nested: ContextVar[bool] = ContextVar("nested", default=False)
"""Whether ``on_shards`` is called in a ``shard_map``."""


def on_explicit_axes(*arrays: jax.Array) -> bool:
    """Tell whether the type of an array says that it is sharded over Explicit axes."""
    return any(any(jax.typeof(x).sharding.spec) for x in arrays)


def _explicit_mesh(arrays: Sequence[jax.Array]) -> AbstractMesh | None:
    """Return the mesh with Explicit axes that the call is on, or None; quickly, because most calls are on none."""
    mesh = jax.sharding.get_abstract_mesh()
    if AxisType.Explicit in mesh.axis_types:
        return mesh
    for x in arrays:
        mesh = jax.typeof(x).sharding.mesh
        if AxisType.Explicit in mesh.axis_types:
            return mesh
    return None


def _spec(x: Any) -> list[Names]:
    """Return the names of the axes that shard each dimension of ``x``."""
    spec = [*jax.typeof(x).sharding.spec]
    spec += [None] * (x.ndim - len(spec))
    return [_names(axes) for axes in spec]


def _names(axes: Any) -> Names:
    """Return the mesh axes that an entry of a ``PartitionSpec`` names."""
    return axes if isinstance(axes, tuple) else () if axes is None else (axes,)


def _shown(names: Names) -> str:
    return repr(names[0] if len(names) == 1 else names)
