"""TODO."""

from jaxdml.onnx.nodes._handler import Table

TABLE: Table = {}
