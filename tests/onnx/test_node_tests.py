"""ONNX's own node tests, as the installed ``onnx`` brings them: all but those of functions' bodies.

They run many in one program, since compiling one for each takes most of the time.
"""

import re
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
from tests.kit import as_shipped, quick

pytestmark = quick

PARTS = 16

FNUZ = "FNUZ"
"""In the names of tests with types that XLA's older emitters, which compile quickly, convert wrongly."""

_BFLOAT16 = "3d_causal", "4d_causal", "4d_padded_kv", "4d_causal_padded_kv", "4d_attn_mask_causal"
ROUGH = dict.fromkeys((f"test_attention_{kind}_bf16" for kind in _BFLOAT16), 2**-7)
"""Tests whose tolerance is less than a step of bfloat16: answers depend on how a softmax is summed in it."""
if jax.default_backend() == "gpu" or jax.__version_info__ >= (0, 12):
    # Zeros that a transform misses by some ulps of its inputs: a GPU's does, and onnx's did, where JAX 0.12 gives 0.
    ROUGH |= dict.fromkeys(("test_dft_inverse", "test_dft_inverse_opset19"), 1e-5)

REFUSED = re.compile(
    "strings|ImageDecoder|TfIdfVectorizer|"
    "ai.onnx.preview.training|which is no integer of 2 to 32 bits and no float8|Scan .* 8|value_string|opset is [1-6];"
)
"""Why a node test may be refused."""

DRAWN = re.compile("training_dropout(?!_zero)|test_bernoulli")
"""Tests whose answers are random."""


@cache
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = loader.load_model_tests(kind="node")
    return [case for case in tests if "_expanded" not in case.name]


def plain(value):
    if value is None or isinstance(value, list):
        return value and [plain(each) for each in value]
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


@cache
def part(number):
    """Return the models of a part by name with their data, and why others are refused."""
    known = [case for case in cases() if not DRAWN.search(case.name)]
    chosen = [case for case in known if (FNUZ in case.name) == (number == FNUZ)]
    models, refused = {}, {}
    for case in chosen if number == FNUZ else chosen[number::PARTS]:
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
    if wanted is None or isinstance(wanted, list):
        assert type(got) is type(wanted)
        assert len(got or ()) == len(wanted or ())
        for each, other in zip(got or (), wanted or (), strict=True):
            close(each, other, rtol, atol)
        return
    got = np.asarray(got)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if got.dtype.kind == "V" or got.dtype.itemsize < 4:  # bfloat16 and smaller have no comparison of their own
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("number", [*range(PARTS), pytest.param(FNUZ, marks=as_shipped)])
def test_answers_are_those_of_onnx(number):
    with jax.enable_x64(True):
        models, refused = part(number)
        results = computed(models)
    wrong = {}
    for name, (_, _, outputs, rtol, atol) in models.items():
        rough = ROUGH.get(name.partition(",")[0])
        try:
            assert len(results[name]) == len(outputs)
            for got, wanted in zip(results[name], outputs, strict=True):
                close(got, wanted, rough or rtol, rough or atol)
        except AssertionError as error:
            wrong[name] = str(error)
    assert not wrong
    assert not {name: reason for name, reason in refused.items() if not REFUSED.search(reason)}


def test_what_is_random_needs_a_key():
    tests = [case for case in cases() if DRAWN.search(case.name)]
    for case in tests:
        model = jaxdml.onnx.load(case.model)
        (inputs, outputs), *_ = case.data_sets
        given = [plain(value) for value in inputs]
        with pytest.raises(ValueError, match="is random"):
            model(*given)
        with jax.enable_x64(True):
            results = model(*given, key=jax.random.key(0))
        for got, wanted in zip(results, map(plain, outputs), strict=True):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    assert len(tests) == 7
