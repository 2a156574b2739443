"""What a rule is, and what one that depends on a node gets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxdml.onnx.nodes.operands._language import Sizes
from jaxdml.onnx.values.kinds import is_host
from jaxdml.onnx.values.lengths import has_lengths


class Operands(NamedTuple):
    """A node's operands, as far as they are known.

    Attributes:
      opset: the version of the node's domain.
      attributes: by name, defaults among them.
      shapes: by position; None for an operand that is left out, or of which nothing is known.
      values: by position.
      names: by position; "" for an operand that is left out.
    """

    opset: int
    attributes: Mapping[str, Any]
    shapes: Sequence[Sizes | None]
    values: Sequence[Any]
    names: Sequence[str]

    def given(self, position: int) -> bool:
        """Whether an operand is there."""
        return position < len(self.names) and bool(self.names[position])

    def shape(self, position: int) -> tuple[int | None, ...] | None:
        """Return the shape of an operand, with None for sizes that are not known, or None."""
        sizes = self.shapes[position] if self.given(position) else None
        return None if sizes is None else tuple(size if isinstance(size, int) else None for size in sizes)

    def dtype(self, position: int) -> str:
        """Return the name of the dtype of an operand, or "" where it is not known."""
        dtype = getattr(self.values[position], "dtype", None) if self.given(position) else None
        return "" if dtype is None else str(dtype)

    def known(self, position: int) -> np.ndarray | None:
        """Return an operand whose values are known."""
        value = self.values[position] if self.given(position) else None
        return value if is_host(value) and not has_lengths(value) else None

    def rank(self, *positions: int) -> int | None:
        """Return how many dimensions the first of some operands has of which it is known, or None."""
        return next((len(shape) for position in positions if (shape := self.shape(position)) is not None), None)


Texts = str | tuple[str, ...]
"""A rule, or one for each of several layouts."""

Rule = Texts | Callable[[Operands], Texts]
"""A rule, or what makes it of the node's operands."""


def written(sizes: Sequence[Any]) -> str:
    """Return sizes as a rule writes them."""
    return " ".join("_" if size is None else str(size) for size in sizes)
