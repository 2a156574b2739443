"""Reinterpret the bits of arrays."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


def bits_of(x: jax.Array) -> jax.Array:
    """Reinterpret each element as the unsigned integer of its width."""
    return lax.bitcast_convert_type(x, _UNSIGNED[x.dtype.itemsize])


def with_flipped_sign(x: Any, dtype: Any) -> Any:
    """Turn int8 into uint8, each 128 more, or uint8 into int8, each 128 less; ``dtype`` is the new one.

    XLA sees that two such additions cancel, so it stores the int8 that one operator makes and another reads. XLA for
    CUDA takes an addition of int8 into the kernel of a product, and none of uint8. Arrays of NumPy stay NumPy's.
    """
    if np.dtype(dtype) == np.int8:
        return x.view(np.int8) + np.int8(-128)
    return (x + np.int8(-128)).view(np.uint8)


def by_bits(move: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Return ``move(x)``, with the bits of floats unchanged. ``move`` only moves elements.

    Floats are moved as integers, for two reasons. A device that widens narrow floats to move them would quiet a
    signalling NaN. And where XLA partitions the program, it may add up what each device has of the result, and
    -0.0 + 0.0 is 0.0. Floats of 4 bits are moved as they are, because no integer has their width.
    """
    if not jnp.issubdtype(x.dtype, jnp.floating) or jnp.finfo(x.dtype).bits < 8:
        return move(x)
    return lax.bitcast_convert_type(move(bits_of(x)), x.dtype)
