"""The float operators that onnxruntime fuses."""

import numpy as np
import pytest

from tests.kit import quick
from tests.onnx.floats import as_onnxruntime, one_node

pytestmark = quick


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


IMAGE = {"X": drawn(1, 4, 5, 5), "W": drawn(6, 2, 3, 3), "B": drawn(6), "Z": drawn(1, 6, 5, 5)}
ROWS = {"x": drawn(2, 3, 8), "skip": drawn(3, 8), "gamma": drawn(8)}

CASES = {
    "matmul": ("FusedMatMul", {"A": drawn(2, 4, 3), "B": drawn(2, 5, 4)}, {"transA": 1, "transB": 1, "alpha": 0.5}),
    "matmul_rows_first": (
        "FusedMatMul",
        {"A": drawn(4, 2, 3), "B": drawn(3, 2, 5)},
        {"transBatchA": 1, "transBatchB": 1},
    ),
    "matmul_vector": ("FusedMatMul", {"A": drawn(4), "B": drawn(2, 4, 3)}, {"transA": 1}),
    "gelu": ("Gelu", {"x": 3 * drawn(3, 8)}, {}),
    "gelu_bias": ("BiasGelu", {"x": drawn(3, 8), "bias": drawn(8)}, {}),
    "gelu_fast": ("FastGelu", {"x": 3 * drawn(3, 8)}, {}),
    "gelu_fast_bias": ("FastGelu", {"x": drawn(3, 8), "bias": drawn(8)}, {}),
    "gelu_quick": ("QuickGelu", {"x": drawn(3, 8)}, {"alpha": 1.5}),
    "skip": ("SkipLayerNormalization", ROWS | {"beta": drawn(8), "bias": drawn(8)}, {"epsilon": 0.01, "wanted": 4}),
    "skip_least": ("SkipLayerNormalization", ROWS, {}),
    "simplified": (
        "SimplifiedLayerNormalization",
        {"x": drawn(2, 3, 8), "scale": drawn(3, 8)},
        {"domain": "", "axis": 1},
    ),
    "skip_simplified": ("SkipSimplifiedLayerNormalization", ROWS | {"bias": drawn(8)}, {"wanted": 4}),
    "skip_simplified_least": ("SkipSimplifiedLayerNormalization", ROWS, {}),
    "conv": (
        "FusedConv",
        IMAGE,
        {"group": 2, "pads": [1, 1, 1, 1], "activation": "LeakyRelu", "activation_params": [0.2]},
    ),
    "conv_least": ("FusedConv", IMAGE | {"B": None, "Z": None}, {"group": 2, "strides": [2, 2]}),
    "conv_clipped": (
        "FusedConv",
        IMAGE | {"Z": None},
        {"group": 2, "activation": "Clip", "activation_params": [-0.5, 0.5]},
    ),
    "gemm": (
        "FusedGemm",
        {"A": drawn(3, 4), "B": drawn(4, 5), "C": drawn(5)},
        {"activation": "LeakyRelu", "activation_alpha": 0.2, "alpha": 0.5},
    ),
    "max_pool": (
        "NhwcMaxPool",
        {"x": np.arange(90, dtype=np.uint8).reshape(1, 6, 5, 3) * 77},
        {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 0]},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_fused_operators_are_those_of_onnxruntime(case):
    kind, inputs, attributes = CASES[case]
    attributes = {"domain": "com.microsoft"} | attributes
    outputs = ["Y", *[""] * (attributes.pop("wanted", 1) - 1)]
    if len(outputs) > 1:
        outputs[-1] = "sum"
    proto, given = one_node(kind, inputs, *outputs, **attributes)
    proto.graph.output[0].type.tensor_type.elem_type = 2 if kind == "NhwcMaxPool" else 1
    as_onnxruntime(proto, *given)
