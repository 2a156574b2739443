"""Operators that read and write at indices."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml._networks.caches import tensor_scatter
from jaxdml.onnx.nodes._checks import within
from jaxdml.onnx.nodes._handler import FIRST, Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of, namespace, not_empty, numbers, placed, refusal
from jaxdml.onnx.values.bodies import may_not_run

_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def gather(call: NodeCall, x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Read slices along one axis. An index out of range is an error where it is known, else the nearest is read."""
    axis = axis_of(axis, x.ndim)
    xp = namespace(call.xp, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    if xp is np:
        return np.asarray(np.take(x, indices, axis), x.dtype)
    within(call.node, indices, x.shape[axis])
    return jaxdml.gather(_readable(placed(xp, x), [axis]), indices, axis=axis)


def _readable(x: Any, dimensions: Sequence[int]) -> Any:
    """Return what is read at indices: a body that reads an array without elements is traced, but never runs."""
    return not_empty(x, dimensions) if may_not_run() else x


def _gather_elements(call: NodeCall, x: Any, indices: Any, *, axis: int = 0) -> Any:
    axis = axis_of(axis, x.ndim)
    within(call.node, indices, x.shape[axis])
    return jaxdml.gather_elements(_readable(x, [axis]), indices, axis=axis)


def _gather_nd(call: NodeCall, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    within(call.node, indices, _limits(x, indices, batch_dims))
    addressed = range(batch_dims, batch_dims + indices.shape[-1])
    return jaxdml.gather_nd(_readable(x, addressed), indices, batch_dims=batch_dims)


def _limits(x: Any, indices: Any, batch_dims: int = 0) -> Any:
    """Return how many elements there are along the dimensions that tuples of indices address."""
    return jnp.stack([jnp.asarray(size) for size in x.shape[batch_dims : batch_dims + indices.shape[-1]]])


def _scatter_elements(
    call: NodeCall, x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none"
) -> Any:
    axis = axis_of(axis, x.ndim)
    xp = namespace(call.xp, x.shape, x.dtype)
    if xp is np:
        places = np.indices(indices.shape)
        places[axis] = indices
        return _on_host(x, tuple(places), updates, reduction)
    x, indices, updates = (placed(xp, operand) for operand in (x, indices, updates))
    within(call.node, indices, x.shape[axis])
    if reduction == "none":
        return jaxdml.scatter_elements(x, indices, updates, axis=axis, duplicates="last")
    block = tuple(slice(None) if d == axis else slice(size) for d, size in enumerate(indices.shape))

    def of_line(x: Any, indices: Any, updates: Any) -> Any:
        return _reduced(x, indices, updates, reduction)

    # Line by line, so that no other dimension needs indices: where one is sharded, it stays so.
    lines = (jnp.moveaxis(operand, axis, -1) for operand in (x[block], indices, updates))
    written = jnp.moveaxis(jnp.vectorize(of_line, signature="(n),(m),(m)->(n)")(*lines), -1, axis)
    return written if written.shape == x.shape else x.at[block].set(written)


def _scatter_nd(call: NodeCall, x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    xp = namespace(call.xp, x.shape, x.dtype)
    if xp is np:
        return _on_host(x, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)
    x, indices, updates = (placed(xp, operand) for operand in (x, indices, updates))
    within(call.node, indices, _limits(x, indices))
    if reduction == "none":
        return jaxdml.scatter_nd(x, indices, updates, duplicates="last")
    return _reduced(x, tuple(jnp.moveaxis(indices, -1, 0)), updates, reduction)


def _on_host(x: Any, places: Any, updates: Any, reduction: str) -> Any:
    """Write with NumPy, one update after another. Sizes may be objects."""
    result = x.astype(np.result_type(x, updates))
    if reduction == "none":
        result[places] = updates
    else:
        _must_be_known(reduction)
        _REDUCTIONS[reduction].at(result, places, updates)
    return result


def _must_be_known(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise refusal(f"reduction {reduction!r} is none of {', '.join(_REDUCTIONS)}.")


def _reduced(x: Any, places: Any, updates: Any, reduction: str) -> Any:
    _must_be_known(reduction)
    return getattr(x.at[places], reduction)(updates, mode="drop", out_sharding=jax.typeof(x).sharding)


def _tensor_scatter(
    call: NodeCall, cache: Any, update: Any, starts: Any = None, *, axis: int = -2, mode: str = "linear"
) -> Any:
    axis = axis_of(axis, cache.ndim)
    if axis == 0 or mode not in ("linear", "circular"):
        raise refusal(f"axis {axis} is the batch, or mode {mode!r} is neither 'linear' nor 'circular'.")
    if starts is None:
        starts = jnp.zeros(cache.shape[0], jnp.int32)
    return tensor_scatter(cache, update, starts, axis=axis, circular=mode == "circular")


def _top_k(
    call: NodeCall, x: Any, k: np.ndarray, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Any, Any]:
    (count,) = numbers(k)
    dtype = jax.dtypes.canonicalize_dtype(np.int64)
    if count == 0:
        none = jax.lax.slice_in_dim(x, 0, 0, axis=axis)
        return none, jnp.zeros(none.shape, dtype)
    direction: Any = "decreasing" if largest else "increasing"
    if not jnp.issubdtype(x.dtype, jnp.floating):
        values, indices = jaxdml.top_k(x, count, axis=axis, direction=direction, index_dtype=dtype)
        return values, indices
    # To ONNX -0.0 and 0.0 are equal, so the one of the lower index comes first.
    keys = jnp.where(x == 0, jnp.zeros((), x.dtype), jax.lax.stop_gradient(x))
    indices = jaxdml.top_k(keys, count, axis=axis, direction=direction, index_dtype=dtype).indices
    return jaxdml.gather_elements(x, indices, axis=axis, mode="promise_in_bounds"), indices


def _top_k_1(call: NodeCall, x: Any, *, k: int, axis: int = -1) -> tuple[Any, Any]:
    return _top_k(call, x, np.asarray(k), axis=axis)


TABLE: Table = {
    "Gather": (Handler(1, gather, host=True, moves=FIRST),),
    "GatherElements": (Handler(11, _gather_elements, moves=FIRST),),
    "GatherND": (Handler(11, _gather_nd, moves=FIRST),),
    "Scatter": (Handler(9, _scatter_elements, host=True),),
    "ScatterElements": (Handler(11, _scatter_elements, host=True),),
    "ScatterND": (Handler(11, _scatter_nd, host=True),),
    "TensorScatter": (Handler(24, _tensor_scatter),),
    "TopK": (Handler(1, _top_k_1), Handler(10, _top_k, static="k")),
}
