"""The cases of ``quantize_linear``."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases import _quantizing
from jaxdml._cases._quantizing import (
    Shapes,
    broadcast,
    call,
    dtype_of,
    near_ties,
    scales,
    shape_of,
    small,
    special,
)
from jaxdml._cases.data import any_bits, numbers
from jaxdml._cases.records import Arguments, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "quantize_linear"
_X = np.array([0, 2, 3, 5, 6, -2, -5, -6], np.float32)
_SCALE = np.float32(0.039215686)

EXAMPLES = (
    # DirectML's page has no numbers. These are those of onnxruntime's tests of QuantizeLinear.
    *(
        Example(_NAME, (_X, np.array(_SCALE), np.array(zero, np.int8)), {}, (np.array(expected, np.int8),))
        for zero, expected in (
            (-23, [-23, 28, 53, 104, 127, -74, -128, -128]),
            (23, [23, 74, 99, 127, 127, -28, -104, -128]),
        )
    ),
)

_DTYPES = {
    f"{x} -> {output}": (x, output)
    for x, output in (
        *(("float32", "uint8"), ("float16", "int8"), ("bfloat16", "uint8")),
        *(("int32", "int8"), ("float32", "uint16")),
    )
}

_TRAPS = (
    "quotients on and beside ties",
    "ties, by index of an axis",
    "infinities, NaNs, zeros and subnormals",
    "ties, by blocks, the last one short",
)


def _draw(dtypes: tuple[str, str], shapes: Shapes, rng: np.random.Generator, cases: int) -> Arguments:
    of_x, output = map(dtype_of, dtypes)
    of_scale = np.dtype(np.float32) if of_x.kind == "i" else of_x
    shape, scale_shape, zero_shape = shapes.of(cases)
    zero = None if zero_shape is None else any_bits(rng, zero_shape, output)
    if shapes.special:
        return special(rng, shape, of_x), special(rng, scale_shape, of_scale), zero
    scale = scales(rng, scale_shape, of_scale)
    spread = np.repeat(scale, shapes.options.get("block_size", 1), -1)[..., : shape[-1]]
    each = np.broadcast_to(spread.reshape(cases, *[1] * (len(shape) - spread.ndim), *spread.shape[1:]), shape)
    info = np.iinfo(output)
    return near_ties(rng, each, of_x, int(info.max) - int(info.min)), scale, zero


def _scenario(dtypes: tuple[str, str], trap: str, shapes: Shapes) -> Scenario:
    return Scenario(trap, partial(_draw, dtypes, shapes), {**shapes.options, "output_dtype": dtypes[1]}, 300)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return quotients on ties, up to two least steps beside them, and of special values."""
    return _quantizing.scenarios(partial(_scenario, _DTYPES[name]), _TRAPS)


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return the axis of the scales sharded, and an axis with blocks sharded across them."""
    return _quantizing.shardings(partial(_scenario, _DTYPES[name]), "ties")


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the formula as it is usually written."""

    def quantized(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
        scale, zero_point = broadcast(call, scale), broadcast(call, zero_point)
        bounds = jnp.iinfo(zero_point.dtype)
        shifted = jnp.round(x.astype(jnp.float32) / scale) + zero_point.astype(jnp.float32)
        return jnp.clip(shifted, bounds.min, bounds.max).astype(zero_point.dtype)

    return quantized


def sample(rng: np.random.Generator, tame: bool, *, m: int = 4, c: int = 8) -> Arguments:
    """Draw a small matrix, with a scale and a zero point of each column."""
    scale = numbers(rng, (c,), tame)
    return numbers(rng, (m, c), tame), np.exp2(scale) if tame else scale, any_bits(rng, (c,), np.dtype(np.int8))


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="m c, c, c -> m c",
    sample=sample,
    options={"axis": -1},
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("float32 -> uint8",),
    races=tuple(call(_NAME, "races", shape_of(elements), "float32", "uint8") for elements in (2**20, 2**12)),
    small=small(_NAME, given="float32", returned="uint8"),
    stock=stock,
    judged_rows=4,
)
