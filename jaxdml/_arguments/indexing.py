"""Check the arguments that operators with indices share."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arguments.call import Call, dtype_or_none, native, x64_enabled
from jaxdml._arithmetic import canonical_indices
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.dtypes import INDICES
from jaxdml._base.duplicates import DUPLICATES
from jaxdml._base.shapes import Shape, is_static

MODES = ("drop", "clip", "promise_in_bounds")

_INDEX_DTYPES = ("int32", "uint32", "int64", "uint64")


def check_indices(call: Call) -> np.ndarray[Any, Any] | jax.Array:
    """Require integers. Return 64-bit ones as they are, because JAX would cut them to 32 bits."""
    indices: Any = call.operands["indices"]
    if isinstance(indices, np.ndarray | np.integer) and not isinstance(indices, np.ma.MaskedArray):
        indices = call.operands["indices"] = native(np.asarray(indices))
    elif not _is_wide(indices):
        indices = call.array("indices")
    call.dtype("indices", INDICES)
    return indices


def _is_wide(indices: Any) -> bool:
    """Tell whether ``indices`` is a JAX array of 64-bit integers, made while x64 was enabled."""
    return isinstance(indices, jax.Array) and str(indices.dtype) in ("int64", "uint64")


def fit(
    call: Call, indices: np.ndarray[Any, Any] | jax.Array, sizes: tuple[int, ...], verb: str = "scatter into"
) -> jax.Array:
    """Return indices of any width as a JAX array; ``sizes`` are those of the dimensions that they index."""
    too_long = [size for size in sizes if not canonical_indices.fits_int32(size)]
    if too_long and not x64_enabled():
        rule = f"a dimension of {canonical_indices.longest(too_long)} elements is too long for int32 indices."
        call.fail(TypeError, rule, f"Enable jax_enable_x64, or {verb} a reshaped x.")
    if isinstance(indices, np.ndarray) and sizes:
        indices = canonical_indices.narrow(indices, sizes)
    elif _is_wide(indices) and not x64_enabled():
        with jax.enable_x64(True):
            return canonical_indices.narrow(indices, sizes or (1,))
    return jnp.asarray(indices)


def check_options(call: Call, mode: str, duplicates: str) -> None:
    """Require a known mode and a known rule for duplicates."""
    call.choice("mode", mode, MODES)
    call.choice("duplicates", duplicates, DUPLICATES)


def check_updates(
    call: Call, x: jax.Array, updates: jax.Array, shape: tuple[int, ...], shape_rule: str, advice: str = ""
) -> None:
    """Require updates of the dtype of ``x`` and of ``shape``, which ``shape_rule`` explains in the error message."""
    if updates.dtype != x.dtype:
        rule = f"updates must have the dtype of x, {x.dtype}; got {updates.dtype}."
        call.fail(TypeError, rule, f"Pass updates.astype({str(x.dtype)!r}).")
    if updates.shape != shape:
        rule = f"updates must have the shape {list(shape)}, {shape_rule}; got {list(updates.shape)}."
        call.fail(TypeError, rule, advice or f"Pass updates of shape {list(shape)}.")


def check_sizes(call: Call, x: Shape, indices: Shape, axis: int, to_cut: str) -> None:
    """Require ``indices`` to be no larger than ``x`` except along ``axis``.

    Args:
      call: the call.
      x: the shape of ``x``.
      indices: the shape of ``indices``, of the same rank.
      axis: the axis that they index.
      to_cut: what an error advises to cut.
    """
    for d, (size, most) in enumerate(zip(indices, x, strict=True)):
        if d == axis or at_most(size, most):
            continue
        if is_static(size, most):
            rule = f"indices.shape[{d}] is {size}, more than x.shape[{d}], {most}; "
            advice = f"Cut {to_cut} to {most} in dimension {d}, or pass axis={d}."
        else:
            rule = f"indices.shape[{d}], {size}, must be known to be at most x.shape[{d}], {most}; "
            advice = f"Pass constraints=['{size} <= {most}'] to jax.export.symbolic_shape."
        call.fail(TypeError, rule + f"only axis {axis} may be larger.", advice)


def index_dtype_for(call: Call, requested: Any, n: int) -> np.dtype[Any]:
    """Return the dtype of indices that are a result; require it to count ``n`` elements.

    The default is int32, as in JAX, or uint32 if ``n`` is known to exceed what int32 counts.
    """
    allowed = _INDEX_DTYPES if x64_enabled() else _INDEX_DTYPES[:2]
    default = "uint32" if at_most(n, np.iinfo(np.int32).max) is False else "int32"
    dtype = dtype_or_none(default if requested is None else requested)
    if dtype is None or str(dtype) not in allowed:
        rule = f"index_dtype must be one of {', '.join(allowed)}; got {str(dtype or requested)!r}."
        wide = dtype is not None and str(dtype) in _INDEX_DTYPES
        call.fail(TypeError, rule, "Enable jax_enable_x64 for 64-bit indices." if wide else "Pass index_dtype='int32'.")
    if at_most(n - 1, np.iinfo(dtype).max) is False:
        rule = f"index_dtype {dtype} cannot count the {n} elements of the axis."
        call.fail(TypeError, rule, "Pass a wider index_dtype.")
    return dtype
