"""What the checks of a call's inputs depend on, so that a call like an earlier one need not be checked again."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np


def signature(inputs: Sequence[Any], by_name: Mapping[str, Any]) -> Hashable:
    """Return the names, shapes and dtypes of inputs that are arrays; None where others are among them."""
    kinds = []
    for array in (*inputs, *by_name.values()):
        if not isinstance(array, np.ndarray | jax.Array):
            return None
        kinds.append((array.shape, array.dtype))
    return jax.config.jax_enable_x64, *by_name, *kinds  # type: ignore[attr-defined]


def keep_their_dtypes(inputs: Iterable[Any]) -> bool:
    """Whether JAX takes arrays as they are, so that no value of theirs can be one that it does not hold."""
    return all(jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype for array in inputs)
