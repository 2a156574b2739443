"""Products of matrices whose sizes are longer than what counts, of floats and of integers."""

import numpy as np
import pytest

from tests.kit import quick
from tests.onnx.padded import check, parsed, together

pytestmark = quick

RNG = np.random.default_rng(0)
CONSTANTS = {
    "w": RNG.normal(size=(4, 3)).astype(np.float32),
    "v": RNG.normal(size=3).astype(np.float32),
    "bytes": RNG.integers(0, 255, (4, 3)).astype(np.uint8),
    "nibbles": RNG.integers(0, 255, (3, 1, 8)).astype(np.uint8),
    "absmax": np.ones(3, np.float32),
    "scale": np.float32(0.02),
    "small": np.float32(0.03),
    "out": np.float32(0.7),
    "scales": RNG.uniform(0.01, 0.02, 3).astype(np.float32),
    "scales4": RNG.uniform(0.01, 0.02, 4).astype(np.float32),
    "zeros": np.uint8([100, 120, 140]),
    "zeros4": np.uint8([100, 120, 140, 160]),
    "zero": np.uint8(120),
    "zero1": np.uint8([120]),
    "other": np.uint8(99),
    "tiles": np.array([1, 4]),
    "i0": np.array([0]),
    "n0": np.array(0),
    "i1": np.array([1]),
}
X = [(2, 5), (5, 2), (7, 8)]
TYPES = "float[N, 4] x, float[M, N] t"


def check_of(bodies, before="", sizes=X, **options):
    body, outputs = together(bodies)
    proto = parsed(f"g ({TYPES}) => ({outputs}) {{ {before} {body} }}", CONSTANTS, com_microsoft=1)
    calls = []
    for n, m in sizes:
        rng = np.random.default_rng(n)
        x, t = rng.normal(size=(n, 4)), rng.normal(size=(m, n))
        calls.append({"x": x.astype(np.float32), "t": t.astype(np.float32)})
    check(proto, calls, {"N": 7, "M": 8}, **options)


FLOATS = {
    "inner lengths": "y = MatMul(t, x)",
    "inner lengths of batches": "a = Unsqueeze(t, i1) b = Unsqueeze(x, i0) y = MatMul(a, b)",
    "outer lengths": "u = MatMul(t, x) o = Transpose(x) y = MatMul(u, w) z = MatMul(u, o)",
    "vectors": "g = ReduceSum<keepdims=0>(x, i1) y = MatMul(t, g) z = MatMul(g, x)",
    "Gemm": "y = Gemm<transA=1, alpha=2.0>(x, x) u = MatMul(t, x) z = Gemm(u, w, v)",
    "Gemm with rows": "o = MatMul(t, x) m = Transpose(x) y = Gemm<transB=1>(t, m, o)",
    "FusedMatMul": "y = com.microsoft.FusedMatMul<transA=1, alpha=0.5>(x, x)"
    " z = com.microsoft.FusedMatMul<transB=1>(t, t)",
    "FusedGemm": 'y = com.microsoft.FusedGemm<activation="Relu", transA=1>(x, x)',
    "Einsum of a sum": 'y = Einsum<equation="nk,mn->km">(x, t) z = Einsum<equation="nk, nj">(x, x)',
    "Einsum of products": 'y = Einsum<equation="nk,mj->nmkj">(x, t) z = Einsum<equation="nk->">(x)',
    "Einsum of a batch": 'a = Unsqueeze(x, i1) y = Einsum<equation="...k,kj->...j">(a, w)'
    ' z = Einsum<equation="...k">(t)',
    "Einsum of a diagonal": 'a = Transpose(x) o = MatMul(x, a) y = Einsum<equation="ii->i">(o)',
    "blocks": "a = Tile(x, tiles) y = com.microsoft.MatMulNBits<K=16, N=3, block_size=16>(a, nibbles, absmax)",
}


def test_products_of_floats():
    check_of(FLOATS.values())


INTEGERS = {
    "MatMulInteger": "y = MatMulInteger(qt, qx, zero, other) c = Cast<to=1>(y) z = Mul(c, small)",
    "MatMulInteger of vectors": "b = Gather(qt, n0) y = MatMulInteger(b, qx, zero1, other)",
    "MatMulInteger by row": "g = Transpose(qx) h = Transpose(qt) y = MatMulInteger(g, h, zeros4)"
    " z = MatMulInteger(g, h)",
    "by a range": "d, s, p = DynamicQuantizeLinear(t) y = MatMulInteger(d, qx, p, other)",
    "MatMulIntegerToFloat": "y = com.microsoft.MatMulIntegerToFloat(qt, qx, scale, small, zero, other)",
    "DynamicQuantizeMatMul": "y = com.microsoft.DynamicQuantizeMatMul(x, bytes, scales, zeros)"
    " z = com.microsoft.DynamicQuantizeMatMul(t, qx, small, other)",
    "QLinearMatMul": "y = QLinearMatMul(qt, scale, zero, qx, small, other, out, zero)",
    "QGemm": "y = com.microsoft.QGemm<transA=1>(qx, scale, zero, qx, small, other, , out, zero)",
    "a group": "m = MatMul(dt, dx) y = QuantizeLinear(m, out, zero)",
    "a group of rows": "b = DequantizeLinear(bytes, scale, zero) m = Gemm(dx, b) y = QuantizeLinear(m, out, zero)",
    "a group to floats": "y = MatMul(dt, dx)",
    "a group with floats": "y = MatMul(dt, x)",
    "scales of rows": "g = Transpose(qx) d = DequantizeLinear<axis=0>(g, scales4, zeros4) h = Transpose(t)"
    " y = MatMul(d, h)",
}


def test_products_of_integers():
    """What does not count is 0: as an integer the zero point."""
    of_t = "qt = QuantizeLinear(t, scale, zero) dt = DequantizeLinear(qt, scale, zero)"
    of_x = "qx = QuantizeLinear(x, small, other) dx = DequantizeLinear(qx, small, other)"
    check_of(INTEGERS.values(), f"{of_t} {of_x}")


REFUSED = {
    "a batch between": (
        "a = Unsqueeze(x, i1) y = com.microsoft.FusedMatMul<transBatchA=1, transBatchB=1, transA=1>(a, a)",
        "a batch that stands between",
    ),
    "a packed matrix": (
        "y = com.microsoft.MatMulNBits<K=2, N=3, block_size=16>(t, nibbles, absmax)",
        "MatMulNBits 'y_0'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_products_are_refused(name):
    body, reason = REFUSED[name]
    check_of([body], sizes=X[:1], refuses=reason)
