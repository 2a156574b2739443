"""DML_OPERATOR_SCATTER_ELEMENTS, by its older name DML_OPERATOR_SCATTER."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.indexed_write import linear, narrow, wrap
from jaxdml._lowerings import scatter as lowering
from jaxdml._operators import _scattering
from jaxdml._operators._arguments import Call


def scatter_elements(
    x: Any,
    indices: Any,
    updates: Any,
    *,
    axis: int = 0,
    mode: str = "drop",
    duplicates: str = "unspecified",
    implementation: str | None = None,
) -> jax.Array:
    """Write single elements into a copy of ``x``, each moved along one axis only.

    ``output[..., indices[i] at axis, ...] = updates[i]`` for every position i of ``indices``; off ``axis`` the
    element stays at its own position. No mode ever writes outside the addressed elements.

    Args:
      x: array of any dtype, rank r >= 1.
      indices: integers of any width and of rank r, off ``axis`` no larger than ``x``. Signed negative ones count
        from the end. 64-bit NumPy arrays keep their values whether or not x64 is enabled.
      updates: dtype of ``x``, shape of ``indices``.
      axis: the axis that ``indices`` count along; negative counts from the end. Static.
      mode: what an index out of range does: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``, as in
        ``scatter_nd``. Static.
      duplicates: what two updates of one element do: ``"unspecified"``, ``"last"`` or ``"unique"``, as in
        ``scatter_nd``. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      An array with the shape and dtype of ``x``, differentiable in ``x`` and ``updates``. Differentiated, "unspecified"
      is "last".

    Raises:
      TypeError: an argument is no array, ``indices`` are no integers, or a shape or dtype does not fit.
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
    raw = _scattering.check_indices(call)
    if x.ndim == 0 or raw.ndim != x.ndim:
        rule = f"indices must have the rank of x, and that at least 1; got ranks {raw.ndim} and {x.ndim}."
        call.fail(TypeError, rule, "Add axes of size 1 to the one of lower rank.")
    axis = call.axis(axis, x.ndim)
    _scattering.check_updates(call, x, updates, raw.shape, "that of indices")
    too_large = [d for d in range(x.ndim) if d != axis and raw.shape[d] > x.shape[d]]
    if too_large:
        rule = f"indices must be no larger than x off axis {axis}; they are in dimension {too_large[0]}."
        call.fail(TypeError, rule, f"Cut indices and updates to {x.shape[too_large[0]]} in that dimension.")
    _scattering.check_options(call, mode, duplicates, implementation)
    indices = _scattering.fit(call, raw, (max(x.shape),))
    if updates.size == 0 or x.size == 0:
        return x
    return _scatter_elements(x, indices, updates, axis, mode, duplicates, implementation)


@partial(jax.jit, static_argnums=(3, 4, 5, 6), inline=True)
def _scatter_elements(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    axis: int,
    mode: str,
    duplicates: str,
    implementation: str | None,
) -> jax.Array:
    along = wrap(narrow(indices, (max(x.shape),)), x.shape[axis : axis + 1], mode)
    if x.size > np.iinfo(np.int32).max:
        # Narrowed for the longest dimension: one dtype has to hold every coordinate.
        coordinates = [along if d == axis else lax.broadcasted_iota(along.dtype, along.shape, d) for d in range(x.ndim)]
        places = jnp.stack(coordinates, axis=-1).reshape(-1, x.ndim)
        return lowering.write(x, places, updates.reshape(-1), mode, duplicates, implementation)
    places = linear(along, x.shape, axis, mode).reshape(-1, 1)
    return lowering.write(x.ravel(), places, updates.ravel(), mode, duplicates, implementation).reshape(x.shape)
