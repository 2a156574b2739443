"""Round lengths up between the programs of a call, so that another number of boxes is not another program."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import ge
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.values.bounded import Bounded, Identical
from jaxdml.onnx.values.kinds import channels_first
from jaxdml.onnx.values.lengths import Length, atom, true
from jaxdml.onnx.values.stored import as_jax, on_device

FEW = 16
"""What is shorter is rounded up to this."""

WASTE = 2
"""A program serves if the lengths that it is compiled for are together at most so many times those that are wanted."""

Seen = dict[Hashable, list[tuple[int, ...]]]
"""The rounded lengths that earlier calls have found in one stage, by what they are lengths of."""


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


def rounded(graph: Graph, names: Sequence[str], values: Sequence[Any], seen: Seen) -> tuple[Any, ...]:
    """Return what a stage on the host has found, its lengths rounded up to sizes that few programs serve.

    Args:
      graph: of the stage.
      names: of its outputs.
      values: what they are.
      seen: the sizes of earlier calls; new ones are added.
    """
    keys = tuple(_keys(graph, *each) for each in zip(names, values, strict=True))
    wanted = tuple(
        _power_of_two(size)
        for value, own in zip(values, keys, strict=True)
        for size, key in zip(value.shape if own else (), own, strict=True)
        if key is not None
    )
    sizes = iter(_chosen(wanted, seen.setdefault(keys, [])))
    return tuple(_longer(value, own, sizes) for value, own in zip(values, keys, strict=True))


def _longer(value: Any, keys: tuple[Hashable, ...], sizes: Iterator[int]) -> Any:
    """Return an array that is longer where it has keys; any other value as it is."""
    if not keys:
        return as_jax(value) if isinstance(value, np.ndarray) else value
    array = np.asarray(value)
    more = [0 if key is None else next(sizes) - size for size, key in zip(array.shape, keys, strict=True)]
    lengths = tuple(np.int32(size) for size, key in zip(array.shape, keys, strict=True) if key is not None)
    return Held(np.pad(array, [(0, each) for each in more]), lengths, keys)


def _chosen(wanted: tuple[int, ...], seen: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return sizes that are enough: of an earlier call, if they are not much more, else new ones.

    Several lengths that vary independently would else be a program for each combination.
    """
    most = WASTE * sum(wanted)
    enough = [sizes for sizes in seen if all(map(ge, sizes, wanted)) and sum(sizes) <= most]
    if enough:
        return min(enough, key=sum)
    greatest = tuple(map(max, wanted, seen[-1])) if seen else wanted
    seen.append(greatest if sum(greatest) <= most else wanted)
    return seen[-1]


def _power_of_two(size: int) -> int:
    return max(1 << (size - 1).bit_length(), FEW) if size else FEW


def _keys(graph: Graph, name: str, value: Any) -> tuple[Hashable, ...]:
    """Return keys of the dimensions of an output that depend on values; none where no dimension does."""
    if not isinstance(value, np.ndarray | jax.Array):
        return ()
    found = _keys_of_output(next(node for node in graph.nodes if name in node.outputs), name)
    return found if len(found) == value.ndim and any(key is not None for key in found) else ()


def _keys_of_output(node: Node, name: str) -> tuple[Hashable, ...]:
    key = (node.op_type, *node.inputs, *(() if node.op_type == "NonZero" else (node.name, name)))
    if node.op_type == "NonZero":
        return None, key
    if node.op_type == "NonMaxSuppression":
        return key, None
    if node.op_type != "If":
        return ()
    place = node.outputs.index(name)
    shapes = [graph.outputs[place].shape or () for graph in node.graphs]
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
        _stable(size.own_key, *result, place) if isinstance(size, Length) else None
        for place, size in enumerate(value.sizes)
    )
    return Held(on_device(channels_first(value.value)), lengths, keys)


def _stable(key: Hashable, *otherwise: Hashable) -> Hashable:
    """Return a key that means the same in another trace, or else what stands for it."""
    return otherwise if _is_of_a_trace(key) else key


def _is_of_a_trace(key: Hashable) -> bool:
    return isinstance(key, Identical) or (isinstance(key, tuple) and any(map(_is_of_a_trace, key)))


def cut(value: Any) -> Any:
    """Return an array in its true shape."""
    if not isinstance(value, Held):
        return value
    lengths = iter(value.lengths)
    places = [slice(None) if key is None else slice(int(next(lengths))) for key in value.keys]
    return np.asarray(value.array)[tuple(places)]


def cut_on_device(value: Any) -> Any:
    """Return an output of the model, in its true shape."""
    return jax.device_put(cut(value)) if isinstance(value, Held) else value
