"""Transposes of linear functions."""

from collections.abc import Callable, Sequence
from typing import Any

import jax


def transposed(function: Callable[[Any], Any], sizes: Sequence[int], result: Any) -> Any:
    """Return what the transpose of a linear function makes of a result, such as a gradient.

    Args:
      function: takes an array with the dtype of the result.
      sizes: of that array.
      result: an array like one that the function returns.
    """
    operand = jax.ShapeDtypeStruct(tuple(sizes), result.dtype)  # type: ignore[no-untyped-call]
    return jax.linear_transpose(function, operand)(result)[0]
