"""What the checks of a call's inputs depend on, so that a call like an earlier one need not be checked again."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np


def signature(inputs: Sequence[Any], by_name: Mapping[str, Any]) -> Hashable:
    """Return the names, shapes and dtypes of inputs that are arrays, and where; None where others are among them."""
    kinds = []
    for array in (*inputs, *by_name.values()):
        if not isinstance(array, np.ndarray | jax.Array):
            return None
        kinds.append((array.shape, array.dtype, is_in_one_place(array)))
    return jax.config.jax_enable_x64, *by_name, *kinds  # type: ignore[attr-defined]


def is_in_one_place(array: Any) -> bool:
    """Whether an array lies on the host or on one device: it is neither traced nor spread over several."""
    if isinstance(array, jax.core.Tracer):
        return False
    return not isinstance(array, jax.Array) or isinstance(array.sharding, jax.sharding.SingleDeviceSharding)


def keep_their_dtypes(inputs: Iterable[Any]) -> bool:
    """Whether JAX takes arrays as they are, so that no value of theirs can be one that it does not hold."""
    return all(jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype for array in inputs)
