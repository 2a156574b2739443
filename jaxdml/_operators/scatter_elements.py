"""Check and run DML_OPERATOR_SCATTER_ELEMENTS, whose older name is DML_OPERATOR_SCATTER."""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
from jax.typing import ArrayLike

from jaxdml._arguments import indexing
from jaxdml._arguments.call import Call
from jaxdml._arithmetic import canonical_indices
from jaxdml._kernels import indexed_write
from jaxdml._kernels.indexed_write import block_of
from jaxdml._placement.layout import Names, layout, run


def scatter_elements(
    x: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    axis: int = 0,
    mode: Literal["drop", "clip", "promise_in_bounds"] = "drop",
    duplicates: Literal["unspecified", "last", "unique"] = "unspecified",
    implementation: str | None = None,
) -> jax.Array:
    """Write single elements into a copy of ``x``, each at an indexed position along one axis.

    ``output[..., indices[i] at axis, ...] = updates[i]`` for every position i of ``indices``; along the other axes,
    ``updates[i]`` keeps its position. No mode ever writes outside the addressed elements.

    Args:
      x: array of any dtype, rank r >= 1.
      indices: integers of 8 to 64 bits and of rank r, no larger than ``x`` except along ``axis``; for symbolic sizes,
        in ``jax.export``, their constraints must imply that. Signed negative ones count from the end. 64-bit arrays
        keep their values whether or not x64 is enabled.
      updates: dtype of ``x``, shape of ``indices``.
      axis: the axis that ``indices`` index; a negative one counts from the end. Static.
      mode: what happens to an update whose index is out of range: ``"drop"``, ``"clip"`` or
        ``"promise_in_bounds"``, as in ``scatter_nd``. Static.
      duplicates: which of several updates of one element wins: ``"unspecified"``, ``"last"`` or ``"unique"``, as in
        ``scatter_nd``. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      An array with the shape and dtype of ``x``, differentiable in ``x`` and ``updates``. Under differentiation
      ``"unspecified"`` means ``"last"``.

    Raises:
      TypeError: an argument is not an array, ``indices`` are not integers, or a shape or dtype does not fit.
      ValueError: ``axis``, ``mode``, ``duplicates`` or ``implementation`` is out of range or unknown.

    Source:
      DML_SCATTER_ELEMENTS_OPERATOR_DESC (DML_SCATTER_OPERATOR_DESC): ``InputTensor``, ``IndicesTensor``,
      ``UpdatesTensor``, ``Axis``. The modes, the rules for duplicates and smaller ``indices`` are ours; see
      docs/departures.md.

    Example:
      >>> jaxdml.scatter_elements(jnp.zeros((2, 3), int), jnp.array([[2], [0]]), jnp.array([[7], [8]]), axis=1)
      Array([[0, 0, 7],
             [8, 0, 0]], dtype=int32)
    """
    call = Call("scatter_elements", x=x, indices=indices, updates=updates)
    x, updates = call.array("x"), call.array("updates")
    raw = indexing.check_indices(call)
    if x.ndim == 0 or raw.ndim != x.ndim:
        rule = f"indices must have the rank of x, and that at least 1; got ranks {raw.ndim} and {x.ndim}."
        call.fail(TypeError, rule, "Add axes of size 1 to the one of lower rank.")
    axis = call.axis(axis, x.ndim)
    indexing.check_updates(call, x, updates, raw.shape, "that of indices")
    indexing.check_sizes(call, x.shape, raw.shape, axis, "indices and updates")
    indexing.check_options(call, mode, duplicates)
    call.implementation(implementation, indexed_write.METHODS)
    labels = tuple(range(x.ndim))
    shared = tuple(d if d != axis and raw.shape[d] == x.shape[d] else None for d in labels)
    addressed = tuple(d for d in labels if shared[d] is None)
    where = layout(
        [(x, labels), (raw, shared), (updates, shared)],
        result=labels,
        combined=dict.fromkeys(addressed, ()),
        deciding=1,
        fail=partial(call.fail, ValueError, advice=""),
    )
    indices = indexing.fit(call, raw, (canonical_indices.longest(x.shape),))
    if updates.size == 0 or x.size == 0:
        return x
    options = {"axis": axis, "addressed": addressed, "mode": mode, "duplicates": duplicates}
    result: jax.Array = run(_written, where, x, indices, updates, **options)
    return result


def _written(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    over: tuple[Names, ...],
    axis: int,
    addressed: tuple[int, ...],
    mode: str,
    duplicates: str,
) -> jax.Array:
    """Write on one shard; ``over`` has the mesh axes of each dimension that is ``addressed``."""
    block = block_of(x, dict(zip(addressed, over, strict=True)))
    return indexed_write.write_elements(x, indices, updates, axis, mode, duplicates, block)
