"""Programs with options have the small arrays of a model's weights as constants, and pass the others."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jaxdml.onnx
from jaxdml._functions import jit as jits
from jaxdml.onnx.running.program import Program
from tests.kit import assert_same_bits
from tests.kit.meshes import COUNT, mesh_of, needs_devices
from tests.onnx import models
from tests.onnx.test_window_runs import network


def image(count=1):
    return np.random.default_rng(0).integers(0, 256, (count, 16, 4, 4)).astype(np.uint8)


@pytest.fixture
def passed(monkeypatch):
    """How many arrays each call of a program gets."""
    counted = []
    returned = Program.passed_to

    def counting(program, compiled):
        counted.append(len(returned(program, compiled)))
        return returned(program, compiled)

    monkeypatch.setattr(Program, "passed_to", counting)
    return counted


def with_options(monkeypatch, fuses=True):
    """Compile as for an NVIDIA GPU."""
    monkeypatch.setattr(jits, "_on_cuda", lambda weights: True)
    monkeypatch.setattr(jits, "FUSES_BITS_WITH_PRODUCTS", fuses)


def test_a_program_with_options_has_small_arrays_as_constants(monkeypatch, on_gpu, passed):
    made, _ = network(3)
    model = jaxdml.onnx.load(made)
    plain = model(image())
    with_options(monkeypatch)
    got = jaxdml.onnx.load(made)(image())
    jax.tree.map(assert_same_bits, got, plain)
    assert passed[0] == len(model.leaves) > passed[-1]


def test_within_another_trace_all_are_arguments(monkeypatch, on_gpu, passed):
    model = jaxdml.onnx.load(network(3)[0])
    with_options(monkeypatch)
    assert_same_bits(jax.jit(model)(image()), model(image()))
    assert passed[0] == len(model.leaves) > passed[-1]


def test_a_version_that_takes_no_constants_into_kernels_passes_all(monkeypatch, on_gpu, passed):
    with_options(monkeypatch, fuses=False)
    model = jaxdml.onnx.load(network(3)[0])
    model(image())
    assert set(passed) == {len(model.leaves)}


def test_models_of_floats_pass_all(monkeypatch, passed):
    with_options(monkeypatch)
    model = jaxdml.onnx.load(models.model("mobilenet_v2"))
    model(*models.inputs("mobilenet_v2").values())
    assert set(passed) == {len(model.leaves)}


def test_large_arrays_and_those_of_equal_numbers_are_passed(on_gpu):
    model = jaxdml.onnx.load(network(3)[0])
    params = {
        "large": jnp.arange(2**12 + 1),
        "small": jnp.arange(2**12),
        "equal": jnp.full(9, 3, jnp.int8),
        "one": jnp.ones(1),
        "none": jnp.ones((0, 3)),
        "first differs": jnp.asarray([0.0, jnp.nan]),
        "on a device": jax.device_put(jnp.arange(5), jax.devices()[0]),
        "of NumPy": np.arange(6, dtype=np.int32),
    }
    program = Program(model.graph, params, "exact")
    given = program.passed_to(SimpleNamespace(takes_constants=lambda: True))
    assert [x.shape for x in given] == [(9,), (2**12 + 1,), (0, 3), (6,), (5,), (1,)]
    got = jax.jit(program.params_from)(given)
    # Else XLA would join two factors that are constants, and round sums wrongly.
    assert jax.jit(program.params_from).lower(given).as_text().count("optimization_barrier") == 2
    for name, x in params.items():
        assert got[name].dtype == x.dtype
        np.testing.assert_array_equal(got[name], x)


@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_programs_of_sharded_images_have_constants_too(monkeypatch, on_gpu, passed, kind):
    model = jaxdml.onnx.load(network(3, COUNT)[0])
    images = image(COUNT)
    want = model(images)
    with_options(monkeypatch)
    mesh = mesh_of(kind, d=COUNT)
    with jax.set_mesh(mesh):
        got = model(jax.device_put(images, jax.NamedSharding(mesh, P("d"))))
    jax.tree.map(assert_same_bits, got, want)
    assert passed[0] == len(model.leaves) > passed[-1]


def test_other_weights_have_programs_of_their_own(monkeypatch, on_gpu):
    with_options(monkeypatch)
    model = jaxdml.onnx.load(network(3)[0])
    changed = {name: jax.tree.map(jnp.zeros_like, each) for name, each in model.params.items()}
    other = replace(model, params=changed)
    want = model.apply(changed, image())
    first = model(image())
    jax.tree.map(assert_same_bits, other(image()), want)
    jax.tree.map(assert_same_bits, model(image()), first)
    assert not np.array_equal(np.asarray(first[0]), np.asarray(want[0]))


def test_a_copied_model_computes_the_same(monkeypatch, on_gpu):
    with_options(monkeypatch)
    model = jaxdml.onnx.load(network(3)[0])
    want = model(image())
    jax.tree.map(assert_same_bits, copy.deepcopy(model)(image()), want)
