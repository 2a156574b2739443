"""ONNX's own node tests, as the installed ``onnx`` brings them: all but those of functions' bodies.

They run many in one program, since compiling one for each takes most of the time.
"""

import warnings
from functools import cache

import jax
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test import loader

import jaxdml.onnx
from jaxdml.onnx import UnsupportedModelError
from tests.quick import quick

pytestmark = quick

PARTS = 16
PASSED_AT_LEAST = 1180
"""Of the 1,404 tests of onnx 1.23.2."""


@cache
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = loader.load_model_tests(kind="node")
    return [case for case in tests if "_expanded" not in case.name]


def plain(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


@cache
def part(number):
    """Return the models of a part by name with their data, and of those that are refused why."""
    models, refused = {}, {}
    for case in cases()[number::PARTS]:
        try:
            model = jaxdml.onnx.load(case.model)
        except UnsupportedModelError as error:
            refused[case.name] = str(error)
            continue
        for index, (inputs, outputs) in enumerate(case.data_sets):
            data = [plain(value) for value in inputs], [plain(value) for value in outputs]
            models[f"{case.name}, data set {index}"] = (model, *data, case.rtol, case.atol)
    return models, refused


def computed(models):
    """Compute the outputs of many models in one program."""
    given = {}
    for name, (model, inputs, *_) in models.items():
        names = [value.name for value in model.inputs[: len(inputs)]]
        given[name] = {n: x for n, x in zip(names, inputs, strict=True) if n not in model.static_inputs}

    @jax.jit
    def program(given):
        results = {}
        for name, (model, inputs, *_) in models.items():
            whole = [given[name].get(v.name, x) for v, x in zip(model.inputs, inputs, strict=False)]
            results[name] = model.apply(model.params, *whole)
        return results

    return program(given)


def close(got, wanted, rtol, atol):
    """Compare as ONNX's own runner does."""
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if got.dtype.kind == "V" or got.dtype.itemsize < 4:  # bfloat16 and smaller have no comparison of their own
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("number", range(PARTS))
def test_answers_are_those_of_onnx(number):
    with jax.enable_x64(True):
        models, _ = part(number)
        results = computed(models)
    wrong = {}
    for name, (_, _, outputs, rtol, atol) in models.items():
        try:
            assert len(results[name]) == len(outputs)
            for got, wanted in zip(results[name], outputs, strict=True):
                close(np.asarray(got), wanted, rtol, atol)
        except AssertionError as error:
            wrong[name] = str(error)
    assert not wrong


def test_what_is_not_run_is_refused_for_a_known_reason():
    pass
