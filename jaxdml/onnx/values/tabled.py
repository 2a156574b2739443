"""Numbers that follow from one length, whatever is computed of it: floats, bools, remainders.

There are as many numbers as the length may be. So all of them are computed while tracing, with NumPy, as they would be
if the length were known, and the program reads the right one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.values.lengths import Atom, Computed, Length, LengthError, atoms_of

MOST = 2**20
"""So many numbers are computed at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Tabled(Computed):
    """A float or a bool that follows from a length.

    Attributes:
      of: the length.
      values: for each number that it may be, from the least on.
    """

    of: Atom
    values: np.ndarray

    @property
    def true(self) -> Any:
        """The number, traced."""
        found = self.values.astype(jax.dtypes.canonicalize_dtype(self.values.dtype))
        return jnp.asarray(found)[jnp.asarray(self.of.true - self.of.low)]

    def __repr__(self) -> str:
        return f"what follows from {self.of.name}"

    def __bool__(self) -> bool:
        raise LengthError(str(self))

    __int__ = __float__ = __index__ = __bool__


def computed(function: Callable[..., Any], operands: Sequence[np.ndarray]) -> np.ndarray:
    """Compute an elementwise function of arrays that may have lengths in them, and what follows from these."""
    arrays = np.broadcast_arrays(*operands)
    found = [_of_element(function, elements) for elements in zip(*(array.flat for array in arrays), strict=True)]
    if any(isinstance(each, Computed) for each in found):
        result = np.empty(len(found), object)
        result[:] = found
    else:
        result = np.array(found)
    return result.reshape(arrays[0].shape)


def _of_element(function: Callable[..., Any], elements: Sequence[Any]) -> Any:
    atoms = [root for element in elements for each in _atoms(element) for root in _roots(each)]
    if any(each.key != atoms[0].key for each in atoms):
        raise LengthError(f"a number that follows from {atoms[0].name} and from another length")
    if atoms and atoms[0].bound - atoms[0].low >= MOST:
        raise LengthError(f"a number that follows from {atoms[0].name}, which may be any of more than {MOST}")
    lengths = np.arange(atoms[0].low, atoms[0].bound + 1) if atoms else np.zeros(1, np.int64)
    values = np.asarray(function(*(_values(element, lengths) for element in elements)))
    if (values == values[0]).all():
        return values[0]
    if not np.issubdtype(values.dtype, np.integer):
        return Tabled(atoms[0], values)
    slope = values[1] - values[0]
    if (np.diff(values) == slope).all():
        return Length(((1, (atoms[0],)),)) * int(slope) + int(values[0] - slope * atoms[0].low)
    key = "table", atoms[0].key, values.tobytes()
    table = Tabled(atoms[0], values)
    name, ends = f"what follows from {atoms[0].name}", (int(values.min()), int(values.max()))
    return Length(((1, (Atom(key, name, table.true, *ends, table=(atoms[0], values)),)),))


def _atoms(element: Any) -> tuple[Atom, ...]:
    return (element.of,) if isinstance(element, Tabled) else atoms_of(element)


def _roots(atom: Atom) -> Iterable[Atom]:
    """Return the atoms that a quotient, or what was read from a table, follows from."""
    if atom.table is not None:
        return _roots(atom.table[0])
    if atom.fraction is not None:
        return [root for each in atoms_of(atom.fraction[0]) for root in _roots(each)]
    return [atom]


def _values(element: Any, lengths: np.ndarray) -> Any:
    """Return what an element is for each number that the one length may be from which it follows."""
    if isinstance(element, Tabled):
        return element.values[_of_atom(element.of, lengths) - element.of.low]
    if isinstance(element, Length):
        return sum(times * math.prod(_of_atom(each, lengths) for each in atoms) for times, atoms in element.terms)
    return np.full(lengths.shape, element)


def _of_atom(atom: Atom, lengths: np.ndarray) -> np.ndarray:
    if atom.table is not None:
        base, values = atom.table
        return values[_of_atom(base, lengths) - base.low]
    return lengths if atom.fraction is None else _values(atom.fraction[0], lengths) // atom.fraction[1]
