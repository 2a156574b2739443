"""Check and run DML_OPERATOR_SCATTER_ND."""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
from jax.typing import ArrayLike

from jaxdml._arguments import indexing
from jaxdml._arguments.call import Call
from jaxdml._kernels import indexed_write
from jaxdml._kernels.indexed_write import block_of
from jaxdml._placement.layout import Names, axis_size, layout, run


def scatter_nd(
    x: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    mode: Literal["drop", "clip", "promise_in_bounds"] = "drop",
    duplicates: Literal["unspecified", "last", "unique"] = "unspecified",
    axis_name: str | tuple[str, ...] | None = None,
    implementation: str | None = None,
) -> jax.Array:
    """Write slices into a copy of ``x``: ``output[indices[i..., :]] = updates[i..., ...]``.

    No mode ever writes outside the addressed elements, and unsigned indices are never negative: 2**32 - 1 as
    uint32 is out of range, not the last element.

    Args:
      x: array of any dtype, rank r.
      indices: integers of 8 to 64 bits, shape ``[..., t]`` with ``0 <= t <= r``; each row addresses the first t
        dimensions of ``x``. Signed negative ones count from the end. 64-bit arrays keep their values
        whether or not x64 is enabled.
      updates: dtype of ``x``, shape ``indices.shape[:-1] + x.shape[t:]``.
      mode: what happens to an update with an index out of range. ``"drop"`` drops its whole slice, ``"clip"`` moves the
        index to the nearest valid one, and ``"promise_in_bounds"`` promises that no index is out of range. Static.
      duplicates: which of several updates of one element wins. ``"unspecified"`` keeps any one of them. ``"last"``
        keeps the last in row-major order of ``indices``, the same on every device. ``"unique"`` promises that no
        element has two updates. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that the first dimension of ``x`` is sharded over, or a tuple
        of axes. ``x`` is then a block of an array. ``indices`` count along the whole array. They and ``updates`` are
        the same on every shard. Each shard returns its block. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      An array with the shape and dtype of ``x``, differentiable in ``x`` and ``updates``. Under differentiation
      ``"unspecified"`` means ``"last"``.

    Raises:
      TypeError: an argument is not an array, ``indices`` are not integers, or a shape or dtype does not fit.
      ValueError: ``mode``, ``duplicates`` or ``implementation`` is unknown.

    Source:
      DML_SCATTER_ND_OPERATOR_DESC: ``InputTensor``, ``IndicesTensor``, ``UpdatesTensor``. The modes and the rules
      for duplicates are ours; see docs/departures.md.

    Example:
      >>> jaxdml.scatter_nd(jnp.arange(1, 9), jnp.array([[4], [3], [1], [7]]), jnp.array([9, 10, 11, 12]))
      Array([ 1, 11,  3, 10,  9,  6,  7, 12], dtype=int32)
    """
    call = Call("scatter_nd", x=x, indices=indices, updates=updates)
    x, updates = call.array("x"), call.array("updates")
    raw = indexing.check_indices(call)
    if raw.ndim == 0 or raw.shape[-1] > x.ndim:
        rule = f"indices must have the shape [..., t] with t <= {x.ndim}, the rank of x; got {list(raw.shape)}."
        call.fail(TypeError, rule, "Pass indices[..., None] if each index addresses the first dimension of x.")
    *leading, t = raw.shape
    shape = (*leading, *x.shape[t:])
    of_rows = updates.shape == (*raw.shape, *x.shape[1:])
    advice = "Pass indices[..., None] if each index addresses the first dimension of x." if of_rows else ""
    indexing.check_updates(call, x, updates, shape, "indices.shape[:-1] + x.shape[t:]", advice)
    indexing.check_options(call, mode, duplicates)
    call.implementation(implementation, indexed_write.METHODS)
    over = call.axis_names(axis_name)
    if over and t == 0:
        rule = f"indices address no dimension of x, and axis_name={axis_name!r} says that its first one is sharded."
        call.fail(ValueError, rule, "Leave axis_name out, or pass indices of shape [..., 1] or more.")
    labels = tuple(range(x.ndim))
    where = layout(
        [(x, labels), (raw, (None,) * raw.ndim), (updates, (*(None for _ in leading), *labels[t:]))],
        result=labels,
        combined={d: over if d == 0 else () for d in range(t)},
        deciding=1,
        fail=partial(call.fail, ValueError, advice=""),
    )
    sizes = (x.shape[0] * axis_size(over), *x.shape[1:t]) if t else ()
    indices = indexing.fit(call, raw, sizes)
    if updates.size == 0 or x.size == 0:
        return x
    result: jax.Array = run(_written, where, x, indices, updates, mode=mode, duplicates=duplicates)
    return result


def _written(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    over: tuple[Names, ...],
    mode: str,
    duplicates: str,
) -> jax.Array:
    """Write on one shard; ``over`` has the mesh axes of each dimension that the indices address."""
    return indexed_write.write_slices(x, indices, updates, mode, duplicates, block_of(x, dict(enumerate(over))))
