"""Check and run DML_OPERATOR_MATRIX_MULTIPLY_INTEGER."""

from __future__ import annotations

import jax
from jax.typing import ArrayLike

from jaxdml._arguments import products
from jaxdml._arguments.call import Call
from jaxdml._kernels.integer_product import PackedMatrix
from jaxdml._kernels.integer_sums import wrapped


def matrix_multiply_integer(
    a: ArrayLike,
    a_zero_point: ArrayLike | None,
    b: ArrayLike | PackedMatrix,
    b_zero_point: ArrayLike | None,
    *,
    axis_name: str | tuple[str, ...] | None = None,
    implementation: str | None = None,
) -> jax.Array:
    """Multiply two matrices of 8-bit integers with zero points, summed in int32.

    ``(a - a_zero_point) @ (b - b_zero_point)`` modulo ``2**32``, for any depth K. Up to K = 33,025 no sum wraps around.

    A zero point is one value, of shape ``()`` or ``(1,)``, or a vector: for ``a`` one value per row, for ``b`` one per
    column. Other shapes must broadcast to ``[..., M, 1]`` (``a``) or ``[..., 1, N]`` (``b``), where ``...`` are the
    result's leading dimensions. A Python number is converted to the required dtype.

    Args:
      a: int8 or uint8, ``[..., M, K]``. If K is symbolic, in ``jax.export``, its constraints must bound it by 33,025.
      a_zero_point: dtype of ``a``, one value or one per row; None means 0.
      b: int8 or uint8, ``[..., K, N]``, or what ``jaxdml.prepack`` returns for it, which is faster. Leading dimensions
        broadcast against those of ``a``.
      b_zero_point: dtype of ``b``, one value or one per column; None means 0.
      axis_name: inside ``jax.shard_map``, the mesh axis that K is sharded over, or a tuple of axes. ``a`` and ``b`` are
        then blocks of matrices, and every shard gets the result for the whole of K. Static.
      implementation: the name of a method to force; None lets the library choose. Static.

    Returns:
      int32, ``[..., M, N]``.

    Raises:
      TypeError: an argument is not an array or has a wrong dtype, rank or shape.
      ValueError: ``implementation`` is unknown. A zero point is a Python number that its dtype cannot hold. K is
        symbolic and not bounded.
      NotImplementedError: the program is lowered for a platform without the forced ``implementation``.

    Source:
      DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC: ``ATensor``, ``AZeroPointTensor``, ``BTensor``, ``BZeroPointTensor``.
      The page does not say what happens where int32 overflows; see docs/departures.md.

    Example:
      >>> a, b = jnp.array([[11, 7, 3]], jnp.uint8), jnp.array([[1, 4], [2, 5], [3, 6]], jnp.uint8)
      >>> jaxdml.matrix_multiply_integer(a, 12, b, None)
      Array([[-38, -83]], dtype=int32)
    """
    call = Call("matrix_multiply_integer", a=a, a_zero_point=a_zero_point, b=b, b_zero_point=b_zero_point)
    given = products.matrices(call, axis_name)
    zeros = products.parameters(call, given, a_zero_point=given.a.dtype, b_zero_point=given.b.dtype)
    return products.multiply(call, given, implementation, wrapped, *zeros.values())
