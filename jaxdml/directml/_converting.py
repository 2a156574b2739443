"""Convert what the fields of a description are given, and collect every value that does not fit its field."""

import math
import operator
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from jaxdml._base.errors import compose
from jaxdml.directml._errors import InvalidDescError, Violation, shown

LARGEST_UINT, LARGEST_UINT64 = 2**32 - 1, 2**64 - 1
FLOAT = np.dtype("float32")
_HUGE = 10**308
"""An integer beyond it has no float in Python."""


class FieldConverter:
    """The values of one struct's fields. A wrong type raises at once; ``check`` raises for all wrong values together.

    Every method takes the name of the field, as C has it, and the value, and returns the converted value.
    """

    def __init__(self, struct: str) -> None:
        self.struct = struct
        self.violations: list[Violation] = []

    def unsigned(self, field: str, value: Any, largest: int = LARGEST_UINT) -> int:
        """Convert an unsigned integer to ``int``."""
        return self._integer(field, value, range(largest + 1), "an unsigned integer")

    def signed(self, field: str, value: Any) -> int:
        """Convert an integer to ``int``."""
        return self._integer(field, value, range(-(2**31), 2**31), "an integer")

    def _integer(self, field: str, value: Any, allowed: range, words: str) -> int:
        try:
            if isinstance(value, bool):
                raise TypeError
            number = operator.index(value)
        except TypeError:
            self.refuse(field, "an integer", value)
        if number not in allowed:
            rule = f"must be between {allowed[0]} and {allowed[-1]}, as {words}"
            self.violations.append(Violation(field, rule, number))
        return number

    def floating(self, field: str, value: Any, dtype: np.dtype[Any] = FLOAT) -> float:
        """Convert a number to the nearest one of a dtype, as ``float``."""
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            self.refuse(field, "a number", value)
        with np.errstate(over="ignore"):
            rounded = float(dtype.type(min(max(value, -_HUGE), _HUGE) if isinstance(value, int) else value))
        if math.isinf(rounded) and abs(value) != math.inf:
            largest = str(np.finfo(dtype).max)
            self.violations.append(Violation(field, f"must be between -{largest} and {largest}, as a {dtype}", value))
        return rounded

    def scalar(self, field: str, value: Any, dtype: np.dtype[Any]) -> Any:
        """Convert a number to a NumPy scalar."""
        if dtype.kind == "f":
            return dtype.type(self.floating(field, value, dtype))
        allowed = np.iinfo(dtype)
        number = self._integer(field, value, range(allowed.min, int(allowed.max) + 1), f"a number of {dtype}")
        return dtype.type(min(max(number, allowed.min), allowed.max))

    def sequence(self, field: str, values: Any, words: str) -> Iterator[tuple[str, Any]]:
        """Return the label and the value of each entry of a sequence."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            self.refuse(field, f"a sequence of {words}", values)
        return ((f"{field}[{place}]", value) for place, value in enumerate(values))

    def unsigned_tuple(self, field: str, values: Any) -> tuple[int, ...]:
        """Convert a sequence of unsigned integers to a tuple."""
        return tuple(self.unsigned(label, value) for label, value in self.sequence(field, values, "integers"))

    def boolean(self, field: str, value: Any) -> bool:
        """Convert a truth value, or 0 or 1, to ``bool``."""
        if not isinstance(value, bool | np.bool_ | int | np.integer):
            self.refuse(field, "a bool", value)
        if value not in (0, 1):
            self.violations.append(Violation(field, "must be FALSE (0) or TRUE (1)", value))
        return bool(value)

    def enumerated(self, field: str, enumeration: Any, value: Any) -> Any:
        """Convert a number to the member of an enumeration."""
        if not isinstance(value, int):
            self.refuse(field, f"a {enumeration.__name__}, or its number", value)
        number = self.unsigned(field, value)
        members = enumeration.__members__.values()
        if number not in list(members):
            listed = ", ".join(f"{member.name} ({member.value})" for member in members)
            self.violations.append(Violation(field, f"must be one of {listed}", number))
            return number
        return enumeration(number)

    def refuse(self, field: str, wanted: str, value: Any) -> NoReturn:
        """Raise TypeError for a value of the wrong type."""
        raise TypeError(compose(f"directml.{self.struct}", f"{field} must be {wanted}; got {shown(value)}."))

    def check(self) -> None:
        """Raise InvalidDescError if any value does not fit its field."""
        if self.violations:
            raise InvalidDescError(f"{self.struct} is given values that do not fit its fields.", self.violations)
