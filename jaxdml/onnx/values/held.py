"""Arrays that are longer than what counts, as programs that serve several lengths get and return them."""

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.values.bounded import Bounded, is_of_a_trace
from jaxdml.onnx.values.kinds import Value, channels_first
from jaxdml.onnx.values.lengths import Length, atom, true
from jaxdml.onnx.values.stored import as_jax, on_device

LEAST = 2
"""Lengths of open dimensions that are rounded up: operators treat 0 and 1 in ways of their own."""


class Free(NamedTuple):
    """The key of a dimension that a model leaves open, whose length is neither 0 nor 1: these are as they are."""

    name: str


@dataclass(frozen=True, eq=False)
class Keyed:
    """An array in its true shape, some of whose dimensions vary from call to call.

    Attributes:
      array: the array.
      keys: for each dimension that varies, equal for lengths that are equal; None for the others.
      longest: for each dimension, the greatest length that calls are known to have had.
    """

    array: Any
    keys: tuple[Hashable, ...]
    longest: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Held:
    """A bounded array that a program gets or returns, a pytree.

    Attributes:
      array: longer than what counts.
      lengths: of the dimensions that have keys.
      keys: for each dimension, equal for lengths that are equal; None where all counts.
    """

    array: Any
    lengths: tuple[Any, ...]
    keys: tuple[Hashable, ...]


jax.tree_util.register_dataclass(Held, data_fields=["array", "lengths"], meta_fields=["keys"])
export.register_pytree_node_serialization(
    Held,
    serialized_name="jaxdml.onnx.Held",
    serialize_auxdata=lambda static: json.dumps([_written(key) for key in static[0]]).encode(),
    deserialize_auxdata=lambda text: (tuple(None if key is None else Free(key) for key in json.loads(text)),),
)


def _written(key: Hashable) -> str | None:
    """Return a key as text; what is cut by a key need only know that it is there."""
    return key.name if isinstance(key, Free) else None if key is None else str(key)


Sizes = Mapping[Hashable, int]
"""Sizes of dimensions by key."""


def keyed(graph: Graph, name: str, value: Value) -> Any:
    """Return what a stage on the host has found, with keys where its shape depends on values."""
    if not isinstance(value, np.ndarray | jax.Array):
        return value
    keys = _keys_of_output(next(node for node in graph.nodes if name in node.outputs), name)
    if len(keys) == value.ndim and any(key is not None for key in keys):
        return Keyed(np.asarray(value), keys, value.shape)
    return as_jax(value) if isinstance(value, np.ndarray) else value


def _keys_of_output(node: Node, name: str) -> tuple[Hashable, ...]:
    key = (node.op_type, *node.inputs, *(() if node.op_type == "NonZero" else (node.name, name)))
    if node.op_type == "NonZero":
        return None, key
    if node.op_type == "NonMaxSuppression":
        return key, None
    if node.op_type == "Range":
        return (key,)
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


def longer(value: Any, sizes: Sizes) -> Any:
    """Return an array that is longer where it has keys; any other value as it is."""
    if not isinstance(value, Keyed):
        return value
    pairs = list(zip(value.array.shape, value.keys, strict=True))
    lengths = tuple(np.int32(size) for size, key in pairs if key is not None)
    return Held(padded(value.array, tuple(sizes.get(key, size) for size, key in pairs)), lengths, value.keys)


def padded(array: Any, shape: tuple[int, ...]) -> Any:
    """Return an array that begins with another one, or is it."""
    if array.shape == shape:
        return array
    whole = np.empty(shape, array.dtype)
    whole[...] = fill(array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return _where(array, whole)


def _where(array: Any, made: np.ndarray) -> Any:
    """Return what is made of an array, on its device if JAX has been told one."""
    return jax.device_put(made, array.sharding) if isinstance(array, jax.Array) and array.committed else made


def fill(dtype: np.dtype[Any]) -> Any:
    """Return what stands where no element of an input counts: whatever it is, no result depends on it."""
    return np.zeros((), dtype)


def without_keys(value: Any, keys: Iterable[Hashable]) -> Any:
    """Return an array in its true shape along dimensions of these keys, which have none then."""
    if not isinstance(value, Keyed | Held) or not set(keys).intersection(value.keys):
        return value
    left = tuple(None if key in keys else key for key in value.keys)
    if isinstance(value, Held):
        lengths = dict(zip((key for key in value.keys if key is not None), value.lengths, strict=True))
        places = [slice(int(lengths[key])) if key in lengths and key in keys else slice(None) for key in value.keys]
        array = np.asarray(value.array)[tuple(places)]
        value = Held(array, tuple(lengths[key] for key in left if key is not None), left)
    else:
        value = replace(value, keys=left)
    return value if any(key is not None for key in left) else value.array


def keys_of(values: Iterable[Any]) -> dict[Hashable, None]:
    """Return the keys of arrays, each once and in order."""
    found = (key for value in values if isinstance(value, Keyed | Held) for key in value.keys)
    return dict.fromkeys(key for key in found if key is not None)


def opened(value: Any) -> Any:
    """Return what a program computes with."""
    if not isinstance(value, Held):
        return value
    lengths = iter(value.lengths)
    sizes = [size if key is None else _length(key, next(lengths), size) for size, key in _dimensions(value)]
    return Bounded(value.array, tuple(sizes))


def _dimensions(value: Held) -> Iterable[tuple[int, Hashable]]:
    return zip(value.array.shape, value.keys, strict=True)


def _length(key: Hashable, found: Any, bound: int) -> Length:
    number = jnp.asarray(found, jnp.int32)
    if isinstance(key, Free):
        return atom(key, f"'{key.name}'", number, bound, LEAST)
    return atom(key, "a length", number, bound)


def held(value: Any, *result: Hashable) -> Any:
    """Return what a program hands to the next one; ``result`` says which of the results it is."""
    if isinstance(value, list):
        return [held(each, *result, place) for place, each in enumerate(value)]
    if not isinstance(value, Bounded):
        return None if value is None else on_device(channels_first(value))
    lengths = tuple(jnp.asarray(true(size), jnp.int32) for size in value.sizes if isinstance(size, Length))
    keys = tuple(
        _stable(size.own_key, *result, place) if isinstance(size, Length) else None
        for place, size in enumerate(value.sizes)
    )
    return Held(on_device(channels_first(value.value)), lengths, keys)


def _stable(key: Hashable, *otherwise: Hashable) -> Hashable:
    """Return a key that means the same in another trace, or else what stands for it."""
    return otherwise if is_of_a_trace(key) else key


def cut(value: Any) -> Any:
    """Return an array in its true shape."""
    return without_keys(value, keys_of([value]))


Places = tuple[slice, ...] | list[Any] | None
"""Where in a program's result the elements are that count; None where all do."""


def places(value: Any) -> Places:
    """Return where in an output of the model the elements are that count."""
    if isinstance(value, list):
        return [places(each) for each in value]
    if not isinstance(value, Held):
        return None
    lengths = iter(value.lengths)
    true = tuple(size if key is None else int(next(lengths)) for size, key in _dimensions(value))
    return None if true == value.array.shape else tuple(map(slice, true))


def cut_at(value: Any, where: Places) -> Any:
    """Return an output of the model, in its true shape."""
    if isinstance(value, list):
        return [cut_at(*pair) for pair in zip(value, where or (), strict=True)]
    if isinstance(value, Keyed):
        return jax.device_put(value.array)
    array = value.array if isinstance(value, Held) else value
    return array if where is None else jax.device_put(_where(array, np.asarray(array)[tuple(where)]))
