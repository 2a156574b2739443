"""Layers of other domains that compute each row for itself, on inputs that are longer than what counts."""

import numpy as np
import pytest

from jaxdml.onnx import UnsupportedModelError
from tests.kit import quick
from tests.onnx.padded import check, parsed

pytestmark = quick

CONSTANTS = {"scale": np.float32(0.05), "zero": np.uint8(128)}
ROWS = [{"x": np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)} for n in (1, 4, 7)]


def test_quantizing_by_the_operators_of_microsoft():
    body = "q = com.microsoft.QuantizeLinear(x, scale, zero) y = com.microsoft.DequantizeLinear(q, scale, zero)"
    proto = parsed(f"g (float[N, 3] x) => (y, q) {{ {body} }}", CONSTANTS, com_microsoft=1)
    check(proto, ROWS, {"N": 7})


def test_samples():
    body = "y = ai.onnx.ml.Scaler<offset = [0.5], scale = [2.0]>(x)"
    check(parsed(f"g (float[N, 3] x) => (y) {{ {body} }}", {}, ai_onnx_ml=3), ROWS, {"N": 7})


def test_a_sample_of_one_dimension_has_no_padded_features():
    proto = parsed("g (float[N] x) => (y) { y = ai.onnx.ml.Normalizer(x) }", {}, ai_onnx_ml=3)
    with pytest.raises(UnsupportedModelError, match="Normalizer 'y' needs to know the result for an operand of 1"):
        check(proto, [{"x": np.float32([1, 2])}], {"N": 4})
