"""Run ONNX models in JAX: what is quantized from a model's inputs on has the same bits on every device.

This needs the package onnx: ``pip install "jaxdml[onnx]"``.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import jax
import onnx

from jaxdml._base import errors
from jaxdml.onnx import nodes
from jaxdml.onnx._errors import UnsupportedModelError, listed, unsupported
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.reading import files
from jaxdml.onnx.reading.outline import Outline
from jaxdml.onnx.running import artifact
from jaxdml.onnx.running.ahead import Artifact, opened
from jaxdml.onnx.running.declared_shapes import refuse_wrong_shapes
from jaxdml.onnx.running.decoder import Decoder, DecoderState, decoder
from jaxdml.onnx.running.model import Model
from jaxdml.onnx.running.open_dimensions import Lengths, must_be_lengths
from jaxdml.onnx.running.parameters import parameters
from jaxdml.onnx.running.program import NUMERICS
from jaxdml.onnx.values.bounded import Padded

ADVICE = (
    "Export the model without them, define them in the file as functions of other operators, or cut them out with "
    "onnx.utils.extract_model and compute them in JAX."
)
"""What can be done about nodes that cannot be run."""

__all__ = ["Artifact", "Decoder", "DecoderState", "Model", "Padded", "UnsupportedModelError", "decoder", "load"]


@jax.ensure_compile_time_eval()  # A function that is traced may load a model, and keep it.
def load(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    numerics: Literal["exact", "literal"] = "exact",
    lengths: Lengths = "rounded",
) -> Model:
    """Read an ONNX model.

    Nothing of the model runs here, and no file outside its folder, or outside its place in a hub's cache, is read.

    Args:
      model: a path, the bytes of a file, or an ``onnx.ModelProto``. External data needs a path. Or an artifact, which
        ``python -m jaxdml.onnx MODEL --compile`` wrote: it has lengths of its own, and is of programs, not of data, so
        load only your own.
      numerics: "exact": a group of nodes that dequantize, compute and quantize again runs as the integer operator that
        it means, so equal integers become equal integers on every device; what stays float is float32. "literal": every
        node as it is written.
      lengths: for which lengths of dimensions that the model leaves open a call compiles programs. "exact": for each.
        "rounded": a length that differs from the first one is rounded up to a power of two, or to the middle between
        two, and what is added is masked. A mapping says it for dimensions by name: a list of lengths, such as
        ``{"width": [160, 320, 640]}``, or one of the two texts; what is longer than all is an error, or is rounded up
        if the list ends with ``...``. A dimension without a name is called ``"image[3]"``, by its input and its axis.
        Of a dimension that an operator cannot mask, each length is a program.

    Returns:
      A ``Model``; of an artifact an ``Artifact``, which is one.

    Raises:
      UnsupportedModelError: the file is no ONNX model, contradicts itself, or has nodes that cannot be run; the message
        names each kind of them, or the tensor or node that is broken.
      TypeError: ``model`` is something else.
      OSError: the file cannot be read.
      ValueError: ``numerics`` or ``lengths`` is something else.

    Source:
      ONNX's operators up to the newest opset of the package onnx, and those of com.microsoft that onnxruntime's
      quantizers, optimizers and its builder of language models write.
    """
    if numerics not in NUMERICS:
        rule = f"numerics is {numerics!r}, and must be one of {', '.join(map(repr, NUMERICS))}."
        raise ValueError(errors.compose("onnx.load", rule, 'Leave it out for "exact".'))
    if artifact.is_one(model):
        return opened(model, numerics, lengths)
    proto, folder = files.read(model)
    remarks: tuple[str, ...] | None = None
    if not files.kinds(proto) <= nodes.OPERATORS.keys():
        proto, remarks = _expanded(proto, folder)
    graph = files.graph_of(proto, folder)
    # Of a large model there are never more than two copies: the file's, the arrays', the device's.
    del proto
    _refuse_unsupported(graph)
    refuse_wrong_shapes(graph)
    must_be_lengths((*graph.inputs, *graph.optional), lengths)
    graph, weights = parameters(graph, exact=numerics == "exact")
    return Model(graph if remarks is None else replace(graph, remarks=remarks), weights, numerics, lengths)


def _expanded(proto: onnx.ModelProto, folder: Path | None) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a model without operators that ONNX defines by others, and the remarks about it as it was.

    What nobody runs is refused, before the weights are read.
    """
    graph = as_it_is = files.graph_of(proto, folder, Outline)
    left: set[tuple[str, str]] = set()
    while defined := [kind for kind in _defined_by_others(graph) if kind not in left]:
        # One kind at a time: onnx does not know the types within what it has just put in.
        proto = files.expanded(proto, defined[0])
        graph = files.graph_of(proto, folder, Outline)
        left |= {defined[0]} & set(_defined_by_others(graph))
    _refuse_unsupported(graph)
    return proto, as_it_is.remarks


def _defined_by_others(graph: Graph) -> list[tuple[str, str]]:
    """Return the operators of a graph that have no handler here, but that ONNX defines by others."""
    missing = {(node.domain, node.op_type) for node in graph.walk()} - set(nodes.OPERATORS)
    schemas = {kind: onnx.defs.get_schema(kind[1], kind[0]) for kind in missing if onnx.defs.has(kind[1], kind[0])}
    return sorted(
        kind for kind, schema in schemas.items() if schema.has_function or schema.has_context_dependent_function
    )


def _refuse_unsupported(graph: Graph) -> None:
    dtypes = dict(graph.dtypes())
    alike: dict[tuple[str, int, str], list[Node]] = {}
    for node in graph.walk():
        reason = nodes.handler_of(node, dtypes)
        if isinstance(reason, str):
            alike.setdefault((node.kind, node.opset, reason), []).append(node)
    if not alike:
        return
    lines = [
        f"{first}{f' and {len(more)} more' if more else ''}, "
        f"domain '{first.domain or 'ai.onnx'}', opset {opset}: {reason}."
        for (_, opset, reason), (first, *more) in alike.items()
    ]
    counts = Counter(node.kind for found in alike.values() for node in found)
    kinds = ", ".join(f"{kind} ({count})" for kind, count in counts.items())
    raise unsupported(f"{counts.total()} nodes are not supported: {kinds}.", *listed(lines), ADVICE)
