"""Coordinates that are computed from traced ones, in the order of their definition and rounded at each step.

A coordinate decides which element is read, so the last bit counts. XLA contracts ``a * b + c`` into one operation, and
divides by a constant as it multiplies by its reciprocal: 3 parts of 41 times 41 elements are then not 3 times 41.
"""

from typing import Any

import jax
import jax.numpy as jnp


def product(a: Any, b: Any) -> jax.Array:
    """Return ``a * b``, rounded before anything is added to it."""
    result = a * b
    # A clamp cannot be contracted.
    largest = jnp.finfo(result.dtype).max
    return jnp.clip(result, -largest, largest)


def quotient(a: Any, b: Any) -> jax.Array:
    """Return ``a / b``, rounded once."""
    # The divisor is no constant, for all that XLA knows.
    return a / jnp.where(jnp.isnan(a), a, b)
