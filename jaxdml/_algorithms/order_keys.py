"""Turn any real dtype into unsigned integers whose order is the order of selection.

One integer comparison then means the whole rule: -0.0 ties with +0.0, every NaN ties with every other NaN and
beats +inf, INT_MIN is just the smallest key, and the other direction is the bitwise complement, which cannot
overflow. No float is ever compared, so no device's treatment of NaNs or subnormals can matter.
"""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._base.axis_direction import AxisDirection

_UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


def bits_of(x: jax.Array) -> jax.Array:
    """Reinterpret each element as the unsigned integer of its width."""
    return lax.bitcast_convert_type(x, _UNSIGNED[x.dtype.itemsize])


def order_keys(x: jax.Array, direction: AxisDirection) -> jax.Array:
    """Map each element to an unsigned integer of its width; the larger key comes first."""
    bits = bits_of(x)
    top = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    if jnp.issubdtype(x.dtype, jnp.floating):
        magnitude = bits & ~top
        infinity = bits_of(jnp.array(jnp.inf, x.dtype))
        # Strictly greater: -0.0 is `top` itself and goes the way of +0.0.
        keys = jnp.where(bits > top, ~bits, magnitude | top)
        keys = jnp.where(magnitude > infinity, ~jnp.zeros_like(bits), keys)
    elif jnp.issubdtype(x.dtype, jnp.signedinteger):
        keys = bits ^ top
    else:
        keys = bits
    return keys if direction == AxisDirection.DECREASING else ~keys


def as_float32(keys: jax.Array) -> jax.Array:
    """Map keys of at most 32 bits to float32 so that IEEE 754's total order is the order of the keys.

    Narrow keys become plain numbers. 32-bit keys take every pattern there is, NaNs among them, so this serves
    only where float32 is ordered by its bits.
    """
    if keys.dtype.itemsize < 4:
        return keys.astype(jnp.float32)
    top = jnp.uint32(1 << 31)
    return lax.bitcast_convert_type(jnp.where(keys >= top, keys ^ top, ~keys), jnp.float32)
