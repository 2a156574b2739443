"""Compare models of independent nodes with onnxruntime: one compilation for many cases."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from jaxdml.onnx import backend


def model(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any], opset: int) -> onnx.ModelProto:
    """Return a model that computes the nodes; all their outputs are its outputs."""
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for node in nodes for name in node.output]
    graph = helper.make_graph(nodes, "nodes", typed, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def assert_agree(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any], opset: int, tolerance: float = 1e-5
) -> None:
    """Require the values of onnxruntime."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    made = model(nodes, inputs, opset)
    session = runtime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(inputs))
    found = backend.prepare(made).run(list(inputs.values()))
    names = [output.name for output in made.graph.output]
    for name, ours, theirs in zip(names, found, expected, strict=True):
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=name)
