"""Whole models: the door against the interpreter, bit for bit where integers are made, and against onnxruntime."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax import export

import jaxdml.onnx
from tests.kit import THOROUGH, assert_same_bits, quick
from tests.kit.meshes import COUNT, KINDS, mesh_of, needs_devices, put
from tests.onnx import models, oracle
from tests.onnx.sessions import session

pytestmark = quick

OFTEN_HALVES = 0.5
"""Of the integers of a model whose scales are powers of two, onnxruntime may have so many others: its sums and products
add the zero point before they round, its Softmax divides by way of an integer, and what follows goes along."""
SELDOM = 2e-3
"""Elsewhere floats that differ in the last bit lead to so few others."""
HALVES = frozenset({"qoperator_powers", "qdq_channels_saved", "qdq_16"})


class Judged(NamedTuple):
    """What a model and its judges made of the same inputs, by name of tensor."""

    door: dict[str, np.ndarray]
    interpreter: oracle.Run
    """Each node computed from what the door gave it."""
    onnxruntime: dict[str, np.ndarray]


@cache
def judged(name: str, form: str, opset: int) -> Judged:
    model, inputs = models.model(name, form, opset), models.inputs(name)
    shown = models.with_outputs(model, oracle.run(model, inputs).observed)
    door = jaxdml.onnx.load(shown)
    ours = {value.name: np.asarray(x) for value, x in zip(door.outputs, door(**inputs), strict=True)}
    return Judged(ours, oracle.run(model, inputs, ours), session(shown)(**inputs))


def assert_close(got: Any, want: Any) -> None:
    """Allow 1e-5, relative to each number or to the largest."""
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * abs(want).max(initial=1))


@pytest.mark.parametrize(("name", "form", "opset"), models.FLOAT_CASES)
def test_floats_are_those_of_onnxruntime(name, form, opset):
    ours, _, theirs = judged(name, form, opset)
    for output, want in theirs.items():
        assert_close(ours[output], want)


CASES = models.QUANTIZED_CASES + models.SAVED_CASES
if not THOROUGH:  # Each compiles for seconds, and dynamic ones have no operators of their own.
    LEFT_OUT = {("mobilenet_v2", "dynamic_s8"), ("vgg", "dynamic_channels"), ("inception", "dynamic_s8")}
    LEFT_OUT |= {("gpt_2", "dynamic_s8"), ("gpt_2", "qdq_channels_saved"), ("gpt_2", "qdq_channels")}
    LEFT_OUT |= {("bert", "dynamic_u8"), ("resnet", "qoperator_powers")}
    CASES = [case for case in CASES if case[:2] not in LEFT_OUT]


@pytest.mark.parametrize(("name", "form", "opset"), CASES)
def test_integers_are_those_of_the_interpreter(name, form, opset):
    ours, run, theirs = judged(name, form, opset)
    for tensor in run.integers:
        if form == "qdq_16":  # Groups of 16 bits run in float32, which holds no quotient of theirs exactly.
            assert abs(ours[tensor].astype(np.int64) - run.computed[tensor]).max() <= 1
        else:
            assert_same_bits(ours[tensor], run.computed[tensor])
    for tensor in {*run.roots, *run.outputs}:
        assert_close(ours[tensor], run.computed.get(tensor, run.outputs.get(tensor)))
    if run.integers:
        others = sum(np.count_nonzero(ours[tensor] != theirs[tensor]) for tensor in run.integers)
        average_pools = name == "inception" and form.startswith("qdq")  # They divide in float32, where halves are seen.
        allowed = OFTEN_HALVES if form in HALVES else 0.02 if average_pools else SELDOM
        assert others <= allowed * sum(ours[tensor].size for tensor in run.integers)


# One digest

STATIC_CASES = [("one_block", "qdq_channels")]
if THOROUGH:
    STATIC_CASES = [(name, form) for name in ("mobilenet_v2", "resnet") for form in models.STATIC if form != "qdq_16"]
    STATIC_CASES += [("vgg", form) for form in models.STATIC if form.startswith("qoperator")]


@cache
def loaded(name: str, form: str) -> tuple[jaxdml.onnx.Model, np.ndarray, np.ndarray]:
    """Return a model, images, and what the interpreter makes of them."""
    model, inputs = models.model(name, form), models.inputs(name, batch=8)
    return jaxdml.onnx.load(model), inputs["image"], oracle.run(model, inputs).outputs["output_0"]


def called(model, x):
    return model(image=x)[0]


def not_compiled(model, x):
    return model.apply(model.params, x)[0]


def jitted(model, x):
    return jax.jit(model.apply)(model.params, x)[0]


def one_by_one(model, x):
    return jax.jit(jax.vmap(lambda params, one: model.apply(params, one[None])[0][0], (None, 0)))(model.params, x)


def in_two_batches(model, x):
    return np.concatenate([model(part)[0] for part in np.split(x, 2)])


def exported(model, x):
    """Export for every batch and three platforms, and read it again."""
    (batch,) = export.symbolic_shape("batch")
    given = jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype)
    params = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), dict(model.params))
    artifact = export.export(jax.jit(model.apply), platforms=("cpu", "cuda", "tpu"))(params, given)
    return export.deserialize(artifact.serialize()).call(dict(model.params), x)[0]


def on_a_mesh(model, x):
    mesh = mesh_of("auto", batch=COUNT)
    made = jax.jit(model.apply)(put(mesh, dict(model.params)), put(mesh, x, "batch"))[0]
    assert COUNT == 1 or not made.is_fully_replicated
    return made


def with_sharded_weights(kind, model, x):
    """Shard the batch over one axis of a mesh, and each weight over the other, along its longest dimension."""
    mesh = mesh_of(kind, batch=2, model=COUNT // 2)

    def sharded(weight):
        longest = max(range(weight.ndim), key=lambda d: weight.shape[d])
        axes = ["model" if d == longest and weight.shape[d] % (COUNT // 2) == 0 else None for d in range(weight.ndim)]
        return put(mesh, weight, *axes)

    params = jax.tree.map(sharded, dict(model.params))
    assert COUNT == 2 or any(not weight.is_fully_replicated for weight in jax.tree.leaves(params))
    with jax.set_mesh(mesh):
        return jax.jit(model.apply)(params, put(mesh, x, "batch"))[0]


WAYS = [
    called,
    not_compiled,
    jitted,
    one_by_one,
    in_two_batches,
    exported,
    pytest.param(on_a_mesh, marks=needs_devices),
    *(pytest.param(partial(with_sharded_weights, kind), marks=needs_devices, id=f"weights_{kind}") for kind in KINDS),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "form"), STATIC_CASES)
def test_there_is_one_digest(name, form, way):
    model, x, want = loaded(name, form)
    assert_same_bits(way(model, x), want)


def test_literally_a_model_is_what_onnxruntime_makes_of_its_nodes():
    model, inputs = models.model("one_block", "qdq_channels"), models.inputs("one_block")
    steps = jaxdml.onnx.load(model, numerics="literal")(**inputs)[0]
    theirs = session(model)(**inputs)["output_0"]
    assert_close(steps, theirs)


# The models of onnx


@pytest.mark.parametrize("name", models.LIGHT_NAMES if THOROUGH else ["squeezenet"])
def test_models_of_onnx_give_the_outputs_beside_them(name):
    model, x, want = models.light(name)
    (got,) = jaxdml.onnx.load(model)(x)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-7)
