"""Numbers that follow from one length, whatever is computed of it: floats, bools, remainders.

There are as many numbers as the length may be. So all of them are computed while tracing, with NumPy, as they would be
if the length were known, and the program reads the right one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.values.lengths import Atom, Computed, Length, LengthError, atom

MOST = 2**20
"""So many numbers are computed at most."""


@dataclass(frozen=True, eq=False)
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

    def __bool__(self) -> bool:
        raise LengthError(f"what follows from {self.of.name}")

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
    atoms = [each for element in elements for each in _atoms(element)]
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
    key = "table", atoms[0].key, values.tobytes()
    number = Tabled(atoms[0], values).true
    return atom(key, f"what follows from {atoms[0].name}", number, int(values.max()), int(values.min()))


def _atoms(element: Any) -> list[Atom]:
    if isinstance(element, Tabled):
        return [element.of]
    return [each for _, atoms in element.terms for each in atoms] if isinstance(element, Length) else []


def _values(element: Any, lengths: np.ndarray) -> np.ndarray:
    """Return what an element is for each number that a length may be."""
    if isinstance(element, Tabled):
        return element.values
    if isinstance(element, Length):
        terms = (times * lengths ** len(atoms) for times, atoms in element.terms)
        return np.sum(list(terms), axis=0)
    return np.full(lengths.shape, element)
