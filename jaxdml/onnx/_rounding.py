"""Round lengths up between the programs of a call, so that another number of boxes is not another program."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml.onnx._bounded import Bounded, Identical
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx._lengths import Length, atom, true
from jaxdml.onnx._stored import as_jax, on_device
from jaxdml.onnx._values import channels_first

FEW = 16
"""What is shorter is rounded up to this."""


@dataclass(frozen=True, eq=False)
class Held:
    """A bounded array between two programs, a pytree.

    Attributes:
      array: longer than what counts.
      lengths: of the dimensions that have keys.
      keys: for each dimension, equal for lengths that are equal; None where all counts.
    """

    array: Any
    lengths: tuple[Any, ...]
    keys: tuple[Hashable, ...]


jax.tree_util.register_dataclass(Held, data_fields=["array", "lengths"], meta_fields=["keys"])


def rounded(graph: Graph, name: str, value: Any) -> Any:
    """Return what a stage on the host has found, its length rounded up to a power of two."""
    node = next(node for node in graph.nodes if name in node.outputs)
    keys = _keys(node, name)
    if not isinstance(value, np.ndarray | jax.Array):
        return value
    if len(keys) != value.ndim or not any(keys):
        return as_jax(value) if isinstance(value, np.ndarray) else value
    array = np.asarray(value)
    shape = [size if key is None else _power_of_two(size) for size, key in zip(array.shape, keys, strict=True)]
    padded = np.pad(array, [(0, more - size) for size, more in zip(array.shape, shape, strict=True)])
    lengths = tuple(np.int32(size) for size, key in zip(array.shape, keys, strict=True) if key is not None)
    return Held(padded, lengths, keys)


def _power_of_two(size: int) -> int:
    return max(1 << (size - 1).bit_length(), FEW) if size else FEW


def _keys(node: Node, name: str) -> tuple[Hashable, ...]:
    """Return keys of the dimensions of an output that depend on values."""
    key = (node.op_type, *node.inputs, *(() if node.op_type == "NonZero" else (node.name, name)))
    if node.op_type == "NonZero":
        return None, key
    if node.op_type == "NonMaxSuppression":
        return key, None
    if node.op_type != "If":
        return ()
    place = node.outputs.index(name)
    shapes = [graph.outputs[place].shape or () for graph in node.graphs()]
    if len({len(shape) for shape in shapes}) > 1:
        return ()
    return tuple(
        None if len(set(sizes)) == 1 and isinstance(sizes[0], int) else (*key, d)
        for d, sizes in enumerate(zip(*shapes, strict=True))
    )


def opened(value: Any) -> Any:
    """Return what a program computes with."""
    if not isinstance(value, Held):
        return value
    lengths = iter(value.lengths)
    sizes = [
        size if key is None else atom(key, "a length", jnp.asarray(next(lengths), jnp.int32), size)
        for size, key in zip(value.array.shape, value.keys, strict=True)
    ]
    return Bounded(value.array, tuple(sizes))


def held(value: Bounded, *result: Hashable) -> Held:
    """Return what a program hands to the next one; ``result`` says which of the results it is."""
    lengths = tuple(jnp.asarray(true(size), jnp.int32) for size in value.sizes if isinstance(size, Length))
    keys = tuple(
        _stable(size.key, *result, place) if isinstance(size, Length) else None
        for place, size in enumerate(value.sizes)
    )
    return Held(on_device(channels_first(value.value)), lengths, keys)


def _stable(key: Hashable, *otherwise: Hashable) -> Hashable:
    """Return a key that means the same in another trace, or else what stands for it."""
    return otherwise if _is_of_a_trace(key) else key


def _is_of_a_trace(key: Hashable) -> bool:
    return isinstance(key, Identical) or (isinstance(key, tuple) and any(map(_is_of_a_trace, key)))


def exact(value: Any) -> Any:
    """Return an array in its true shape."""
    if not isinstance(value, Held):
        return value
    lengths = iter(value.lengths)
    places = [slice(None) if key is None else slice(int(next(lengths))) for key in value.keys]
    return np.asarray(value.array)[tuple(places)]


def on_device_exactly(value: Any) -> Any:
    """Return an output of the model, in its true shape."""
    return jax.device_put(exact(value)) if isinstance(value, Held) else value
