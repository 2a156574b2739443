"""Draw the operands of a call, and how the program comes by each: an argument, a constant, or made of arguments."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

PERIOD = 7
"""Arrays repeat after so many rows, so that the oracle's loops answer few of them. No vector and no thread's share of
the rows has a length that this divides."""

FEW = 1, 2, 3, 5, 8, 17, 32, 64, 100
MANY = *(2**power + more for power in (14, 15, 16) for more in (-1, 0, 1)), 21_845, 40_001
"""XLA's CPU backend chooses routines, and divides work between threads, by numbers of rows and of elements."""

LARGEST = 2**21
"""No array of a program has more elements."""

_LARGEST_CONSTANT = 2**17
"""XLA computes what depends on constants alone while it compiles, and takes its time."""


Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

SMALL = np.arange(-4, 5, dtype=np.float32)


@dataclass(frozen=True)
class Operand:
    """An array of a program: its value, and how the program comes by it."""

    value: Array
    """Stacked along the first axis if ``mapped``."""
    mapped: bool
    rows: bool
    """Whether its first axis is that of the rows, which repeat."""
    way: str
    given: tuple[tuple[Array, bool], ...]
    """The arguments of the program of which it is made, and whether ``vmap`` maps them."""
    build: Callable[..., Any]

    def __str__(self) -> str:
        return f"{self.way} {self.value.dtype}{list(self.value.shape)}{' mapped' if self.mapped else ''}"

    def judged(self, place: int) -> Array:
        """Return what the oracle gets: the rows that differ, or the value at a place of the mapped axis."""
        return self.value[place] if self.mapped else self.value[:PERIOD] if self.rows else self.value


@dataclass
class Drawing:
    """Draw the operands of a call."""

    rng: np.random.Generator
    size: int
    """The number of rows, or the size of what ``vmap`` maps."""
    vmap: bool
    operands: list[Operand] = field(default_factory=list)

    def pick(self, *values: Any) -> Any:
        """Return one of the values."""
        return values[self.rng.integers(len(values))]

    def dims(self, least: int = 0, most: int = 3) -> Shape:
        """Return a few small sizes."""
        return tuple(self.pick(1, 2, 3) for _ in range(self.rng.integers(least, most + 1)))

    @property
    def lead(self) -> Shape:
        """Return the dimension of the rows, unless it is the mapped one."""
        return (self.pick(1, 2, 5),) if self.vmap else (self.size,)

    def numbers(self, shape: Shape, values: Array) -> Array:
        """Draw from the values, with rows that repeat."""
        few = self.rng.choice(values, (min(PERIOD, shape[0]), *shape[1:]) if shape else ())
        return few[np.arange(shape[0]) % PERIOD] if shape else few

    def add(self, shape: Shape, values: Array, *, rows: bool = False, mapped: bool | None = None) -> Operand:
        """Draw an operand and how the program comes by it."""
        if mapped is None:
            mapped = self.vmap and (not self.operands or self.rng.random() < 0.5)
        if mapped and self.size * math.prod(shape) > LARGEST:
            self.size, mapped = (max(1, LARGEST // math.prod(shape)), True) if not self.operands else (self.size, False)
        drawn = self._operand(shape, values, rows and not self.vmap, mapped)
        self.operands.append(drawn)
        return drawn

    def _operand(self, shape: Shape, values: Array, rows: bool, mapped: bool) -> Operand:
        ways = ["argument"] * 3 + ["uniform argument", "uniform by broadcast", "transposed", "sliced", "broadcast"]
        if not mapped and math.prod(shape) <= _LARGEST_CONSTANT:
            ways += ["constant", "known", "uniform", "uniform constant"]
        whole = np.array_equal(values, np.arange(int(values[0]), int(values[-1]) + 1))
        if whole and len(shape) >= 2:
            ways += ["product"] * 5
        way = self.pick(*ways)
        full = (self.size, *shape) if mapped else shape
        if way == "product":
            return self._product(full, values, rows, mapped)
        one = self.rng.choice(values)
        value = np.full(full, one) if way.startswith("uniform") else self.numbers(full, values)
        made = partial(Operand, mapped=mapped, rows=rows, way=way)
        if way in ("constant", "uniform constant"):
            return made(value, given=(), build=lambda: jnp.asarray(value))
        if way == "known":
            return made(value, given=(), build=lambda: value)
        if way == "uniform":
            return made(value, given=(), build=lambda: jnp.full(shape, one))
        if way == "uniform by broadcast":
            single = np.full(full[:1] if mapped else (), one)
            return made(value, given=((single, mapped),), build=lambda x: jnp.broadcast_to(x, shape))
        if way == "transposed" and len(shape) > 1:
            turned = np.ascontiguousarray(np.swapaxes(value, -1, -2))
            return made(value, given=((turned, mapped),), build=lambda x: jnp.swapaxes(x, -1, -2))
        if way == "sliced" and shape:
            longer = np.concatenate([value, value[..., :1]], -1)
            return made(value, given=((longer, mapped),), build=lambda x: x[..., :-1])
        if way == "broadcast" and shape:
            axis = self.rng.integers(len(shape)) - len(shape)
            part = np.take(value, [0], axis)
            value = np.broadcast_to(part, value.shape)
            return made(value, given=((part, mapped),), build=lambda x: jnp.broadcast_to(x, shape))
        return made(value, given=((value, mapped),), build=lambda x: x)

    def _product(self, full: Shape, values: Array, rows: bool, mapped: bool) -> Operand:
        """Draw an operand that is a product of floats; an integer is moved into the range of the values."""
        of, right_way = self.pick(1, 2, 3, 8), self.pick("argument", "constant", "uniform", "uniform by broadcast")
        uniform, shape, dtype = "uniform" in right_way, (of, full[-1]), values.dtype
        left = self.numbers((*full[:-1], of), np.float32([-1, 0, 1]))
        right = np.full(shape, 1, np.float32) if uniform else self.numbers(shape, SMALL)
        low, high = float(values[0]), float(values[-1])
        given = {"argument": right, "uniform by broadcast": np.float32(1)}.get(right_way)

        def settled(y: Any, module: Any) -> Any:
            if dtype.kind == "f":
                return y.astype(dtype)
            return module.clip(y + np.float32((low + high) // 2), low, high).astype(dtype)

        def build(x: Any, *more: Any) -> Any:
            w = jnp.broadcast_to(more[0], shape) if more else jnp.full(shape, np.float32(1)) if uniform else right
            return settled(jnp.matmul(x, w), jnp)

        arguments = (left, mapped), *([] if given is None else [(given, False)])
        return Operand(settled(left @ right, np), mapped, rows, f"product by {right_way}", arguments, build)
