"""Hypothesis strategies over the inputs of ``jaxdml/_cases``, which are named for the trap that they set."""

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from jaxdml._cases.data import TRAPS

kinds = st.sampled_from(list(TRAPS))
seeds = st.integers(0, 2**32 - 1)


def is_float(dtype: np.dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def data(kind: str, seed: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Make an array of the named kind."""
    return TRAPS[kind](np.random.default_rng(seed), tuple(shape), np.dtype(dtype))
