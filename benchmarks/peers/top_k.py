"""How the peers select."""

import inspect
from typing import Any

import numpy as np
from jax import lax

from benchmarks.cases import Arguments, Array, Case
from benchmarks.peers import with_jax, with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender, Peers, each
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases import top_k

_NOT_IN_TORCH = ("uint16", "uint32", "uint64")

_CHUNK = 2**10


def _lax(case: Case) -> Program:
    # It orders NaNs by their sign, and what it does with them differs from device to device.
    return Program(top_k.stock(case), "values" if case.data == "with NaN" else "exact")


def _unstable(case: Case) -> Program:
    if "is_stable" not in inspect.signature(lax.top_k).parameters:
        raise Absent("lax.top_k is always stable here")
    return Program(top_k.stock(case, is_stable=False), "values")


def _onnxruntime(case: Case, arguments: Arguments) -> Contender:
    (x,) = arguments
    if x.dtype.name == "bfloat16":
        raise Absent("no TopK of bfloat16")
    operands = {"x": x, "k": np.array([case.options["k"]])}
    outputs = {"values": x.dtype, "indices": np.int64}
    largest = int(case.options["direction"] == "decreasing")
    promises = "values" if case.data == "with NaN" else "exact"
    return with_onnxruntime.session("TopK", operands, outputs, promises, constants={"k"}, axis=1, largest=largest)


def _torch(case: Case, arguments: Arguments) -> Contender:
    import torch

    if case.dtype in _NOT_IN_TORCH:
        raise Absent(f"no topk of {case.dtype}")
    (x,) = with_torch.tensors(arguments)
    k, largest = case.options["k"], case.options["direction"] == "decreasing"
    return with_torch.contender(
        lambda: tuple(torch.topk(x, k, dim=1, largest=largest, sorted=True)), "values", compiled=False
    )


def _numpy(case: Case, arguments: Arguments) -> Contender:
    (x,) = arguments
    k, n = case.options["k"], x.shape[1]
    if x.dtype.name == "bfloat16":
        raise Absent("no partition of bfloat16")
    if case.options["direction"] == "increasing":
        place, part, order = k - 1, slice(None, k), slice(None)
    else:
        # NumPy sorts NaNs to the end, so they are the greatest already.
        place, part, order = n - k, slice(n - k, None), slice(None, None, -1)

    def run() -> tuple[Any, Any]:
        if k == n:
            places = np.argsort(x, axis=1)[:, order]
            return np.take_along_axis(x, places, axis=1), places
        chosen = np.argpartition(x, place, axis=1)[:, part]
        values = np.take_along_axis(x, chosen, axis=1)
        sort = np.argsort(values, axis=1)[:, order]
        return np.take_along_axis(values, sort, axis=1), np.take_along_axis(chosen, sort, axis=1)

    return with_numpy.contender(run, "values")


PEERS: Peers = {
    "lax": with_jax.ready(_lax),
    "lax unstable": with_jax.ready(_unstable),
    "onnxruntime": each(_onnxruntime),
    "torch": each(_torch),
    "numpy": each(_numpy),
}


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about those elements of each row that can be chosen at all.

    They are those that precede the k-th, whose value a partition finds, and the first k that equal it.
    """
    (x,) = arguments
    k, decreasing = case.options["k"], case.options["direction"] == "decreasing"
    values, indices = [], []
    for row in x:
        # NumPy compares neither of the 16-bit floats quickly.
        whole = row.astype(np.float32) if row.dtype.name in ("bfloat16", "float16") else row
        threshold = _threshold(whole, k, decreasing)
        nan = _nan(whole)
        if threshold.dtype.kind == "f" and np.isnan(threshold):
            ties, beyond = nan, ~nan & (not decreasing)
        else:
            ties = whole == threshold
            beyond = (whole > threshold) | nan if decreasing else whole < threshold
        chosen = np.sort(np.concatenate([np.flatnonzero(beyond), np.flatnonzero(ties)[:k]]))
        found, places = reference.top_k(row[chosen], k, direction=case.options["direction"])
        values.append(found)
        indices.append(chosen[places])
    return ..., (np.stack(values), np.stack(indices))


def _nan(x: Array) -> Array:
    return np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)


def _threshold(row: Array, k: int, decreasing: bool) -> Any:
    """Find the k-th value, or one behind it; of a long row look only at elements up to the k-th best chunk's best."""
    chunks = row[: row.size // _CHUNK * _CHUNK].reshape(-1, _CHUNK)
    best = chunks.max(axis=1) if decreasing else chunks.min(axis=1)
    if len(best) >= k and not _nan(best).any():
        bound = _kth(best, k, decreasing)
        row = row[row >= bound] if decreasing else row[row <= bound]
    return _kth(row, k, decreasing)


def _kth(values: Array, k: int, decreasing: bool) -> Any:
    place = values.size - k if decreasing else k - 1
    return np.partition(values, place)[place]  # NumPy, too, sorts NaNs to the end.
