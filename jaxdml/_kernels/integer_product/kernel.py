"""Multiply 8-bit matrices with zero points exactly; choose the algorithm by platform, K and number of rows."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.signedness import Quantized, as_int8, as_uint8
from jaxdml._base.shapes import is_static
from jaxdml._kernels.integer_product.cpu import methods_on_cpu, on_cpu, packed_on_cpu
from jaxdml._kernels.integer_product.gpu import cut_of, kept_apart, on_gpu, on_gpus, stored_as_int8, stored_for
from jaxdml._kernels.integer_product.integer_dot import dot_with_ones, sum_of_slices
from jaxdml._kernels.integer_product.merged_dot import merged_dot
from jaxdml._kernels.integer_product.operands import Product, greatest_factor, product_shape
from jaxdml._kernels.integer_product.packed_columns import columns_on_the_right
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, Right, stored_as
from jaxdml._kernels.integer_product.unmerged_dot import split_along_k, unmerged_dot
from jaxdml._kernels.integer_sums import Accumulator, DeepAccumulator, RawProduct, accumulator, normalized
from jaxdml._placement.lowering import Forced, Form, Target, at_lowering

METHODS = {"integer_dot": None, "mixed_dot": "cpu"}
"""Products of int8 x int8, and of uint8 x int8; of each the platform if only one has it."""

_INT32_MAX = 2**31 - 1

QuantizedRight = tuple[Right, jax.Array | None]
"""The right matrix, which may be packed, and its zero point; None means 0."""

Operands = tuple[jax.Array, jax.Array | None, Right, jax.Array | None]
"""``a``, its zero point, ``b`` and its zero point."""


def multiply(a: Quantized, b: QuantizedRight, implementation: Forced | None) -> Accumulator | DeepAccumulator:
    """Return the accumulator of ``(a - za) @ (b - zb)``; both operands have the rank of the result.

    Args:
      a: int8 or uint8 ``[..., M, K]``, and its zero point that broadcasts against ``[..., M, 1]``.
      b: int8 or uint8 ``[..., K, N]``, or packed, and its zero point that broadcasts against ``[..., 1, N]``.
      implementation: one of ``METHODS``. None chooses ``mixed_dot`` on CPUs that have an instruction for it, unless K
        is so large that it is cut into slices.
    """
    k = a[0].shape[-1]
    if not fits(a, b, k):
        return _in_slices((*a, *b), longest(a, b), implementation)
    product = partial(form, packed=isinstance(b[0], PackedMatrix), forced=implementation)
    return Accumulator(product, (*a, *b), product_shape(a[0], b[0]), greatest_total(a, b, k))


def form(target: Target, packed: bool, forced: Forced | None) -> Product:
    """Say who multiplies where a program is lowered for ``target``; ``packed`` tells whether the right matrix is."""
    if forced:
        forced.require(target)
    if not target.alone:
        return _partitioned(target, forced)
    if target.platform == "cpu":
        methods = (forced.method,) if forced else methods_on_cpu()
        if packed:
            return partial(packed_on_cpu, methods)
        return partial(_shifted, product=on_cpu, shift=as_uint8 if "mixed_dot" in methods else as_int8)
    if target.is_gpu:
        return partial(product_on_gpu, tiled=target.tiled)
    if target.platform == "tpu" and not forced:
        return _on_tpu
    return partial(_shifted, product=_general(packed))


def form_of_patches(target: Target, packed: bool, forced: Forced | None) -> Product:
    """Say who multiplies patches by filters where a program is lowered for ``target``; a CPU convolves by itself.

    The filters may be a packed matrix. The convolution has required the method that is ``forced``.
    """
    if not target.alone:
        return _partitioned(target, forced)
    if target.is_gpu:
        return partial(product_on_gpu, tiled=target.tiled, adds_a_kernel=True)
    return partial(_shifted, product=merged_dot if target.platform == "tpu" else _general(packed))


def _partitioned(target: Target, forced: Forced | None) -> Product:
    """Say who multiplies where XLA partitions the program."""
    if target.is_gpu:
        return partial(_shifted, product=partial(on_gpus, target.devices, target.devices))
    return partial(_shifted, product=unmerged_dot, shift=as_uint8 if forced and forced.only_on == "cpu" else as_int8)


def _form_of_slices(target: Target, packed: bool, forced: Forced | None) -> Product:
    """Say who multiplies shifted slices of K where a program is lowered for ``target``."""
    if forced:
        forced.require(target)
    if target.platform == "tpu" and not forced:
        return _on_tpu
    if target.is_gpu:
        return on_gpu if target.alone else partial(on_gpus, 1, target.devices)
    return _general(packed) if target.alone else unmerged_dot


Factor = tuple[Any, jax.Array | None]
"""A matrix or filters, which may be packed, and the zero point; None means 0."""


def longest(a: Factor, b: Factor) -> int:
    """Return the greatest K for which int32 holds the accumulator."""
    return _INT32_MAX // greatest_product(a, b)


def fits(a: Factor, b: Factor, terms: Any) -> bool:
    """Tell whether int32 holds every sum of so many products."""
    return bool(terms <= longest(a, b) or greatest_total(a, b, terms) <= _INT32_MAX)


def greatest_total(a: Factor, b: Factor, terms: Any) -> Any:
    """Bound the sum of so many products from what is known while tracing, and from the numbers of packed weights."""
    worst = terms * greatest_product(a, b)
    weights, zero_point = b
    bound = getattr(weights, "bound", 0)
    if not bound or zero_point is not None or weights.dtype != jnp.int8 or not is_static(terms):
        return worst
    return min(worst, greatest_factor(*a) * bound)


def greatest_product(a: Factor, b: Factor) -> int:
    """Bound ``|(a - za) * (b - zb)|`` from what is known while tracing."""
    return greatest_factor(*a) * greatest_factor(*b)


def _in_slices(operands: Operands, longest: int, implementation: Forced | None) -> DeepAccumulator:
    # The operands are shifted before the platform is known. So a is uint8 only if the program is for CPUs alone.
    a, za, b, zb = operands
    mixed = implementation is not None and implementation.only_on == "cpu"
    shifted = (*(as_uint8 if mixed else as_int8)(a, za), *_as_int8(b, zb))
    choose = partial(_slicing, packed=isinstance(b, PackedMatrix), forced=implementation)
    return DeepAccumulator(*at_lowering(choose, *shifted, longest=longest))


def _slicing(target: Target, packed: bool, forced: Forced | None) -> Form:
    multiply = _form_of_slices(target, packed, forced)
    if target.alone:
        return partial(_sum_slices, multiply=multiply)
    return partial(_sum_slices_of_segments, multiply=multiply, devices=target.devices)


def _sum_slices(
    a: jax.Array, za: Any, b: Right, zb: Any, *, multiply: Product, longest: int
) -> tuple[jax.Array, jax.Array]:
    shape = product_shape(a, b)
    return sum_of_slices(a, za, b, zb, lambda *slices: accumulator(multiply(*slices), shape), longest)


def _sum_slices_of_segments(
    a: jax.Array, za: Any, b: Right, zb: Any, *, multiply: Product, devices: int, longest: int
) -> DeepAccumulator:
    """Sum the slices of each part of K that a device may have, and then those sums."""
    parts = split_along_k(a, za, b, zb, math.gcd(a.shape[-1], devices))
    return normalized(*(part.sum(axis=-3) for part in _sum_slices(*parts, multiply=multiply, longest=longest)))


def product_on_gpu(
    a: jax.Array,
    za: jax.Array | None,
    b: Right,
    zb: jax.Array | None,
    *,
    tiled: bool = False,
    adds_a_kernel: bool = False,
) -> RawProduct:
    """Multiply on one GPU; a and b may be uint8. In a ``tiled`` program int8 is multiplied rightly for every K.

    ``adds_a_kernel`` tells that a kernel that adds up sections of K would do little else: what reads the result of a
    convolution reads each number of it often.
    """
    cut = cut_of(a, b, tiled, adds_a_kernel)
    if cut is not None:
        # Before barriers, so that XLA sees what made the input.
        a, za = (stored_as_int8 if math.prod(b.shape[:-2]) == 1 else as_int8)(a, za)
    else:
        a, za = stored_for(b, a, za)
    a, b = kept_apart(a, b, cut)
    if a.dtype != jnp.bfloat16:
        a, za = as_int8(a, za)
    return on_gpu(a, za, *_as_int8(b, zb), cut=cut)


def _on_tpu(a: jax.Array, za: jax.Array | None, b: Right, zb: jax.Array | None) -> RawProduct:
    """Multiply uint8 by uint8 if that saves the sums of the columns, else int8 by int8; a and b may be either.

    TPUs have no units for uint8 times int8. The compiler would multiply such matrices in float32.
    """
    if za is None and not isinstance(b, PackedMatrix) and _is_cheaper_as_uint8(a, b, zb):
        return merged_dot(a, None, *as_uint8(b, zb))
    return _shifted(a, za, b, zb, product=merged_dot)


def _is_cheaper_as_uint8(a: jax.Array, b: jax.Array, zb: jax.Array | None) -> bool:
    """Whether int32 holds the sums of uint8 products, and these read less of a and b for sums of rows and columns.

    As int8, ``a`` gets a zero point, so the columns of ``b`` are summed. As uint8, the rows of ``a`` are summed only if
    ``b`` has a zero point, or gets one.
    """
    if a.dtype != jnp.uint8 or not is_static(*a.shape, *b.shape) or a.shape[-1] > _INT32_MAX // 255**2:
        return False
    return b.dtype == jnp.uint8 or zb is not None or a.size <= b.size


def greatest_sum(terms: Any, *operands: tuple[Any, np.ndarray | None]) -> int:
    """Bound the sum of so many products, given the operands and the zero point of each if that is known.

    A symbolic number of terms counts as the most that int32 holds the sum of.
    """
    if not is_static(terms):
        return _INT32_MAX
    reaches = [_reach(x.dtype, zero_point) for x, zero_point in operands]
    greatest = terms * math.prod(reaches)
    for (x, zero_point), reach in zip(operands, reaches, strict=True):
        if getattr(x, "bound", 0) and zero_point is not None:
            middle = 0 if x.dtype == jnp.int8 else 128
            beside = int(np.abs(zero_point.astype(np.int64) - middle).max(initial=0)) * terms
            greatest = min(greatest, math.prod(reaches) // reach * (x.bound + beside))
    return greatest


def _reach(dtype: Any, zero_point: np.ndarray | None) -> int:
    """Bound integers less their zero point."""
    limits = np.iinfo(dtype)
    zero = np.asarray([limits.min, limits.max] if zero_point is None else zero_point, np.int64)
    return int(max(limits.max - zero.min(initial=limits.max), zero.max(initial=limits.min) - limits.min))


def _as_int8(b: Right, zb: jax.Array | None) -> QuantizedRight:
    """Return a right matrix stored as int8, and the int32 zero point of what is stored; None for 0."""
    return stored_as(jnp.int8, b, zb) if isinstance(b, PackedMatrix) else as_int8(b, zb)


def _shifted(
    a: jax.Array,
    za: jax.Array | None,
    b: Right,
    zb: jax.Array | None,
    *,
    product: Product,
    shift: Callable[..., Quantized] = as_int8,
) -> RawProduct:
    """Return ``product`` of ``shift(a, za)`` and ``_as_int8(b, zb)``."""
    return product(*shift(a, za), *_as_int8(b, zb))


def _general(packed: bool) -> Product:
    """Return the product for platforms without one of their own."""
    return columns_on_the_right if packed else dot_with_ones
