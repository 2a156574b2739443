"""The cases of ``dynamic_quantize_linear``."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases._quantizing import dtype_of, special
from jaxdml._cases.data import numbers, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "dynamic_quantize_linear"


def _example(x: list[float], scale: float, zero_point: int, output: list[int]) -> Example:
    expected = np.array(output, np.uint8), np.array(scale, np.float32), np.array(zero_point, np.uint8)
    return Example(_NAME, (np.array(x, np.float32),), {}, expected)


EXAMPLES = (
    # DirectML's page has no numbers. These are those of onnxruntime's tests of DynamicQuantizeLinear.
    _example([0, 2, -3, -2.5, 1.34, 0.5], 5 / 255, 153, [153, 255, 0, 26, 221, 179]),
    _example([-1, -2.1, -1.3, -2.5, -3.34, -4], 4 / 255, 255, [191, 121, 172, 96, 42, 0]),
    _example(
        [1, 2.1, 1.3, 2.5, 3.34, 4, 1.5, 2.6, 3.9, 4, 3, 2.345],
        4 / 255,
        0,
        [64, 134, 83, 159, 213, 255, 96, 166, 249, 255, 191, 149],
    ),
)

_DTYPES = {
    f"{x} -> {output}": (x, output) for x, output in (("float32", "uint8"), ("float16", "int8"), ("bfloat16", "uint8"))
}


def _of_any_size(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw ranges of every size, subnormal and infinite ones among them."""
    info = jnp.finfo(dtype)
    power = rng.integers(info.minexp - info.nmant, info.maxexp + 1, (shape[0], *[1] * (len(shape) - 1)))
    with np.errstate(all="ignore"):
        return (rng.standard_normal(shape) * np.exp2(power.astype(np.float64))).astype(dtype)


def _of_one_sign(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw the values of a case all above 0, or all below."""
    negative = rng.random((shape[0], *[1] * (len(shape) - 1))) < 0.5
    above = np.abs(_of_any_size(rng, shape, dtype)).astype(np.float64)
    return np.where(negative, -above, above).astype(dtype)


_MAKERS = {
    "ranges of any size": _of_any_size,
    "ranges of one sign": _of_one_sign,
    "NaNs, infinities, zeros and subnormals": special,
}


def _draw(maker: Any, dtype: str, shape: tuple[int, ...], rng: np.random.Generator, cases: int) -> Arguments:
    return (maker(rng, (cases, *shape), dtype_of(dtype)),)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return ranges of all sizes and signs."""
    dtype, output = _DTYPES[name]
    return tuple(
        Scenario(trap, partial(_draw, maker, dtype, (3, 5)), {"output_dtype": output}, 600)
        for trap, maker in _MAKERS.items()
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return arrays whose extremes are on different shards."""
    dtype, output = _DTYPES[name]
    draw = partial(_draw, _of_any_size, dtype, (2, 16))
    spread = Scenario("extremes on different shards", draw, {"output_dtype": output}, 300)
    return (Sharding("last dimension", "c", (spread,)),)


def call(group: str, shape: tuple[int, int], *, origin: str = "the grid") -> NamedCall:
    """Return the call that quantizes a float32 array of this shape."""

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        return (plain(rng, shape, np.dtype(np.float32)),)

    return NamedCall(
        *(_NAME, group, "x".join(map(str, shape)), "float32 -> uint8", "random", origin),
        draw=draw,
        bytes=math.prod(shape) * (2 * 4 + 1),  # The range is known only after all has been read.
    )


def stock(call: NamedCall) -> Callable[..., tuple[jax.Array, ...]]:
    """Return the formula as it is usually written."""

    def quantized(x: jax.Array) -> tuple[jax.Array, ...]:
        low, high = jnp.minimum(x.min(), 0), jnp.maximum(x.max(), 0)
        scale = (high - low) / 255
        zero_point = jnp.clip(jnp.round(-low / scale), 0, 255)
        output = jnp.clip(jnp.round(x / scale) + zero_point, 0, 255)
        return output.astype(jnp.uint8), scale, zero_point.astype(jnp.uint8)

    return quantized


def sample(rng: np.random.Generator, tame: bool, *, m: int = 4, c: int = 8) -> Arguments:
    """Draw a small matrix."""
    return (numbers(rng, (m, c), tame),)


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="m c -> m c, , ; m c",
    sample=sample,
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("float32 -> uint8",),
    races=(call("races", (32, 1024)), call("races", (4, 1024))),
    small=call("overheads", (4, 64), origin="a small call"),
    stock=stock,
)
