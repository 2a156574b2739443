"""What the cases of quantizing and dequantizing share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases.data import any_bits, plain, specials_of, unsigned
from jaxdml._cases.records import Array, NamedCall, Scenario, Sharding

_COLUMNS = 1024


@dataclass(frozen=True)
class Shapes:
    """The shapes of x, of its scale and of its zero point, None if that is absent, and the options that fit them."""

    x: tuple[int, ...]
    scale: tuple[int, ...]
    zero_point: tuple[int, ...] | None
    options: dict[str, Any] = field(default_factory=dict)
    special: bool = False
    """Whether infinities, NaNs, zeros and subnormals are drawn."""

    def of(self, cases: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]:
        """Return the shapes of so many stacked cases."""
        return (cases, *self.x), (cases, *self.scale), None if self.zero_point is None else (cases, *self.zero_point)


_SHAPES = (
    Shapes((24,), (24,), ()),
    Shapes((3, 8), (8,), (8,), {"axis": 1}),
    Shapes((4, 6), (4, 1), None, special=True),
    Shapes((3, 7), (3, 3), (1, 3), {"axis": -1, "block_size": 3}),
)

MakeLayout = Callable[[str, Shapes], Scenario]
"""Takes the trap and the shapes."""


def scenarios(scenario: MakeLayout, traps: Sequence[str]) -> tuple[Scenario, ...]:
    """Return a scenario for each of the traps: several scales, an axis of them, special values, and blocks."""
    return tuple(map(scenario, traps, _SHAPES))


def shardings(scenario: MakeLayout, values: str) -> tuple[Sharding, ...]:
    """Return the axis of the scales sharded, and an axis with blocks sharded across them; ``values`` are what traps."""
    by_axis = scenario(f"{values}, the axis of the scales sharded", Shapes((3, 16), (16,), (16,), {"axis": 1}))
    of_blocks = Shapes((2, 32), (2, 11), (1, 11), {"axis": 1, "block_size": 3})
    blocks = scenario(f"{values}, shards that end within blocks", of_blocks)
    return (
        Sharding("axis", "c", (by_axis,), "m c, c, c -> m c"),
        Sharding("blocks", "c", (blocks,), "m c, m e, 1 e -> m c; c"),
    )


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype of this name; NumPy itself has no bfloat16."""
    return np.dtype(jnp.bfloat16 if name == "bfloat16" else name)


def scales(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw powers of two and others from all finite floats but 0, subnormal and negative ones among them."""
    bits = unsigned(dtype)
    infinity, one = (int(np.array(value, dtype).view(bits)) for value in (np.inf, 1))
    spacing = infinity & -infinity  # Of the bits of powers of two.
    positive = rng.integers(1, infinity, shape)
    drawn = np.where(rng.random(shape) < 0.3, np.maximum(positive // spacing, 1) * spacing, positive)
    # Most are near 1, so that wide and narrow dtypes meet in range.
    near = one + rng.integers(-4, 4, shape) * spacing + rng.integers(0, spacing, shape) * (rng.random(shape) < 0.7)
    drawn = np.where(rng.random(shape) < 0.5, near, drawn)
    negative = (rng.random(shape) < 0.1).astype(np.int64) << (8 * dtype.itemsize - 1)
    return (drawn | negative).astype(bits).view(dtype)


def near_ties(rng: np.random.Generator, of: Array, dtype: np.dtype[Any], span: int) -> Array:
    """Draw numbers whose quotients by the scales ``of`` are halves, or up to 2 of the least steps away from one."""
    small = rng.random(of.shape) < 0.4
    integers = np.where(small, rng.integers(-4, 4, of.shape), rng.integers(-span, span, of.shape))
    with np.errstate(all="ignore"):
        numbers = (integers + 0.5) * of.astype(np.float64)
        if dtype.kind == "i":
            return np.clip(np.rint(numbers), -(2**31), 2**31 - 1).astype(dtype)
        nearest = numbers.astype(dtype)
    steps = rng.integers(-2, 3, of.shape)
    return (nearest.view(unsigned(dtype)) + steps.astype(unsigned(dtype))).view(dtype)


def special(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw from the values that implementations get wrong, and from all bit patterns."""
    drawn = rng.choice(specials_of(dtype), shape)
    return np.where(rng.random(shape) < 0.7, drawn, any_bits(rng, shape, dtype))


def shape_of(elements: int) -> tuple[int, int]:
    """Return the shape of an array of so many elements."""
    return elements // _COLUMNS, _COLUMNS


def call(
    name: str,
    group: str,
    shape: tuple[int, int],
    given: str,
    returned: str,
    *,
    by_row: bool = False,
    origin: str = "the grid",
) -> NamedCall:
    """Return the call that quantizes or dequantizes an array of this shape."""
    x_dtype, output = dtype_of(given), dtype_of(returned)
    quantized = output if output.kind in "iu" else x_dtype

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        of = (shape[0],) if by_row else ()
        scale = (0.0213 * rng.uniform(0.5, 2, of)).astype(np.float32)
        zero = np.full(of, 3 if quantized.kind == "i" else 120, quantized)
        return plain(rng, shape, x_dtype), np.asarray(scale), zero

    return NamedCall(
        *(name, group, "x".join(map(str, shape)), f"{given} -> {returned}", "random", origin),
        draw=draw,
        bytes=math.prod(shape) * (x_dtype.itemsize + output.itemsize),
        options={"axis": 0} if by_row else {},
        known=(1, 2),
    )


def broadcast(call: NamedCall, parameter: jax.Array) -> jax.Array:
    """Return a scale or zero point of a call so that it broadcasts against x."""
    return parameter[:, None] if "axis" in call.options else parameter


small = partial(call, group="overheads", shape=(4, 64), origin="a small call")
