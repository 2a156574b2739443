"""How the peers multiply matrices of integers."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import _products, with_jax, with_numpy, with_onnxruntime
from benchmarks.peers.contender import Contender, Peers, each
from jaxdml import reference


def _onnxruntime(case: Case, arguments: Arguments, prepacked: bool) -> Contender:
    a, a_zero, b, b_zero = arguments
    operands = {"a": a, "b": b, "a_zero": a_zero, "b_zero": b_zero}
    # A right matrix that is a constant gets onnxruntime's layout beforehand.
    constants = {"a_zero", "b_zero", *(["b"] if prepacked else [])}
    return with_onnxruntime.session("MatMulInteger", operands, {"output": np.int32}, "exact", constants=constants)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    a, a_zero, b, b_zero = arguments

    def run() -> Any:
        # NumPy's product of integers calls no BLAS, and a float64 holds these sums exactly.
        left, right = (x.astype(np.float64) - float(zero) for x, zero in ((a, a_zero), (b, b_zero)))
        return np.matmul(left, right).astype(np.int32)

    return with_numpy.contender(run, "exact")


PEERS: Peers = {
    "jaxdml prepacked": partial(_products.prepacked, 2),
    "lax": with_jax.ready(with_jax.stock),
    "onnxruntime": each(partial(_onnxruntime, prepacked=False)),
    "onnxruntime prepacked": each(partial(_onnxruntime, prepacked=True)),
    "numpy": each(_numpy),
}


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some rows and columns, at their full K."""
    a, a_zero, b, b_zero = arguments
    rows, columns = _products.part(a, b)
    part = a[..., rows, :], a_zero, b[..., columns], b_zero
    return (..., rows[:, None], columns), (reference.matrix_multiply_integer(*part),)
