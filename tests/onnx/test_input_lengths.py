"""Calls with inputs of many lengths run few programs, and return what a program for each length returns."""

import jax
import numpy as np
import onnx.parser
import pytest

import jaxdml.onnx
from jaxdml.onnx.values import capacities
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime, close

pytestmark = quick


@pytest.fixture(autouse=True)
def padding(monkeypatch):
    """Pad inputs with what would be seen in any result."""

    def fill(dtype):
        if dtype.kind == "f":
            return np.nan
        return np.iinfo(dtype).max if dtype.kind in "iu" else True

    monkeypatch.setattr(capacities, "fill", fill)


def parsed(text, opset=17):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')


def normal(*shape):
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


PROJECTED = """g (float[B, N, 4] x, float[B, M] m) => (y, z, s) {
    w = Constant<value = float[4, 2] {1, -2, 3, 4, -5, 6, 7, 8}>()
    last = Constant<value_ints = [2]>()
    a = MatMul(x, w)
    b = Unsqueeze(m, last)
    c = Mul(a, b)
    y = Softmax<axis = 1>(c)
    z = ReduceMean<axes = [1]>(c)
    s = Shape(c)
}"""


def test_lengths_are_rounded_up_from_the_second_one_on():
    proto = parsed(PROJECTED)
    model = jaxdml.onnx.load(proto, lengths="rounded")
    for rows, length in ((2, 5), (2, 7), (2, 16), (2, 20), (2, 5), (3, 9), (1, 1), (4, 40), (2, 17)):
        given = normal(rows, length, 4), normal(rows, length)
        for _ in range(2):
            close(model(*given), by_onnxruntime(proto, *given))
    assert len(model._calls.programs) == 6  # (2, 5), (2, 16), (2, 24), (16, 16), (1, 1), (16, 48)


def test_lengths_are_those_that_the_caller_names():
    proto = parsed(PROJECTED)
    model = jaxdml.onnx.load(proto, lengths={"N": [8, 20], "M": [8, 20, ...], "B": "exact"})
    for length in (5, 7, 9, 19, 20, 2):
        given = normal(2, length, 4), normal(2, length)
        close(model(*given), by_onnxruntime(proto, *given))
    assert len(model._calls.programs) == 2
    with pytest.raises(ValueError, match=r"'N' has length 21, and the greatest that lengths names is 20"):
        model(normal(2, 21, 4), normal(2, 21))


def test_lengths_that_have_to_be_equal_are_compared():
    model = jaxdml.onnx.load(parsed(PROJECTED), lengths={"N": [8], "M": [8]})
    with pytest.raises(ValueError, match=r"Mul 'c' has sizes 6 and 5, which must be equal"):
        model(normal(2, 5, 4), normal(2, 6))


def test_a_length_that_a_node_cannot_mask_is_compiled_as_it_is():
    proto = parsed("g (float[B, N] x) => (y) { a = Neg(x) y = LpNormalization(a) }")
    model = jaxdml.onnx.load(proto, lengths="rounded")
    for rows, length in ((2, 5), (3, 5), (4, 6), (5, 6), (5, 7)):
        close(model(normal(rows, length)), by_onnxruntime(proto, normal(rows, length)))
    why = model._calls.in_the_way
    assert all("LpNormalization 'y'" in reason for reason in why.values())
    assert jax.tree.leaves(list(why))
