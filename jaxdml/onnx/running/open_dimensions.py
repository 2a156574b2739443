"""Dimensions of inputs that a model leaves open: how they are called, and which lengths a caller names for them."""

from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base import errors
from jaxdml.onnx._graph import TensorType
from jaxdml.onnx.running.signatures import is_in_one_place
from jaxdml.onnx.values.bounded import Bounded, Padded, report
from jaxdml.onnx.values.held import LEAST, Free, Held, Keyed, Sizes
from jaxdml.onnx.values.lengths import atom, is_number

Lengths = Literal["rounded", "exact"] | Mapping[str, Any]
"""For all dimensions, or by name; for each of them a list of lengths, which may end with ``...``, or one of the two."""

SOME = 16
"""A report asks about lengths up to this, or up to the size that fits if it is larger."""


def names(value: TensorType, rank: int) -> Iterator[str | None]:
    """Yield the names of an input's dimensions; None for those that the model gives a number."""
    for axis, size in enumerate(value.shape or (None,) * rank):
        yield None if isinstance(size, int) else size or f"{value.name}[{axis}]"


def must_be_lengths(inputs: Sequence[TensorType], lengths: Any) -> None:
    """Refuse names of dimensions that a model does not have, and lengths that are none."""
    if lengths in ("rounded", "exact"):
        return
    if not isinstance(lengths, Mapping):
        rule = f"lengths is {lengths!r}."
        advice = 'Give "rounded", "exact", or a list for each dimension by name, such as {"width": [160, 320]}.'
        raise ValueError(errors.compose("onnx.load", rule, advice))
    known = dict.fromkeys(name for value in inputs for name in names(value, len(value.shape or ())) if name)
    known |= dict.fromkeys(f"{value.name}[{axis}]" for value in inputs for axis in range(len(value.shape or ())))
    for name, each in lengths.items():
        if name not in known and not any(name.startswith(f"{value.name}[") for value in inputs if not value.shape):
            rule = f"lengths has {name!r}, which names no open dimension of an input."
            raise ValueError(errors.compose("onnx.load", rule, f"Open dimensions are {', '.join(map(repr, known))}."))
        if each in ("rounded", "exact"):
            continue
        numbers = list(each[:-1] if each and each[-1] is ... else each) if isinstance(each, list | tuple) else []
        increasing = all(isinstance(n, int) and 0 < n < 2**31 for n in numbers) and numbers == sorted(set(numbers))
        if not numbers or not increasing:
            rule = f"lengths has {each!r} for '{name}'."
            raise ValueError(errors.compose("onnx.load", rule, "Give positive numbers in increasing order."))


