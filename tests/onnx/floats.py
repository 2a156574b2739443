"""Models of one node or of a text, compared with onnxruntime within a tolerance."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper

from jaxdml.onnx import load


def one_node(
    kind: str,
    operands: Mapping[str, Any],
    *outputs: str,
    opset: int = 17,
    domain: str = "",
    **attributes: Any,
) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Return a model of a node with these operands, None for one that is left out, and what to call it with."""
    given = {name: value for name, value in operands.items() if value is not None}
    names = [name if name in given else "" for name in operands]
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
    ]
    node = helper.make_node(kind, names, outputs, domain=domain, **attributes)
    results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph([node], kind, typed, results), opset_imports=opsets, ir_version=8 if opset < 23 else 11
    )
    return model, list(given.values())


def parsed(text: str, opset: int = 17) -> onnx.ModelProto:
    """Return the model of a graph in ONNX's text form."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


def by_onnxruntime(proto: onnx.ModelProto, *inputs: Any) -> list[np.ndarray]:
    """Return what onnxruntime computes of a file as it is, on one thread: some answers of it depend on how many."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, inputs), strict=True)))


def close(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """Require equal shapes, and values within a tolerance."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def as_onnxruntime(proto: onnx.ModelProto, *inputs: Any) -> None:
    """Require what onnxruntime returns."""
    close(load(proto)(*inputs), by_onnxruntime(proto, *inputs))
