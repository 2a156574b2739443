"""The cases of ``dequantize_linear``."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases._quantizing import call, calls, dtype_of, scales, shape_of, small, special
from jaxdml._cases.data import mixed
from jaxdml._cases.records import Arguments, Call, Example, Layout, Operator, Sharding

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

_Shape = tuple[int, ...] | None
_LAYOUTS: tuple[tuple[str, tuple[int, ...], _Shape, _Shape, dict[str, Any]], ...] = (
    ("products that need rounding", (24,), (24,), (), {}),
    ("scales by index of an axis", (3, 8), (8,), (8,), {"axis": 1}),
    ("scales that are infinite, NaN, zero and subnormal", (4, 6), (4, 1), None, {}),
    ("scales by blocks, the last one short", (3, 7), (3, 3), (1, 3), {"axis": -1, "block_size": 3}),
)
"""The trap, the shapes of x, the scale and the zero point, and the options."""


def _draw(
    dtypes: tuple[str, str],
    shapes: tuple[tuple[int, ...], _Shape, _Shape],
    any_scale: bool,
    rng: np.random.Generator,
    cases: int,
) -> Arguments:
    of_x, of_scale = map(dtype_of, dtypes)
    shape, scale_shape, zero_shape = ((cases, *(one or ())) for one in shapes)
    scale = (special if any_scale else scales)(rng, scale_shape, of_scale)
    zero = None if shapes[2] is None else mixed(rng, zero_shape, of_x)
    return mixed(rng, shape, of_x), scale, zero


def _layout(
    dtypes: tuple[str, str], trap: str, shape: tuple[int, ...], scale: _Shape, zero: _Shape, options: dict[str, Any]
) -> Layout:
    return Layout(trap, partial(_draw, dtypes, (shape, scale, zero), "infinite" in trap), options, 300)


def layouts(name: str) -> tuple[Layout, ...]:
    """Return values of the whole range with scales of the whole range."""
    return tuple(_layout(_DTYPES[name], *layout) for layout in _LAYOUTS)


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return the axis of the scales sharded, and an axis with blocks sharded across them."""
    of = partial(_layout, _DTYPES[name])
    by_axis = of("the axis of the scales sharded", (3, 16), (16,), (16,), {"axis": 1})
    blocks = of("shards that end within blocks", (2, 32), (2, 11), (1, 11), {"axis": 1, "block_size": 3})
    return (
        Sharding("axis", (by_axis,), (2, 1, 1), 2),
        Sharding("blocks", (blocks,), (2, None, None), 2),
    )


def stock(call: Call) -> Callable[..., jax.Array]:
    """Return the formula as it is usually written."""
    by_row = "axis" in call.options

    def dequantized(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
        if by_row:
            scale, zero_point = scale[:, None], zero_point[:, None]
        return (x.astype(jnp.int32) - zero_point.astype(jnp.int32)).astype(scale.dtype) * scale

    return dequantized


_MEASURED = (("uint8", "float32"), ("int32", "float32"))

OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dtypes=tuple(_DTYPES),
    layouts=layouts,
    shardings=shardings,
    sharded_dtypes=("uint8 -> float32",),
    calls=tuple(calls(_NAME, _MEASURED)),
    races=tuple(call(_NAME, "races", shape_of(elements), *_MEASURED[0]) for elements in (2**20, 2**12)),
    raced=False,
    small=small(_NAME, given="uint8", returned="float32"),
    stock=stock,
    judged_rows=4,
)