def padded_inputs(inputs: Sequence[TensorType], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs, those that are padded with lengths along their open dimensions."""
    return {
        value.name: _bounded(value, given[value.name]) if isinstance(given[value.name], Padded) else given[value.name]
        for value in inputs
    }


def _bounded(value: TensorType, given: Padded) -> Any:
    shape = given.array.shape
    if len(given.lengths) != len(shape):
        rule = f"input '{value.name}' is padded and has {len(shape)} dimensions, with {len(given.lengths)} lengths."
        raise ValueError(errors.compose("onnx.Model", rule, "Give the size of each dimension."))
    sizes: list[Any] = list(shape)
    for axis, (name, size) in enumerate(zip(names(value, len(shape)), shape, strict=True)):
        if name is not None and not (is_number(given.lengths[axis]) and given.lengths[axis] == size):
            length = jnp.asarray(given.lengths[axis], jnp.int32)
            report(length <= size, f"'{name}' has length {{length}}, and its array has {size}", length=length)
            sizes[axis] = atom(Free(name), f"'{name}'", jnp.clip(length, 0, size), size)
    return Bounded(given.array, tuple(sizes))


class _Open(NamedTuple):
    """A dimension that the model leaves open, and what the caller says of its lengths."""

    key: Free
    lengths: Any


class OpenDimensions:
    """The open dimensions of a model's inputs, and what calls have shown of them.

    A dimension that has had one length only is a number; from the second length on it is rounded up. So the first
    shape keeps its program.
    """

    def __init__(self, inputs: Sequence[TensorType], lengths: Lengths) -> None:
        self._inputs = inputs
        self._lengths = lengths
        self._first: dict[Free, int] = {}
        self._longest: dict[Free, int] = {}
        self._varying: set[Free] = set()

    def keyed(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], Sizes]:
        """Return inputs, those with keys that have dimensions of varying lengths, and what the caller says of these."""
        keyed, named = dict(given), dict[Hashable, int]()
        if self._lengths == "exact" or not all(map(is_in_one_place, jax.tree.leaves(list(given.values())))):
            return keyed, named
        pairs_of = {
            name: list(zip(dimensions, given[name].shape, strict=True)) for name, dimensions in self._of(given).items()
        }
        lengths = [(each, size) for pairs in pairs_of.values() for each, size in pairs if each]
        for each, size in lengths:
            self._longest[each.key] = max(size, self._longest.get(each.key, size))
        varying = self._varying_of({each.key: size for each, size in lengths if each.lengths == "rounded"})
        varying |= {each.key for each, _ in lengths if not isinstance(each.lengths, str)}
        for name, pairs in pairs_of.items():
            keys = tuple(each.key if each and each.key in varying and size >= LEAST else None for each, size in pairs)
            if any(keys):
                longest = tuple(self._longest[each.key] if each else size for each, size in pairs)
                keyed[name] = Keyed(given[name], keys, longest)
            named |= {
                each.key: length
                for each, size in pairs
                if each and each.key in keys and (length := _least(each, size)) is not None
            }
        return keyed, named

    def every(self, given: Mapping[str, Any], numbers: Container[Hashable]) -> dict[str, Any]:
        """Return shapes of inputs, with a length along each open dimension, but those that have to be numbers."""
        held = dict(given)
        for name, dimensions in self._of(given).items():
            keys = tuple(
                each.key if each and each.lengths != "exact" and each.key not in numbers else None
                for each in dimensions
            )
            if any(keys):
                shape = [max(n, SOME) if key else n for n, key in zip(given[name].shape, keys, strict=True)]
                number = jax.ShapeDtypeStruct((), np.int32)  # type: ignore[no-untyped-call]
                array = jax.ShapeDtypeStruct(shape, given[name].dtype)  # type: ignore[no-untyped-call]
                held[name] = Held(array, (number,) * sum(key is not None for key in keys), keys)
        return held

    def _of(self, given: Mapping[str, Any]) -> dict[str, tuple[_Open | None, ...]]:
        """Return the dimensions of arrays by name: what has one name and several sizes is called by input and axis."""
        arrays = [value for value in self._inputs if value.name in given and not value.within]
        called = {value.name: tuple(names(value, given[value.name].ndim)) for value in arrays}
        sizes: dict[str | None, set[int]] = {}
        for name, own in called.items():
            for each, size in zip(own, given[name].shape, strict=True):
                sizes.setdefault(each, set()).add(size)
        return {
            name: tuple(
                None if each is None else self._open(each, f"{name}[{axis}]", alone=len(sizes[each]) == 1)
                for axis, each in enumerate(own)
            )
            for name, own in called.items()
        }

    def _open(self, declared: str, place: str, *, alone: bool) -> _Open:
        """Return a dimension, called as lengths are named for it, or else by its own name if that has one size."""
        if not isinstance(self._lengths, Mapping):
            return _Open(Free(declared if alone else place), self._lengths)
        by_place = place in self._lengths or not alone
        lengths = self._lengths.get(place, self._lengths.get(declared, "rounded"))
        return _Open(Free(place if by_place else declared), lengths)

    def _varying_of(self, sizes: Mapping[Free, int]) -> set[Free]:
        """Return which dimensions are rounded up: none, where all have the lengths of the first call."""
        differing = {key for key, size in sizes.items() if self._first.setdefault(key, size) != size}
        self._varying |= differing
        return self._varying & sizes.keys() if differing else set()


def _least(dimension: _Open, size: int) -> int | None:
    """Return the least length that a caller has named and that is enough, or None if it is rounded up."""
    if isinstance(dimension.lengths, str):
        return None
    found = next((length for length in dimension.lengths if length is ... or length >= size), None)
    if found is None:
        greatest = dimension.lengths[-1]
        rule = f"'{dimension.key.name}' has length {size}, and the greatest that lengths names is {greatest}."
        advice = "Name a greater one, or end them with ... so that what is longer is rounded up."
        raise ValueError(errors.compose("onnx.Model", rule, f"lengths: {list(dimension.lengths)}", advice))
    return None if found is ... else found
