"""Pack a matrix of few bits with a scale for each block."""

from __future__ import annotations

from functools import partial

import jax
from jax.typing import ArrayLike

from jaxdml._arguments.call import Call
from jaxdml._base.dtypes import SCALES
from jaxdml._kernels.block_product import BITS, PackedBlocks, pack
from jaxdml._placement.processor import is_on_cpu


def prepack_blocks(
    b: ArrayLike, scale: ArrayLike, zero_point: ArrayLike | None = None, *, block_size: int
) -> PackedBlocks:
    """Pack a matrix of 2, 4 or 8 bits, of which each block of a column has a scale, for products with floats.

    The result stands for ``dequantize_linear(b, scale, zero_point, axis=-2, block_size=block_size)``, and takes the
    memory of the bits. Call it once, outside of the ``jax.jit`` that multiplies.

    Args:
      b: int4, uint4, int8, uint8, int2 or uint2, ``[..., K, N]``.
      scale: float32, float16 or bfloat16, ``[..., blocks, N]``, with ``blocks = ceil(K / block_size)``.
      zero_point: dtype of ``b``, shaped as ``scale``; None means 0.
      block_size: how many elements of a column share a scale: a multiple of 16 for 2 bits, of 8 for 4, of 4 for 8.
        It may be greater than K. Static.

    Returns:
      A ``PackedBlocks``, a pytree: pass it to functions, map or scan over its leading dimensions, save it. Its layout
      is that which products on the device of ``b`` read fastest; they give the same numbers with either layout, up to
      the order of additions.

    Raises:
      TypeError: an argument is not an array, or has a wrong dtype or shape.
      ValueError: ``block_size`` is out of range.

    Source:
      ``MatMulNBits`` of onnxruntime, whose weights it holds; DirectML has no such operator of its own.

    Example:
      >>> b = jnp.array([[1, -8], [7, 2], [0, 3], [5, 5]] * 2, jnp.int4)
      >>> packed = jaxdml.prepack_blocks(b, jnp.full((1, 2), 0.5), block_size=8)
      >>> packed.shape, packed.words.nbytes
      ((8, 2), 8)
      >>> jaxdml.matrix_multiply_block_quantized(jnp.ones((1, 8)), packed)
      Array([[13.,  2.]], dtype=float32)
    """
    call = Call("prepack_blocks", b=b, scale=scale, zero_point=zero_point)
    b, scale = call.array("b"), call.array("scale")
    call.dtype("b", tuple(BITS))
    call.dtype("scale", SCALES)
    size = call.integer("block_size", block_size)
    least = 32 // BITS[str(b.dtype)]
    if size < 1 or size % least:
        rule = f"block_size must be a positive multiple of {least} for {b.dtype}; got {size}."
        call.fail(ValueError, rule, "Pass the number of elements of a column that share a scale.")
    if b.ndim < 2:
        call.fail(TypeError, f"b must have at least two dimensions; got {b.ndim}.", "Give b as [..., K, N].", "b")
    expected = (*b.shape[:-2], -(-b.shape[-2] // size), b.shape[-1])
    names = ("scale",) if zero_point is None else ("scale", "zero_point")
    for name in names:
        shape = call.array(name).shape
        if shape != expected:
            rule = f"{name} must have the shape {list(expected)}, one for each block of {size}; got {list(shape)}."
            call.fail(TypeError, rule, "Give it as [..., ceil(K / block_size), N].", name)
    zero = None
    if zero_point is not None:
        call.dtype("zero_point", (str(b.dtype),))
        zero = call.operands["zero_point"]
    # Whole blocks are stored: one that is longer than a column takes no more than that.
    shortest = max(-(-b.shape[-2] // least), 1) * least
    return _pack(b, scale, zero, min(size, shortest), is_on_cpu(b))


@partial(jax.jit, static_argnums=(3, 4), inline=True)
def _pack(b: jax.Array, scale: jax.Array, zero: jax.Array | None, block_size: int, by_columns: bool) -> PackedBlocks:
    return pack(b, scale, zero, block_size, by_columns=by_columns)
