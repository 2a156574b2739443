"""Coordinates that are computed from traced ones, in the order of their definition and rounded at each step.

A coordinate decides which element is read, so the last bit counts. XLA contracts ``a * b + c`` into one operation, and
multiplies by the reciprocal of a constant instead of dividing by it: 82 / 41 is then less than 2.
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
    return a / jnp.where(jnp.isnan(a), jnp.nan, b)
