"""Compare the programs of two versions of jaxdml: ``python -m benchmarks programs NEW --against OLD``, two directories.

Each call of a fixed list is lowered for every platform, which needs no device of that platform, and its StableHLO is
written to the directory. The list holds sizes on both sides of every threshold of the lowerings, so a change that is
meant to move code and nothing else leaves every text as it was.
"""

import argparse
import hashlib
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import ShapeDtypeStruct as Shape

import jaxdml
from benchmarks.reporting import display, journal

PLATFORMS = "cpu", "cuda", "tpu"

_INDEX = "index.jsonl"

Call = tuple[str, Callable[..., Any], tuple[Shape | None, ...]]

_DTYPES = "float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8"

_ROWS: tuple[tuple[tuple[int, ...], int], ...] = (
    *(((1000,), 10), ((3, 2047), 5), ((3, 2048), 5), ((3, 2048), 64), ((3, 2048), 65), ((8, 255), 5), ((8, 256), 16)),
    *(((8, 256), 17), ((7, 300), 5), ((1, 700), 255), ((1, 700), 256), ((8, 128), 128), ((8, 129), 128), ((0, 9), 2)),
    *(((64, 2**17), 10), ((1, 2**20), 64), ((1, 2**20), 4096), ((1, 2**24), 64), ((8192, 256), 8), ((8, 1024), 64)),
    *(((4, 2**16), 40_000), ((128, 2**20), 2048), ((4, 5, 300), 3), ((2, 3, 4, 50), 2), ((5, 4, 3000), 40)),
)


def _selections() -> Iterator[Call]:
    for (shape, k), dtype, direction in itertools.product(_ROWS, _DTYPES, ("decreasing", "increasing")):
        options: dict[str, Any] = {"direction": direction}
        select = partial(jaxdml.top_k, k=k, **options)
        yield f"top_k {shape} k{k} {dtype} {direction}", select, (Shape(shape, dtype),)
    for shape, axis in (((300, 6), 0), ((2, 300, 5), 1), ((2, 3, 4, 5), 2)):
        yield f"top_k {shape} axis {axis}", partial(jaxdml.top_k, k=3, axis=axis), (Shape(shape, "float32"),)
    for method in ("sort", "integer_top_k", "repeated_maxima", "threshold", "chunk_maxima", "tournament"):
        forced = partial(jaxdml.top_k, k=11, implementation=method)
        yield f"top_k {method}", forced, (Shape((9, 700), "int16"),)


_SEARCHED: tuple[tuple[tuple[int, ...], int | tuple[int, ...]], ...] = (
    *(((7,), 0), ((3, 32), 1), ((3, 33), 1), ((3, 512), 1), ((3, 513), 1), ((1, 2**20), 1), ((32, 40), 0)),
    *(((33, 40), 0), ((4096, 64), 0), ((2, 600, 35), 1), ((4, 5, 6, 7), (1, 3)), ((0, 9), 1)),
)


def _searches() -> Iterator[Call]:
    for (shape, axis), dtype in itertools.product(_SEARCHED, _DTYPES):
        for name, last in (("argmax", False), ("argmin", True)):
            search = partial(getattr(jaxdml, name), axis=axis, select_last_index=last)
            yield f"{name} {shape} axis {axis} {dtype}", search, (Shape(shape, dtype),)
    for method in ("two_reductions", "pair_reduction", "greatest_chunk"):
        forced = partial(jaxdml.argmax, implementation=method)
        yield f"argmax {method}", forced, (Shape((9, 700), "int16"),)


_SLICES: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = (
    *(("float32", (4096, 64), (512, 1)), ("float16", (4096, 64), (512, 1)), ("int8", (4096, 6), (512, 1))),
    *(("uint8", (4096, 1), (1024, 1)), ("float32", (4096,), (1024, 1)), ("bfloat16", (64, 32, 8), (3, 5, 2))),
    *(
        ("bool", (64, 32), (7, 2)),
        ("complex64", (64, 3), (7, 1)),
        ("float32", (160,), (3, 1)),
        ("int32", (3, 4), (5, 0)),
    ),
)
_ELEMENTS = ("float32", (2048, 512), (256, 512), 0), ("float16", (64, 5, 8), (64, 3, 8), 1), ("int8", (99,), (7,), 0)


