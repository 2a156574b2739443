"""Map any real dtype to unsigned integers whose order is the order of selection.

Comparing two keys is then the whole rule: -0.0 ties with +0.0, every NaN ties with every other NaN and is greater than
+inf, and INT_MIN has the smallest key. The opposite direction is the bitwise complement of the key, which cannot
overflow. No float is ever compared, so it does not matter how a device treats NaNs or subnormals.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.float_parts import INFINITY
from jaxdml._base.axis_direction import AxisDirection


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


def bits_of_keys(keys: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Return the bits of elements of 32 bits whose ``order_keys`` towards the largest these are.

    Of a zero these are +0.0's. Of a NaN they mean nothing.
    """
    top = np.uint32(1 << 31)
    if jnp.issubdtype(dtype, jnp.floating):
        infinity = np.uint32(INFINITY)
        return jnp.where(keys >= infinity, keys - infinity, top + infinity - keys)
    return keys ^ top if jnp.issubdtype(dtype, jnp.signedinteger) else keys


def _towards(direction: AxisDirection, keys: jax.Array) -> jax.Array:
    return keys if direction == AxisDirection.DECREASING else ~keys


def _keys_of_floats(bits: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Map the bits of floats to keys. If the floats are narrower than ``bits``, they are in its upper part.

    Each key is the distance from -inf: magnitudes are added to the key of zero or subtracted from it, so both zeros
    have one key. Positive NaNs come out above +inf. Negative NaNs wrap around to even larger numbers. The minimum makes
    one key of them all.
    """
    width, own_width = (8 * kind.itemsize for kind in (bits.dtype, dtype))
    infinity = bits_of(jnp.array(jnp.inf, dtype)).astype(bits.dtype) << (width - own_width)
    top = bits.dtype.type(1 << (width - 1))
    counted = jnp.where(bits < top, infinity + bits, infinity + top - bits)
    return jnp.minimum(counted, 2 * infinity + (1 << (width - own_width)))


def greater_key_of_pairs(x: jax.Array, direction: AxisDirection) -> jax.Array:
    """Return the greater key of each two neighbouring 16-bit floats, in the upper half of a uint32.

    The last axis must have even length. Where arithmetic is 32 bits wide anyway, 16-bit arithmetic takes more
    operations, because each result is cut to its width.
    """
    words = lax.bitcast_convert_type(x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2), jnp.uint32)
    halves = words << 16, words & np.uint32(0xFFFF0000)
    return jnp.maximum(*(_towards(direction, _keys_of_floats(half, x.dtype)) for half in halves))


def as_float32(keys: jax.Array) -> jax.Array:
    """Map keys of at most 32 bits to float32 so that IEEE 754's total order is the order of the keys.

    8- and 16-bit keys become plain numbers. 32-bit keys become every bit pattern, NaNs among them, so this is right
    only where float32 is ordered by its bits.
    """
    if keys.dtype.itemsize < 4:
        return keys.astype(jnp.float32)
    top = jnp.uint32(1 << 31)
    return lax.bitcast_convert_type(jnp.where(keys >= top, keys ^ top, ~keys), jnp.float32)
