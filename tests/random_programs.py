"""Draw programs with one operator each, and with what users write around it, whose results are known exactly.

A program is a function for ``jax.jit``. Its operands are arguments, constants, uniform arrays, or made of arguments
within the program; after the operator come a few operations of stock JAX. All numbers that are added up are small
multiples of 1/4, so that no order of summation rounds. The oracle says what the operator returns, and NumPy what
follows of that.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from jaxdml import reference
from jaxdml._kernels.extremes import kernel as extremes
from jaxdml._kernels.indexed_write import kernel as indexed_write
from jaxdml._kernels.integer_convolution import kernel as integer_convolution
from jaxdml._kernels.integer_product import kernel as integer_product
from jaxdml._kernels.selection import kernel as selection

PERIOD = 7
"""Arrays repeat after so many rows, so that the oracle's loops answer few of them. No vector and no thread's share of
the rows has a length that this divides."""

FEW = 1, 2, 3, 5, 8, 17, 32, 64, 100
MANY = *(2**power + more for power in (14, 15, 16) for more in (-1, 0, 1)), 21_845, 40_001
"""XLA's CPU backend chooses kernels, and divides work between threads, by numbers of rows and of elements."""

LARGEST = 2**21
"""No array of a program has more elements."""

_LARGEST_CONSTANT = 2**17
"""XLA computes what depends on constants alone while it compiles, and takes its time."""

_EXACT = 2**24
"""float32 holds all integers up to this."""

# 0.10.0 and 0.10.1 compute a stock program wrong, or crash, in which an array is reshaped and its windows are reduced:
# lax.reduce_window(x.reshape(32767, 3), 0.0, lax.add, (1, 2), (1, 2), "VALID"). Our results are reshaped arrays.
_LEFTOVERS = jax.__version_info__ >= (0, 10, 2)
"""Whether elements may be left over behind the last window."""

METHODS: dict[str, tuple[str, ...]] = {
    "top_k": tuple(name for name in selection.METHODS if selection.ONLY_ON.get(name, "cpu") == "cpu"),
    **dict.fromkeys(("argmax", "argmin"), tuple(extremes.METHODS)),
    **dict.fromkeys(("scatter_nd", "scatter_elements"), tuple(indexed_write.METHODS)),
    **dict.fromkeys(("convolution_integer", "quantized_linear_convolution"), tuple(integer_convolution.METHODS)),
    **dict.fromkeys(
        ("matrix_multiply_integer", "matrix_multiply_integer_to_float", "quantized_linear_matrix_multiply"),
        tuple(integer_product.METHODS),
    ),
}
"""What ``implementation`` can be on a CPU."""

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

SMALL = np.arange(-4, 5, dtype=np.float32)
SIGNED, UNSIGNED = np.arange(-9, 10, dtype=np.int8), np.arange(120, 140, dtype=np.uint8)
POWERS, SCALES = np.float32([0.5, 1, 2]), np.float32([0.5, 0.75, 1, 1.1, 3])
OUTPUT_SCALES, BIASES = np.float32([8, 11, 64.5]), np.arange(-500, 500, dtype=np.int32)


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


class Step(NamedTuple):
    """An operation of stock JAX that follows the operator."""

    text: str
    numpy: Callable[[Array], Array]
    jax: Callable[..., Any]
    given: tuple[Array, ...] = ()
    terms: int = 1
    """How many numbers are added up at most."""
    alone: bool = False
    """Whether nothing may follow it or stand between it and the operator."""


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
        whole = np.array_equal(values, np.arange(values[0], values[-1] + 1))
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


class Call(NamedTuple):
    """An operator and its options; its operands are those of the drawing, in this order, or None."""

    operands: Sequence[Operand | None]
    options: dict[str, Any] = {}
    repeats: bool = True
    """Whether rows of the results repeat as those of the operands."""


