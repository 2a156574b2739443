"""Compare sizes that may be symbolic, as they are while ``jax.export`` traces."""

import jax
import jax.numpy as jnp
import numpy as np


def at_most(size: int, limit: int) -> bool | None:
    """Tell whether ``size <= limit``; None if a symbolic size can be on either side."""
    try:
        return bool(size <= limit)
    except jax.errors.InconclusiveDimensionOperation:
        return None


def index_dtype(n: int) -> jnp.dtype:
    """Return the unsigned dtype of the indices of ``n`` elements. A symbolic ``n`` may be up to 2**32."""
    return jnp.dtype(jnp.uint64 if at_most(n - 1, np.iinfo(jnp.uint32).max) is False else jnp.uint32)
