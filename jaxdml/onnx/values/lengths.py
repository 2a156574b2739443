"""Sizes that are known while tracing only up to a bound: numbers with a name, among those that make up shapes."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np


class LengthError(Exception):
    """Something depends on a length, and cannot be computed for all that it may be; whoever knows the node says so."""


class Atom(NamedTuple):
    """A length that is no product of others.

    Attributes:
      key: equal for lengths that are equal whatever the values are.
      name: what errors call it.
      true: the number, traced.
      low: what it is at least.
      bound: what it is at most.
    """

    key: Hashable
    name: str
    true: Any
    low: int
    bound: int


@dataclass(frozen=True, eq=False)
class Length:
    """A product of a number and of atoms, which stand in a fixed order."""

    times: int
    atoms: tuple[Atom, ...]

    @property
    def key(self) -> Hashable:
        """What is equal for lengths that are equal."""
        return self.times, tuple(atom.key for atom in self.atoms)

    @property
    def own_key(self) -> Hashable:
        """The key of an atom that has this number."""
        return self.atoms[0].key if self.times == 1 and len(self.atoms) == 1 else self.key

    @property
    def true(self) -> Any:
        """The number, traced."""
        return self.times * math.prod((atom.true for atom in self.atoms[1:]), start=self.atoms[0].true)

    @property
    def bound(self) -> int:
        """What it is at most."""
        return self.times * math.prod(atom.bound for atom in self.atoms)

    @property
    def low(self) -> int:
        """What it is at least."""
        return self.times * math.prod(atom.low for atom in self.atoms)

    def __str__(self) -> str:
        names = " * ".join(atom.name for atom in self.atoms)
        return names if self.times == 1 else f"{self.times} * {names}"

    __repr__ = __str__

    def __add__(self, other: Any) -> Any:
        if is_number(other) and other == 0:
            return self
        if isinstance(other, Length) and _same_atoms(self, other):
            return _product(self.times + other.times, self.atoms)
        return _made("+", self, other, limits(self).low + limits(other).low, limits(self).bound + limits(other).bound)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if is_number(other) and other == 0:
            return self
        if isinstance(other, Length) and _same_atoms(self, other) and self.times >= other.times:
            return _product(self.times - other.times, self.atoms)
        return _made("-", self, other, limits(self).low - limits(other).bound, limits(self).bound - limits(other).low)

    def __rsub__(self, other: Any) -> Any:
        return _made("-", other, self, limits(other).low - self.bound, limits(other).bound - self.low)

    def __mul__(self, other: Any) -> Any:
        if is_number(other) and other >= 0:
            return _product(self.times * int(other), self.atoms)
        if not isinstance(other, Length) or min(self.low, other.low) < 0:
            raise LengthError(f"{self} * {other}")
        atoms = sorted((*self.atoms, *other.atoms), key=lambda atom: (atom.name, str(atom.key)))
        return _product(self.times * other.times, tuple(atoms))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        found = quotient(self, other) if other != 0 else None
        if found is not None:
            return found
        if not is_number(other) or other <= 0:
            raise LengthError(f"{self} / {other}")
        return _made("//", self, other, self.low // int(other), self.bound // int(other))

    def __rfloordiv__(self, other: Any) -> Any:
        raise LengthError(f"{other} / {self}")

    def _compare(self, other: Any, less: Any) -> bool:
        found = {less(low, high) for low, high in _extremes(self, other)}
        if len(found) > 1:
            raise LengthError(f"how {self} compares with {other}")
        return found.pop()

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Length) and not is_number(other):
            return False
        return same(self, other) or self._compare(other, lambda a, b: (a > b) - (a < b)) == 0

    def __lt__(self, other: Any) -> bool:
        return not same(self, other) and self._compare(other, lambda a, b: a < b)

    def __gt__(self, other: Any) -> bool:
        return not same(self, other) and self._compare(other, lambda a, b: a > b)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __hash__(self) -> int:
        return hash(self.key)

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        raise LengthError(f"the number {self}")

    __int__ = __float__ = __index__


class Limits(NamedTuple):
    """What a size is at least and at most."""

    low: int
    bound: int


def limits(size: Any) -> Limits:
    """Return what a size is at least and at most."""
    return Limits(size.low, size.bound) if isinstance(size, Length) else Limits(int(size), int(size))


def atom(key: Hashable, name: str, true: Any, bound: int, low: int = 0) -> Length:
    """Return a length of its own."""
    return Length(1, (Atom(key, name, true, low, bound),))


def is_number(size: Any) -> bool:
    """Whether a size is a known number."""
    return isinstance(size, int | np.integer)


def same(a: Any, b: Any) -> bool:
    """Whether two sizes are equal whatever the values are."""
    if isinstance(a, Length) and isinstance(b, Length):
        return a.key == b.key
    return is_number(a) and is_number(b) and int(a) == int(b)


def true(size: Any) -> Any:
    """Return a size as a number, traced or not."""
    return size.true if isinstance(size, Length) else size


def bounds(sizes: Iterable[Any]) -> tuple[int, ...]:
    """Return what sizes are at most."""
    return tuple(limits(size).bound for size in sizes)


def least(a: Any, b: Any) -> Any:
    """Return the smaller of two sizes."""
    return _extreme("min", a, b)


def greatest(a: Any, b: Any) -> Any:
    """Return the larger of two sizes."""
    return _extreme("max", a, b)


def product(sizes: Iterable[Any]) -> Any:
    """Return the product of sizes."""
    return math.prod(sizes)


def quotient(a: Any, b: Any) -> Any:
    """Return a size divided by another, or None where it is not a product that has the other in it."""
    ((m, numerator), (n, denominator)) = (
        (x.times, list(x.atoms)) if isinstance(x, Length) else (x, []) for x in (a, b)
    )
    keys = [each.key for each in denominator]
    for key in keys:
        place = next((i for i, each in enumerate(numerator) if each.key == key), None)
        if place is None:
            return None
        del numerator[place]
    return None if m % n else _product(m // n, tuple(numerator))


def has_lengths(value: Any) -> bool:
    """Whether a value is a NumPy array with lengths in it."""
    return isinstance(value, np.ndarray) and value.dtype == object and any(isinstance(x, Length) for x in value.flat)


def as_traced(value: np.ndarray) -> Any:
    """Return an array of sizes as an array of numbers that are not known while tracing."""
    elements = [jnp.asarray(true(size), jnp.int32) for size in value.flat]
    return jnp.stack(elements).reshape(value.shape)


def _product(times: int, atoms: tuple[Atom, ...]) -> Any:
    return Length(times, atoms) if times and atoms else times


def _same_atoms(a: Length, b: Length) -> bool:
    return [atom.key for atom in a.atoms] == [atom.key for atom in b.atoms]


def _key(size: Any) -> Hashable:
    return size.key if isinstance(size, Length) else int(size)


def _made(operation: str, a: Any, b: Any, low: int, bound: int) -> Length:
    computed = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "//": lambda a, b: a // b}
    computed |= {"min": jnp.minimum, "max": jnp.maximum}
    name = f"{operation}({a}, {b})" if operation in ("min", "max") else f"({a} {operation} {b})"
    return atom((operation, _key(a), _key(b)), name, computed[operation](true(a), true(b)), bound, low)


def _extreme(operation: str, a: Any, b: Any) -> Any:
    (low_a, high_a), (low_b, high_b) = limits(a), limits(b)
    if same(a, b) or (high_a <= low_b if operation == "min" else low_a >= high_b):
        return a
    if high_b <= low_a if operation == "min" else low_b >= high_a:
        return b
    choose = min if operation == "min" else max
    return _made(operation, a, b, choose(low_a, low_b), choose(high_a, high_b))


def _extremes(a: Any, b: Any) -> Sequence[tuple[int, int]]:
    (low_a, high_a), (low_b, high_b) = limits(a), limits(b)
    middle = [(low_a, high_b), (high_a, low_b), (low_a, low_b), (high_a, high_b)]
    # Where ranges overlap, the two may be equal.
    overlap = max(low_a, low_b)
    return [*middle, (overlap, overlap)] if overlap <= min(high_a, high_b) else middle
