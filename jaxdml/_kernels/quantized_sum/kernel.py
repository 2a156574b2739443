"""Add quantized arrays in fixed point, with four limbs, or on a CPU with two if the scales allow it; or in floats."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.residuals import Scales, clamp
from jaxdml._arithmetic.signedness import as_int8, centred
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.shapes import is_static
from jaxdml._kernels.quantized_sum import float32_sum, float64_sum
from jaxdml._kernels.quantized_sum.fixed_point_sum import Limbs, addends, clear_limbs, rounded_sum
from jaxdml._kernels.quantized_sum.float64_sum import Factors
from jaxdml._kernels.requantization import ON_CUDA, Addends, Terms, round_sums, round_terms
from jaxdml._placement.lowering import Form, Target, at_lowering

FEW_OUTPUTS = 2**14
"""Up to this size use four limbs: asking whether two suffice, in a branch, takes as long as two more limbs."""

MOST_WITHIN = 2**16
"""Up to so many outputs XLA has one GPU kernel if scales are traced, and from 2**17 on one more for each scalar, which
then are computed together before. Read in the programs of the CUDA compiler of JAX 0.10.1."""


def add(
    a: jax.Array,
    b: jax.Array,
    scales: Scales,
    za: jax.Array | None,
    zb: jax.Array | None,
    zero_point: jax.Array | None,
    dtype: jnp.dtype,
    known: Addends | Terms | None = None,
) -> jax.Array:
    """Return ``clamp(round(((a - za) * a_scale + (b - zb) * b_scale) / output_scale) + zero_point)``.

    It is rounded once and correctly. All arrays broadcast against each other.

    Args:
      a: int8 or uint8; ``b`` alike.
      b: int8 or uint8.
      scales: of ``a``, of ``b`` and of the output, float32.
      za: the zero point of ``a``, or None for 0; ``zb`` and ``zero_point`` alike.
      zb: that of ``b``.
      zero_point: that of the output.
      dtype: int8 or uint8.
      known: what ``requantization.proved_sum`` returns for the scales and zero points, or ``proved_terms`` also for
        ``b``, or None.
    """
    if isinstance(known, Terms):
        rounded: jax.Array = at_lowering(form_of_terms, a, known, dtype=dtype)
        return rounded
    outputs = math.prod(jnp.broadcast_shapes(a.shape, b.shape))
    few, within = (at_most(outputs, most) is True for most in (FEW_OUTPUTS, MOST_WITHIN))
    words = float32_sum.serves_words(a, b) and a.dtype == b.dtype == jnp.int8
    choose = partial(form, few=few, within=within, words=words, proved=_proof_of(known))
    result: jax.Array = at_lowering(choose, known, a, b, scales, za, zb, zero_point, dtype=dtype)
    return result


def form_of_terms(target: Target) -> Form:
    """Say who serves where ``b`` is known. How a TPU's addition rounds ties is not known by running one."""
    return partial(_by_terms, by_addition=target.platform != "tpu")


def _by_terms(a: jax.Array, by: Terms, *, dtype: jnp.dtype, by_addition: bool) -> jax.Array:
    return round_terms(as_int8(a, None)[0], by, dtype=dtype, by_addition=by_addition)


class Proved(NamedTuple):
    """Say what is proved to round every sum. Static."""

    in_float64: bool = False
    in_float32: bool = False
    in_two_limbs: bool = False


def _proof_of(known: Addends | None) -> Proved:
    return Proved() if known is None else Proved(True, known.pair is not None, known.clear)


def form(target: Target, few: bool, within: bool, words: bool, proved: Proved) -> Form:
    """Say who serves where a program is lowered for ``target``.

    Args:
      target: the target.
      few: whether there are few outputs.
      within: whether they are so few that each GPU thread may compute what depends on scales alone.
      words: whether arrays are so large that a GPU should read words.
      proved: what is.
    """
    if target.platform == "cuda":
        if proved.in_float32:
            return float32_sum.add_words if words and target.alone else float32_sum.add
        return _by_proof if proved.in_float64 else partial(_in_float64, before=not within)
    if proved.in_two_limbs and target.platform == "tpu":
        return _by_clear_limbs
    if target.alone and target.platform == "cpu" and (proved.in_float64 or not few):
        return partial(_by_limbs, limbs=None)
    return _by_limbs


