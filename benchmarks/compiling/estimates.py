"""Ask compilers what programs of accelerators would cost, ours and stock JAX's: ``python -m benchmarks estimates``.

Every cell is compiled for one device of a TPU v5e and of a v6e where libtpu is installed, and for an NVIDIA H200 where
jax-cuda12-pjrt is; that needs no such device. Nothing runs. The compiler's account of bytes adds up what the operations
of a program read and write. It is the better figure. Its time takes element-wise work as free, and is missing where an
operation is one that it cannot estimate. ``results/estimates.jsonl`` holds::

    environment   of the host
    row           one for each cell
      operator, cell                what is called, and with what
      least                         the bytes of all inputs and outputs; of a read at indices, of what is read
      compiled                      for each target, for "jaxdml" and for "stock"
        raises                      the error, and then nothing else; or null
        bytes, microseconds         the compiler's account; microseconds null where it has none
        loops                       whether ours has a loop, of which the compiler counts one round
        compile_s                   seconds by the clock, of tracing, lowering and compiling
        cpu_s                       what the same took of all CPUs: other programs matter less to it

Each row is written when it is there. ``--resume`` keeps those that the file has.
"""

import argparse
import fnmatch
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import SingleDeviceSharding

import jaxdml
from benchmarks.compiling import compilers
from benchmarks.reporting import display, journal
from benchmarks.reporting.estimates_table import FILE, ratios, summary
from benchmarks.reporting.tables import on_console

SIDES = "jaxdml", "stock"
TARGETS = {"v5e": "tpu", "v6e": "tpu", "h200": "cuda"}
"""For each target the platform whose compiler is asked."""

Shape = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Cell:
    """One call, the usual way to write it in stock JAX, and the shapes and dtypes of its arguments."""

    operator: str
    name: str
    ours: Callable[..., Any]
    stock: Callable[..., Any]
    arguments: Sequence[Shape]
    untouched: int = 0
    """The bytes of arguments that need not be read, because indices address the rest."""
    packed: bool = field(default=False, kw_only=True)
    """Whether the right matrix of ours is packed: it is the third argument."""

    @property
    def title(self) -> str:
        """The name of the cell."""
        return f"{self.operator} {self.name}"


def _bytes(shape: Sequence[int], dtype: Any) -> int:
    return math.prod(shape) * jnp.dtype(dtype).itemsize


def _selection(rows: int, n: int, k: int, dtype: str = "float32") -> Cell:
    return Cell(
        *("top_k", f"{dtype} {rows}x{n} k{k}", partial(jaxdml.top_k, k=k), partial(lax.top_k, k=k)),
        [((rows, n), dtype)],
    )


def _extreme(shape: tuple[int, ...], axis: int, dtype: str = "float32") -> Cell:
    ours, stock = partial(jaxdml.argmax, axis=axis), partial(jnp.argmax, axis=axis)
    return Cell("argmax", f"{dtype} {shape} axis {axis}", ours, stock, [(shape, dtype)])


def _reading(rows: int, width: int, count: int, dtype: str = "float32") -> Cell:
    stock = partial(jnp.take, axis=0, mode="clip")
    arguments = [((rows, width), dtype), ((count,), "int32")]
    unread = _bytes((rows - count, width), dtype)
    return Cell("gather", f"{dtype} {rows}x{width} <- {count}", jaxdml.gather, stock, arguments, unread)


def _reading_elements(shape: tuple[int, int], count: int, dtype: str = "float32") -> Cell:
    rows, n = shape
    ours = partial(jaxdml.gather_elements, axis=1)
    stock = partial(jnp.take_along_axis, axis=1, mode="clip")
    unread = _bytes((rows, n - count), dtype)
    arguments = [(shape, dtype), ((rows, count), "int32")]
    return Cell("gather_elements", f"{dtype} {rows}x{n} <- {count}", ours, stock, arguments, unread)


