"""Dimensions of inputs that a model leaves open: how they are called, and which lengths a caller names for them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import jax

from jaxdml._base import errors
from jaxdml.onnx._graph import TensorType
from jaxdml.onnx.running.signatures import is_in_one_place
from jaxdml.onnx.values.capacities import LEAST, Free, Keyed, Sizes

Lengths = Literal["rounded", "exact"] | Mapping[str, Any]
"""For all dimensions, or by name; for each of them a list of lengths, which may end with ``...``, or one of the two."""


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


class OpenDimensions:
    """What calls of a model have shown of its open dimensions.

    A dimension that had one length only is a number; from the second length on it is rounded up.
    """

    def __init__(self, lengths: Lengths) -> None:
        self._lengths = lengths
        self._first: dict[str, int] = {}
        self._varying: set[str] = set()

    def keyed(self, values: Sequence[TensorType], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs, those with keys that have dimensions of varying lengths."""
        if self._lengths == "exact" or not all(map(is_in_one_place, jax.tree.leaves(list(given.values())))):
            return dict(given)
        named = {
            value.name: tuple(names(value, given[value.name].ndim))
            for value in values
            if value.name in given and not value.within
        }
        sizes: dict[str, set[int]] = {}
        for input_name, own in named.items():
            for name, size in zip(own, given[input_name].shape, strict=True):
                if name is not None:
                    sizes.setdefault(name, set()).add(size)
        keyed = dict(given)
        for input_name, own in named.items():
            shape = given[input_name].shape
            keys = tuple(
                self._key(f"{input_name}[{axis}]" if len(sizes.get(name or "", ())) > 1 else name, size)
                for axis, (name, size) in enumerate(zip(own, shape, strict=True))
            )
            if any(key is not None for key in keys):
                keyed[input_name] = Keyed(given[input_name], keys)
        return keyed

    def _key(self, name: str | None, size: int) -> Free | None:
        """Return the key of a dimension, or None if it is a number."""
        if name is None:
            return None
        how = self._of(name)
        if how == "exact":
            return None
        if how == "rounded" and self._first.setdefault(name, size) != size:
            self._varying.add(name)
        return Free(name) if size >= LEAST and (how != "rounded" or name in self._varying) else None

    def _of(self, name: str) -> Any:
        return self._lengths.get(name, "rounded") if isinstance(self._lengths, Mapping) else self._lengths

    def named(self, values: Mapping[str, Any]) -> Sizes:
        """Return the lengths that the caller has named, by key, for inputs."""
        found: dict[Any, int] = {}
        for value in values.values():
            for size, key in zip(value.array.shape, value.keys, strict=True) if isinstance(value, Keyed) else ():
                if isinstance(key, Free) and not isinstance(how := self._of(key.name), str):
                    length = next((n for n in how if n is not ... and n >= size), None)
                    if length is not None:
                        found[key] = length
                    elif how[-1] is not ...:
                        raise _too_long(key.name, size, how)
        return found


def _too_long(name: str, size: int, lengths: Sequence[int]) -> ValueError:
    rule = f"'{name}' has length {size}, and the greatest that lengths names is {lengths[-1]}."
    details = (
        f"lengths: {list(lengths)}",
        "Name a greater one, or end them with ... so that what is longer is rounded up.",
    )
    return ValueError(errors.compose("onnx.Model", rule, *details))
