"""What stands in the way of a program for several lengths: nodes that cannot mask one of them.

Such a node is computed as if the length were a number, so one trace of a graph finds all lengths that need to be.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from jaxdml._base.scoped import scoped
from jaxdml.onnx._errors import NotKnownError, UnsupportedModelError
from jaxdml.onnx._graph import Node
from jaxdml.onnx.values.bounded import Bounded, bounded
from jaxdml.onnx.values.lengths import Atom, Length, LengthError, has_lengths
from jaxdml.onnx.values.tabled import Tabled

REFUSALS = LengthError, NotKnownError, UnsupportedModelError
"""What a node raises that cannot mask a length."""


class InTheWayError(Exception):
    """Lengths have to be numbers; for each of their keys a sentence says why."""

    def __init__(self, why: Mapping[Hashable, str]) -> None:
        super().__init__(why)
        self.why = why


class _Watched(NamedTuple):
    """The keys of the lengths that a program is to serve, and why some of them have to be numbers."""

    keys: tuple[Hashable, ...]
    why: dict[Hashable, str]


_WATCHED: ContextVar[_Watched | None] = ContextVar("watched", default=None)


@contextmanager
def watched(keys: Iterable[Hashable], active: bool) -> Iterator[None]:
    """Raise an ``InTheWayError`` at the end of the block if nodes within cannot mask lengths of some keys.

    It is about no key if the nodes refuse any length, in a block that is active: one that may have such lengths.
    """
    found = _Watched(tuple(keys), {})
    with scoped(_WATCHED, found):
        try:
            yield
        except (NotImplementedError, ValueError, TypeError) as error:
            if not active:
                raise
            raise InTheWayError(found.why or dict.fromkeys(found.keys, _reason(error))) from error
    if found.why:
        raise InTheWayError(found.why)


def passed(node: Node, operands: list[Any], compute: Callable[[list[Any]], Any]) -> Any:
    """Compute a node; where it cannot mask lengths, with as few of them as numbers as it wants."""
    try:
        return compute(operands)
    except REFUSALS as error:
        found = _WATCHED.get()
        keys = _keys(operands, found.keys) if found else []
        if found is None or not keys:
            raise
        why = f"{node} needs to know {error}" if isinstance(error, LengthError) else _reason(error)
        for count in range(1, len(keys) + 1):
            for some in combinations(keys, count):
                try:
                    results = compute([_with_numbers(operand, some) for operand in operands])
                except REFUSALS:
                    continue
                found.why.update({key: why for key in some if key not in found.why})
                return results
        found.why.update({key: why for key in keys if key not in found.why})
        raise


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0].removeprefix("jaxdml.onnx.Model: ").rstrip(".")


def _keys(operands: list[Any], keys: tuple[Hashable, ...]) -> list[Hashable]:
    """Return those keys of which a length of an operand is made."""
    made = {atom.key for operand in operands for size in _sizes(operand) for atom in _atoms(size)}
    return [key for key in keys if any(_mentions(each, key) for each in made)]


def _sizes(operand: Any) -> Iterable[Any]:
    return operand.sizes if isinstance(operand, Bounded) else operand.flat if has_lengths(operand) else ()


def _atoms(size: Any) -> list[Atom]:
    if isinstance(size, Tabled):
        return [size.of]
    return [atom for _, atoms in size.terms for atom in atoms] if isinstance(size, Length) else []


def _mentions(key: Hashable, wanted: Hashable) -> bool:
    return key == wanted or (isinstance(key, tuple) and any(_mentions(each, wanted) for each in key))


def _with_numbers(operand: Any, keys: tuple[Hashable, ...]) -> Any:
    """Return an operand without lengths of these keys: arrays count up to their capacities there."""
    if isinstance(operand, Bounded):
        return bounded(operand.value, [_number(size, keys) for size in operand.sizes])
    if not has_lengths(operand):
        return operand
    found = np.empty(operand.size, object)
    found[:] = [_number(size, keys) for size in operand.flat]
    return (found if has_lengths(found) else np.array(found.tolist())).reshape(operand.shape)


def _number(size: Any, keys: tuple[Hashable, ...]) -> Any:
    """Return a size in which lengths of these keys are such that it is as large as it may be."""
    if isinstance(size, Tabled):
        gone = any(_mentions(size.of.key, key) for key in keys)
        return size.values[size.of.bound - size.of.low] if gone else size
    if not isinstance(size, Length):
        return size
    total: Any = 0
    for times, atoms in size.terms:
        product: Any = times
        for atom in atoms:
            gone = any(_mentions(atom.key, key) for key in keys)
            product = product * ((atom.bound if times > 0 else atom.low) if gone else Length(((1, (atom,)),)))
        total = total + product
    return total