def _reading_slices(rows: int, width: int, count: int, dtype: str = "float32") -> Cell:
    arguments = [((rows, width), dtype), ((count, 1), "int32")]
    unread = _bytes((rows - count, width), dtype)
    name = f"{dtype} {rows}x{width} <- {count}"
    return Cell("gather_nd", name, jaxdml.gather_nd, lambda x, i: x.at[i[:, 0]].get(mode="clip"), arguments, unread)


def _writing(shape: tuple[int, ...], count: int, duplicates: Any, dtype: str = "float32") -> Cell:
    arguments = [(shape, dtype), ((count, 1), "int32"), ((count, *shape[1:]), dtype)]
    name = f"{dtype} {'x'.join(map(str, shape))} <- {count} {duplicates}"
    ours = partial(jaxdml.scatter_nd, duplicates=duplicates)
    return Cell("scatter_nd", name, ours, lambda x, i, u: x.at[i[:, 0]].set(u, mode="drop"), arguments)


def _writing_elements(shape: tuple[int, int], count: int, dtype: str = "float32") -> Cell:
    def stock(x: jax.Array, i: jax.Array, u: jax.Array) -> jax.Array:
        columns = lax.broadcasted_iota(jnp.int32, i.shape, 1)
        return x.at[i, columns].set(u, mode="drop")

    updates = (count, shape[1])
    name = f"{dtype} {shape} <- {count}"
    return Cell(
        *("scatter_elements", name, partial(jaxdml.scatter_elements, axis=0), stock),
        [(shape, dtype), (updates, "int32"), (updates, dtype)],
    )


def _int32(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.int32)


def _product(m: int, k: int, n: int, a: str = "int8") -> Cell:
    def ours(x: jax.Array, y: jax.Array) -> jax.Array:
        return jaxdml.matrix_multiply_integer(x, None, y, None)

    return Cell("matrix_multiply_integer", f"{a} {m}x{k}x{n}", ours, _int32, [((m, k), a), ((k, n), "int8")])


def _scaled(x: jax.Array, scale: float) -> jax.Array:
    return jnp.clip(jnp.round(x.astype(jnp.float32) * scale), -128, 127).astype(jnp.int8)


def _quantized_product(m: int, k: int, n: int, *, packed: bool = False) -> Cell:
    def ours(a: jax.Array, scales: jax.Array, b: Any) -> jax.Array:
        zero = np.int8(0)
        return jaxdml.quantized_linear_matrix_multiply(a, np.float32(0.02), 3, b, scales, None, np.float32(0.5), zero)

    def stock(a: jax.Array, scales: jax.Array, b: jax.Array) -> jax.Array:
        total = _int32(a, b) - 3 * b.sum(0, dtype=jnp.int32)
        return _scaled(total.astype(jnp.float32) * scales, 0.04)

    arguments = [((m, k), "int8"), ((n,), "float32"), ((k, n), "int8")]
    name = f"{m}x{k}x{n}{' packed' if packed else ''}"
    return Cell("quantized_linear_matrix_multiply", name, ours, stock, arguments, packed=packed)


def _to_float(m: int, k: int, n: int) -> Cell:
    def ours(a: jax.Array, scale: jax.Array, b: jax.Array, scales: jax.Array) -> jax.Array:
        return jaxdml.matrix_multiply_integer_to_float(a, scale, None, b, scales, None)

    def stock(a: jax.Array, scale: jax.Array, b: jax.Array, scales: jax.Array) -> jax.Array:
        return _int32(a, b).astype(jnp.float32) * (scale * scales)

    arguments = [((m, k), "int8"), ((), "float32"), ((k, n), "int8"), ((n,), "float32")]
    return Cell("matrix_multiply_integer_to_float", f"{m}x{k}x{n}", ours, stock, arguments)


_LAST = ("NHWC", "HWIO", "NHWC")


