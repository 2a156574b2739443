"""What the cases of matrix products and convolutions share: 8-bit operands whose products are summed."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases.data import any_bits, factors
from jaxdml._cases.records import Arguments, Array

Shape = tuple[int, ...]

INT8, UINT8 = np.dtype("int8"), np.dtype("uint8")

TOO_DEEP = 33_100
"""More products of two differences of 255 than an int32 holds."""

TOO_DEEP_IN_SHARDS = 33_104
"""The next multiple of ``SHARDS``."""


def scales(rng: np.random.Generator, exponent: Array, of_fraction: Array, shape: tuple[int, ...]) -> Array:
    """Compose normal float32 numbers of these exponents, some of them negative."""
    whole = (len(exponent), *shape)
    exponent, of_fraction = (part.reshape(-1, *[1] * len(shape)) for part in (exponent, of_fraction))
    near = rng.choice(np.array([0, 1, 2**23 - 1]), whole)
    choices = [np.zeros_like(near), near]
    fraction = np.select([of_fraction == 0, of_fraction == 1], choices, rng.integers(0, 2**23, whole))
    biased = np.clip(exponent + rng.integers(0, 2, whole), -126, 127) + 127
    negative = rng.random(whole) < 0.1
    return (negative.astype(np.uint32) << 31 | (biased << 23 | fraction).astype(np.uint32)).view(np.float32)


def sample_product(rng: np.random.Generator, tame: bool, b: int, m: int, k: int, n: int) -> Arguments:
    """Draw two small matrices, each with its scales and zero points."""
    return (
        *(any_bits(rng, (b, m, k), UINT8), factors(rng, (m,), tame), any_bits(rng, (m,), UINT8)),
        *(any_bits(rng, (b, k, n), INT8), factors(rng, (n,), tame), any_bits(rng, (n,), INT8)),
    )


def sample_output(rng: np.random.Generator, tame: bool) -> Arguments:
    """Draw the scale and the zero point of the result of a small product or convolution."""
    return 256 * factors(rng, (), tame), np.array(128, np.uint8)


def greatest(
    dtypes: Sequence[str], shapes: Iterable[tuple[Shape, Shape]], rng: np.random.Generator, cases: int
) -> Arguments:
    """Draw operands of one extreme value, with the opposite one as zero point: all differences are 255 or -255.

    In the first case all differences are 255. Then the signs are drawn.

    Args:
      dtypes: those of the operands; others may follow.
      shapes: of each operand, its own and that of its zero point.
      rng: where to draw from.
      cases: how many cases there are.
    """
    operands: list[Array | None] = []
    for name, of_operand in zip(dtypes, shapes, strict=False):
        ends = np.iinfo(name)
        positive = rng.random(cases) < 0.5
        positive[:1] = True
        value = np.where(positive, ends.max, ends.min).astype(name)
        for shape, filling in zip(of_operand, (value, ~value), strict=True):
            operands.append(np.broadcast_to(filling.reshape(-1, *[1] * len(shape)), (cases, *shape)).copy())
    return tuple(operands)


def zero_points(rng: np.random.Generator, shape: Shape | None, cases: int, dtype: Any) -> Array | None:
    """Draw zero points, of which those of every other case are the least and the greatest value of the dtype."""
    if shape is None:
        return None
    zero, info = any_bits(rng, (cases, *shape), np.dtype(dtype)), np.iinfo(dtype)
    zero[::2] = rng.choice(np.array([info.min, info.max], dtype), zero[::2].shape)
    return zero


def stock_sums(a: jax.Array, a_zero: jax.Array, b: jax.Array, b_zero: jax.Array) -> jax.Array:
    """Multiply matrices as one writes it in stock JAX: in int32."""
    a, a_zero, b, b_zero = (part.astype(jnp.int32) for part in (a, a_zero, b, b_zero))
    return jnp.matmul(a - a_zero, b - b_zero)


def stock_rounded(real: jax.Array, zero_point: jax.Array) -> jax.Array:
    """Round as one writes it in stock JAX, to the dtype of the zero point."""
    bounds = jnp.iinfo(zero_point.dtype)
    wide = jnp.round(real).astype(jnp.int32) + zero_point.astype(jnp.int32)
    return jnp.clip(wide, bounds.min, bounds.max).astype(zero_point.dtype)
