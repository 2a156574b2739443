"""What ``jax.experimental.checkify`` reports of a node: values that ONNX calls an error."""

from typing import Any

import jax.numpy as jnp

from jaxdml.onnx._graph import Node
from jaxdml.onnx.values.bounded import report
from jaxdml.onnx.values.kinds import is_host


def lengths_within(node: Node, lengths: Any, limit: Any) -> None:
    """Have lengths reported that are negative, or more than there is, where the caller checks them."""
    if lengths is not None and not is_host(lengths):
        report(((lengths >= 0) & (lengths <= limit)).all(), f"{node} has a length out of range")


def within(node: Node, indices: Any, limit: Any, valid: Any = True) -> None:
    """Have indices reported that are out of range, where the caller checks them; else nothing is computed.

    Args:
      node: what reads or writes there.
      indices: counted from the front or, where negative, from the end.
      limit: how many elements there are; it broadcasts against the indices.
      valid: which of the indices count.
    """
    if is_host(indices):
        return  # Of what is known while tracing the operator says it itself.
    inside = ((indices >= -limit) & (indices < limit)) | jnp.logical_not(valid)
    report(inside.all(), f"{node} has an index out of range")
