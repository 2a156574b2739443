"""Every operator that the door runs: one table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes import (
    activations,
    along_axis,
    attention,
    attention_state,
    block_quantized,
    casting,
    control_flow,
    convolution,
    data_dependent,
    drawing,
    elementwise,
    experts,
    features,
    fused,
    fused_attention,
    group_query_attention,
    indexing,
    integer_products,
    linear_algebra,
    linear_models,
    microsoft,
    movement,
    normalization,
    pooling,
    quantized_layers,
    quantized_recurrent,
    quantizing,
    recurrent,
    reductions,
    resizing,
    sequences,
    shapes,
    signal,
    support_vectors,
    trees,
)
from jaxdml.onnx.nodes._handler import Handler, Table

TABLES: Mapping[str, tuple[Table, ...]] = {
    "": (
        activations.TABLE,
        along_axis.TABLE,
        attention.TABLE,
        attention_state.TABLE,
        casting.TABLE,
        control_flow.TABLE,
        convolution.TABLE,
        data_dependent.TABLE,
        drawing.TABLE,
        elementwise.TABLE,
        fused.STANDARD,
        indexing.TABLE,
        integer_products.TABLE,
        linear_algebra.TABLE,
        movement.TABLE,
        normalization.TABLE,
        pooling.TABLE,
        quantizing.TABLE,
        recurrent.TABLE,
        reductions.TABLE,
        resizing.TABLE,
        sequences.TABLE,
        shapes.TABLE,
        signal.TABLE,
    ),
    "ai.onnx.ml": (features.TABLE, linear_models.TABLE, support_vectors.TABLE, trees.TABLE),
    "ai.onnx.preview": (attention.PREVIEW,),
    "com.microsoft": (
        attention_state.MICROSOFT,
        block_quantized.TABLE,
        experts.TABLE,
        fused.TABLE,
        fused_attention.TABLE,
        group_query_attention.TABLE,
        microsoft.TABLE,
        quantized_layers.TABLE,
        quantized_recurrent.TABLE,
    ),
}

OPERATORS: Mapping[tuple[str, str], tuple[Handler, ...]] = {
    (domain, name): tuple(sorted(handlers, key=lambda handler: -handler.since))
    for domain, tables in TABLES.items()
    for table in tables
    for name, handlers in table.items()
}
"""By domain and name: handlers, the newest first."""


_ABSENT = {
    "ai.onnx.ml": "it reads or makes texts or maps; give the model numbers, and export it from there",
    "com.microsoft.nchwc": "onnxruntime made it for one kind of processor; save with the EXTENDED level instead",
}
"""Why a domain has no operators here."""


def handler_of(node: Node, dtypes: Mapping[str, Any] = MappingProxyType({})) -> Handler | str:
    """Return who runs a node, or a text: why nobody does.

    Args:
      node: the node.
      dtypes: of the values that are known when a model is loaded, by name.
    """
    handlers = OPERATORS.get((node.domain, node.op_type))
    if not handlers:
        return _ABSENT.get(node.domain, "there is no such operator here")
    if handlers[-1].since > node.opset:
        oldest = f"version {node.opset} is older than version {handlers[-1].since}, the oldest that is supported"
        return f"{oldest}; onnx.version_converter makes newer ones"
    handler = runner(node)
    return handler.objection(node, dtypes) or handler


def runner(node: Node) -> Handler:
    """Return who runs a node of a model that is loaded: ``load`` refuses what nobody runs."""
    handlers = OPERATORS[node.domain, node.op_type]
    return next(each for each in handlers if each.since <= node.opset and (each.when is None or each.when(node)))
