"""Products of matrices and determinants, beyond onnx's own node tests."""

import numpy as np
import pytest

from tests.kit import quick
from tests.onnx.test_elementwise import run
from tests.onnx.test_reductions import by_onnxruntime

pytestmark = quick

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return np.float32(RANDOM.normal(size=shape))


@pytest.mark.parametrize("c", [(), (1,), (4,), (1, 4), (2, 1), (2, 4)])
def test_gemm_broadcasts_c(c):
    inputs, options = (normal(3, 2), normal(4, 3), normal(*c)), {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}
    result = run("Gemm", *inputs, opset=7, **options)[0]
    np.testing.assert_allclose(result, by_onnxruntime("Gemm", *inputs, opset=7, **options), 1e-5)


def test_gemm_without_c():
    a, b = normal(2, 3), normal(3, 4)
    np.testing.assert_allclose(run("Gemm", a, b, opset=11)[0], a @ b, 1e-5)
    unread = np.full(4, np.nan, np.float32)
    assert np.isfinite(run("Gemm", a, b, unread, beta=0.0)[0]).all()


def test_gemm_of_integers():
    a, b, c = np.int32([[1, 2]]), np.int32([[3], [4]]), np.int32([5])
    result = run("Gemm", a, b, c, alpha=2.0, beta=3.0)[0]
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, [[37]])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        (" b i d , b j d -> b i j ", ((2, 3, 4), (2, 5, 4))),
        ("...ij,...jk", ((1, 3, 4), (2, 4, 5))),
        ("...ii->...i", ((2, 3, 3),)),
        ("iji->j", ((2, 3, 2),)),
        (",ij->ij", ((), (2, 3))),
        ("ij,jk->ik", ((2, 0), (0, 4))),
    ],
)
def test_einsum(equation, shapes):
    inputs = [normal(*shape) for shape in shapes]
    result = run("Einsum", *inputs, equation=equation)[0]
    np.testing.assert_allclose(result, by_onnxruntime("Einsum", *inputs, equation=equation), 1e-4, 1e-6)


def test_products_of_vectors_and_of_nothing():
    for a, b in (((3,), (3,)), ((2, 1, 3, 4), (5, 4, 2)), ((3,), (4, 3, 2)), ((2, 0), (0, 3))):
        x, y = normal(*a), normal(*b)
        np.testing.assert_allclose(run("MatMul", x, y)[0], np.matmul(x, y), 1e-5, 1e-6)


def test_determinants():
    x = np.float16([[[1, 2], [3, 4]], [[2, 0], [0, 3]]])
    result = run("Det", x)[0]
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, [-2, 6], 1e-3)
