"""Keys of jax.random for the nodes of a model: every node has its own, in every turn of a loop."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base import errors
from jaxdml.onnx._graph import Graph, Node


@dataclass(frozen=True)
class Randomness:
    """What the keys of nodes follow from.

    Attributes:
      key: of the call, folded with the number of each turn of a loop around; None where none is given.
      places: of nodes, by name.
    """

    key: Any
    places: Mapping[str, int]

    def of(self, node: Node) -> Any:
        """Return the key of a node."""
        if self.key is None:
            rule = f"{node} is random, and the call gives no key."
            advice = "Give one: model(..., key=jax.random.key(0)), or model.apply(params, *inputs, key=key)."
            raise ValueError(errors.compose("onnx.Model", rule, advice, "Calls with one key draw the same numbers."))
        return jax.random.fold_in(self.key, self.places[node.name])

    def in_turn(self, node: Node, number: Any) -> "Randomness":
        """Return what a loop's body has in one turn; ``number`` is None where the body has one turn only."""
        if self.key is None or number is None:
            return self
        return replace(self, key=jax.random.fold_in(self.of(node), number))


def must_be_key(key: Any) -> None:
    """Refuse what is neither one key of jax.random nor None."""
    if key is None:
        return
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (shape == () if typed else dtype == np.uint32 and len(shape or ()) == 1):
        advice = "Give one key, as jax.random.key(0) is; jax.vmap maps over several."
        raise TypeError(errors.message("onnx.Model", "key is no key of jax.random.", {"key": key}, advice))


def randomness(graph: Graph, key: Any) -> Randomness:
    """Return what a call with this key, or None, has."""
    if key is None:
        return Randomness(None, {})
    must_be_key(key)
    return Randomness(key, {node.name: place for place, node in enumerate(graph.walk())})
