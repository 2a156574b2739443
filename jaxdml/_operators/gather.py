"""Check and run DML_OPERATOR_GATHER."""

from __future__ import annotations

from typing import Literal

import jax
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxdml._arguments import gathering


def gather(
    x: ArrayLike,
    indices: ArrayLike,
    *,
    axis: int = 0,
    mode: Literal["clip", "fill", "promise_in_bounds"] = "clip",
    fill_value: complex | np.number | None = None,
    axis_name: str | tuple[str, ...] | None = None,
) -> jax.Array:
    """Read slices of ``x``, each at an index of one axis: ``output[a..., j..., b...] = x[a..., indices[j...], b...]``.

    Values are bit for bit those of ``x``, NaN payloads included. No mode ever reads outside of ``x``, and unsigned
    indices are never negative: 2**32 - 1 as uint32 is out of range, not the last element.

    Args:
      x: array of any dtype, rank r >= 1.
      indices: integers of 8 to 64 bits, of any shape. Signed negative ones count from the end. 64-bit arrays keep their
        values whether or not x64 is enabled.
      axis: the axis that ``indices`` index; a negative one counts from the end. Static.
      mode: what an index out of range reads, after negative ones were counted from the end. ``"clip"`` reads at the
        nearest valid index, ``"fill"`` reads ``fill_value``, and ``"promise_in_bounds"`` promises that no index is out
        of range. Static.
      fill_value: for mode ``"fill"``, a number that the dtype of ``x`` can hold; None means 0. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that ``axis`` is sharded over, or a tuple of mesh axes. ``x``
        is then a block of an array, and ``indices`` count along the whole array and are the same on every shard. Every
        shard gets the result for the whole array. Static.

    Returns:
      An array of shape ``x.shape[:axis] + indices.shape + x.shape[axis + 1:]`` with the dtype of ``x``, differentiable
      in ``x``. The gradient of an element is the sum over all places where it was read.

    Raises:
      TypeError: an argument is not an array, ``x`` has no axes, ``indices`` are not integers, or ``fill_value`` is not
        a number of the kind of ``x``.
      ValueError: ``axis``, ``mode`` or ``fill_value`` is out of range or unknown, or ``axis`` has no elements to read.

    Source:
      DML_GATHER_OPERATOR_DESC: ``InputTensor``, ``IndicesTensor``, ``Axis``. The modes are ours; see
      docs/departures.md.

    Example:
      >>> jaxdml.gather(jnp.array([11, 12, 13, 14]), jnp.array([3, 1, -1, 0]))
      Array([14, 12, 14, 11], dtype=int32)
    """
    given = gathering.check("gather", x, indices, mode, fill_value)
    x, indices = given.x, given.indices
    axis = given.axis(axis)
    rank, q = x.ndim, indices.ndim
    of_x = tuple(f"dimension {d} of x" for d in range(rank))
    of_indices = tuple(f"dimension {d} of indices" for d in range(q))
    # Dimensions before the axis are a batch. As parts of the slices they would come last in what XLA gathers, and where
    # it transposes bfloat16 its CPU backend can change bits. Gradients are faster, too.
    batch = tuple(range(axis))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(axis + q, rank + q - 1)),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
    )
    labels = of_x, of_indices, (*of_x[:axis], *of_indices, *of_x[axis + 1 :])
    return given.read(labels, {axis: given.call.axis_names(axis_name)}, numbers, shared=axis)
