"""Check and run DML_OPERATOR_GATHER_ND and DML_OPERATOR_GATHER_ND1."""

from __future__ import annotations

from typing import Literal

import jax
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxdml._arguments import gathering


def gather_nd(
    x: ArrayLike,
    indices: ArrayLike,
    *,
    batch_dims: int = 0,
    mode: Literal["clip", "fill", "promise_in_bounds"] = "clip",
    fill_value: complex | np.number | None = None,
    axis_name: str | tuple[str, ...] | None = None,
) -> jax.Array:
    """Read slices of ``x``, each at a tuple of indices.

    ``output[b..., i..., s...] = x[b..., *indices[b..., i..., :], s...]``. Values are bit for bit those of ``x``. No
    mode ever reads outside of ``x``, and unsigned indices are never negative.

    Args:
      x: array of any dtype, rank r.
      indices: integers of 8 to 64 bits, shape ``[..., t]`` with ``0 <= t <= r - batch_dims``; each row addresses the
        ``t`` dimensions of ``x`` after the batch. Signed negative ones count from the end. 64-bit arrays keep their
        values whether or not x64 is enabled.
      batch_dims: how many leading dimensions ``x`` and ``indices`` have in common. Static.
      mode: what a tuple reads that has an index out of range: ``"clip"`` moves each index to the nearest valid one,
        ``"fill"`` and ``"promise_in_bounds"`` are as in ``gather``. Static.
      fill_value: for mode ``"fill"``, a number that the dtype of ``x`` can hold; None means 0. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that the first dimension after the batch is sharded over, or a
        tuple of mesh axes, as in ``gather``. Static.

    Returns:
      An array of shape ``indices.shape[:-1] + x.shape[batch_dims + t:]`` with the dtype of ``x``, differentiable in
      ``x``. The gradient of an element is the sum over all places where it was read.

    Raises:
      TypeError: an argument is not an array, ``indices`` are not integers, a shape does not fit, or ``fill_value`` is
        not a number of the kind of ``x``.
      ValueError: ``batch_dims``, ``mode`` or ``fill_value`` is out of range or unknown, or ``indices`` address a
        dimension without elements.

    Source:
      DML_GATHER_ND1_OPERATOR_DESC: ``InputTensor``, ``IndicesTensor``, ``BatchDimensionCount``. The modes and empty
      tuples are ours; see docs/departures.md.

    Example:
      >>> jaxdml.gather_nd(jnp.array([[0, 1], [2, 3]]), jnp.array([[1], [0], [-1]]))
      Array([[2, 3],
             [0, 1],
             [2, 3]], dtype=int32)
    """
    given = gathering.check("gather_nd", x, indices, mode, fill_value)
    call, x, indices = given.call, given.x, given.indices
    batch = call.integer("batch_dims", batch_dims)
    if indices.ndim == 0:
        rule = "indices must have the shape [..., t], a tuple of t indices for each slice; got []."
        call.fail(TypeError, rule, "Pass indices[None] to read one slice.")
    most = min(x.ndim, indices.ndim - 1)
    if not 0 <= batch <= most:
        rule = f"batch_dims must be between 0 and {most} for ranks {x.ndim} and {indices.ndim}; got {batch}."
        call.fail(ValueError, rule, "Pass batch_dims=0 if the indices address the first dimensions of x.")
    rank, t = x.ndim, indices.shape[-1]
    if t > rank - batch:
        after = f"the rank of x after {batch} batch dimensions" if batch else "the rank of x"
        rule = f"indices must have the shape [..., t] with t <= {rank - batch}, {after}; got {list(indices.shape)}."
        call.fail(TypeError, rule, "Pass indices[..., None] if each index addresses one dimension of x.")
    if x.shape[:batch] != indices.shape[:batch]:
        rule = (
            f"the first {batch} sizes of x and of indices must be equal; got {list(x.shape)} and {list(indices.shape)}."
        )
        call.fail(TypeError, rule, "Broadcast both to one batch, or pass a smaller batch_dims.")
    names = call.axis_names(axis_name)
    if names and t == 0:
        rule = f"indices address no dimension of x, and axis_name={axis_name!r} says that one is sharded."
        call.fail(ValueError, rule, "Leave axis_name out, or pass indices of shape [..., 1] or more.")
    shared = tuple(f"dimension {d}" for d in range(batch))
    of_x = (*shared, *(f"dimension {d} of x" for d in range(batch, rank)))
    of_slices = (*shared, *(f"dimension {d} of indices" for d in range(batch, indices.ndim - 1)))
    addressed = tuple(range(batch, batch + t))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(len(of_slices), len(of_slices) + rank - batch - t)),
        collapsed_slice_dims=addressed,
        start_index_map=addressed,
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
    )
    over = {d: names if d == batch else () for d in addressed}
    labels = of_x, (*of_slices, None), (*of_slices, *of_x[batch + t :])
    return given.read(labels, over, numbers, tuples=True)
