"""Functions of one 8-bit operand: a table of 256 results, computed on the host and rounded once."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.values.kinds import Quantization
from jaxdml.onnx.values.stored import stored

Real = Callable[[Fraction], Fraction | float]


def rounded(value: Fraction | float) -> int:
    """Round to the nearest integer, ties to even; infinities to numbers that every dtype saturates at."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0 if math.isnan(value) else int(math.copysign(2**40, value))
    return round(value)


def table(real: Real, x: Quantization, x_dtype: Any, out: Quantization, out_dtype: Any) -> np.ndarray:
    """Return ``clamp(round(real(x) / scale) + zero_point)`` for every x, indexed by its bits.

    Args:
      real: the function of real numbers. A float that it returns is taken as it is.
      x: scale and zero point of x, known now.
      x_dtype: int8 or uint8.
      out: scale and zero point of the result, known now.
      out_dtype: int8 or uint8.
    """
    scale, zero = fraction(x.scale), integer(x.zero_point)
    out_scale, out_zero = fraction(out.scale), integer(out.zero_point)
    limits = np.iinfo(out_dtype)
    results = []
    for bits in np.arange(256, dtype=np.uint8):
        value = real(scale * (int(bits.astype(x_dtype)) - zero))
        quotient = value / out_scale if isinstance(value, Fraction) else value / float(out_scale)
        results.append(min(max(rounded(quotient) + out_zero, int(limits.min)), int(limits.max)))
    return np.asarray(results, out_dtype)


def fraction(scale: Any) -> Fraction:
    """Return a scale as a rational number."""
    return Fraction(float(np.asarray(scale).reshape(())))


def integer(zero_point: Any) -> int:
    """Return a zero point as an integer."""
    return 0 if zero_point is None else int(np.asarray(zero_point).reshape(()))


def known(quantization: Quantization) -> bool:
    """Whether scale and zero point, one of each, are known while tracing, and the scale is positive."""
    zero = quantization.zero_point
    return (zero is None or isinstance(zero, np.ndarray)) and positive(quantization.scale)


def positive(scale: Any) -> bool:
    """Whether a scale is one finite positive number, known while tracing."""
    return isinstance(scale, np.ndarray) and 0 < float(scale.reshape(())) < math.inf


def look_up(entries: np.ndarray, x: Any) -> Any:
    """Return the table's entry for each of the 8-bit integers ``x``."""
    data, wrap = stored(x)
    if (entries == np.arange(256, dtype=np.uint8).astype(data.dtype)).all() and entries.dtype == data.dtype:
        return x
    bits = jax.lax.bitcast_convert_type(data, jnp.uint8).astype(jnp.int32)
    selected = partial(_selected, entries)
    return wrap(jax.lax.platform_dependent(jnp.asarray(entries), bits, default=_indexed, tpu=selected))


def entries_at(entries: jax.Array, places: jax.Array) -> jax.Array:
    """Return the entries of a table of int32 at these places, which are in it; sharded as the places are."""
    # A TPU reads a whole tile for each entry that an index reads.
    found: jax.Array = jax.lax.platform_dependent(entries, places, default=_indexed, tpu=_summed)
    return found


def _indexed(entries: jax.Array, places: jax.Array) -> jax.Array:
    sharding = jax.typeof(places).sharding
    # Of unsigned places nothing else is computed. With several axes of a mesh JAX does not say by itself how the result
    # is sharded.
    found = entries.at[places.astype(jnp.uint32)]
    return found.get(mode="promise_in_bounds", out_sharding=sharding if any(sharding.spec) else None)


def _selected(entries: np.ndarray, _: jax.Array, places: jax.Array) -> jax.Array:
    """Select among words of four entries, bit by bit of the place, and shift the entry out of the last one.

    Only element-wise operations: they are fused with what makes the places. So only 8-bit results are stored, where a
    sum over the table stores its places and its results as int32.
    """
    words: list[Any] = list(entries.view(np.uint8).reshape(-1, 4) @ np.array([1, 2**8, 2**16, 2**24], np.uint32))
    for bit in range(2, 8):
        upper = (places >> bit) & 1 == 1
        words = [_one_of(upper, *pair) for pair in zip(words[1::2], words[::2], strict=True)]
    (word,) = words
    shifted = jnp.right_shift(word, (places & 3).astype(jnp.uint32) * 8)
    found = jax.lax.bitcast_convert_type((shifted & 255).astype(jnp.uint8), jnp.dtype(entries.dtype))
    # Else XLA fuses the selects with a product that reads them, and compiles for six times as long.
    return jax.lax.optimization_barrier(found)  # type: ignore[no-untyped-call]


def _one_of(upper: jax.Array, one: Any, other: Any) -> Any:
    """Return one or the other; without a select where both are the same number."""
    same = isinstance(one, np.uint32) and isinstance(other, np.uint32) and one == other
    return one if same else jnp.where(upper, one, other)


def _summed(entries: jax.Array, places: jax.Array) -> jax.Array:
    """Add all entries of a table, each times whether its place is wanted."""
    every = jax.lax.broadcasted_iota(places.dtype, (*[1] * places.ndim, entries.size), places.ndim)
    return jnp.sum(jnp.where(places[..., None] == every, entries, 0), axis=-1, dtype=entries.dtype)


def identity(value: Fraction) -> Fraction:
    """Return the value."""
    return value
