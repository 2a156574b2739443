"""Give the static fields of a record their types, whoever made it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_MAKE: Mapping[type, Callable[[Any], Any]] = {
    np.dtype: lambda given: np.dtype(str(given)),
    tuple: lambda given: tuple(map(int, given)),
    int: lambda given: given.item() if isinstance(given, np.ndarray | np.generic) else given,
}
"""How to make a value of a type, if not by calling the type. A symbolic size stays what it is."""


def settle(record: Any, **kinds: type) -> None:
    """Convert fields of a frozen record that do not have these types, such as the arrays that ``numpy.load`` returns.

    JAX makes a record anew wherever it traces, of fields that have them: that has to cost little.
    """
    for name, kind in kinds.items():
        given = getattr(record, name)
        if not isinstance(given, kind):
            object.__setattr__(record, name, _MAKE.get(kind, kind)(given))
