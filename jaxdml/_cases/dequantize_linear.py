"""The cases of ``dequantize_linear``."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases import _quantizing
from jaxdml._cases._quantizing import Shapes, broadcast, call, dtype_of, scales, shape_of, small, special
from jaxdml._cases.data import any_bits, mixed, numbers
from jaxdml._cases.records import Arguments, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "dequantize_linear"

EXAMPLES = (
    # DirectML's page has no numbers. These are those of ONNX's DequantizeLinear.
    Example(
        _NAME,
        (np.array([0, 3, 128, 255], np.uint8), np.array(2, np.float32), np.array(128, np.uint8)),
        {},
        (np.array([-256, -250, 0, 254], np.float32),),
    ),
)

_DTYPES = {
    f"{x} -> {scale}": (x, scale)
    for x, scale in (
        *(("uint8", "float32"), ("int8", "float16"), ("int16", "bfloat16")),
        *(("int32", "float32"), ("uint32", "float32")),
    )
}

_TRAPS = (
    "products that need rounding",
    "scales by index of an axis",
    "scales that are infinite, NaN, zero and subnormal",
    "scales by blocks, the last one short",
)


def _draw(dtypes: tuple[str, str], shapes: Shapes, rng: np.random.Generator, cases: int) -> Arguments:
    of_x, of_scale = map(dtype_of, dtypes)
    shape, scale_shape, zero_shape = shapes.of(cases)
    scale = (special if shapes.special else scales)(rng, scale_shape, of_scale)
    zero = None if zero_shape is None else mixed(rng, zero_shape, of_x)
    return mixed(rng, shape, of_x), scale, zero


def _scenario(dtypes: tuple[str, str], trap: str, shapes: Shapes) -> Scenario:
    return Scenario(trap, partial(_draw, dtypes, shapes), shapes.options, 300)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return values of the whole range with scales of the whole range."""
    return _quantizing.scenarios(partial(_scenario, _DTYPES[name]), _TRAPS)


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return the axis of the scales sharded, and an axis with blocks sharded across them."""
    return _quantizing.shardings(partial(_scenario, _DTYPES[name]), "products")


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the formula as it is usually written."""

    def dequantized(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
        scale, zero_point = broadcast(call, scale), broadcast(call, zero_point)
        return (x.astype(jnp.int32) - zero_point.astype(jnp.int32)).astype(scale.dtype) * scale

    return dequantized


def sample(rng: np.random.Generator, tame: bool, *, m: int = 4, c: int = 8) -> Arguments:
    """Draw a small matrix, with a scale of each block and a zero point of each column of blocks."""
    blocks = -(-c // 3)
    x, zero = (any_bits(rng, shape, np.dtype(np.int8)) for shape in ((m, c), (1, blocks)))
    return x, numbers(rng, (m, blocks), tame), zero


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="m c, m e, 1 e -> m c; c",
    sample=sample,
    options={"axis": -1, "block_size": 3},
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("uint8 -> float32",),
    races=tuple(call(_NAME, "races", shape_of(elements), "uint8", "float32") for elements in (2**20, 2**12)),
    raced=False,
    small=small(_NAME, given="uint8", returned="float32"),
    stock=stock,
    judged_rows=4,
)
