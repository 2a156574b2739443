"""What the tests of both scatters draw."""

import jax
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from jaxdml._cases.data import INDEX_DTYPES
from jaxdml._cases.data import TRAPS as DATA
from tests.kit.grids import OneOf
from tests.kit.strategies import data

MODES = ["drop", "clip", "promise_in_bounds"]
DUPLICATES = ["unspecified", "last", "unique"]
VALUES = [
    OneOf(*(np.dtype(name) for name in names))
    for names in (
        ("float32", "int32", "uint32", "complex64"),
        ("float16", "bfloat16"),
        ("int8", "uint8", "int16", "uint16", "bool"),
    )
]
"""By what they move as."""

# Indices from NumPy are brought to int32 before anything is compiled, so their dtype can be drawn.
index_dtypes = st.sampled_from(INDEX_DTYPES)


def values_for(kind, seed, shape, dtype):
    if dtype.kind == "b":
        return np.random.default_rng(seed).random(shape) < 0.5
    if dtype.kind == "c":
        return data(kind, seed, (*shape, 2), dtype.type(0).real.dtype).view(dtype)[..., 0]
    return data(kind, seed, shape, dtype)


# Shapes and dtypes are static: each set of them is compiled once, and checked with many data.
few_draws = settings(max_examples=settings().max_examples // 5)


def any_values(rng, shape, dtype):
    kind, seed = rng.choice(list(DATA)), rng.integers(2**32)
    return values_for(kind, seed, shape, dtype)


def held_by_jax(x, indices, updates):
    """Give the values to JAX: a NumPy array takes a program of its own to copy. NumPy's indices can be any."""
    return jax.device_put(x), indices, jax.device_put(updates)
