"""What the peers of all gathers share."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import with_jax, with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Contender, Peers, each
from jaxdml import reference

_LOOPS = 2**19
"""So many slices the oracle's loop reads in some seconds."""


def _onnxruntime(node: str, case: Case, arguments: Arguments) -> Contender:
    x, indices = arguments
    operands = {"x": x, "indices": indices.astype(np.int64)}
    return with_onnxruntime.session(node, operands, {"output": x.dtype}, "exact", **case.keywords)


def _torch(read: Callable[[Any, Any, int], Any], case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    x, indices = with_torch.tensors(arguments)
    first = next(iter(case.keywords.values()), 0)
    wide = indices.long()
    return with_torch.contender(lambda: read(x, wide, first), "exact", compiled)


def _numpy(read: Callable[[Any, Any, int], Any], case: Case, arguments: Arguments) -> Contender:
    x, indices = arguments
    first = next(iter(case.keywords.values()), 0)
    return with_numpy.contender(lambda: read(x, indices, first), "exact")


def peers(node: str, of_torch: Callable[[Any, Any, int], Any], of_numpy: Callable[[Any, Any, int], Any]) -> Peers:
    """Return the peers of a gather: a node of ONNX, and functions of x, indices, and ``axis`` or ``batch_dims``."""
    torch = partial(_torch, of_torch)
    return {
        "lax": with_jax.ready(with_jax.stock),
        "onnxruntime": each(partial(_onnxruntime, node)),
        "torch": each(torch),
        "torch.compile": each(with_torch.compiled(torch)),
        "numpy": each(partial(_numpy, of_numpy)),
    }


def expected(
    thinned: Callable[[int], tuple[int, int]], case: Case, arguments: Arguments, *, tuples: bool = False
) -> tuple[Any, Arguments]:
    """Ask the oracle, about every so many of the indices if there are too many for its loop.

    Args:
      thinned: takes ``axis`` or ``batch_dims``; returns the dimension of the indices along which to leave some out, and
        where the results have that dimension.
      case: what is measured.
      arguments: ``x`` and the indices.
      tuples: whether the last dimension of the indices holds the numbers of one read.
    """
    x, indices = arguments
    dimension, of_result = thinned(next(iter(case.keywords.values()), 0))
    reads = indices[..., 0].size if tuples else indices.size
    kept = slice(None, None, -(-reads // _LOOPS))
    fewer = indices[(*[slice(None)] * dimension, kept)]
    answer = getattr(reference, case.operator)(x, fewer, **case.keywords)
    return (*[slice(None)] * of_result, kept), (answer,)
