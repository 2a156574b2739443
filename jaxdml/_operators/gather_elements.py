"""Check and run DML_OPERATOR_GATHER_ELEMENTS."""

from __future__ import annotations

from typing import Literal

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxdml._arguments import gathering, indexing
from jaxdml._arithmetic.exact_gather import along


def gather_elements(
    x: ArrayLike,
    indices: ArrayLike,
    *,
    axis: int = 0,
    mode: Literal["clip", "fill", "promise_in_bounds"] = "clip",
    fill_value: complex | np.number | None = None,
    axis_name: str | tuple[str, ...] | None = None,
) -> jax.Array:
    """Read single elements of ``x``, each at an index of one axis, and at its own position along the others.

    ``output[a..., j, b...] = x[a..., indices[a..., j, b...], b...]``. Values are bit for bit those of ``x``. No mode
    ever reads outside of ``x``, and unsigned indices are never negative.

    Args:
      x: array of any dtype, rank r >= 1.
      indices: integers of 8 to 64 bits and of rank r, no larger than ``x`` except along ``axis``; for symbolic sizes,
        in ``jax.export``, their constraints must imply that. Signed negative ones count from the end. 64-bit arrays
        keep their values whether or not x64 is enabled.
      axis: the axis that ``indices`` index; a negative one counts from the end. Static.
      mode: what an index out of range reads: ``"clip"``, ``"fill"`` or ``"promise_in_bounds"``, as in ``gather``.
        Static.
      fill_value: for mode ``"fill"``, a number that the dtype of ``x`` can hold; None means 0. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that ``axis`` is sharded over, or a tuple of mesh axes, as in
        ``gather``. Static.

    Returns:
      An array with the shape of ``indices`` and the dtype of ``x``, differentiable in ``x``. The gradient of an element
      is the sum over all places where it was read.

    Raises:
      TypeError: an argument is not an array, ``indices`` are not integers, a shape does not fit, or ``fill_value`` is
        not a number of the kind of ``x``.
      ValueError: ``axis``, ``mode`` or ``fill_value`` is out of range or unknown, or ``axis`` has no elements to read.

    Source:
      DML_GATHER_ELEMENTS_OPERATOR_DESC: ``InputTensor``, ``IndicesTensor``, ``Axis``. The modes and smaller ``indices``
      are ours; see docs/departures.md.

    Example:
      >>> jaxdml.gather_elements(jnp.array([[1, 2, 3], [4, 5, 6]]), jnp.array([[1, 0, -1]]))
      Array([[4, 2, 6]], dtype=int32)
    """
    given = gathering.check("gather_elements", x, indices, mode, fill_value)
    call, x, indices = given.call, given.x, given.indices
    axis = given.axis(axis)
    if indices.ndim != x.ndim:
        rule = f"indices must have the rank of x; got ranks {indices.ndim} and {x.ndim}."
        call.fail(TypeError, rule, "Add axes of size 1 to the one of lower rank.")
    indexing.check_sizes(call, x.shape, indices.shape, axis, "indices")
    shared = tuple(f"dimension {d}" if indices.shape[d] == x.shape[d] else None for d in range(x.ndim))
    of_x, of_indices = ((*shared[:axis], f"axis {axis} of {name}", *shared[axis + 1 :]) for name in ("x", "indices"))
    over = {axis: call.axis_names(axis_name)}
    return given.read((of_x, of_indices, of_indices), over, along(axis, x.ndim))
