"""What the peers of both scatters share."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases import STOCK, Arguments, Case
from benchmarks.peers import with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender
from benchmarks.peers.with_jax import Program


def lax(case: Case) -> Program:
    """Return the stock form, which promises nothing about indices that occur twice."""
    if case.options.get("duplicates") == "last":
        raise Absent("no rule for duplicates")
    return Program(STOCK[case.operator](case))


def onnxruntime(node: str) -> Callable[[Case, Arguments], Contender]:
    """Return what prepares this node."""

    def prepared(case: Case, arguments: Arguments) -> Contender:
        if case.options["memory"] == "donated":
            raise Absent("always writes into a copy")
        x, indices, updates = arguments
        operands = {"x": x, "indices": indices.astype(np.int64), "updates": updates}
        return with_onnxruntime.session(node, operands, {"output": x.dtype}, "exact")

    return prepared


def torch(write: Callable[[Any, Any, Any, Any], Any]) -> Callable[..., Contender]:
    """Return what prepares a function of x, the first column of the indices, the indices, and the updates."""

    def prepared(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
        import torch

        x, indices, updates = with_torch.tensors(arguments)
        wide = indices.long()
        rows = wide[:, 0].contiguous()
        rule = case.options.get("duplicates")
        if rule == "last" and compiled:
            raise Absent("no rule for duplicates")
        torch.utils.deterministic.fill_uninitialized_memory = False

        def start() -> Any:
            target = x if case.options["memory"] == "donated" else x.clone()
            if rule == "last":
                # Deterministic, it first sorts the indices, stably, and so the last update wins.
                torch.use_deterministic_algorithms(True)
                try:
                    return target.index_put_((rows,), updates)
                finally:
                    torch.use_deterministic_algorithms(False)
            return write(target, rows, wide, updates)

        return with_torch.contender(start, "exact", compiled)

    return prepared


def numpy(index: Callable[[Arguments], Any]) -> Callable[[Case, Arguments], Contender]:
    """Return what prepares an assignment at an index, made of the arguments beforehand."""

    def prepared(case: Case, arguments: Arguments) -> Contender:
        x, _, updates = arguments
        target, where = x.copy(), index(arguments)

        def run() -> Any:
            written = target if case.options["memory"] == "donated" else x.copy()
            written[where] = updates
            return written

        return with_numpy.contender(run, "exact")

    return prepared
