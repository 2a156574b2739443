"""Turn any real dtype into unsigned integers whose order is the order of selection.

One integer comparison then means the whole rule: -0.0 ties with +0.0, every NaN ties with every other NaN and
beats +inf, INT_MIN is just the smallest key, and the other direction is the bitwise complement, which cannot
overflow. No float is ever compared, so no device's treatment of NaNs or subnormals can matter.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._base.axis_direction import AxisDirection

_UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


def bits_of(x: jax.Array) -> jax.Array:
    """Reinterpret each element as the unsigned integer of its width."""
    return lax.bitcast_convert_type(x, _UNSIGNED[x.dtype.itemsize])


def order_keys(x: jax.Array, direction: AxisDirection) -> jax.Array:
    """Map each element to an unsigned integer of its width; the larger key comes first."""
    bits = bits_of(x)
    if jnp.issubdtype(x.dtype, jnp.floating):
        keys = _keys_of_floats(bits, x.dtype)
    elif jnp.issubdtype(x.dtype, jnp.signedinteger):
        keys = bits ^ bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    else:
        keys = bits
    return _towards(direction, keys)


def _towards(direction: AxisDirection, keys: jax.Array) -> jax.Array:
    return keys if direction == AxisDirection.DECREASING else ~keys


def _keys_of_floats(bits: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Make keys of the bits of floats; of narrower floats than the bits are wide, zeros being below them.

    Counted from -inf, the magnitudes go up or down with their sign, and know one zero. NaNs of either sign come out on
    top, the negative ones by wrapping around, and there they become one.
    """
    width, own_width = (8 * kind.itemsize for kind in (bits.dtype, dtype))
    infinity = bits_of(jnp.array(jnp.inf, dtype)).astype(bits.dtype) << (width - own_width)
    top = bits.dtype.type(1 << (width - 1))
    counted = jnp.where(bits < top, infinity + bits, infinity + top - bits)
    return jnp.minimum(counted, 2 * infinity + (1 << (width - own_width)))


def greater_of_pairs(x: jax.Array, direction: AxisDirection) -> jax.Array:
    """Return the greater key of each two 16-bit floats along the last axis, of even length, in a uint32's upper half.

    Where arithmetic has 32 bits anyway, that of fewer takes more steps: results have to be cut to their width.
    """
    words = lax.bitcast_convert_type(x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2), jnp.uint32)
    halves = words << 16, words & np.uint32(0xFFFF0000)
    return jnp.maximum(*(_towards(direction, _keys_of_floats(half, x.dtype)) for half in halves))


def as_float32(keys: jax.Array) -> jax.Array:
    """Map keys of at most 32 bits to float32 so that IEEE 754's total order is the order of the keys.

    Narrow keys become plain numbers. 32-bit keys take every pattern there is, NaNs among them, so this serves
    only where float32 is ordered by its bits.
    """
    if keys.dtype.itemsize < 4:
        return keys.astype(jnp.float32)
    top = jnp.uint32(1 << 31)
    return lax.bitcast_convert_type(jnp.where(keys >= top, keys ^ top, ~keys), jnp.float32)
