"""The arguments of a call where only their shapes and dtypes, and its single numbers, are needed."""

from typing import Any

import numpy as np

from jaxdml._cases.records import Array, NamedCall


class _Zeros(np.random.Generator):
    """Draw large arrays as zeros that take no memory, and everything else as from seed 0."""

    def integers(  # type: ignore[override]
        self, low: Any, high: Any, size: Any = (), dtype: Any = np.int64, *, endpoint: bool = False
    ) -> Array:
        """Return zeros."""
        return self.standard_normal(size, dtype)

    def standard_normal(self, size: Any, dtype: Any) -> Array:  # type: ignore[override]
        """Return zeros."""
        return np.broadcast_to(np.zeros((), dtype), size)


def undrawn(call: NamedCall) -> tuple[Array, ...]:
    """Return arrays with the shapes and dtypes of the arguments of a call."""
    return call.draw(_Zeros(np.random.PCG64(0)))