def _convolution(
    n: int, c: int, size: int, o: int, window: int, strides: int = 1, groups: int = 1, *, quantized: bool = False
) -> Cell:
    pad = window // 2
    options: dict[str, Any] = {"strides": strides, "start_padding": pad, "end_padding": pad, "group_count": groups}

    def sums(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            *(x, w, (strides,) * 2, [(pad, pad)] * 2),
            dimension_numbers=_LAST,
            feature_group_count=groups,
            preferred_element_type=jnp.int32,
        )

    def ours(x: jax.Array, w: jax.Array, scales: jax.Array) -> jax.Array:
        if not quantized:
            return jaxdml.convolution_integer(x, None, w, None, dimension_numbers=_LAST, **options)
        return jaxdml.quantized_linear_convolution(
            *(x, np.float32(0.02), None, w, scales, None, None, np.float32(0.5), np.int8(0)),
            dimension_numbers=_LAST,
            **options,
        )

    def stock(x: jax.Array, w: jax.Array, scales: jax.Array) -> jax.Array:
        total = sums(x, w)
        return _scaled(total.astype(jnp.float32) * scales, 0.04) if quantized else total

    name = f"{n}x{size}x{size}x{c} * {window}x{window}x{c // groups}x{o}{f' by {strides}' if strides > 1 else ''}"
    arguments = [((n, size, size, c), "int8"), ((window, window, c // groups, o), "int8"), ((o,), "float32")]
    operator = "quantized_linear_convolution" if quantized else "convolution_integer"
    return Cell(operator, name, ours, stock, arguments)


def _sum(shape: tuple[int, ...]) -> Cell:
    half, quarter = np.float32(0.5), np.float32(0.25)

    def ours(a: jax.Array, b: jax.Array) -> jax.Array:
        return jaxdml.quantized_linear_add(a, half, 3, b, quarter, 0, half, 1)

    def stock(a: jax.Array, b: jax.Array) -> jax.Array:
        real = (a.astype(jnp.float32) - 3) * half + b.astype(jnp.float32) * quarter
        return jnp.clip(jnp.round(real / half) + 1, 0, 255).astype(jnp.uint8)

    return Cell("quantized_linear_add", f"uint8 {shape}", ours, stock, [(shape, "uint8")] * 2)


def _pool(shape: tuple[int, ...], window: int) -> Cell:
    half = np.float32(0.5)

    def ours(x: jax.Array) -> jax.Array:
        return jaxdml.quantized_linear_average_pooling(x, half, 3, half, 3, window=window)

    def stock(x: jax.Array) -> jax.Array:
        total = lax.reduce_window(x.astype(jnp.float32), 0.0, lax.add, (1, 1, window, window), (1,) * 4, "VALID")
        return jnp.clip(jnp.round(total / window**2), 0, 255).astype(jnp.uint8)

    return Cell("quantized_linear_average_pooling", f"uint8 {shape} by {window}", ours, stock, [(shape, "uint8")])


def _quantize(shape: tuple[int, int], dtype: str = "float32") -> Cell:
    def ours(x: jax.Array, scale: jax.Array) -> jax.Array:
        return jaxdml.quantize_linear(x, scale, np.uint8(3))

    def stock(x: jax.Array, scale: jax.Array) -> jax.Array:
        return jnp.clip(jnp.round(x.astype(jnp.float32) / scale) + 3, 0, 255).astype(jnp.uint8)

    return Cell("quantize_linear", f"{dtype} {shape}", ours, stock, [(shape, dtype), ((), "float32")])


def _dequantize(shape: tuple[int, int]) -> Cell:
    def ours(x: jax.Array, scale: jax.Array) -> jax.Array:
        return jaxdml.dequantize_linear(x, scale, np.uint8(3))

    def stock(x: jax.Array, scale: jax.Array) -> jax.Array:
        return (x.astype(jnp.float32) - 3) * scale

    return Cell("dequantize_linear", f"uint8 {shape}", ours, stock, [(shape, "uint8"), ((), "float32")])


def _dynamic(shape: tuple[int, int]) -> Cell:
    def stock(x: jax.Array) -> tuple[jax.Array, ...]:
        low, high = jnp.minimum(x.min(), 0), jnp.maximum(x.max(), 0)
        scale = (high - low) / 255
        zero = jnp.clip(jnp.round(-low / scale), 0, 255)
        return jnp.clip(jnp.round(x / scale) + zero, 0, 255).astype(jnp.uint8), scale, zero.astype(jnp.uint8)

    return Cell(
        *("dynamic_quantize_linear", f"float32 {shape}", jaxdml.dynamic_quantize_linear, stock), [(shape, "float32")]
    )


CELLS = (
    *(_selection(8192, 256, 8, dtype) for dtype in ("float32", "bfloat16", "int32", "uint8")),
    *(_selection(1, 50257, 50, dtype) for dtype in ("float32", "bfloat16", "int32")),
    *(_selection(1024, 32768, 16, dtype) for dtype in ("float32", "bfloat16", "int32", "uint8")),
    _selection(4, 1024, 8),
    _selection(128, 1000, 5),
    _selection(4096, 64, 8),
    _selection(64, 8192, 64),
    _selection(64, 131072, 10),
    _selection(16, 128256, 50),
    _selection(16, 128256, 1),
    _selection(1024, 4096, 512),
    _selection(128, 2**20, 64),
    _selection(1, 2**24, 64),
    _selection(1, 2**24, 4096),
    *(_extreme((1024, 32768), -1, dtype) for dtype in ("float32", "bfloat16", "int32", "uint8")),
    _extreme((1, 50257), -1),
    _extreme((21, 512, 512), 0),
    *(_reading(131072, 1024, 512, dtype) for dtype in ("float32", "bfloat16", "int8")),
    _reading(50257, 768, 64),
    _reading_elements((1024, 4096), 8),
    _reading_elements((64, 128256), 64),
    *(_reading_slices(65536, 128, 16384, dtype) for dtype in ("float32", "bfloat16")),
    *(
        _writing(shape, count, duplicates)
        for shape, count in (((4096, 4096), 512), ((65536, 128), 16384), ((2**20,), 2**18))
        for duplicates in ("unspecified", "last", "unique")
    ),
    _writing((65536, 128), 16384, "last", "bfloat16"),
    _writing((65536, 128), 16384, "last", "int8"),
    _writing_elements((4096, 1024), 512),
    *(
        _product(*sizes)
        for sizes in ((1, 4096, 4096), (8, 4096, 4096), (128, 512, 512), (256, 256, 256), (1024, 4096, 4096))
    ),
    _product(128, 768, 3072, "uint8"),
    *(_quantized_product(*sizes) for sizes in ((1, 4096, 4096), (128, 768, 3072), (1024, 4096, 4096))),
    _quantized_product(1, 4096, 4096, packed=True),
    _quantized_product(128, 768, 3072, packed=True),
    _to_float(128, 768, 3072),
    _convolution(4, 128, 56, 128, 3),
    _convolution(4, 256, 56, 64, 1),
    _convolution(32, 64, 56, 64, 3, quantized=True),
    _convolution(32, 256, 14, 256, 3, quantized=True),
    _convolution(32, 3, 224, 64, 7, 2, quantized=True),
    _convolution(32, 96, 56, 96, 3, groups=96, quantized=True),
    _convolution(1, 64, 56, 64, 3, quantized=True),
    _sum((1024, 4096)),
    _sum((32, 56, 56, 256)),
    _pool((32, 2048, 7, 7), 7),
    _pool((8, 64, 56, 56), 2),
    *(_quantize((4096, 4096), dtype) for dtype in ("float32", "bfloat16")),
    _dequantize((4096, 4096)),
    _dynamic((4096, 4096)),
    _dynamic((128, 768)),
)
"""What is compiled: each operator, at sizes of models."""


def cost(function: Callable[..., Any], arguments: Sequence[Any], device: Any) -> dict[str, Any]:
    """Compile a call for a device and return the compiler's account of it, or why it raises."""
    started, worked = time.perf_counter(), time.process_time()

    def there(x: Any) -> Any:
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=SingleDeviceSharding(device))

    try:
        lowered = jax.jit(function).trace(*jax.tree.map(there, arguments)).lower()
        program = lowered.compile()
        spent, work = time.perf_counter() - started, time.process_time() - worked
    except Exception as error:  # Whatever it raises is the result.
        return {"raises": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    return {
        "raises": None,
        "bytes": int((program.cost_analysis() or {}).get("bytes accessed", 0)),
        "microseconds": compilers.estimate_us(program),
        "loops": "stablehlo.while" in lowered.as_text(),
        "compile_s": round(spent, 1),
        "cpu_s": round(work, 1),
    }


def row(cell: Cell, devices: Mapping[str, Any]) -> dict[str, Any]:
    """Compile both sides of a cell for every target."""
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in cell.arguments]
    given = [*shapes[:2], jax.eval_shape(jaxdml.prepack, shapes[2])] if cell.packed else shapes
    results = jax.tree.leaves(jax.eval_shape(cell.stock, *shapes))
    least = sum(_bytes(x.shape, x.dtype) for x in [*shapes, *results]) - cell.untouched
    sides = {"jaxdml": (cell.ours, given), "stock": (cell.stock, shapes)}
    compiled = {
        target: {side: cost(function, arguments, device) for side, (function, arguments) in sides.items()}
        for target, device in devices.items()
    }
    return {"operator": cell.operator, "cell": cell.name, "least": least, "compiled": compiled}


def show(found: Sequence[Mapping[str, Any]], target: str) -> None:
    """Show one line for each row: bytes of both, how many times stock's and the least, and what compiling took."""
    lines = []
    for one in found:
        ours, stock = (one["compiled"][target][side] for side in SIDES)
        if ours["raises"] or stock["raises"]:
            lines.append([f"{one['operator']} {one['cell']}", ours["raises"] or "", stock["raises"] or ""])
            continue
        cells = [
            f"{one['operator']} {one['cell']}",
            *(f"{side['bytes'] / 1e6:.3g}" for side in (ours, stock)),
            f"{ours['bytes'] / stock['bytes']:.2f}",
            f"{ours['bytes'] / one['least']:.2f}",
            *("-" if side["microseconds"] is None else f"{side['microseconds']:.3g}" for side in (ours, stock)),
            *("-" if (spent := side.get("cpu_s")) is None else f"{spent:.1f}" for side in (ours, stock)),
        ]
        lines.append(cells)
    header = "operator", "MB", "stock's", "ratio", "of the least", "us", "stock's", "s of CPU", "stock's"
    display.console.print(on_console(header, lines, title=target))
    if ratios(found, target):
        display.console.print(summary(found, target))


def main(arguments: Sequence[str] | None = None, cells: Sequence[Cell] = CELLS) -> int:
    """Compile, show and save; the exit status tells whether all of ours compiled."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks estimates", description=__doc__)
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="PATTERN", help="by name, as top_k*")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, help="by default all whose compiler is here")
    parser.add_argument("--resume", action="store_true", help="keep the rows that the file has")
    parser.add_argument("--out", type=Path, default=FILE, metavar="FILE")
    options = parser.parse_args(arguments)
    targets = options.targets or [target for target, platform in TARGETS.items() if compilers.has(platform)]
    devices = {target: compilers.device_of(target) for target in targets}
    kept = journal.earlier(options.out) if options.resume else []
    done = {(one["operator"], one["cell"]): one for one in kept if set(targets) <= set(one["compiled"])}
    chosen = [cell for cell in cells if any(fnmatch.fnmatch(cell.title, pattern) for pattern in options.cells)]
    there = [done[key] for cell in chosen if (key := (cell.operator, cell.name)) in done]
    journal.begin(options.out, journal.head(command="estimates"), there)
    for cell in display.follow([cell for cell in chosen if (cell.operator, cell.name) not in done]):
        journal.add(options.out, "row", row(cell, devices))
    _, found = journal.rows(options.out)
    for target in targets:
        show(found, target)
    return int(any(one["compiled"][target]["jaxdml"]["raises"] for one in found for target in targets))


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    sys.exit(main())
