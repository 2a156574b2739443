"""Models that are broken in one place, and how they must be refused."""

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto

import jaxdml.onnx
from jaxdml.onnx import UnsupportedModelError

HEAD = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) '


def parsed(body, head=HEAD):
    return onnx.parser.parse_model(head + body)


def refused(model, *texts):
    """Check that a model is refused in the form of every message, with these texts."""
    with pytest.raises(UnsupportedModelError) as caught:
        jaxdml.onnx.load(model)
    first, *details = str(caught.value).split("\n")
    assert first.startswith("jaxdml.onnx.load: "), first
    assert first.endswith((".", ":")), first
    assert all(line.startswith("  ") for line in details)
    for text in texts:
        assert text in str(caught.value)


def with_tensor(**fields):
    """Return x + w with what is told of w."""
    model = parsed("{ y = Add(x, x) }")
    model.graph.node[0].input[1] = "w"
    kind = {"name": "w", "data_type": TensorProto.FLOAT, "dims": [2]}
    model.graph.initializer.append(TensorProto(**kind | fields))
    return model


W = np.float32([3, 4])
