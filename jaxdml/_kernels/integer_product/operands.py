"""The operands of a product of 8-bit matrices, and their shapes."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.signedness import Zero
from jaxdml._kernels.integer_product.packed_matrix import Right
from jaxdml._kernels.integer_sums import RawProduct

ALIGNMENT = 16
"""Every size is padded to a multiple of so many bytes, one load of a tensor core's operand."""

Product = Callable[[jax.Array, Zero, Any, Zero], RawProduct]
"""Multiplies ``a - za`` by ``b - zb``.

``a`` is int8 or uint8 ``[..., M, K]`` and ``b`` int8 ``[..., K, N]``, or a ``PackedMatrix`` that is stored as int8.
On TPUs both may be uint8.
``za`` and ``zb`` are int32 that broadcast against ``[..., M, 1]`` and ``[..., 1, N]``, or None for 0.
"""


def product_shape(a: jax.Array, b: Right) -> tuple[int, ...]:
    """Return the shape ``[..., M, N]`` of ``a @ b``."""
    return (*jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


def with_merged_rows(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Merge the leading dimensions of ``a`` into its rows if ``b``, however stored, is one matrix for all."""
    if math.prod(b.shape[:-2]) == 1:
        return a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b.reshape(b.shape[-2:])
    return a, b


def row_count(a: jax.Array, matrix: Right) -> int:
    """Return the number of rows that ``with_merged_rows`` makes of ``a``."""
    return math.prod(a.shape[:-1]) if math.prod(matrix.shape[:-2]) == 1 else a.shape[-2]


def greatest_factor(x: Any, zero_point: Any) -> int:
    """Bound ``|x - zero_point|`` for 8-bit integers, which may be packed, by what is known while tracing."""
    return 128 if x.dtype == jnp.int8 and zero_point is None else 255
