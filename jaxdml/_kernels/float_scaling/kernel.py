"""Scale accumulators to floats, with the roundings of IEEE 754.

GPUs use plain operations. So do CPUs if no result can be subnormal; else they multiply scales in float64. All else is
done with integers.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic import in_float64
from jaxdml._arithmetic.ieee import narrowed
from jaxdml._kernels.float_scaling.scaled_sums import Scaling, is_usual, of_two_words, plain_scaled_sum, scaled_sum
from jaxdml._kernels.integer_sums import Accumulator, DeepAccumulator, RawProduct, accumulator, finish, total
from jaxdml._placement.lowering import Form, Target

FEW_OUTPUTS = 2**13
"""Up to this size there is one form for all scales: a second one takes longer to compile than it saves."""


def to_float(sums: Accumulator | DeepAccumulator, by: Scaling, dtype: jnp.dtype) -> jax.Array:
    """Return ``float(sums) * (a_scale * b_scale) + bias``, rounded to float32 after each operation, then to ``dtype``.

    It is differentiable in what ``by`` has, as if nothing were rounded.

    Args:
      sums: what ``integer_product.multiply`` returns.
      by: float32 that broadcast to the accumulator's shape; the bias may be None.
      dtype: float32, float16 or bfloat16.
    """
    if isinstance(sums, DeepAccumulator):
        return _of_integers(of_two_words(*sums), by, dtype)
    return _of_one_word(sums, by, dtype)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _of_integers(integers: jax.Array, by: Scaling, dtype: jnp.dtype) -> jax.Array:
    return narrowed(scaled_sum(integers, by), dtype)


@_of_integers.defjvp
def _(dtype: jnp.dtype, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (integers, by), (_, of) = primals, tangents
    tangent = integers * (of.a_scale * by.b_scale + by.a_scale * of.b_scale)
    if by.bias is not None:
        tangent += of.bias
    return _of_integers(integers, by, dtype), tangent.astype(dtype)


def _of_one_word(sums: Accumulator, by: Scaling, dtype: jnp.dtype) -> jax.Array:
    choose = partial(form, outputs=math.prod(sums.shape))
    # What a derivative refers to must not have the operands, which belong to the trace of the caller.
    without_operands = sums._replace(operands=())

    @jax.custom_jvp
    def scaled(operands: Any, by: Scaling) -> Any:
        return finish(without_operands._replace(operands=operands), choose, by, shape=sums.shape, dtype=dtype)

    @scaled.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (operands, by), (_, of) = primals, tangents
        integers = total(without_operands._replace(operands=operands)).astype(jnp.float32)
        return jax.jvp(lambda by: _of_integers(integers, by, dtype), (by,), (of,))

    result: jax.Array = scaled(sums.operands, by)
    return result


def form(target: Target, outputs: int) -> Form:
    """Say who scales so many outputs where a program is lowered for ``target``.

    A GPU does not take subnormals as zeros, and the plain form keeps its product and its sum apart. On an H200 it has
    the bits of the exact form, subnormals, infinities and NaNs included. A CPU takes a branch on the scales, which
    costs nothing there; a GPU would wait for the host.
    """
    if target.is_gpu:
        return _plainly
    if target.alone and target.platform == "cpu":
        return _usual_or_any if outputs > FEW_OUTPUTS else _scales_in_float64
    return _exactly


def _exactly(raw: RawProduct, by: Scaling, *, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    integers = accumulator(raw, shape).astype(jnp.float32)
    return narrowed(scaled_sum(integers, by), dtype)


def _plainly(raw: RawProduct, by: Scaling, *, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    integers = accumulator(raw, shape).astype(jnp.float32)
    return narrowed(plain_scaled_sum(integers, by), dtype)


def _scales_in_float64(raw: RawProduct, by: Scaling, *, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    integers = accumulator(raw, shape).astype(jnp.float32)
    return narrowed(scaled_sum(integers, by, in_float64.product), dtype)


def _usual_or_any(raw: RawProduct, by: Scaling, *, shape: tuple[int, ...], dtype: jnp.dtype) -> jax.Array:
    """Use plain operations if no result can be subnormal or infinite."""
    exactly, plainly = (partial(way, shape=shape, dtype=dtype) for way in (_scales_in_float64, _plainly))
    # Each branch computes the accumulator from the raw product. Computed before the branch, it would have to be stored.
    result: jax.Array = lax.cond(is_usual(by), plainly, exactly, raw, by)
    return result
