"""Multiply 8-bit matrices with zero points exactly; choose the algorithm by platform, K and number of rows."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base.shapes import is_static
from jaxdml._kernels.integer_product.cpu import methods_on_cpu, on_cpu, packed_on_cpu
from jaxdml._kernels.integer_product.gpu import on_gpu, on_gpus
from jaxdml._kernels.integer_product.integer_dot import dot_with_ones, sum_of_slices
from jaxdml._kernels.integer_product.merged_dot import merged_dot
from jaxdml._kernels.integer_product.packed_columns import columns_on_the_right
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, Right, stored_as
from jaxdml._kernels.integer_product.raw_product import (
    Product,
    RawProduct,
    accumulator,
    as_int8,
    as_uint8,
    longest_exact_sum,
    product_shape,
)
from jaxdml._kernels.integer_product.unmerged_dot import (
    split_along_k,
    unmerged_dot,
)
from jaxdml._placement.partitioning import by_partitioning
from jaxdml._placement.platforms import Forced, Kernel, chain, run

METHODS = {"integer_dot": None, "mixed_dot": "cpu"}
"""Products of int8 x int8, and of uint8 x int8; of each the platform if only one has it."""

Quantized = tuple[jax.Array, jax.Array | None]
"""A tensor and its zero point; None means 0."""

QuantizedRight = tuple[Right, jax.Array | None]
"""The right matrix, which may be packed, and its zero point; None means 0."""

Operands = tuple[jax.Array, jax.Array | None, Right, jax.Array | None]
"""``a``, its zero point, ``b`` and its zero point."""


class Accumulator(NamedTuple):
    """Hold a product that is not computed yet: the int32 sum over K of ``(a - za) * (b - zb)``."""

    product: Kernel
    """Takes ``operands`` and returns a ``RawProduct``, whose shapes differ between platforms."""

    partitioned: Callable[[int], Kernel]
    """Returns the kernel for a program that XLA partitions over so many devices."""

    operands: Any
    shape: tuple[int, ...]
    """``[..., M, N]``."""

    greatest: int = 2**31 - 1
    """No sum is greater than this in magnitude."""


class DeepAccumulator(NamedTuple):
    """Hold sums over K that do not fit int32: ``low + 2**16 * high``, int32 ``[..., M, N]``, ``0 <= low < 2**16``."""

    low: jax.Array
    high: jax.Array


def multiply(a: Quantized, b: QuantizedRight, implementation: Forced | None) -> Accumulator | DeepAccumulator:
    """Return the accumulator of ``(a - za) @ (b - zb)``; both operands have the rank of the result.

    Args:
      a: int8 or uint8 ``[..., M, K]``, and its zero point that broadcasts against ``[..., M, 1]``.
      b: int8 or uint8 ``[..., K, N]``, or packed, and its zero point that broadcasts against ``[..., 1, N]``.
      implementation: one of ``METHODS``. None chooses ``mixed_dot`` on CPUs that have an instruction for it, unless K
        is so large that it is cut into slices.
    """
    most = longest(a, b)
    if a[0].shape[-1] > most:
        return _in_slices((*a, *b), most, implementation)
    methods = methods_on_cpu() if implementation is None else (implementation.method,)
    cpu = _shifted(on_cpu, as_uint8 if "mixed_dot" in methods else as_int8)
    if isinstance(b[0], PackedMatrix):
        cpu = partial(packed_on_cpu, methods)
    product = _product(implementation, _shifted(_general(b[0])), cpu, _shifted(on_gpu))
    bound = a[0].shape[-1] * greatest(*a) * greatest(*b)
    return Accumulator(
        product, partial(partitioned_product, implementation), (*a, *b), product_shape(a[0], b[0]), bound
    )


def longest(a: tuple[Any, jax.Array | None], b: tuple[Any, jax.Array | None]) -> int:
    """Return the greatest K for which int32 holds the accumulator."""
    return longest_exact_sum(greatest(*a), greatest(*b))


def of_total(total: jax.Array) -> Accumulator:
    """Return the accumulator of a product that is already computed: the int32 ``total``."""
    computed = Kernel(RawProduct)
    return Accumulator(computed, lambda devices: computed, (total,), total.shape)


def total(sums: Accumulator) -> jax.Array:
    """Compute the int32 sums of an ``Accumulator``."""
    finishing = Kernel(partial(accumulator, shape=sums.shape))
    return finish(sums, finishing, finishing)


def finish(sums: Accumulator, single: Kernel, partitioned: Kernel, *others: Any) -> Any:
    """Return what a kernel makes of the ``RawProduct`` of an ``Accumulator`` and of other operands.

    Args:
      sums: the accumulator.
      single: the kernel for a program on one device.
      partitioned: the kernel for a program that XLA partitions.
      others: the other operands.
    """
    # The forms must not refer to the operands, which belong to the trace of the caller.
    product, product_of = sums.product, sums.partitioned
    return by_partitioning(
        lambda *operands: run(chain(product, single), *operands),
        lambda devices, *operands: run(chain(product_of(devices), partitioned), *operands),
        *(sums.operands, *others),
    )


def wrapped(sums: Accumulator | DeepAccumulator) -> jax.Array:
    """Return what ``multiply`` returned, or sums of that over shards, as int32 modulo 2**32."""
    if isinstance(sums, DeepAccumulator):
        return sums.low + (sums.high << 16)
    return total(sums)


def _in_slices(operands: Operands, longest: int, implementation: Forced | None) -> DeepAccumulator:
    # The operands are shifted before the platform is known. So a is uint8 only if the program is for CPUs alone.
    a, za, b, zb = operands
    mixed = implementation is not None and implementation.only_on == "cpu"
    shifted = (*(as_uint8 if mixed else as_int8)(a, za), *_as_int8(b, zb))
    general = _general(b)  # The forms must not refer to b, which belongs to the trace of the caller.

    def in_slices(product: Kernel, operands: Operands) -> tuple[jax.Array, jax.Array]:
        finishing = Kernel(partial(accumulator, shape=product_shape(operands[0], operands[2])))

        def multiply_slice(*operands: jax.Array | None) -> jax.Array:
            return run(chain(product, finishing), operands)

        return sum_of_slices(*operands, multiply_slice, longest)

    def single(*operands: Any) -> tuple[jax.Array, jax.Array]:
        return in_slices(_product(implementation, general, general, on_gpu), operands)

    def partitioned(devices: int, *operands: Any) -> tuple[jax.Array, jax.Array]:
        product = _product(implementation, unmerged_dot, unmerged_dot, partial(on_gpus, 1, devices))
        a, za, b, zb = operands
        parts = split_along_k(a, za, b, zb, math.gcd(a.shape[-1], devices))
        return carried(*(part.sum(axis=-3) for part in in_slices(product, parts)))

    return DeepAccumulator(*by_partitioning(single, partitioned, *shifted))


def carried(low: jax.Array, high: jax.Array) -> DeepAccumulator:
    """Return the deep accumulator of sums of lower and of upper 16 bits; fewer than 2**15 of each were added."""
    return DeepAccumulator(low & 0xFFFF, high + (low >> 16))


def single_product() -> Kernel:
    """Return the product of ``multiply`` for a program on one device, without a form for CPUs."""
    return Kernel(_shifted(dot_with_ones), gpu=product_on_gpu, tpu=_shifted(merged_dot))


def product_on_gpu(a: jax.Array, za: jax.Array | None, b: Right, zb: jax.Array | None) -> RawProduct:
    """Multiply on one GPU; a and b may be uint8."""
    return _shifted(on_gpu)(a, za, b, zb)


def _on_tpu(a: jax.Array, za: jax.Array | None, b: Right, zb: jax.Array | None) -> RawProduct:
    """Multiply uint8 by uint8 if that saves the sums of the columns, else int8 by int8; a and b may be either.

    TPUs have no units for uint8 times int8. The compiler would multiply such matrices in float32.
    """
    if za is None and not isinstance(b, PackedMatrix) and _is_cheaper_as_uint8(a, b, zb):
        return merged_dot(a, None, *as_uint8(b, zb))
    return _shifted(merged_dot)(a, za, b, zb)


def _is_cheaper_as_uint8(a: jax.Array, b: jax.Array, zb: jax.Array | None) -> bool:
    """Whether int32 holds the sums of uint8 products, and these read less of a and b for sums of rows and columns.

    As int8, ``a`` gets a zero point, so the columns of ``b`` are summed. As uint8, the rows of ``a`` are summed only if
    ``b`` has a zero point, or gets one.
    """
    if a.dtype != jnp.uint8 or not is_static(*a.shape, *b.shape) or a.shape[-1] > longest_exact_sum(255, 255):
        return False
    return b.dtype == jnp.uint8 or zb is not None or a.size <= b.size


def partitioned_product(implementation: Forced | None, devices: int) -> Kernel:
    """Return the product for a program that XLA partitions over so many devices."""
    if implementation is not None and implementation.only_on == "cpu":
        return Kernel(cpu=_shifted(unmerged_dot, as_uint8), refusal=implementation.refusal)
    return Kernel(_shifted(unmerged_dot), gpu=_shifted(partial(on_gpus, devices, devices)))


def _product(implementation: Forced | None, default: Product, cpu: Product, gpu: Product) -> Kernel:
    """Return the product of these forms; of that for CPUs alone if a method is forced that only they have."""
    if implementation is not None and implementation.only_on == "cpu":
        return Kernel(cpu=cpu, refusal=implementation.refusal)
    return Kernel(default, cpu, gpu, tpu=None if implementation else _on_tpu)


def greatest_sum(terms: Any, *operands: tuple[Any, np.ndarray | None]) -> int:
    """Bound the sum of so many products, given each operand's dtype and its zero point if that is known.

    A symbolic number of terms counts as the most that int32 holds the sum of.
    """
    reaches = []
    for dtype, zero_point in operands:
        limits = np.iinfo(dtype)
        zero = np.asarray([limits.min, limits.max] if zero_point is None else zero_point, np.int64)
        reaches.append(int(max(limits.max - zero.min(initial=limits.max), zero.max(initial=limits.min) - limits.min)))
    return terms * math.prod(reaches) if is_static(terms) else 2**31 - 1


def greatest(x: Any, zero_point: jax.Array | None) -> int:
    """Bound ``|x - zero_point|`` from what is known while tracing."""
    return 128 if x.dtype == jnp.int8 and zero_point is None else 255


def _as_int8(b: Right, zb: jax.Array | None) -> QuantizedRight:
    """Return a right matrix stored as int8, and the int32 zero point of what is stored; None for 0."""
    return stored_as(jnp.int8, b, zb) if isinstance(b, PackedMatrix) else as_int8(b, zb)


def _shifted(product: Product, shift: Callable[..., Quantized] = as_int8) -> Product:
    """Return ``product`` applied to ``shift(a, za)`` and ``_as_int8(b, zb)``."""
    return lambda a, za, b, zb: product(*shift(a, za), *_as_int8(b, zb))


def _general(b: Right) -> Product:
    """Return the product for platforms without one of their own."""
    return columns_on_the_right if isinstance(b, PackedMatrix) else dot_with_ones
