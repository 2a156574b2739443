"""DML_OPERATOR_SCATTER_ND."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._algorithms.indexed_write import narrow, wrap
from jaxdml._lowerings import scatter as lowering
from jaxdml._operators import _scattering
from jaxdml._operators._arguments import Call


def scatter_nd(
    x: Any,
    indices: Any,
    updates: Any,
    *,
    mode: str = "drop",
    duplicates: str = "unspecified",
    implementation: str | None = None,
) -> jax.Array:
    """Write slices into a copy of ``x``: ``output[indices[i..., :]] = updates[i..., ...]``.

    No mode ever writes outside the addressed elements, and unsigned indices are never negative: 2**32 - 1 as
    uint32 is out of range, not the last element.

    Args:
      x: array of any dtype, rank r.
      indices: integers of any width, shape ``[..., t]`` with ``0 <= t <= r``; each row addresses the first t
        dimensions of ``x``. Signed negative ones count from the end. 64-bit NumPy arrays keep their values
        whether or not x64 is enabled.
      updates: dtype of ``x``, shape ``indices.shape[:-1] + x.shape[t:]``.
      mode: what an index out of range does: ``"drop"`` leaves out its whole slice, ``"clip"`` moves it to the
        nearest valid one, ``"promise_in_bounds"`` says there is none. Static.
      duplicates: what two updates of one element do: ``"unspecified"`` leaves one of them, ``"last"`` the last
        in row-major order of ``indices``, the same on every device; ``"unique"`` says there are none. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      An array with the shape and dtype of ``x``, differentiable in ``x`` and ``updates``. Differentiated, "unspecified"
      is "last".

    Raises:
      TypeError: an argument is no array, ``indices`` are no integers, or a shape or dtype does not fit.
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
    raw = _scattering.check_indices(call)
    if raw.ndim == 0 or raw.shape[-1] > x.ndim:
        rule = f"indices must have the shape [..., t] with t <= {x.ndim}, the rank of x; got {list(raw.shape)}."
        call.fail(TypeError, rule, "Pass indices[..., None] if each index addresses the first dimension of x.")
    *leading, t = raw.shape
    shape = (*leading, *x.shape[t:])
    _scattering.check_updates(call, x, updates, shape, "indices.shape[:-1] + x.shape[t:]")
    _scattering.check_options(call, mode, duplicates, implementation)
    indices = _scattering.fit(call, raw, x.shape[:t])
    if updates.size == 0 or x.size == 0:
        return x
    return _scatter_nd(x, indices, updates, mode, duplicates, implementation)


@partial(jax.jit, static_argnums=(3, 4, 5), inline=True)
def _scatter_nd(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    mode: str,
    duplicates: str,
    implementation: str | None,
) -> jax.Array:
    *leading, t = indices.shape
    n = math.prod(leading)
    if t == 0:
        # Every update addresses the whole of x: the one element of an x with one more axis.
        zeros = jnp.zeros((n, 1), jnp.int32)
        whole = updates.reshape(n, *x.shape)
        return lowering.write(x[None], zeros, whole, mode, duplicates, implementation)[0]
    updates = updates.reshape(n, *x.shape[t:])
    places = wrap(narrow(indices.reshape(n, t), x.shape[:t]), x.shape[:t], mode)
    return lowering.write(x, places, updates, mode, duplicates, implementation)
