"""Products of matrices, and determinants."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import refusal
from jaxdml.onnx.values.stored import widened

HIGHEST = lax.Precision.HIGHEST


def _matmul(call: NodeCall, a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision=HIGHEST)


def _gemm(
    call: NodeCall,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    # With a batch dimension XLA's CPU backend does not copy a matrix to transpose it.
    contracted = (1 if transA else 2,), (2 if transB else 1,)
    product = lax.dot_general(a[None], b[None], (contracted, ((0,), (0,))), precision=HIGHEST)[0]
    result = _times(product, alpha)
    return result if c is None or beta == 0 else result + _times(c, beta)


def _times(x: Any, factor: float) -> Any:
    return x if factor == 1 else (x * factor).astype(x.dtype)


def _einsum(call: NodeCall, *operands: Any, equation: str) -> Any:
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    for term, operand in zip(terms, operands, strict=False):
        # What "..." stands for is repeated nowhere.
        first, _, last = term.partition("...")
        ends = [*zip(first, operand.shape, strict=False), *zip(last[::-1], operand.shape[::-1], strict=False)]
        if any(size != dict(ends)[letter] for letter, size in ends):
            raise refusal(f"{term!r} has dimensions of one letter and of other sizes: {list(operand.shape)}.")
    return jnp.einsum(equation, *operands, precision=HIGHEST)


def _det(call: NodeCall, x: Any) -> Any:
    # The factors of a matrix are not computed in fewer than 32 bits.
    return jnp.linalg.det(widened(x)).astype(x.dtype)


TABLE: Table = {
    "Det": (Handler(11, _det),),
    "Einsum": (Handler(12, _einsum),),
    "Gemm": (Handler(7, _gemm, matrices="b"),),
    "MatMul": (Handler(1, _matmul, matrices="b"),),
}