def _in_float64(
    by: None, a: Any, b: Any, scales: Any, za: Any, zb: Any, zero: Any, *, dtype: jnp.dtype, before: bool
) -> jax.Array:
    """Add in float64, with the error of each sum; what depends on no array of data is computed ``before``."""
    del by
    with jax.enable_x64(True):
        factors, zeros = float64_sum.factors_of(scales), [za, zb, zero]
        # XLA does not refine a bitcast of unknown sizes.
        if before and is_static(*chain.from_iterable(x.shape for x in scales)):
            factors, zeros = _computed_together(factors, zeros)
        za, zb, zero = zeros
        total = float64_sum.rounded_sum(centred(a, za), centred(b, zb), factors)
        return clamp(total, None if zero is None else zero.astype(jnp.int32), dtype)


def _computed_together(factors: Factors, zeros: Sequence[Any]) -> tuple[Factors, list[Any]]:
    """Return what is given, from one small array: XLA has a GPU kernel for each number where outputs are many.

    Zero points of a larger shape than the factors are left as they are.
    """
    shape = jnp.broadcast_shapes(*(x.shape for x in factors))
    small = [x is not None and jnp.broadcast_shapes(x.shape, shape) == shape for x in zeros]
    words = [lax.bitcast_convert_type(x, jnp.int64) for x in factors]
    words += [x.astype(jnp.int64) for x, taken in zip(zeros, small, strict=True) if taken]
    stacked: jax.Array = lax.optimization_barrier(  # type: ignore[no-untyped-call]
        jnp.stack(jnp.broadcast_arrays(*words))
    )
    # The whole array is read as halves: XLA may have one more GPU kernel to convert it.
    wide, low = lax.bitcast_convert_type(stacked, jnp.float64), lax.bitcast_convert_type(stacked, jnp.int32)[..., 0]
    rest = iter(low[len(factors) :])
    read = [next(rest) if taken else x for x, taken in zip(zeros, small, strict=True)]
    return Factors(*wide[: len(factors)]), read


def _by_proof(by: Addends, a: Any, b: Any, scales: Any, za: Any, zb: Any, zero: Any, *, dtype: jnp.dtype) -> jax.Array:
    """Add in float64 with the factors that are proved."""
    del scales
    # As int8, which two operators store between them.
    p, q = centred(*as_int8(a, za)), centred(*as_int8(b, zb))
    return round_sums(ON_CUDA, p, q, by, None if zero is None else zero.astype(jnp.int32), dtype)


def _by_clear_limbs(
    by: Addends, a: Any, b: Any, scales: Any, za: Any, zb: Any, zero: Any, *, dtype: jnp.dtype
) -> jax.Array:
    """Add with the two limbs that suffice for what is known."""
    del scales
    p, q = (centred(a, za), centred(b, zb))
    factors = clear_limbs(by.factors)
    limbs = lax.optimization_barrier(factors.limbs)  # type: ignore[no-untyped-call]
    total = rounded_sum(p, q, factors._replace(limbs=limbs), 2)
    return clamp(total, None if zero is None else zero.astype(jnp.int32), dtype)


def _by_limbs(
    by: Addends | None,
    a: jax.Array,
    b: jax.Array,
    scales: Scales,
    za: jax.Array | None,
    zb: jax.Array | None,
    zero_point: jax.Array | None,
    *,
    dtype: jnp.dtype,
    limbs: int | None = 4,
) -> jax.Array:
    """Add with so many limbs; None means two if they suffice for all scales, else four."""
    del by
    # Computed once: otherwise every thread of a GPU, and every tile of a TPU, would divide.
    factors: Limbs = lax.optimization_barrier(addends(scales))  # type: ignore[no-untyped-call]

    def of(limbs: int) -> jax.Array:
        # Convert here: each conversion before the branch would be a GPU kernel.
        p, q = centred(a, za), centred(b, zb)
        zero = None if zero_point is None else zero_point.astype(jnp.int32)
        return clamp(rounded_sum(p, q, factors, limbs), zero, dtype)

    if limbs is not None:
        return of(limbs)
    return lax.cond(jnp.all(factors.two_suffice), partial(of, 2), partial(of, 4))
