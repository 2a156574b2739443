"""A model's parameters as arrays by name: their layout, their derivatives, training, saving."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import jaxdml.onnx
from tests.kit import quick

pytestmark = quick

RNG = np.random.default_rng(0)
CLASSES = 3
WEIGHTS = {
    "w": (4, 2, 3, 1),
    "scale": (4,),
    "shift": (4,),
    "mean": (4,),
    "variance": (4,),
    "depthwise": (4, 1, 2, 2),
    "v": (CLASSES, 4),
    "b": (CLASSES,),
}
DRAWN = {name: RNG.uniform(0.5, 1, shape).astype(np.float32) for name, shape in WEIGHTS.items()}
DRAWN |= {name: RNG.normal(size=WEIGHTS[name]).astype(np.float32) for name in ("w", "v", "depthwise")}
NODES = [
    helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 0, 1, 0]),
    helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
    helper.make_node("Relu", ["n"], ["r"]),
    helper.make_node("Conv", ["r", "depthwise"], ["d"], group=4),
    helper.make_node("GlobalAveragePool", ["d"], ["p"]),
    helper.make_node("Flatten", ["p"], ["f"]),
    helper.make_node("Gemm", ["f", "v", "b"], ["y"], transB=1),
]
X = RNG.normal(size=(24, 2, 6, 5)).astype(np.float32)
LABELS = (X[:, 0].mean((1, 2)) > 0).astype(int) + (X[:, 1].mean((1, 2)) > 0)


def classifier(weights=DRAWN, overridable=()):
    inputs = [helper.make_tensor_value_info("x", 1, ["N", 2, 6, 5])]
    inputs += [helper.make_tensor_value_info(name, 1, WEIGHTS[name]) for name in overridable]
    outputs = [helper.make_tensor_value_info("y", 1, ["N", CLASSES])]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(NODES, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def stored(name, array):
    """Return a weight of the file as a model has it: filters with channels last."""
    return np.transpose(array, (2, 3, 1, 0)) if array.ndim == 4 else array


def loss_of(model):
    def loss(params, x, labels):
        (scores,) = model.apply(params, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()

    return loss


def plainly(params, x, labels):
    """Return the loss of the same network, written in JAX with weights as the file has them."""

    def convolved(x, w, padding, groups=1):
        return jax.lax.conv_general_dilated(x, w, (1, 1), padding, feature_group_count=groups)

    scale, shift, mean, variance = (
        params[name][None, :, None, None] for name in ("scale", "shift", "mean", "variance")
    )
    x = convolved(x, params["w"], [(1, 1), (0, 0)])
    x = jax.nn.relu((x - mean) / jnp.sqrt(variance + 1e-5) * scale + shift)
    x = convolved(x, params["depthwise"], "VALID", 4).mean((2, 3))
    scores = x @ params["v"].T + params["b"][None]
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()


def test_parameters_are_arrays_by_name():
    model = jaxdml.onnx.load(classifier())
    params = model.params
    assert params.keys() == DRAWN.keys()
    for name, array in params.items():
        assert isinstance(array, jax.Array)
        np.testing.assert_array_equal(array, stored(name, DRAWN[name]))
    assert all(finite.all() for finite in jax.tree.leaves(jax.tree.map(jnp.isfinite, params)))
    for name, value in model.as_read(params).items():  # Nodes see the file's order.
        assert (value.shape, value.ndim, value.dtype) == (WEIGHTS[name], len(WEIGHTS[name]), np.float32)


def test_gradients_are_those_of_the_same_network_in_jax():
    model = jaxdml.onnx.load(classifier())
    got = jax.jit(jax.grad(loss_of(model)))(model.params, X, LABELS)
    want = jax.jit(jax.grad(plainly))(DRAWN, X, LABELS)
    assert jax.tree.structure(got) == jax.tree.structure(model.params)
    for name, slope in want.items():
        np.testing.assert_allclose(got[name], stored(name, slope), rtol=1e-4, atol=1e-6, err_msg=name)


def test_training_and_saving(tmp_path):
    model = jaxdml.onnx.load(classifier())

    @jax.jit
    def step(params):
        loss, slopes = jax.value_and_grad(loss_of(model))(params, X, LABELS)
        return loss, jax.tree.map(lambda array, slope: array - 0.5 * slope, params, slopes)

    losses, params = [], model.params
    for _ in range(30):
        loss, params = step(params)
        losses.append(float(loss))
    assert losses[-1] < 0.6 * losses[0]
    # What was trained is what the file's operators compute with these weights.
    weights = {name: np.transpose(x, (3, 2, 0, 1)) if x.ndim == 4 else np.asarray(x) for name, x in params.items()}
    (want,) = ReferenceEvaluator(classifier(weights)).run(None, {"x": X})
    np.testing.assert_allclose(model.apply(params, X)[0], want, rtol=1e-4, atol=1e-5)
    np.savez(tmp_path / "weights.npz", **params)
    with np.load(tmp_path / "weights.npz") as read:
        np.testing.assert_array_equal(model.apply(dict(read), X)[0], model.apply(params, X)[0])


@pytest.mark.parametrize("name", ["w", "depthwise"])
def test_filters_that_a_call_overrides_are_those_of_the_file(name):
    model = jaxdml.onnx.load(classifier(overridable=[name]))
    others = DRAWN | {name: DRAWN[name][::-1].copy()}
    for weights, given in ((DRAWN, {}), (others, {name: others[name]})):
        (want,) = ReferenceEvaluator(classifier(weights)).run(None, {"x": X})
        np.testing.assert_allclose(model(X, **given)[0], want, rtol=1e-4, atol=1e-5)


def test_filters_in_a_call_of_several_programs():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[1, 1, 4] x) => (c, at, z)
    <float[2, 1, 2] w = {1, -1, 0.5, 2}>
    { c = Conv (x, w) p = Relu (c) at = NonZero (p) f = Cast <to = 1> (at) s = ReduceSum <keepdims = 0> (f)
      e = Conv (x, w) t = ReduceSum <keepdims = 0> (e) z = Add (s, t) }"""
    model = onnx.parser.parse_model(text)
    x = np.float32([[[3, 1, -4, 2]]])
    for got, want in zip(jaxdml.onnx.load(model)(x), ReferenceEvaluator(model).run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_floats_of_a_model_with_integers_are_trained_alone():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 2] x) => (float[N, 2] y)
    <float[2, 2] w = {1, 2, 3, 4}, uint8[2, 2] q = {1, 0, 2, 3}, float s = {0.5}, float[2] b = {1, -1}>
    { h = MatMul (x, w) d = DequantizeLinear (q, s) m = MatMul (h, d) y = Add (m, b) }"""
    model = jaxdml.onnx.load(onnx.parser.parse_model(text))
    x = np.float32([[1, 2], [3, 5]])

    def total(floats):
        return model.apply({**model.params, **floats}, x)[0].sum()

    floats = {name: value for name, value in model.params.items() if jnp.issubdtype(value.dtype, jnp.floating)}
    assert floats.keys() == {"w", "b"}
    slopes = jax.jit(jax.grad(total))(floats)
    np.testing.assert_array_equal(slopes["b"], [2, 2])
    np.testing.assert_allclose(slopes["w"], np.outer(x.sum(0), [0.5, 2.5]))