def _scatters() -> Iterator[Call]:
    modes, rules = ("drop", "clip", "promise_in_bounds"), ("unspecified", "last", "unique")
    for mode, duplicates, index_dtype in itertools.product(modes, rules, ("int32", "uint32", "int8")):
        options: dict[str, Any] = {"mode": mode, "duplicates": duplicates}
        for dtype, shape, index_shape in _SLICES:
            arguments = Shape(shape, dtype), Shape(index_shape, index_dtype)
            updates = Shape((*index_shape[:-1], *shape[index_shape[-1] :]), dtype)
            name = f"scatter_nd {mode} {duplicates} {dtype} {shape} {index_shape} {index_dtype}"
            yield name, partial(jaxdml.scatter_nd, **options), (*arguments, updates)
        for dtype, shape, index_shape, axis in _ELEMENTS:
            arguments = Shape(shape, dtype), Shape(index_shape, index_dtype)
            name = f"scatter_elements {mode} {duplicates} {dtype} {shape} {index_shape} {axis} {index_dtype}"
            scatter = partial(jaxdml.scatter_elements, axis=axis, **options)
            yield name, scatter, (*arguments, Shape(index_shape, dtype))


_READS: tuple[tuple[str, str, tuple[int, ...], tuple[int, ...], dict[str, int]], ...] = (
    *(("gather", "float32", (4096, 64), (512,), {}), ("gather", "bfloat16", (64, 300, 8), (3, 5), {"axis": 1})),
    *(("gather", "int8", (4096,), (), {}), ("gather", "bool", (7, 9), (20,), {"axis": 1})),
    *(
        ("gather_elements", "float16", (300, 5), (40, 5), {}),
        ("gather_elements", "complex64", (4, 6), (3, 9), {"axis": 1}),
    ),
    *(
        ("gather_nd", "float8_e4m3fn", (64, 32, 8), (5, 2), {}),
        ("gather_nd", "uint32", (3, 90, 2), (3, 7, 1), {"batch_dims": 1}),
    ),
)


def _gathers() -> Iterator[Call]:
    modes = ("clip", "fill", "promise_in_bounds")
    for mode, index_dtype, (name, dtype, shape, index_shape, options) in itertools.product(
        modes, ("int32", "uint32", "int8"), _READS
    ):
        call = f"{name} {mode} {dtype} {shape} {index_shape} {options} {index_dtype}"
        read = partial(getattr(jaxdml, name), mode=mode, **options)
        yield call, read, (Shape(shape, dtype), Shape(index_shape, index_dtype))


_PRODUCTS: tuple[tuple[tuple[int, ...], tuple[int, ...], int, int, int], ...] = (
    *(((), (), *size) for size in ((1, 64, 48), (4, 5, 6), (64, 4096, 256), (65, 4096, 256), (64, 1024, 256))),
    *(
        ((), (), *size)
        for size in ((65, 1025, 256), (300, 512, 300), (7, 100_000, 9), (64, 33_001, 6), (8, 4096, 4096))
    ),
    *((a, b, 70, 2000, 33) for a, b in (((12,), (12,)), ((2, 3), ()), ((), (4,)), ((2, 1), (1, 3)), ((5,), (1,)))),
)


def _products() -> Iterator[Call]:
    signs = tuple(itertools.product(("int8", "uint8"), repeat=2))
    for (a_batch, b_batch, m, k, n), (a, b), by_axis, zero_points in itertools.product(
        _PRODUCTS, signs, (False, True), (False, True)
    ):
        row, column = ((m, 1), (1, n)) if by_axis else ((), ())

        def parameters(shape: tuple[int, ...], dtype: str, given: bool = zero_points) -> tuple[Shape | None, ...]:
            return Shape(shape, "float32"), Shape(shape, dtype) if given else None

        left, right = (
            (Shape((*a_batch, m, k), a), *parameters(row, a)),
            (Shape((*b_batch, k, n), b), *parameters(column, b)),
        )
        name = f"quantized {a_batch} {b_batch} {m}x{k}x{n} {a} {b} {'by axis' if by_axis else ''} {zero_points}"
        # What the CPU here can do decides about the other method.
        multiply = partial(jaxdml.quantized_linear_matrix_multiply, implementation="integer_dot")
        yield name, multiply, (*left, *right, *parameters(row, a))


