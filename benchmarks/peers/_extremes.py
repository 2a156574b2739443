"""How the peers search for the greatest and the least element."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Array, Case
from benchmarks.peers import with_jax, with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender, Peers, each
from jaxdml import reference

_SEQUENCES, _ELEMENTS = 64, 256
"""So many sequences of a case are compared, each by so many of its elements."""

_NOT_IN_TORCH = ("uint16", "uint32", "uint64")


def _onnxruntime(node: str, case: Case, arguments: Arguments) -> Contender:
    (x,) = arguments
    if x.dtype.name == "bfloat16":
        raise Absent(f"no {node} of bfloat16")
    attributes = {"axis": case.options["axis"], "keepdims": 0}
    return with_onnxruntime.session(node, {"x": x}, {"indices": np.int64}, "exact", **attributes)


def _torch(name: str, case: Case, arguments: Arguments, compiled: bool) -> Contender:
    import torch

    if case.dtype in _NOT_IN_TORCH:
        raise Absent(f"no {name} of {case.dtype}")
    (x,) = with_torch.tensors(arguments)
    search = getattr(torch, name)
    return with_torch.contender(lambda: search(x, dim=case.options["axis"]), "exact", compiled=compiled)


def _numpy(name: str, case: Case, arguments: Arguments) -> Contender:
    (x,) = arguments
    if x.dtype.name == "bfloat16":
        raise Absent(f"no quick {name} of bfloat16")
    return with_numpy.contender(partial(getattr(np, name), x, axis=case.options["axis"]), "exact")


def peers(name: str, node: str) -> Peers:
    """Return the peers of ``argmax`` or ``argmin``; ``node`` is its name in ONNX."""
    return {
        "lax": with_jax.ready(with_jax.stock),
        "onnxruntime": each(partial(_onnxruntime, node)),
        "torch": each(partial(_torch, name, compiled=False)),
        "torch.compile": each(with_torch.compiled(partial(_torch, name))),
        "numpy": each(partial(_numpy, name)),
    }


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some elements of some sequences: those that NumPy says are extreme, and others."""
    (x,) = arguments
    axis = case.options["axis"] % x.ndim
    sequences = np.moveaxis(x, axis, -1)
    count = int(np.prod(sequences.shape[:-1]))
    chosen = np.unravel_index(np.unique(np.linspace(0, count - 1, _SEQUENCES).astype(int)), sequences.shape[:-1])
    search = getattr(reference, case.operator)
    rows = sequences[chosen]
    places = [_candidates(row, case.operator == "argmin") for row in rows]
    found = [of_row[search(row[of_row])] for row, of_row in zip(rows, places, strict=True)]
    return chosen, (np.array(found),)


def _candidates(row: Array, least: bool) -> Array:
    """Return places of which one is the answer, in ascending order."""
    # NumPy compares neither of the 16-bit floats quickly.
    whole = row.astype(np.float32) if row.dtype.name in ("bfloat16", "float16") else row
    extreme = whole.min() if least else whole.max()
    extremes = np.flatnonzero((whole == extreme) | (whole != whole))  # noqa: PLR0124
    others = np.linspace(0, row.size - 1, _ELEMENTS).astype(int)
    return np.unique(np.concatenate([extremes[:_ELEMENTS], others]))
