"""Multiply 8-bit matrices without merging, padding or joining dimensions.

So any dimension may be sharded, or symbolic. The sums of rows and columns are computed by themselves.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Zero
from jaxdml._kernels.integer_product import packed_matrix
from jaxdml._kernels.integer_product.integer_dot import dot
from jaxdml._kernels.integer_product.operands import product_shape
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, Right, column_sums, matrix_of
from jaxdml._kernels.integer_product.tensor_core_dot import LONGEST_FLOAT_SUM
from jaxdml._kernels.integer_sums import RawProduct, accumulator, with_corrections

Dot = Callable[[jax.Array, jax.Array, bool], jax.Array]
"""Takes 8-bit ``[..., M, K]``, int8 ``[..., K, N]``, and whether that is stored by columns, as ``[..., N, K]``."""


def unmerged_dot(a: jax.Array, za: Zero, b: Right, zb: Zero, dot: Dot = dot) -> RawProduct:
    """Multiply with ``dot``; a ``Product``."""
    return with_corrections(
        dot(a, matrix_of(b), isinstance(b, PackedMatrix)),
        a.shape[-1],
        za,
        zb,
        lambda: jnp.sum(a, axis=-1, keepdims=True, dtype=jnp.int32),
        lambda: column_sums(b),
    )


def deep_dot(a: jax.Array, b: jax.Array, by_columns: bool = False) -> jax.Array:
    """Multiply int8 matrices padded along K, so that K is greater than ``LONGEST_FLOAT_SUM``. A ``Dot``."""
    none, missing = (0, 0, 0), (0, LONGEST_FLOAT_SUM, 0)
    of_b = [none, missing] if by_columns else [missing, none]
    a = lax.pad(a, jnp.int8(0), [none] * (a.ndim - 1) + [missing])
    return dot(a, lax.pad(b, jnp.int8(0), [none] * (b.ndim - 2) + of_b), by_columns)


def sum_of_segments(a: jax.Array, za: Zero, b: Right, zb: Zero, dot: Dot, segments: int) -> RawProduct:
    """Multiply the segments of K with ``dot`` and add the int32 products; a ``Product``."""
    a, za, b, zb = split_along_k(a, za, b, zb, segments)
    products = accumulator(unmerged_dot(a, za, b, zb, dot), product_shape(a, b))
    return RawProduct(products.sum(axis=-3))


def split_along_k(a: jax.Array, za: Zero, b: Right, zb: Zero, segments: int) -> tuple[jax.Array, Zero, Right, Zero]:
    """Split K into segments, which become the last batch dimension: their products have to be added along axis -3."""
    parts_of_a = a.reshape(*a.shape[:-1], segments, a.shape[-1] // segments)
    # Where there was no zero point, that of the shifted numbers is a scalar, which broadcasts as it is.
    za, zb = (z if z is None or z.ndim == 0 else jnp.expand_dims(z, -3) for z in (za, zb))
    return jnp.moveaxis(parts_of_a, -2, -3), za, packed_matrix.split_along_k(b, segments), zb
