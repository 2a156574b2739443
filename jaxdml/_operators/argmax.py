"""Check and run DML_OPERATOR_ARGMAX."""

from __future__ import annotations

import jax
from jax.typing import ArrayLike, DTypeLike

from jaxdml._arguments.call import Call
from jaxdml._arguments.extremes import search


def argmax(
    x: ArrayLike,
    *,
    axis: int | tuple[int, ...] = -1,
    keepdims: bool = False,
    select_last_index: bool = False,
    index_dtype: DTypeLike | None = None,
    axis_name: str | tuple[str | tuple[str, ...] | None, ...] | None = None,
    implementation: str | None = None,
) -> jax.Array:
    """Return the index of the greatest element along an axis, or along several.

    Of equal elements it is the first. -0.0 equals +0.0. A NaN is chosen before any number, and every NaN equals every
    other.

    Args:
      x: real array of rank 1 or more: floats of 16 to 64 bits, or integers of 8 to 64. Dimensions that are
        not searched may be 0.
      axis: the axis to search, or a tuple of axes; negative counts from the end. With several axes the index is
        row-major over them in the order of the array's dimensions, whatever their order in the tuple. With ``()`` every
        index is 0. Static.
      keepdims: whether the result keeps the searched axes, with length 1. Static.
      select_last_index: whether the last of equal elements is chosen, NaNs too, and not the first. Static.
      index_dtype: ``int32`` or ``uint32``; with x64 enabled ``int64`` or ``uint64`` too. By default ``int32``, or
        ``uint32`` if more than 2**31 - 1 elements are counted. Static.
      axis_name: inside ``jax.shard_map``, the mesh axis that ``axis`` is sharded over, or a tuple of mesh axes. If
        ``axis`` has several entries, a tuple with such a value, or None, for each. ``x`` is then a block of an array,
        and every shard gets the result for the whole array. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      The indices, shaped like ``x`` without the searched axes. Their derivative is zero.

    Raises:
      TypeError: ``x`` is complex, boolean, not an array or has no axes; ``axis`` is not an integer or a tuple of
        integers; ``index_dtype`` is not an index dtype or is too narrow; ``keepdims`` or ``select_last_index`` is not
        a bool.
      ValueError: ``axis``, ``axis_name`` or ``implementation`` is out of range, or a searched axis has no elements.
      NotImplementedError: the forced ``implementation`` cannot run a symbolic size.

    Source:
      DML_ARGMAX_OPERATOR_DESC: ``Axes``, ``AxisDirection``, which is ``select_last_index`` here. NaNs, -0.0, the order
      of several axes and ``axis=()`` are ours; see docs/departures.md.

    Example:
      >>> jaxdml.argmax(jnp.array([1.0, 3.0, 2.0, 3.0]))
      Array(1, dtype=int32)
    """
    options = axis, keepdims, select_last_index, index_dtype, axis_name, implementation
    return search(Call("argmax", x=x), *options, least=False)