_LAYERS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ("3x3", (2, 16, 14, 14), (32, 16, 3, 3), {"start_padding": 1, "end_padding": 1}),
    ("1x1", (2, 64, 14, 14), (96, 64, 1, 1), {}),
    ("1x1 by 2", (2, 64, 14, 14), (96, 64, 1, 1), {"strides": 2}),
    ("few channels", (1, 3, 32, 32), (32, 3, 7, 7), {"strides": 2, "start_padding": 3, "end_padding": 3}),
    ("single channels", (2, 32, 14, 14), (32, 1, 3, 3), {"group_count": 32, "start_padding": 1, "end_padding": 1}),
    ("groups", (2, 32, 9, 9), (48, 8, 3, 3), {"group_count": 4}),
    ("one dimension", (4, 16, 40), (32, 16, 5), {"dilations": 2}),
    ("deep", (1, 4096, 3, 3), (8, 4096, 3, 3), {"start_padding": 1, "end_padding": 1}),
)
_CHANNELS_LAST = ("NHWC", "OIHW", "NHWC")


def _convolutions() -> Iterator[Call]:
    for name, x, w, options in _LAYERS:
        orders = (None, _CHANNELS_LAST) if len(x) == 4 else (None,)
        for order, signed in itertools.product(orders, ("int8", "uint8")):
            of_x = (x[0], *x[2:], x[1]) if order else x
            convolve = partial(jaxdml.convolution_integer, dimension_numbers=order, **options)
            rounded = partial(jaxdml.quantized_linear_convolution, dimension_numbers=order, **options)

            def known(x: Any, w: Any, bias: Any, rounded: Any = rounded) -> Any:
                return rounded(x, 0.02, np.asarray(3, x.dtype), w, 0.01, None, bias, 0.5, np.asarray(7, x.dtype))

            arrays, bias = (Shape(of_x, signed), Shape(w, "int8")), Shape(w[:1], "int32")
            scale, zero = Shape((), "float32"), Shape((), signed)
            label = f"convolution {name} {order} {signed}"
            yield f"{label} integer", lambda x, z, w, f=convolve: f(x, z, w, None), (arrays[0], zero, arrays[1])
            yield f"{label} known", known, (*arrays, bias)
            given = arrays[0], scale, zero, arrays[1], scale, None, bias, scale, zero
            yield f"{label} traced", rounded, given


def _products_of_known_scales() -> Iterator[Call]:
    for m, k, n in ((1, 64, 48), (64, 4096, 256), (300, 512, 300), (7, 100_000, 9)):
        for a, b in itertools.product(("int8", "uint8"), repeat=2):

            def known(a: Any, b: Any, bias: Any) -> Any:
                zero = np.asarray(5, a.dtype)
                scales = np.full(b.shape[-1], 0.01, np.float32)
                return jaxdml.quantized_linear_matrix_multiply(a, 0.02, zero, b, scales, None, 0.5, zero, bias=bias)

            arrays = Shape((m, k), a), Shape((k, n), b)
            yield f"known {m}x{k}x{n} {a} {b}", known, (*arrays, Shape((n,), "int32"))
            integer = partial(jaxdml.matrix_multiply_integer, implementation="integer_dot")
            yield f"integer {m}x{k}x{n} {a} {b}", integer, (arrays[0], Shape((), a), arrays[1], Shape((n,), b))
            to_float = partial(jaxdml.matrix_multiply_integer_to_float, implementation="integer_dot")
            scale, of_columns = Shape((), "float32"), Shape((n,), "float32")
            given = arrays[0], scale, Shape((), a), arrays[1], of_columns, None, of_columns
            yield f"to float {m}x{k}x{n} {a} {b}", to_float, given


