"""Multiply floats by a packed matrix of few bits."""

from __future__ import annotations

from functools import partial

import jax
from jax.typing import ArrayLike

from jaxdml._arguments.call import Call
from jaxdml._base.dtypes import SCALES
from jaxdml._kernels.block_product import PackedBlocks, multiply


def matrix_multiply_block_quantized(a: ArrayLike, b: PackedBlocks) -> jax.Array:
    """Multiply floats by a matrix of 2, 4 or 8 bits, of which each block of a column has a scale.

    ``a @ dequantize_linear(b, scale, zero_point, axis=0, block_size=...)``, added up in float32 and rounded once. The
    floats of ``b`` are not stored where ``a`` has few rows, as in the decoding of a language model, which takes the
    time of reading ``b``.

    Args:
      a: float32, float16 or bfloat16, ``[..., K]``.
      b: ``[K, N]``, what ``prepack_blocks`` returns.

    Returns:
      An array ``[..., N]`` of the dtype of ``a``, differentiable in ``a``. It differs from the sum in real numbers by
      the rounding of float32 sums, whose order depends on the device. Off CPUs, and on
      meshes, the floats of ``b`` are rounded to the dtype of ``a``; with ``jax.jit`` on an NVIDIA GPU only if ``a`` has
      more than eight rows.

    Raises:
      TypeError: ``a`` is not an array of these dtypes, or ``b`` is not packed or has more than two dimensions.
      ValueError: the last dimension of ``a`` is not K.

    Source:
      ``MatMulNBits`` of onnxruntime with ``accuracy_level`` 1; DirectML has no such operator of its own.

    Example:
      >>> b = jaxdml.prepack_blocks(jnp.full((8, 2), 3, jnp.int4), jnp.array([[0.5, 2.0]]), block_size=8)
      >>> jaxdml.matrix_multiply_block_quantized(jnp.arange(8.0), b)
      Array([ 42., 168.], dtype=float32)
    """
    call = Call("matrix_multiply_block_quantized", a=a, b=b)
    a = call.array("a")
    call.dtype("a", SCALES)
    if not isinstance(b, PackedBlocks):
        call.fail(TypeError, "b must be packed.", "Pass what jaxdml.prepack_blocks returns.", "b")
    if b.ndim != 2 or not a.ndim:
        rule = f"a must have a dimension, and b two; they have {a.ndim} and {b.ndim}."
        call.fail(TypeError, rule, "Map over further dimensions of b with jax.vmap.", "a")
    if a.shape[-1] != b.shape[0]:
        rule = f"the last dimension of a must be {b.shape[0]}, the K of b; it is {a.shape[-1]}."
        call.fail(ValueError, rule, "Pass a as [..., K].", "a")
    return _multiply(a, b)


@partial(jax.jit, inline=True)
def _multiply(a: jax.Array, b: PackedBlocks) -> jax.Array:
    return multiply(a, b)
