"""Layers of other domains that compute each row for itself, on inputs that are longer than what counts."""

import numpy as np
import onnx
import pytest

from tests.kit import quick
from tests.onnx.padded import check, parsed

pytestmark = quick

CONSTANTS = {"scale": np.float32(0.05), "zero": np.uint8(3), "fine": np.float32(0.3), "coarse": np.float32(0.2)}
CONSTANTS |= {"i0": np.array([0]), "i1": np.array([1]), "far": np.array([100])}
ROWS = [{"x": np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)} for n in (2, 4, 7)]


def test_quantizing_by_the_operators_of_microsoft():
    body = "q = com.microsoft.QuantizeLinear(x, scale, zero) y = com.microsoft.DequantizeLinear(q, scale, zero)"
    proto = parsed(f"g (float[N, 3] x) => (y, q) {{ {body} }}", CONSTANTS, com_microsoft=1)
    check(proto, ROWS, {"N": 7})


MOVED = {
    "ReduceMax": "m = ReduceMax<keepdims=0>(d, i0)",
    "ReduceMin": "m = ReduceMin(d, i0)",
    "Slice": "m = Slice(d, i1, far)",
    "Transpose": "m = Transpose(d)",
    "Dropout": "m, k = Dropout(d)",
}


@pytest.mark.parametrize("name", MOVED)
def test_integers_that_stand_for_reals_are_moved_as_they_are(name):
    """The other scale rounds ties in another way where they become floats."""
    body = f"d = DequantizeLinear(q, fine) {MOVED[name]} y = QuantizeLinear(m, coarse, zero)"
    proto = parsed(f"g (uint8[N, 3] q) => (y) {{ {body} }}", CONSTANTS)
    calls = [{"q": np.random.default_rng(n).integers(0, 85, (n, 3)).astype(np.uint8)} for n in (2, 4, 7)]
    check(proto, calls, {"N": 7})


def test_samples():
    body = "y = ai.onnx.ml.Scaler<offset = [0.5], scale = [2.0]>(x)"
    check(parsed(f"g (float[N, 3] x) => (y) {{ {body} }}", {}, ai_onnx_ml=3), ROWS, {"N": 7})


def test_a_sample_of_one_dimension_has_no_padded_features():
    proto = parsed("g (float[N] x) => (y) { y = ai.onnx.ml.Normalizer(x) }", {}, ai_onnx_ml=3)
    check(
        proto,
        [{"x": np.float32([1, 2])}],
        {"N": 4},
        refuses="Normalizer 'y' needs to know the result for an operand of 1",
    )


def test_rows_of_trees():
    tree = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0]}
    tree |= {"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0]}
    tree |= {"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0]}
    tree |= {"target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [0.25, 0.75], "n_targets": 1}
    node = onnx.helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **tree)
    proto = parsed("g (float[N, 3] x) => (float[N, 1] y) { y = Neg(x) }", {}, ai_onnx_ml=3)
    proto.graph.node[0].CopyFrom(node)
    check(proto, ROWS, {"N": 7})


def test_a_sample_has_no_padded_features():
    proto = parsed("g (float[2, N] x) => (y) { y = ai.onnx.ml.Normalizer(x) }", {}, ai_onnx_ml=3)
    check(proto, [{"x": np.float32([[1, 2], [3, 4]])}], {"N": 4}, refuses="Normalizer 'y' needs to know the result for")
