"""TODO."""

from jaxdml.onnx.nodes._handler import Handler, Table

TABLE: Table = {}
