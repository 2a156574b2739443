"""Check and run DML_OPERATOR_TOP_K1."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments.call import Call
from jaxdml._arguments.indexing import index_dtype_for
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._base.dtypes import SELECTABLE
from jaxdml._base.shapes import is_static
from jaxdml._kernels import selection
from jaxdml._kernels.selection import select
from jaxdml._placement.layout import Names, axis_size, layout, run
from jaxdml._placement.lowering import Forced

_DIRECTIONS = {"decreasing": AxisDirection.DECREASING, "increasing": AxisDirection.INCREASING}


class TopK(NamedTuple):
    """Hold what ``top_k`` returns: the selected values in order, and their indices.

    Attributes:
      values: dtype of ``x``, in order along the axis.
      indices: ``int32`` or the requested ``index_dtype``; the position of each value along the axis.
    """

    values: jax.Array
    indices: jax.Array


export.register_namedtuple_serialization(TopK, serialized_name="jaxdml.TopK")


def top_k(
    x: ArrayLike,
    k: int,
    *,
    axis: int = -1,
    direction: AxisDirection | Literal["decreasing", "increasing"] = "decreasing",
    index_dtype: DTypeLike | None = None,
    axis_name: str | tuple[str, ...] | None = None,
    implementation: str | None = None,
) -> TopK:
    """Take the ``k`` largest, or smallest, elements of every sequence along one axis, in order.

    Equal elements come out lowest index first, in both directions. -0.0 equals +0.0. Every NaN equals every
    other and is greater than +inf. Values are bit for bit those of ``x``, NaN payloads included.

    Args:
      x: real array of shape ``[..., n, ...]``, where ``n`` is the length of ``axis``: floats of 16
        to 64 bits, or integers of 8 to 64. Other dimensions may be 0.
      k: how many to take, ``1 <= k <= n``. If n is symbolic, in ``jax.export``, its constraints must imply that.
        Static.
      axis: the axis to select along; negative counts from the end. Static.
      direction: ``"decreasing"`` takes the largest, ``"increasing"`` the smallest; or an ``AxisDirection``, or its
        number. Static.
      index_dtype: ``int32`` or ``uint32``; with x64 enabled ``int64`` or ``uint64`` too. By default ``int32``, or
        ``uint32`` if more than 2**31 - 1 elements are counted. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that ``axis`` is sharded over, or a tuple of mesh axes. ``x``
        is then a block of an array, and every shard gets the result for the whole array. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      ``TopK(values, indices)``, each shaped like ``x`` with ``n`` replaced by ``k``. ``values`` has the dtype of
      ``x`` and is differentiable in it; ``indices`` are positions along ``axis``.

    Raises:
      TypeError: ``x`` is complex, boolean, not an array or has no axes; ``k`` or ``axis`` is not an integer;
        ``index_dtype`` is not an index dtype or is too narrow for ``n``.
      ValueError: ``k``, ``axis``, ``direction`` or ``implementation`` is out of range.
      NotImplementedError: the forced ``implementation`` cannot run these sizes, or the platform does not have it.

    Source:
      DML_TOP_K1_OPERATOR_DESC: ``Axis``, ``K``, ``AxisDirection``. Negative ``axis``, ``k == n``, the order of NaNs
      and of -0.0 are ours; see docs/departures.md.

    Example:
      >>> jaxdml.top_k(jnp.array([3.0, 1.0, 3.0, 2.0]), 2)
      TopK(values=Array([3., 3.], dtype=float32), indices=Array([0, 2], dtype=int32))
    """
    call = Call("top_k", x=x)
    x = call.array("x")
    call.dtype("x", SELECTABLE)
    if x.ndim == 0:
        swapped = getattr(k, "ndim", 0) > 0
        advice = "Pass the array first: jaxdml.top_k(x, k)." if swapped else "Pass x[None] to select from one element."
        call.fail(TypeError, "x must have at least one axis.", advice)
    axis = call.axis(axis, x.ndim)
    over = call.axis_names(axis_name)
    labels = tuple(range(x.ndim))
    whole_axis = (*labels[:axis], None, *labels[axis + 1 :])
    where = layout([(x, labels)], whole_axis, {axis: over}, 1, fail=partial(call.fail, ValueError, advice=""))
    block = x.shape[axis] // where.shards[0]
    n = x.shape[axis] * axis_size(over)
    k = call.integer("k", k)
    if n == 0:
        call.fail(ValueError, f"axis {axis} must have elements to select from; it has none.", "Pass another x or axis.")
    if not is_static(n) and not at_most(k, block):
        rule = f"k must be known to be at most {block}, the symbolic length of axis {axis}; got k={k}."
        advice = f"Pass constraints=['{block} >= {k}'] to jax.export.symbolic_shape, or a smaller k."
        call.fail(ValueError, rule, advice)
    if k < 1 or not at_most(k, n):
        advice = "Pass k=1 or more." if k < 1 else f"Pass k={n} to sort the whole axis."
        length = f"the length of axis {axis}" + (f" over {axis_name!r}" if over else "")
        call.fail(ValueError, f"k must be between 1 and {n}, {length}; got k={k}.", advice)
    rows = math.prod(x.shape[:axis] + x.shape[axis + 1 :])
    of_block = k if at_most(k, block) else block
    forced = call.implementation(
        implementation,
        selection.METHODS,
        lambda name: selection.why_not(name, block, of_block, x.dtype.itemsize, rows),
        selection.ONLY_ON,
    )
    direction, index_dtype = _direction(call, direction), index_dtype_for(call, index_dtype, n)
    options = {"k": k, "axis": axis, "direction": direction, "forced": forced, "index_dtype": index_dtype}
    result: TopK = run(_selected, where, x, **options)
    return result


def _direction(call: Call, value: Any) -> AxisDirection:
    call.static("direction", value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value in list(AxisDirection):
        return AxisDirection(int(value))
    call.choice("direction", value, _DIRECTIONS)
    return _DIRECTIONS[value]


def _selected(
    x: jax.Array,
    *,
    over: tuple[Names, ...],
    k: int,
    axis: int,
    direction: AxisDirection,
    forced: Forced | None,
    index_dtype: np.dtype[Any],
) -> TopK:
    """Select on one shard; ``over`` has the mesh axes that ``axis`` is sharded over."""
    last = jnp.moveaxis(x, axis, -1)
    values, indices = select(last, k, direction, forced, index_dtype, over[0])
    return TopK(jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis))
