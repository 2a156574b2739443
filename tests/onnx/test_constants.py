"""Programs with options have the small arrays of a model's weights as constants, and pass the others."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml.onnx
from jaxdml._functions import jit as jits
from jaxdml.onnx.running.program import Program
from tests.kit import assert_same_bits
from tests.onnx import models


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


def with_options(monkeypatch):
    """Compile as for an NVIDIA GPU."""
    monkeypatch.setattr(jits, "_on_cuda", lambda weights: True)


@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet", "bert"])
def test_a_program_with_options_has_small_arrays_as_constants(monkeypatch, on_gpu, passed, name):
    model = jaxdml.onnx.load(models.model(name, "qoperator"))
    given = [*models.inputs(name).values()]
    plain = model(*given)
    with_options(monkeypatch)
    got = jaxdml.onnx.load(models.model(name, "qoperator"))(*given)
    jax.tree.map(assert_same_bits, got, plain)
    assert passed[0] == len(model.leaves) > passed[-1]


def test_within_another_trace_all_are_arguments(monkeypatch, on_gpu, passed):
    model = jaxdml.onnx.load(models.model("mobilenet_v2", "qoperator"))
    given = [*models.inputs("mobilenet_v2").values()]
    with_options(monkeypatch)
    assert_same_bits(jax.jit(model)(*given), model(*given))
    assert passed[0] == len(model.leaves) > passed[-1]


def test_models_of_floats_pass_all(monkeypatch, passed):
    with_options(monkeypatch)
    model = jaxdml.onnx.load(models.model("mobilenet_v2"))
    model(*models.inputs("mobilenet_v2").values())
    assert set(passed) == {len(model.leaves)}


def test_large_arrays_and_those_of_equal_numbers_are_passed(on_gpu):
    model = jaxdml.onnx.load(models.model("mobilenet_v2", "qoperator"))
    params = {
        "large": jnp.arange(2**12 + 1),
        "small": jnp.arange(2**12),
        "equal": jnp.full(9, 3, jnp.int8),
        "one": jnp.ones(1),
        "none": jnp.ones((0, 3)),
        "first differs": jnp.asarray([0.0, jnp.nan]),
    }
    program = Program(model.graph, params, "exact")
    given = program.passed_to(SimpleNamespace(has_options=lambda: True))
    assert [x.shape for x in given] == [(9,), (2**12 + 1,), (0, 3), (1,)]
    got = jax.jit(program.params_from)(given)
    for name, x in params.items():
        assert got[name].dtype == x.dtype
        np.testing.assert_array_equal(got[name], x)
