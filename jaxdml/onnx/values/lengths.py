"""Sizes that are known while tracing only up to a bound: numbers with a name, among those that make up shapes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np


class LengthError(Exception):
    """Something depends on a length, and cannot be computed for all that it may be; whoever knows the node says so."""


class Computed(ABC):
    """A number that is not known while tracing."""

    @property
    @abstractmethod
    def true(self) -> Any:
        """The number, traced."""


class Atom(NamedTuple):
    """A length that is no product of others.

    Attributes:
      key: equal for lengths that are equal whatever the values are.
      name: what errors call it.
      true: the number, traced.
      low: what it is at least.
      bound: what it is at most.
      fraction: a length and a number that divides it, if this is the quotient.
      table: an atom that it follows from, and what it is for each number that this may be, if that is known.
    """

    key: Hashable
    name: str
    true: Any
    low: int
    bound: int
    fraction: "tuple[Length, int] | None" = None
    table: "tuple[Atom, np.ndarray] | None" = None


Product = tuple[Atom, ...]
"""Atoms in a fixed order."""


@dataclass(frozen=True, eq=False)
class Length(Computed):
    """A sum of products of atoms, each with a factor that is not 0.

    Attributes:
      terms: factors by product, in a fixed order; that of no atoms is a number.
    """

    terms: tuple[tuple[int, Product], ...]

    @property
    def key(self) -> Hashable:
        """What is equal for lengths that are equal."""
        return tuple((times, _keys(atoms)) for times, atoms in self.terms)

    @property
    def own_key(self) -> Hashable:
        """The key of an atom that has this number."""
        times, atoms = self.terms[0]
        return atoms[0].key if len(self.terms) == times == len(atoms) == 1 else self.key

    @property
    def true(self) -> Any:
        """The number, traced."""
        first, *others = (
            times if not atoms else times * math.prod((each.true for each in atoms[1:]), start=atoms[0].true)
            for times, atoms in self.terms
        )
        return sum(others, start=first)

    @property
    def bound(self) -> int:
        """What it is at most."""
        return sum(
            times * math.prod(each.bound if times > 0 else each.low for each in atoms) for times, atoms in self.terms
        )

    @property
    def low(self) -> int:
        """What it is at least."""
        return sum(
            times * math.prod(each.low if times > 0 else each.bound for each in atoms) for times, atoms in self.terms
        )

    def __str__(self) -> str:
        text = ""
        for times, atoms in self.terms:
            factor = [] if abs(times) == 1 and atoms else [str(abs(times))]
            text += (" - " if times < 0 else " + ") + " * ".join([*factor, *(each.name for each in atoms)])
        return text[3:] if text.startswith(" +") else f"-{text[3:]}"

    __repr__ = __str__

    def __add__(self, other: Any) -> Any:
        return _sum((*self.terms, *_terms(other)))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + other * -1

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __mul__(self, other: Any) -> Any:
        terms = _terms(other)
        if any(each.low < 0 for _, atoms in (*self.terms, *terms) for each in atoms) and not is_number(other):
            raise LengthError(f"{self} * {other}")
        return _sum((m * n, _ordered((*a, *b))) for m, a in self.terms for n, b in terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        found = quotient(self, other) if other != 0 else None
        if found is not None:
            return found
        if not is_number(other) or other <= 0:
            raise LengthError(f"{self} / {other}")
        by = int(other)
        # What divides leaves the fraction to the rest.
        whole = _sum((-(-times // by) if atoms and times < 0 else times // by, atoms) for times, atoms in self.terms)
        return whole + _divided(self - whole * by, by)

    def __rfloordiv__(self, other: Any) -> Any:
        raise LengthError(f"{other} / {self}")

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other

    def __rmod__(self, other: Any) -> Any:
        raise LengthError(f"{other} % {self}")

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Length) and not is_number(other):
            return False
        low, bound = limits(self - other)
        if low <= 0 <= bound and low < bound:
            raise LengthError(f"how {self} compares with {other}")
        return low == bound == 0

    def __lt__(self, other: Any) -> bool:
        low, bound = limits(self - other)
        if low < 0 <= bound:
            raise LengthError(f"how {self} compares with {other}")
        return bound < 0

    def __gt__(self, other: Any) -> bool:
        return self * -1 < other * -1

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
    return Length(((1, (Atom(key, name, true, low, bound),)),))


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
    return size.true if isinstance(size, Computed) else size


def bounds(sizes: Iterable[Any]) -> tuple[int, ...]:
    """Return what sizes are at most."""
    return tuple(limits(size).bound for size in sizes)


def least(a: Any, b: Any) -> Any:
    """Return the smaller of two sizes."""
    return _extreme("min", a, b)


def greatest(a: Any, b: Any) -> Any:
    """Return the larger of two sizes."""
    return _extreme("max", a, b)


def atoms_of(size: Any) -> tuple[Atom, ...]:
    """Return the atoms of a size."""
    return tuple(each for _, atoms in size.terms for each in atoms) if isinstance(size, Length) else ()


def product(sizes: Iterable[Any]) -> Any:
    """Return the product of sizes."""
    return math.prod(sizes)


def quotient(a: Any, b: Any) -> Any:
    """Return a size divided by another, or None where it is not a product that has the other in it."""
    rest, divisor, found = a, _terms(b), []
    places = sorted({each.key for x in (a, b) for _, atoms in _terms(x) for each in atoms}, key=str)

    def degrees(term: tuple[int, Product]) -> list[int]:
        return [_keys(term[1]).count(key) for key in places]

    n, atoms = max(divisor, key=degrees)
    while (terms := _terms(rest)) and terms != ((0, ()),):
        m, left = max(terms, key=degrees)
        kept = list(left)
        for key in _keys(atoms):
            place = next((place for place, each in enumerate(kept) if each.key == key), None)
            if place is None:
                return None
            del kept[place]
        if m % n:
            return None
        found.append((m // n, tuple(kept)))
        rest = rest - _sum([found[-1]]) * b
    return _sum(found)


def has_lengths(value: Any) -> bool:
    """Whether a value is a NumPy array with lengths in it, or with numbers that follow from some."""
    return isinstance(value, np.ndarray) and value.dtype == object and any(isinstance(x, Computed) for x in value.flat)


def as_traced(value: np.ndarray) -> Any:
    """Return an array of sizes as an array of numbers that are not known while tracing."""
    elements = [jnp.asarray(true(size)) for size in value.flat]
    dtype = next((each.dtype for each in elements if not jnp.issubdtype(each.dtype, jnp.integer)), jnp.int32)
    return jnp.stack([each.astype(dtype) for each in elements]).reshape(value.shape)


def _terms(size: Any) -> tuple[tuple[int, Product], ...]:
    if not isinstance(size, Length) and not is_number(size):
        raise LengthError(f"the number {size}")
    return size.terms if isinstance(size, Length) else ((int(size), ()),)


def _keys(atoms: Product) -> tuple[Hashable, ...]:
    return tuple(each.key for each in atoms)


def _ordered(atoms: Product) -> Product:
    return tuple(sorted(atoms, key=lambda each: str(each.key)))


def _sum(terms: Iterable[tuple[int, Product]]) -> Any:
    """Return a sum of products: a number where no atom is left."""
    factors: dict[Hashable, tuple[int, Product]] = {}
    for times, atoms in terms:
        before, _ = factors.get(_keys(atoms), (0, ()))
        factors[_keys(atoms)] = before + times, atoms
    kept = [each for each in factors.values() if each[0]]
    if not any(atoms for _, atoms in kept):
        return sum(times for times, _ in kept)
    return Length(tuple(sorted(kept, key=lambda each: (not each[1], str(_keys(each[1]))))))


def _divided(a: Any, by: int) -> Any:
    """Return a quotient in one form, so that equal ones have one key however they came about: lengths of windows are.

    Factors are less than the divisor in magnitude.
    """
    if is_number(a):
        return a // by
    (first, atoms), *others = a.terms
    if first < 0:
        return (by - 1 - a) // by * -1
    number, alone = a - _sum([(first, atoms)]), first == len(atoms) == 1
    common = math.gcd(by, *(times for times, each in a.terms if each))
    if common > 1:
        return (_sum((times // common, each) for times, each in a.terms)) // (by // common)
    if alone and atoms[0].fraction and is_number(number):
        below, before = atoms[0].fraction
        return (below + number * before) // (before * by)
    name = f"({a} // {by})" if alone and not others else f"(({a}) // {by})"
    return Length(((1, (Atom(("//", a.key, by), name, a.true // by, a.low // by, a.bound // by, (a, by)),)),))


def _extreme(operation: str, a: Any, b: Any) -> Any:
    low, bound = limits(a - b)
    if bound <= 0 or low >= 0:
        return a if (bound <= 0) == (operation == "min") else b
    choose, computed = (min, jnp.minimum) if operation == "min" else (max, jnp.maximum)
    key = operation, *(size.key if isinstance(size, Length) else int(size) for size in (a, b))
    ends = [choose(pair) for pair in zip(limits(a), limits(b), strict=True)]
    return atom(key, f"{operation}({a}, {b})", computed(true(a), true(b)), ends[1], ends[0])
