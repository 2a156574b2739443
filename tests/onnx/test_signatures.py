"""Calls like an earlier one: not checked again, and right all the same."""

import jax
import numpy as np
import onnx.parser
import pytest

import jaxdml.onnx
from jaxdml.onnx.running import model
from tests.kit import quick

pytestmark = quick

SUM = "g (float[N] a, float[N] b) => (y) { t = Sub(a, b) y = Relu(t) }"
A, B = np.float32([3, 1, 5]), np.float32([1, 4, 2])
WANT = np.float32([2, 0, 3])


def parsed(text):
    return jaxdml.onnx.load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'))


@pytest.fixture
def checks(monkeypatch):
    """Count how often inputs are checked."""
    calls = []

    def counted(*given):
        calls.append(given)
        return checked(*given)

    checked = model.checked
    monkeypatch.setattr(model, "checked", counted)
    return calls


def test_a_call_like_an_earlier_one_is_not_checked_again(checks):
    model = parsed(SUM)
    ways = [
        lambda: model(A, B),
        lambda: model(A, b=B),
        lambda: model(b=B, a=A),
        lambda: model(jax.device_put(A), B),
        lambda: jax.jit(lambda a: model(a, B))(A),
    ]
    for way in ways:
        np.testing.assert_array_equal(way()[0], WANT)
    assert len(checks) == 4  # By position, by both, by name, traced.
    for way in ways:
        np.testing.assert_array_equal(way()[0], WANT)
    assert len(checks) == 4
    np.testing.assert_array_equal(model([3.0, 1.0, 5.0], B)[0], WANT)  # A list has no dtype.
    np.testing.assert_array_equal(jax.grad(lambda b: model(A, b)[0].sum())(B), [-1, 0, -1])
    np.testing.assert_array_equal(jax.vmap(model)(A[:, None], B[:, None])[0], WANT[:, None])


def test_what_differs_is_checked_after_it():
    model = parsed(SUM)
    model(A, B)
    for inputs, named, error, text in (
        ((A,), {}, TypeError, "'b' is missing"),
        ((A, B, B), {}, TypeError, "3 inputs are given"),
        ((A, B), {"b": B}, TypeError, "'b' is given twice"),
        ((A, B), {"key": 3}, TypeError, "key"),
        ((A, B.astype(np.int32)), {}, TypeError, "must be float32, not int32"),
        ((A, B[None]), {}, ValueError, "has shape"),
        ((A, B), {"bounds": {"none": 2}}, ValueError, "bounds has 'none'"),
    ):
        with pytest.raises(error, match=text):
            model(*inputs, **named)


def test_integers_of_64_bits_are_checked_each_time(checks):
    model = parsed("g (int64[N] x) => (y) { y = Neg(x) }")
    for number in (1, 2):
        for _ in range(2):
            np.testing.assert_array_equal(model(np.int64([number]))[0], [-number])
    assert len(checks) == 4
    for _ in range(2):
        model(np.int32([1]))
    assert len(checks) == 5
    with jax.enable_x64(True), pytest.raises(TypeError, match="must be int64, not int32"):
        model(np.int32([1]))


def test_values_that_decide_a_shape_are_looked_at_each_time():
    repeated = parsed("g (float[2] x, int32[1] t) => (y) { times = Cast<to = 7>(t) y = Tile(x, times) }")
    chosen = parsed("g (float[N] x) => (y) { at = NonZero(x) y = Neg(at) }")
    for times in (1, 3, 2, 2):
        assert repeated(A[:2], np.int32([times]))[0].shape == (2 * times,)
        x = np.arange(4) < times
        np.testing.assert_array_equal(chosen(x.astype(np.float32))[0], -np.nonzero(x)[0][None])


def test_keys_and_overridden_initializers_after_a_call_without():
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {SUM}')
    model.graph.initializer.add(name="b", data_type=1, dims=[3], raw_data=B.tobytes())
    model = jaxdml.onnx.load(model)
    for _ in range(2):
        np.testing.assert_array_equal(model(A)[0], WANT)
        np.testing.assert_array_equal(model(A, b=-B)[0], A + B)
        np.testing.assert_array_equal(model(A, key=jax.random.key(0))[0], WANT)
    random = parsed("g (float[N] x) => (y) { y = RandomNormalLike(x) }")
    for _ in range(2):
        assert random(A, key=jax.random.key(0))[0].shape == (3,)
        with pytest.raises(ValueError, match="key"):
            random(A)
