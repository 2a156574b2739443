"""Check and run what ``argmax`` and ``argmin`` share."""

import math
from collections.abc import Hashable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arguments.call import Call
from jaxdml._arguments.indexing import index_dtype_for
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.dtypes import SELECTABLE
from jaxdml._kernels import extremes
from jaxdml._kernels.extremes import Axes, Rule, find
from jaxdml._placement.layout import Names, axis_size, layout, run


def search(
    call: Call,
    axis: Any,
    keepdims: Any,
    select_last_index: Any,
    index_dtype: Any,
    axis_name: Any,
    implementation: Any,
    *,
    least: bool,
) -> jax.Array:
    """Check the arguments of a call with the operand ``x``, and return the index of its greatest or least element."""
    x = call.array("x")
    call.dtype("x", SELECTABLE)
    axes, over = _axes(call, axis, axis_name, x.ndim)
    keepdims, last = call.flag("keepdims", keepdims), call.flag("select_last_index", select_last_index)
    labels = tuple(range(x.ndim))
    kept = tuple(None if d in axes else d for d in labels)
    result = kept if keepdims else tuple(d for d in kept if d is not None)
    combined: dict[Hashable, Names] = dict(zip(axes, over, strict=True))
    where = layout([(x, labels)], result, combined, 1, fail=partial(call.fail, ValueError, advice=""))
    sizes = [x.shape[d] for d in axes]
    for d, size in zip(axes, sizes, strict=True):
        if not at_most(1, size):
            rule = f"axis {d} must have elements to choose from; its length is {size}."
            call.fail(ValueError, rule, "Pass another x or axis.")
    dtype = index_dtype_for(call, index_dtype, math.prod(sizes) * math.prod(map(axis_size, over)))
    call.implementation(implementation, extremes.METHODS, lambda name: extremes.why_not(name, *sizes))
    if not axes:
        return jnp.zeros_like(x, dtype)
    options = {"axes": axes, "keepdims": keepdims, "rule": Rule(least, last), "implementation": implementation}
    indices: jax.Array = run(_found, where, x, index_dtype=dtype, **options)
    return indices


def _axes(call: Call, axis: Any, axis_name: Any, rank: int) -> tuple[Axes, tuple[Names, ...]]:
    """Return the axes in ascending order, and for each the mesh axes over which the caller has sharded it."""
    if axis is None or isinstance(axis, list):
        rule = f"axis must be an integer or a tuple of integers; got {axis!r}."
        call.fail(TypeError, rule, "Pass axis=tuple(range(x.ndim)) for all axes.")
    given = axis if isinstance(axis, tuple) else (axis,)
    if rank == 0 and given:
        call.fail(TypeError, "x must have at least one axis.", "Pass x[None] to search one element.")
    axes = [call.axis(one, rank) for one in given]
    if len(set(axes)) < len(axes):
        call.fail(ValueError, f"axis must name different dimensions; got axis={axis}.", "Pass each dimension once.")
    over = [axis_name] if len(axes) == 1 else [None] * len(axes) if axis_name is None else axis_name
    call.static("axis_name", axis_name)
    if not isinstance(over, list | tuple) or len(over) != len(axes):
        rule = f"axis_name must be a tuple with one entry for each of the {len(axes)} axes; got {axis_name!r}."
        call.fail(ValueError, rule, "Pass None in it for an axis that is whole.")
    names = [call.axis_names(one) for one in over]
    if len(names) > 1:
        call.axis_names(tuple(name for of_axis in names for name in of_axis))
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return tuple(axes[i] for i in order), tuple(names[i] for i in order)


def _found(
    x: jax.Array,
    *,
    over: tuple[Names, ...],
    axes: Axes,
    keepdims: bool,
    rule: Rule,
    implementation: str | None,
    index_dtype: np.dtype[Any],
) -> jax.Array:
    """Search on one shard; ``over`` has the mesh axes of each of the ``axes``."""
    indices = find(x, axes, rule, implementation, index_dtype, over)
    return jnp.expand_dims(indices, axes) if keepdims else indices
