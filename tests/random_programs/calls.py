"""Draw a call of each operator: its operands and its options."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import jaxdml
from jaxdml._cases import OPERATORS, dimensions
from jaxdml._cases.records import Operator
from tests.random_programs.operands import FEW, LARGEST, SMALL, Array, Drawing, Operand, Shape

SIGNED, UNSIGNED = np.arange(-9, 10, dtype=np.int8), np.arange(120, 140, dtype=np.uint8)
POWERS, SCALES = np.float32([0.5, 1, 2]), np.float32([0.5, 0.75, 1, 1.1, 3])
OUTPUT_SCALES, BIASES = np.float32([8, 11, 64.5]), np.arange(-500, 500, dtype=np.int32)


class Call(NamedTuple):
    """An operator and its options; its operands are those of the drawing, in this order, or None."""

    operands: Sequence[Operand | None]
    options: dict[str, Any] = {}
    repeats: bool = True
    """Whether rows of the results repeat as those of the operands."""


def of_record(record: Operator, draw: Drawing) -> Call:
    """Draw the sample of a record in other sizes.

    The rows are the first dimension of the results, if blocks of that are independent; else of the first argument.
    """
    dims, sizes = dimensions.of(record.dimensions), dict(record.sizes)
    grown = draw.pick(*sizes)
    sizes[grown] = draw.pick(*(size for size in FEW if size >= sizes[grown]))
    row = next(iter(dims.results[0]), "")
    repeats = dims.independent((row,)) and all(letters[0] == row for letters in dims.results if letters)
    if not repeats and not draw.vmap:
        (row, *_), *_ = dims.arguments
        sizes[row] = max(draw.size, sizes[row])
    for letters, array in zip(dims.arguments, record.sample(draw.rng, True, **sizes), strict=True):
        rows = repeats and letters[:1] == (row,)
        draw.add((draw.size, *array.shape[1:]) if rows and not draw.vmap else array.shape, _values(array), rows=rows)
    return Call(draw.operands, dict(record.options), repeats)


def _values(array: Array) -> Array:
    """Return what to draw from: all integers in the range of an array, or its numbers."""
    whole = np.array_equal(array, np.rint(array))
    return np.arange(int(array.min()), int(array.max()) + 1).astype(array.dtype) if whole else np.unique(array)


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
    return Call([x, scale, zero], options if back else {**options, "output_dtype": values.dtype.name})


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


_MORE: dict[str, Callable[[Drawing], Call]] = {
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
"""What draws more calls of an operator than its sample: options, ranks, dtypes, and products with packed matrices."""

RECORDS = {record.name: record for record in OPERATORS}


def draw_call(name: str, draw: Drawing) -> Call:
    """Draw a call of an operator."""
    if name not in _MORE or draw.rng.random() < 0.1:
        return of_record(RECORDS[name], draw)
    return _MORE[name](draw)
