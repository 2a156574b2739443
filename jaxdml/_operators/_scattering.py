"""What the two scatters check alike."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._algorithms.indexed_write import narrow
from jaxdml._base.dtypes import INDICES
from jaxdml._lowerings import scatter as lowering
from jaxdml._operators._arguments import Call, x64_enabled

MODES = ("drop", "clip", "promise_in_bounds")
DUPLICATES = ("unspecified", "last", "unique")


def check_indices(call: Call) -> np.ndarray[Any, Any] | jax.Array:
    """Require integers. 64-bit ones from NumPy come back as they are, before JAX could cut them."""
    indices: Any = call.operands["indices"]
    if not isinstance(indices, np.ndarray | np.integer):
        indices = call.array("indices")
    call.dtype("indices", INDICES)
    return np.asarray(indices) if isinstance(indices, np.integer) else indices


def fit(call: Call, indices: np.ndarray[Any, Any] | jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Narrow host indices to what JAX can hold, for the ``sizes`` of the dimensions that they index."""
    if max(sizes, default=0) > np.iinfo(np.int32).max and not x64_enabled():
        rule = f"a dimension of {max(sizes)} elements is too long for int32 indices."
        call.fail(TypeError, rule, "Enable jax_enable_x64, or scatter into a reshaped x.")
    if isinstance(indices, np.ndarray) and sizes:
        indices = narrow(indices, sizes)
    return jnp.asarray(indices)


def check_options(call: Call, mode: str, duplicates: str, implementation: str | None) -> None:
    """Require a known mode, a known rule for duplicates and a known implementation."""
    call.choice("mode", mode, MODES)
    call.choice("duplicates", duplicates, DUPLICATES)
    call.implementation(implementation, lowering.METHODS)


def check_updates(call: Call, x: jax.Array, updates: jax.Array, shape: tuple[int, ...], shape_rule: str) -> None:
    """Require updates of the dtype of ``x`` and of this shape."""
    if updates.dtype != x.dtype:
        rule = f"updates must have the dtype of x, {x.dtype}; got {updates.dtype}."
        call.fail(TypeError, rule, f"Pass updates.astype({x.dtype}).")
    if updates.shape != shape:
        rule = f"updates must have the shape {list(shape)}, {shape_rule}; got {list(updates.shape)}."
        call.fail(TypeError, rule, f"Pass updates of shape {list(shape)}.")
