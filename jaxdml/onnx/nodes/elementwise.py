"""Operators that compute each element from the elements at its place."""

from jaxdml.onnx.nodes._handler import Elementwise, Handler, Table

TABLE: Table = {
    name: (Handler(since, Elementwise(function), host=True, elementwise=True),)
    for name, since, function in (("Add", 7, "add"), ("Sub", 7, "subtract"))
}
