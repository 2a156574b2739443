"""Models of one node, run here and by onnxruntime."""

from typing import Any

import jax
import numpy as np
import onnxruntime
from onnx import ModelProto, ValueInfoProto, helper

from jaxdml.onnx import Model, load, nodes
from jaxdml.onnx.nodes._handler import Handler


def one_node(kind: str, *inputs: Any, opset: int = 21, outputs: int = 1, **attributes: Any) -> ModelProto:
    """Return a model whose node takes these arrays; None leaves an input out."""
    names = [f"i{place}" if value is not None else "" for place, value in enumerate(inputs)]
    results = [f"o{place}" for place in range(outputs)]
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
        if name
    ]
    node = helper.make_node(kind, names, results, **attributes)
    graph = helper.make_graph([node], kind, typed, [ValueInfoProto(name=name) for name in results])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def run_known(model: Model, *inputs: Any) -> list[np.ndarray]:
    """Run with operands that are known while tracing, as shapes and constants are."""
    return [np.asarray(result) for result in model.apply({}, *(value for value in inputs if value is not None))]


def run_traced(model: Model, *inputs: Any) -> list[np.ndarray]:
    """Run compiled."""
    return [np.asarray(result) for result in model(*(value for value in inputs if value is not None))]


def check(wanted: list[np.ndarray], found: list[np.ndarray]) -> None:
    """Require the same bits; without x64, JAX has integers of 32 bits."""
    assert len(wanted) == len(found)
    for one, other in zip(wanted, found, strict=True):
        assert (other.shape, other.dtype) == (one.shape, jax.dtypes.canonicalize_dtype(one.dtype))
        np.testing.assert_array_equal(other, one)
        if one.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(other), np.signbit(one))


def check_with_onnxruntime(kind: str, *inputs: Any, **options: Any) -> None:
    """Require what onnxruntime returns, as ``check_both`` does."""
    proto = one_node(kind, *inputs, **options)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    given = [value for value in inputs if value is not None]
    wanted = session.run(None, dict(zip((value.name for value in proto.graph.input), given, strict=True)))
    check_both(proto, wanted, *inputs)


def check_both(proto: ModelProto, wanted: list[np.ndarray], *inputs: Any) -> None:
    """Require these outputs, of operands that are traced, and where NumPy computes them of those that are known."""
    model = load(proto)
    (node,) = model.graph.nodes
    handler = nodes.handler_of(node)
    if isinstance(handler, Handler) and handler.host:
        check(wanted, run_known(model, *inputs))
    check(wanted, run_traced(model, *inputs))
