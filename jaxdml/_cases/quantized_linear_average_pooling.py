"""The cases of ``quantized_linear_average_pooling``."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._cases.data import any_bits, factors, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "quantized_linear_average_pooling"

EXAMPLES = (
    # DirectML's page has no numbers. These are done by hand: the means over the output's scale are the ties 2.5 and
    # -1.5 in the middle, and 4 and -3 at the ends, where one of two elements is padding that does not count.
    *(
        Example(
            _NAME,
            (
                np.array([[[132, 129, 124]]], np.uint8),
                np.array(0.5, np.float32),
                np.array(128, np.uint8),
                np.array(0.5, np.float32),
                np.array(11, np.uint8),
            ),
            {"window": 2, "start_padding": 1, "end_padding": 1, "include_padding": include_padding},
            (np.array([[expected]], np.uint8),),
        )
        for include_padding, expected in ((False, [15, 13, 9, 7]), (True, [13, 13, 9, 9]))
    ),
)

_DTYPES = {f"{x} -> {to}": (x, to) for x, to in (("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8"))}

_SCENARIOS: tuple[tuple[str, tuple[int, ...], bool, dict[str, Any]], ...] = (
    ("ties in means of four", (2, 4, 6), False, {"window": 2, "strides": 2}),
    (
        "padding that does not count, scales by channel",
        (2, 5, 4),
        True,
        {"window": 3, "strides": (2, 1), "start_padding": 2, "end_padding": (0, 1)},
    ),
    (
        "padding that counts, dilated windows",
        (1, 5, 5),
        False,
        {"window": (2, 3), "dilations": (3, 2), "start_padding": (1, 0), "end_padding": 1, "include_padding": True},
    ),
)
"""The trap, the shape of each case without N, whether each channel has a scale and a zero point, and the options."""


def _draw(
    dtypes: tuple[str, str], shape: tuple[int, ...], by_channel: bool, rng: np.random.Generator, cases: int
) -> Arguments:
    """Draw means of which many are ties.

    In every other case both scales are powers of two, and in the rest they are any normal float32. The differences from
    the zero point reach 6, 50 or 255 in turn. The output's scale is from 2**-3 to 2**3 times the input's, so that some
    outputs saturate; in every ninth case it is so great that all are 0, or so small that only 0 does not saturate.
    """
    of = (shape[0],) if by_channel else ()
    spread = np.array([6, 50, 255])[np.arange(cases) // 2 % 3]
    exponent = rng.integers(-50, 50, (cases, *(1 for _ in of)))
    ratio = np.where(np.arange(cases) % 9 == 8, rng.choice([-70, 70], cases), 0)
    exponents = exponent + np.zeros((2, cases, *of), int) + rng.integers(-1, 3, (2, cases, *of))
    exponents[1] += ratio.reshape(-1, *(1 for _ in of))
    fraction = np.where(np.arange(cases) % 2, rng.integers(0, 2**23, (2, cases)), 0)
    fraction = fraction.reshape(2, cases, *(1 for _ in of))
    negative = (rng.random((2, cases, *of)) < 0.1).astype(np.uint32) << 31
    scales = (negative | ((np.clip(exponents, -126, 127) + 127) << 23 | fraction).astype(np.uint32)).view(np.float32)
    zeros = [any_bits(rng, (cases, *of), np.dtype(name)) for name in dtypes]
    info = np.iinfo(dtypes[0])
    middle = np.broadcast_to(zeros[0].reshape(cases, -1), (cases, shape[0])).astype(int)
    drawn = rng.uniform(-1, 1, (cases, 1, *shape)) * spread.reshape(-1, *(1 for _ in shape), 1)
    x = middle.reshape(cases, 1, shape[0], *(1 for _ in shape[1:])) + np.rint(drawn).astype(int)
    return np.clip(x, info.min, info.max).astype(dtypes[0]), scales[0], zeros[0], scales[1], zeros[1]


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return means that tie, nearly tie and saturate, with and without padding."""
    dtypes = _DTYPES[name]
    return tuple(
        Scenario(trap, partial(_draw, dtypes, shape, by_channel), {**options, "output_dtype": dtypes[1]}, 300)
        for trap, shape, by_channel, options in _SCENARIOS
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return poolings with the channels sharded."""
    dtypes = _DTYPES[name]
    options = {"window": 2, "start_padding": 1, "output_dtype": dtypes[1]}
    scenario = Scenario("ties, channels sharded", partial(_draw, dtypes, (16, 5), True), options, 450)
    return (Sharding("channels", "c", (scenario,), "n c w, c, c, c, c -> n c w"),)


def call(group: str, shape: tuple[int, ...], dtype: str, *, origin: str, **options: Any) -> NamedCall:
    """Return the call that pools an array with one scale and one zero point; the result has the same dtype."""

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        zeros = [np.array(zero if dtype == "uint8" else zero - 128, dtype) for zero in (120, 128)]
        # The means of many elements differ little from one another.
        scales = np.float32(0.0713), np.float32(0.0713 / math.sqrt(window))
        return plain(rng, shape, np.dtype(dtype)), np.asarray(scales[0]), zeros[0], np.asarray(scales[1]), zeros[1]

    sizes = np.broadcast_to(options["window"], len(shape) - 2)
    window = int(np.prod(sizes))
    strides = np.broadcast_to(options.get("strides", 1), len(shape) - 2)
    outputs = math.prod(shape[:2]) * int(
        np.prod([(n - size) // stride + 1 for n, size, stride in zip(shape[2:], sizes, strides, strict=True)])
    )
    size = f"{'x'.join(map(str, shape))} by {'x'.join(map(str, sizes))}"
    return NamedCall(
        *(_NAME, group, size, dtype, "random", origin),
        draw=draw,
        bytes=math.prod(shape) + outputs,
        options=options,
        known=(1, 2, 3, 4),
    )


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the means of a window reduction in float32. None of the calls has padding or dilations."""
    return partial(_stock, options=call.options)


def _stock(
    x: jax.Array,
    x_scale: jax.Array,
    x_zero: jax.Array,
    output_scale: jax.Array,
    output_zero: jax.Array,
    *,
    options: Mapping[str, Any],
) -> jax.Array:
    bounds = jnp.iinfo(output_zero.dtype)
    window, strides = (
        (1, 1, *np.broadcast_to(option, x.ndim - 2).tolist()) for option in (options["window"], options["strides"])
    )
    real = (x.astype(jnp.float32) - x_zero.astype(jnp.float32)) * x_scale
    total = lax.reduce_window(real, jnp.float32(0), lax.add, window, strides, "VALID")
    mean = total / math.prod(window) / output_scale
    zero = output_zero.astype(jnp.float32)
    return jnp.clip(jnp.round(mean) + zero, bounds.min, bounds.max).astype(output_zero.dtype)


def sample(rng: np.random.Generator, tame: bool, *, n: int = 2, c: int = 4, h: int = 4) -> Arguments:
    """Draw a small pooling, with a scale and a zero point of each channel."""
    dtype = np.dtype(np.uint8)
    x, x_zero, output_zero = (any_bits(rng, shape, dtype) for shape in ((n, c, h, 3), (c,), ()))
    return x, factors(rng, (c,), tame), x_zero, factors(rng, (), tame), output_zero


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="n c h w, c, c, , -> n c h w",
    sample=sample,
    options={"window": (1, 2), "start_padding": (0, 1)},
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("uint8 -> int8",),
    races=(call("races", (8, 64, 28, 28), "uint8", origin="a pooling in a network", window=2, strides=2),),
    small=call("overheads", (1, 8, 8, 8), "uint8", origin="a small call", window=2, strides=2),
    stock=stock,
    judged_rows=1,
)