def _selection(draw: Drawing, k: bool) -> Call:
    dtype = draw.pick("float32", "float32", "float16", "int32", "int8", "uint8")
    values = np.arange(0, 9).astype(dtype) if dtype == "uint8" else SMALL.astype(dtype)
    if draw.rng.random() < 0.3 and not draw.vmap:
        shape, axis, rows = (*draw.dims(0, 1), draw.size), -1, False
    else:
        shape = (*draw.lead, *draw.dims(), draw.pick(*FEW), *draw.dims(0, 1))
        axis, rows = draw.rng.integers(1, len(shape)).item(), True
        if math.prod(shape) > LARGEST:
            shape, axis = (*shape[:1], 5), -1
    x = draw.add(shape, values, rows=rows)
    if not k:
        options = {"keepdims": draw.pick(True, False), "select_last_index": draw.pick(True, False)}
        return Call([x], {"axis": axis, **options}, rows)
    count = draw.pick(1, 2, 3, shape[axis], shape[axis] // 2)
    direction = draw.pick("increasing", "decreasing")
    return Call([x], {"k": min(max(count, 1), shape[axis], 300), "axis": axis, "direction": direction}, rows)


def _indices(draw: Drawing, size: int) -> Array:
    return np.arange(-size - draw.pick(0, 2), size + draw.pick(0, 2)).astype(draw.pick("int32", "int32", "int8"))


def _gather(draw: Drawing) -> Call:
    if draw.pick(True, False):
        lead, n = draw.lead, draw.pick(2, 5, 17)
        x = draw.add((*lead, n, *draw.dims()), SMALL, rows=True)
        return Call([x, draw.add(draw.dims(0, 2), _indices(draw, n))], {"axis": 1})
    x = draw.add((draw.pick(2, 5, 17), *draw.dims()), SMALL)
    size = x.value.shape[int(x.mapped)]
    return Call([x, draw.add((*draw.lead, *draw.dims(0, 2)), _indices(draw, size), rows=True)])


def _gather_elements(draw: Drawing) -> Call:
    lead, rest, n = draw.lead, draw.dims(0, 2), draw.pick(2, 5, 17)
    x = draw.add((*lead, n, *rest), SMALL, rows=True)
    return Call([x, draw.add((*lead, draw.pick(1, 3), *rest), _indices(draw, n), rows=True)], {"axis": 1})


def _gather_nd(draw: Drawing) -> Call:
    if draw.pick(True, False):
        lead = draw.lead
        x = draw.add((*lead, 4, *draw.dims()), SMALL, rows=True)
        return Call([x, draw.add((*lead, draw.pick(1, 3), 1), _indices(draw, 4), rows=True)], {"batch_dims": 1})
    x = draw.add((4, 4, *draw.dims(0, 2)), SMALL)
    return Call([x, draw.add((*draw.lead, draw.pick(1, 2)), _indices(draw, 4), rows=True)])


def _scatter_nd(draw: Drawing) -> Call:
    count, rest = draw.pick(1, 3, 17, 200), draw.dims()
    size = draw.pick(*FEW) if draw.vmap else draw.size
    if not draw.vmap and draw.pick(True, False):
        count, size = draw.size, 17
    x = draw.add((size, *rest), SMALL)
    indices = draw.add((count, 1), _indices(draw, min(size, 50)))
    updates = draw.add((count, *rest), SMALL)
    duplicates = draw.pick("last", "unspecified") if updates.way.startswith("uniform") else "last"
    return Call([x, indices, updates], {"mode": draw.pick("drop", "clip"), "duplicates": duplicates}, False)


def _scatter_elements(draw: Drawing) -> Call:
    lead, n, m, rest = draw.lead, draw.pick(2, 5, 17), draw.pick(1, 3, 8), draw.dims(0, 2)
    x = draw.add((*lead, n, *rest), SMALL, rows=True)
    indices = draw.add((*lead, m, *rest), _indices(draw, n), rows=True)
    updates = draw.add((*lead, m, *rest), SMALL, rows=True)
    return Call([x, indices, updates], {"axis": 1, "mode": draw.pick("drop", "clip"), "duplicates": "last"})


def _quantize(draw: Drawing, back: bool) -> Call:
    values = draw.pick(SIGNED, UNSIGNED)
    shape = (*draw.lead, *draw.dims(), draw.pick(1, 3, 8, 16, 17))
    options = draw.pick({}, {"axis": -1}, {"axis": -1, "block_size": 3})
    blocks = "block_size" in options
    of_axis = (*shape[:-1], -(-shape[-1] // 3)) if blocks else shape[-1:] if options else ()
    x = draw.add(shape, values if back else SMALL * 3, rows=True)
    scale = draw.add(of_axis, POWERS, rows=blocks)
    zero = _zero(draw, values, of_axis, blocks)
    return Call([x, scale, zero], options)


def _dynamic(draw: Drawing) -> Call:
    return Call([draw.add((*draw.lead, *draw.dims(), draw.pick(1, 8, 17)), SMALL * 2, rows=True)])


def _zero(draw: Drawing, values: Array, shape: Shape = (), rows: bool = False) -> Operand | None:
    return draw.add(shape, values, rows=rows) if draw.rng.random() < 0.7 else None


def _product(draw: Drawing, kind: str) -> Call:
    """Draw a product; ``b`` may be packed, and may have the batch dimensions of ``a`` other than the first."""
    of_a, of_b, powers = draw.pick(SIGNED, UNSIGNED), draw.pick(SIGNED, UNSIGNED), draw.pick(POWERS, SCALES)
    k, n = draw.pick(1, 2, 3, 4, 8, 16, 17, 64), draw.pick(1, 2, 3, 8, 16, 17)
    shape = (*draw.lead, *draw.dims(), k)
    if math.prod(shape) * max(n, k) // k > LARGEST:
        shape = (*shape[:1], k)
    batch = draw.pick((), tuple(draw.pick(1, size) for size in shape[1:-2]))
    of_rows = draw.pick((), shape[:1] if len(shape) == 2 else (*shape[:-1], 1))
    of_columns = draw.pick((), (n,))
    if kind == "to_float":
        powers = POWERS
    a, a_zero = draw.add(shape, of_a, rows=True), _zero(draw, of_a, of_rows, bool(of_rows))
    b, b_zero = draw.add((*batch, k, n), of_b), _zero(draw, of_b, of_columns)
    if draw.rng.random() < 0.3:
        build = b.build
        b = replace(b, way=f"packed {b.way}", build=lambda *given: jaxdml.prepack(build(*given)))
    if kind == "integer":
        return Call([a, a_zero, b, b_zero])
    a_scale, b_scale = draw.add(of_rows, powers, rows=bool(of_rows)), draw.add(of_columns, powers)
    scaled = [a, a_scale, a_zero, b, b_scale, b_zero]
    if kind == "to_float":
        return Call([*scaled, _zero(draw, SMALL, (n,))])
    return Call([*scaled, draw.add((), OUTPUT_SCALES), draw.add((), draw.pick(SIGNED, UNSIGNED))])


def _convolution(draw: Drawing, quantized: bool) -> Call:
    of_x, of_w = draw.pick(SIGNED, UNSIGNED), draw.pick(SIGNED, UNSIGNED)
    spatial, groups = draw.pick(1, 2, 2, 2, 3), draw.pick(1, 1, 2, 3)
    channels, features = draw.pick((1, 1), (1, 2), (2, 3), (16, 17)) if groups == 1 else draw.pick((1, 1), (2, 1))
    sizes, images = tuple(draw.pick(2, 3, 4) for _ in range(spatial)), draw.lead[0]
    images = min(images, LARGEST // 2 // (channels * groups * math.prod(sizes)))
    taps = tuple(draw.pick(1, 2) for _ in sizes)
    last = draw.pick(True, False)
    letters = "DHW"[-spatial:]
    x = draw.add((images, *sizes, channels * groups) if last else (images, channels * groups, *sizes), of_x, rows=True)
    x_zero = _zero(draw, of_x)
    w = draw.add((features * groups, channels, *taps), of_w)
    of_filters = draw.pick((), (features * groups,))
    w_zero = _zero(draw, of_w, of_filters)
    options = {
        "strides": draw.pick(1, 2),
        "start_padding": draw.pick(0, 1),
        "group_count": groups,
        "dimension_numbers": (f"N{letters}C", f"OI{letters}", f"N{letters}C") if last else None,
    }
    if not quantized:
        return Call([x, x_zero, w, w_zero], options)
    x_scale, w_scale = draw.add((), SCALES), draw.add(of_filters, SCALES)
    bias = _zero(draw, BIASES, (features * groups,))
    return Call(
        [x, x_scale, x_zero, w, w_scale, w_zero, bias, draw.add((), OUTPUT_SCALES), draw.add((), of_x)], options
    )


def _sum(draw: Drawing) -> Call:
    of_a, of_b = draw.pick(SIGNED, UNSIGNED), draw.pick(SIGNED, UNSIGNED)
    shape = (*draw.lead, *draw.dims(), draw.pick(1, 3, 8, 16, 17))
    of_columns, rows = draw.pick((), shape[-1:]), draw.pick(True, False)
    a, a_scale, a_zero = draw.add(shape, of_a, rows=True), draw.add(of_columns, SCALES), _zero(draw, of_a, of_columns)
    b = draw.add(shape if rows else shape[-1:], of_b, rows=rows)
    b_scale, b_zero = draw.add((), SCALES), _zero(draw, of_b)
    return Call([a, a_scale, a_zero, b, b_scale, b_zero, draw.add((), SCALES), draw.add((), of_a)])


def _pooling(draw: Drawing) -> Call:
    of_x, channels, spatial = draw.pick(SIGNED, UNSIGNED), draw.pick(1, 2, 8), draw.pick(1, 2, 2, 3)
    x = draw.add((*draw.lead, channels, *(draw.pick(2, 3, 4) for _ in range(spatial))), of_x, rows=True)
    x_scale, x_zero = draw.add(draw.pick((), (channels,)), SCALES), _zero(draw, of_x)
    options = {"window": 2, "strides": draw.pick(1, 2), "include_padding": draw.pick(True, False)}
    return Call([x, x_scale, x_zero, draw.add((), SCALES), draw.add((), of_x)], options)


CALLS: dict[str, Callable[[Drawing], Call]] = {
    "top_k": partial(_selection, k=True),
    "argmax": partial(_selection, k=False),
    "argmin": partial(_selection, k=False),
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_nd": _scatter_nd,
    "scatter_elements": _scatter_elements,
    "quantize_linear": partial(_quantize, back=False),
    "dequantize_linear": partial(_quantize, back=True),
    "dynamic_quantize_linear": _dynamic,
    "matrix_multiply_integer": partial(_product, kind="integer"),
    "matrix_multiply_integer_to_float": partial(_product, kind="to_float"),
    "quantized_linear_matrix_multiply": partial(_product, kind="quantized"),
    "convolution_integer": partial(_convolution, quantized=False),
    "quantized_linear_convolution": partial(_convolution, quantized=True),
    "quantized_linear_add": _sum,
    "quantized_linear_average_pooling": _pooling,
}
"""What draws a call of each operator. ``prepack`` is drawn with the products."""


def _elementwise(rng: np.random.Generator, y: Array) -> Step:
    full = np.full(y.shape, 2, np.float32)
    return [
        Step("relu", lambda y: np.maximum(y, 0), lambda y: jnp.maximum(y, np.float32(0))),
        Step("plus 3", lambda y: y + 3, lambda y: y + jnp.full(y.shape, np.float32(3))),
        Step("times an argument", lambda y: y * full, lambda y, full: y * full, (full,)),
    ][rng.integers(3)]


def _reduction(rng: np.random.Generator, y: Array) -> Step:
    axes = tuple(sorted(rng.choice(y.ndim, rng.integers(1, y.ndim + 1), replace=False).tolist()))
    name = ("sum", "sum", "max", "min")[rng.integers(4)]
    terms = math.prod(y.shape[axis] for axis in axes) if name == "sum" else 1
    return Step(f"{name} over {axes}", lambda y: getattr(y, name)(axes), lambda y: getattr(y, name)(axes), (), terms)


def _window(rng: np.random.Generator, y: Array) -> Step:
    sizes = tuple(min(size, int(rng.integers(1, 4))) for size in y.shape)
    strides = tuple(rng.integers(1, 4, y.ndim).tolist())
    if not _LEFTOVERS:
        strides = tuple(1 if (n - k) % by else by for n, k, by in zip(y.shape, sizes, strides, strict=True))
    is_sum = rng.random() < 0.5
    steps = tuple(slice(None, None, stride) for stride in strides)

    def of_numpy(y: Array) -> Array:
        seen = np.lib.stride_tricks.sliding_window_view(y, sizes)[steps]
        return getattr(seen, "sum" if is_sum else "max")(tuple(range(y.ndim, 2 * y.ndim)))

    first, reduce = (0.0, lax.add) if is_sum else (-np.inf, lax.max)
    return Step(
        f"{'sum' if is_sum else 'max'} of windows {sizes} by {strides}",
        of_numpy,
        lambda y: lax.reduce_window(y, np.float32(first), reduce, sizes, strides, "VALID"),
        terms=math.prod(sizes),
    )


def _matrix(rng: np.random.Generator, y: Array) -> Step:
    shape = (y.shape[-1], *[(), (3,), (16,)][rng.integers(3)])
    way = ("argument", "constant", "uniform", "uniform argument")[rng.integers(4)]
    w = np.full(shape, 2, np.float32) if "uniform" in way else rng.integers(-2, 3, shape).astype(np.float32)
    given = (w,) if "argument" in way else ()

    def of_jax(y: Any, *given: Any) -> Any:
        right = given[0] if given else jnp.full(shape, np.float32(2)) if way == "uniform" else jnp.asarray(w)
        return jnp.matmul(y, right)

    # From 0.10.2 on XLA's CPU backend computes stock programs wrong, or reads outside their arrays, in which a product
    # by equal numbers stands before or after a reduction or a window: so it stands alone.
    return Step(f"product by {way} {shape}", lambda y: y @ w, of_jax, given, shape[0], "uniform" in way)


def _stock_convolution(rng: np.random.Generator, y: Array) -> Step:
    w = rng.integers(-1, 2, (2, 2, y.shape[3], 3)).astype(np.float32)

    def of_numpy(y: Array) -> Array:
        return np.einsum("nhwckl,klco->nhwo", np.lib.stride_tricks.sliding_window_view(y, (2, 2), (1, 2)), w)

    numbers = ("NHWC", "HWIO", "NHWC")
    return Step(
        "convolution",
        of_numpy,
        lambda y, w: lax.conv_general_dilated(y, w, (1, 1), "VALID", dimension_numbers=numbers),
        (w,),
        4 * y.shape[3],
    )


def _running_sum(rng: np.random.Generator, y: Array) -> Step:
    return Step("running sum", lambda y: y.cumsum(-1), lambda y: jnp.cumsum(y, axis=-1), (), y.shape[-1])


def _transposition(rng: np.random.Generator, y: Array) -> Step:
    return Step("transposition", lambda y: y.swapaxes(0, -1), lambda y: jnp.swapaxes(y, 0, -1))


_TO_FLOAT = Step("float", lambda y: y.astype(np.float64), lambda y: y.astype(jnp.float32))


def _after(rng: np.random.Generator, results: list[Array]) -> tuple[list[Step], list[Array]]:
    """Draw what follows the results, which ``vmap`` stacks if there are several; return what that gives, in float64."""
    steps = [_TO_FLOAT]
    results = [_TO_FLOAT.numpy(result) for result in results]
    for _ in range(rng.choice([0, 1, 2, 2, 3, 3])):
        y = results[0]
        if steps[-1].alone or not y.size or not y.ndim:
            break
        kinds = [_elementwise, *[_reduction] * 3, *[_window] * 3, *[_matrix] * 3, _running_sum, _transposition]
        if y.ndim == 4 and min(y.shape[1:3]) > 1:
            kinds += [_stock_convolution] * 3
        step = kinds[rng.integers(len(kinds))](rng, y)
        if step.alone and len(steps) > 1:
            continue
        # Quarters are added up, or 2 times these, or 3 is added.
        if 8 * step.terms * (max(np.abs(result).max() for result in results) + 3) <= _EXACT:
            steps.append(step)
            results = [step.numpy(result) for result in results]
    return steps, results


class Runnable(NamedTuple):
    """A function for ``jax.jit``, its arguments, and its results."""

    function: Callable[..., tuple[Any, ...]]
    arguments: tuple[Array, ...]
    expected: tuple[Array, ...]
    """Where it is of float64, only the values are known, else the bits."""


@dataclass(frozen=True)
class Program:
    """An operator with what is around it."""

    name: str
    call: Call
    draw: Drawing
    method: str | None
    answers: tuple[list[Array], ...]
    """The results of the operator, each for every value of the mapped axis that differs."""
    chosen: int
    """The result that something follows."""
    steps: list[Step]
    final: list[Array]
    """What follows it, as one of ``answers``."""
    all_results: bool
    """Whether the program returns the results of the operator too."""
    place: int
    """Where the mapped axis is, in arrays that have so many dimensions."""

    def __str__(self) -> str:
        operands = ", ".join(map(str, self.call.operands))
        around = f"vmap over {self.draw.size} at {self.place} of " if self.draw.vmap else ""
        following = ", ".join(step.text for step in self.steps)
        return f"{around}{self.name}({operands}, {self.call.options}, {self.method}), then {following}"

    def whole(self) -> Runnable:
        """Return the program."""
        return self._with_operator([(x.given, x.build) for x in self._operands()], after=True)

    def parts(self) -> dict[str, Runnable]:
        """Return what is left of the program if some parts of it are given by their results, as arguments."""
        made = [(x.given, x.build) for x in self._operands()]
        given = [(((x.value, x.mapped),), _itself) for x in self._operands()]
        result = self._result(self.answers[self.chosen], at=0)
        return {
            "the operator": self._with_operator(given, after=False),
            "the operator and what is before": self._with_operator(made, after=False),
            "the operator and what follows": self._with_operator(given, after=True),
            "what follows": self._runnable(lambda y, *more: (self._follow(y, more),), [(result, True)], [self.final]),
        }

    def _operands(self) -> list[Operand]:
        return [x for x in self.call.operands if x is not None]

    def _with_operator(self, made: Sequence[tuple[Any, ...]], after: bool) -> Runnable:
        options = {**self.call.options, **({"implementation": self.method} if self.method else {})}
        # The sign of a zero in a product of floats depends on the order of its sum.
        answers = self.answers
        if any(x.way.startswith("product") and x.value.dtype.kind == "f" for x in self._operands()):
            answers = tuple([_of_float64(result) for result in results] for results in answers)

        def function(*arrays: Any) -> tuple[Any, ...]:
            rest = iter(arrays)
            built = iter([build(*islice(rest, len(given))) for given, build in made])
            operands = [None if x is None else next(built) for x in self.call.operands]
            results = _tuple(getattr(jaxdml, self.name)(*operands, **options))
            followed = (self._follow(results[self.chosen], rest),) if after else ()
            return (*followed, *(results if self.all_results or not after else ()))

        arguments = [argument for given, _ in made for argument in given]
        expected = [*([self.final] if after else []), *(answers if self.all_results or not after else [])]
        return self._runnable(function, arguments, expected, after)

    def _follow(self, y: Any, arrays: Iterable[Any]) -> Any:
        rest = iter(arrays)
        for step in self.steps:
            y = step.jax(y, *islice(rest, len(step.given)))
        return y

    def _runnable(
        self,
        function: Callable[..., tuple[Any, ...]],
        arguments: Sequence[tuple[Array, bool]],
        expected: Sequence[list[Array]],
        after: bool = True,
    ) -> Runnable:
        """Return a function that is mapped, if it is to be, with the arguments of what follows."""
        if after:
            arguments = [*arguments, *((array, False) for step in self.steps for array in step.given)]
        if self.draw.vmap:
            axes = [min(self.place, array.ndim - 1) if mapped else None for array, mapped in arguments]
            results = tuple(min(self.place, result[0].ndim) for result in expected)
            function = jax.vmap(function, in_axes=axes, out_axes=results)
            arguments = [
                (array if axis is None else np.moveaxis(array, 0, axis), False)
                for (array, _), axis in zip(arguments, axes, strict=True)
            ]
        return Runnable(function, tuple(array for array, _ in arguments), tuple(map(self._result, expected)))

    def _result(self, answers: list[Array], at: int | None = None) -> Array:
        if not self.draw.vmap:
            return answers[0]
        stacked = np.stack(answers)[np.arange(self.draw.size) % PERIOD]
        return np.moveaxis(stacked, 0, min(self.place, answers[0].ndim) if at is None else at)


def _of_float64(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _itself(x: Any) -> Any:
    return x


def _tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple) else (results,)


def draw_program(seed: int, number: int) -> Program:
    """Draw the program of this number: numbers that follow each other have other operators."""
    names = sorted(CALLS)
    for attempt in count():
        rng = np.random.default_rng([seed, number, attempt])
        size, vmap = int(rng.choice(MANY if rng.random() < 0.5 else FEW)), rng.random() < 0.35
        program = _drawn(names[number % len(names)], Drawing(rng, size, vmap))
        if program is not None:
            return program
    raise AssertionError


def _drawn(name: str, draw: Drawing) -> Program | None:
    """Draw a program of an operator, or None if it is too large."""
    call = CALLS[name](draw)
    if any(x is not None and x.value.size > LARGEST for x in call.operands):
        return None

    def judged(place: int) -> tuple[Array, ...]:
        operands = [None if x is None else x.judged(place) for x in call.operands]
        return _tuple(getattr(reference, name)(*operands, **call.options))

    answers = [judged(place) for place in range(min(PERIOD, draw.size) if draw.vmap else 1)]
    rows = [len(x.value) for x in call.operands if x is not None and x.rows] if call.repeats else []
    if (draw.size if draw.vmap else max(rows, default=PERIOD) / PERIOD) * max(x.size for x in answers[0]) > LARGEST:
        return None
    if rows:
        again = np.arange(rows[0]) % PERIOD
        answers = [tuple(result[again] if result.ndim else result for result in answers[0])]
    results = tuple(list(result) for result in zip(*answers, strict=True))
    chosen = int(draw.rng.integers(len(results)))
    steps, final = _after(draw.rng, results[chosen])
    method = draw.pick(None, *METHODS.get(name, ()))
    is_all, place = draw.rng.random() < 0.3, int(draw.rng.integers(3))
    program = Program(name, call, draw, method, results, chosen, steps, final, is_all, place)
    return program if method is None or _serves(program.whole()) else replace(program, method=None)


def _serves(program: Runnable) -> bool:
    """Tell whether the forced method serves the operands."""
    try:
        jax.eval_shape(program.function, *program.arguments)
    except NotImplementedError:
        return False
    return True
