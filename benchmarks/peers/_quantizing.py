"""What the peers of quantizing and dequantizing share."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Array, Case
from benchmarks.peers import with_onnxruntime
from benchmarks.peers.contender import Absent, Contender

_ROWS = 4
"""So many rows are compared."""


def by_row(case: Case, parameter: Any) -> Any:
    """Return a scale or zero point so that it broadcasts against the array."""
    return parameter[:, None] if case.keywords else parameter


def onnxruntime(node: str, dtype: Callable[[Arguments], Any]) -> Callable[[Case, Arguments], Contender]:
    """Return what prepares the node, whose output has this dtype."""

    def prepared(case: Case, arguments: Arguments) -> Contender:
        x, scale, zero_point = arguments
        if x.dtype == np.float16:
            raise Absent("the scale must have the dtype of the array")
        operands = {"x": x, "scale": scale, "zero_point": zero_point}
        constants = {"scale", "zero_point"}
        outputs = {"output": dtype(arguments)}
        return with_onnxruntime.session(node, operands, outputs, "exact", constants=constants, **case.keywords)

    return prepared


def expected(oracle: Callable[..., Array], case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some rows."""
    x, *parameters = arguments
    rows = np.unique(np.linspace(0, x.shape[0] - 1, _ROWS).astype(int))
    return rows, (oracle(x[rows], *(part[rows] if part.ndim else part for part in parameters), **case.keywords),)
