"""Have XLA's CPU backend store an array instead of computing it anew in each operation that reads it."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._base.shapes import is_static
from jaxdml._placement import jax_versions
from jaxdml._placement.layout import on_explicit_axes
from jaxdml._placement.lowering import Form, Target, at_lowering


def materialized(x: jax.Array) -> jax.Array:
    """Return ``x``, stored in a program for one CPU. It cannot be differentiated.

    XLA makes one loop of what computes an array and what reads it. If two operations read a sum of a model, each
    computes it anew, and what comes before it, so every sum takes longer than the one before. And a loop over a
    transposed array is slow.
    """
    if not is_static(*x.shape) or x.size < 2 or on_explicit_axes(x):
        return x
    result: jax.Array = at_lowering(form, x)
    return result


def form(target: Target) -> Form:
    """Say what stores an array where a program is lowered for ``target``."""
    if not (target.alone and target.platform == "cpu"):
        return _itself
    return lax.optimization_barrier if jax_versions.BARRIERS_HOLD else _in_a_branch


def _itself(x: jax.Array) -> jax.Array:
    return x


def _in_a_branch(x: jax.Array) -> jax.Array:
    """Return ``x`` in a branch that is always taken, which XLA cannot know."""
    # As int8, so that XLA stores what comes out of one operator and goes into the next.
    if x.dtype == jnp.uint8:
        return with_flipped_sign(_in_a_branch(with_flipped_sign(x, jnp.int8)), jnp.uint8)
    taken = x.reshape(-1)[0].astype(jnp.int32) > np.iinfo(np.int32).min
    result: jax.Array = lax.cond(taken, _itself, lambda x: x - x, x)
    return result
