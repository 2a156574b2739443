"""Run ONNX models in JAX: the quantized part of a model has the same bits on every device.

This needs the package onnx: ``pip install "jaxdml[onnx]"``.
"""

from collections import Counter
from typing import Any

import onnx.inliner

from jaxdml._base import errors
from jaxdml.onnx import _files, nodes
from jaxdml.onnx._errors import UnsupportedModelError, listed, unsupported
from jaxdml.onnx._graph import Graph
from jaxdml.onnx._model import NUMERICS, Model, parameters
from jaxdml.onnx._values import on_device

__all__ = ["Model", "UnsupportedModelError", "load"]


def load(model: Any, *, numerics: str = "exact") -> Model:
    """Read an ONNX model.

    Nothing of the model runs here, and no file outside its folder is read.

    Args:
      model: a path, the bytes of a file, or an ``onnx.ModelProto``. External data needs a path.
      numerics: "exact": a group of nodes that dequantize, compute and quantize again runs as the integer operator that
        it means, so its bits are the same on every device; what stays float is float32. "literal": every node as it is
        written.

    Returns:
      A ``Model``.

    Raises:
      UnsupportedModelError: the file is no ONNX model, or has nodes that cannot be run; the message names each.
      ValueError: ``numerics`` is another text.

    Source:
      ONNX's operators up to the newest opset of the package onnx, and those of com.microsoft that onnxruntime's
      quantizers write.
    """
    if numerics not in NUMERICS:
        rule = f"numerics is {numerics!r}, and must be one of {', '.join(map(repr, NUMERICS))}."
        raise ValueError(errors.compose("onnx.load", rule, 'Leave it out for "exact".'))
    proto, folder = _files.read(model)
    graph = _files.graph_of(_with_functions_inlined(proto), folder)
    _refuse_unsupported(graph)
    weights = parameters(graph)
    params = {name: on_device(graph.constants[name]) for name in sorted(weights)}
    constants = {name: array for name, array in graph.constants.items() if name not in weights}
    return Model(Graph(graph.inputs, graph.outputs, constants, graph.nodes), params, numerics)


def _refuse_unsupported(graph: Graph) -> None:
    dtypes = dict(graph.dtypes())
    reasons = [(node, reason) for node in graph.walk() if isinstance(reason := nodes.handler_of(node, dtypes), str)]
    if not reasons:
        return
    lines = [f"{node}, domain '{node.domain or 'ai.onnx'}', opset {node.opset}: {reason}." for node, reason in reasons]
    kinds = ", ".join(f"{kind} ({count})" for kind, count in Counter(node.kind for node, _ in reasons).items())
    raise unsupported(f"{len(reasons)} nodes are not supported: {kinds}.", *listed(lines))


def _with_functions_inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Expand the model's own functions, and operators that have no handler here but are defined by others."""
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    defined = []
    for node in model.graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in nodes.OPERATORS and domain == "" and onnx.defs.has(node.op_type):
            schema = onnx.defs.get_schema(node.op_type)
            if schema.has_function or schema.has_context_dependent_function:
                defined.append((node.domain, node.op_type))
    if defined:
        model = onnx.inliner.inline_selected_functions(model, sorted(set(defined)), False, True)
    return model