def _pointwise() -> Iterator[Call]:
    for shape in ((100,), (64, 2048), (8, 3, 300)):
        scale, zero = Shape((), "float32"), Shape((), "int8")
        for dtype in ("float32", "bfloat16", "int32"):
            quantize = partial(jaxdml.quantize_linear, output_dtype="int8")
            yield f"quantize {shape} {dtype}", quantize, (Shape(shape, dtype), scale, zero)
            yield f"quantize {shape} {dtype} known", lambda x, f=quantize: f(x, 0.1), (Shape(shape, dtype),)
        yield f"dequantize {shape}", jaxdml.dequantize_linear, (Shape(shape, "int8"), scale, zero)
        yield f"dequantize {shape} known", lambda x: jaxdml.dequantize_linear(x, 0.1, 3), (Shape(shape, "int8"),)
        yield f"dynamic {shape}", jaxdml.dynamic_quantize_linear, (Shape(shape, "float32"),)
        x = Shape(shape, "int8")
        add = jaxdml.quantized_linear_add
        yield f"add {shape}", add, (x, scale, zero, x, scale, zero, scale, zero)
        yield f"add {shape} known", lambda a, b, f=add: f(a, 0.1, 3, b, 0.2, 5, 0.3, 7), (x, x)
        requantize = partial(jaxdml.requantize, output_dtype="int8")
        yield f"requantize {shape}", requantize, (Shape(shape, "int32"), scale, scale, scale, zero)
        yield f"requantize {shape} known", lambda x, f=requantize: f(x, 0.1, 0.2, 0.3), (Shape(shape, "int32"),)
    pool = partial(jaxdml.quantized_linear_average_pooling, window=3, strides=2, start_padding=1, end_padding=1)
    x, scale, zero = Shape((2, 8, 15, 15), "uint8"), Shape((), "float32"), Shape((), "uint8")
    yield "pool", pool, (x, scale, zero, scale, zero)
    yield "pool known", lambda x: pool(x, 0.1, 3, 0.2, 5), (x,)


def calls() -> Iterator[Call]:
    """Yield the name, the function and the shapes of every call."""
    yield from _searches()
    yield from _selections()
    yield from _scatters()
    yield from _gathers()
    yield from _products()
    yield from _products_of_known_scales()
    yield from _convolutions()
    yield from _pointwise()


def write(folder: Path, chosen: Sequence[Call]) -> Mapping[str, str]:
    """Lower the calls, write each text once, and return the file of each call and platform."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, function, shapes in chosen:
        traced = jax.jit(function).trace(*shapes)
        for platform in PLATFORMS:
            text = traced.lower(lowering_platforms=(platform,)).as_text()
            files[f"{name} | {platform}"] = file = f"{hashlib.sha256(text.encode()).hexdigest():.24}.mlir"
            (folder / file).write_text(text, encoding="utf-8")
    rows = [{"program": name, "file": file} for name, file in files.items()]
    journal.begin(folder / _INDEX, journal.head(command="programs"), rows)
    return files


_NUMBER = r" *%\w+ = stablehlo\.constant dense<\d+> : tensor<i32>\n *stablehlo\.return %\w+ : tensor<i32>\n"
_NUMBERS = re.compile(rf" *%\w+ = stablehlo\.constant [^\n]*\n[^\n]*stablehlo\.case[^\n]*\n(?:{_NUMBER}[^\n]*\n)+")


def _without_numbers(text: str) -> str:
    """Leave out what numbers the platforms: it changes with the number of branches, and no device computes it."""
    return _NUMBERS.sub("", text)


def compare(folder: Path, other: Path) -> Counter[str]:
    """Count the programs that are the same text, the same but for the numbers of platforms, and different."""
    here, there = ({row["program"]: row["file"] for row in journal.rows(one / _INDEX)[1]} for one in (folder, other))
    found: Counter[str] = Counter()
    for name in sorted(here.keys() | there.keys()):
        if name not in here or name not in there:
            kind = "in one only"
        elif here[name] == there[name]:
            kind = "the same text"
        else:
            texts = ((one / files[name]).read_text(encoding="utf-8") for one, files in ((folder, here), (other, there)))
            kind = (
                "the same but for the numbers of platforms"
                if len(set(map(_without_numbers, texts))) == 1
                else "different"
            )
        found[kind] += 1
        if kind in ("different", "in one only"):
            display.console.print(f"{kind}: {name}", markup=False, soft_wrap=True)
    return found


def main(arguments: Sequence[str] | None = None, chosen: Sequence[Call] | None = None) -> int:
    """Write the programs, and compare them with those in another directory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks programs", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", type=Path, help="a directory that another version wrote")
    options = parser.parse_args(arguments)
    files = write(options.folder, list(calls()) if chosen is None else chosen)
    display.console.print(f"{len(files)} programs, {len(set(files.values()))} different texts")
    if options.against is None:
        return 0
    found = compare(options.folder, options.against)
    display.console.print(", ".join(f"{count} {kind}" for kind, count in found.most_common()))
    return int(found["different"] + found["in one only"] > 0)


if __name__ == "__main__":
    sys.exit(main())
