"""Sizes of what searches an axis."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.cases.data import on
from jaxdml._cases import argmax, argmin, top_k
from jaxdml._cases.records import NamedCall
from jaxdml._cases.top_k import DIRECTIONS

_DTYPES = "float32", "float16", "int32", "uint32", "int16", "uint8", "int8"
_KINDS = ("float32", "ascending"), ("float32", "all equal"), *((dtype, "random") for dtype in _DTYPES)


def _top_k() -> Iterator[NamedCall]:
    call = top_k.call
    sizes = [(64, 1000, 10), (1024, 256, 8), (16, 131_072, 32), (1, 2**20, 64), (1, 2**20, 4096), (1, 2**24, 64)]
    for size, (dtype, data), direction in itertools.product(sizes, _KINDS, DIRECTIONS):
        yield on(data, call("grid", *size, dtype, direction))

    for dtype in ("float32", "bfloat16"):
        yield call("models", 1, 50_257, 50, dtype, "decreasing", origin="sampling one token, GPT-2's vocabulary")
        yield call("models", 16, 128_256, 50, dtype, "decreasing", origin="sampling 16 tokens, Llama 3's vocabulary")
    diverged = "a diverged model's logits"
    yield on("with NaN", call("models", 1, 128_256, 50, "float32", "decreasing", origin=diverged))
    yield call("models", 4096, 256, 8, "float32", "decreasing", origin="routing 4,096 tokens to 8 of 256 experts")
    yield call("models", 8, 10 * 50_257, 10, "float32", "decreasing", origin="beam search, 10 beams")
    yield call("models", 1, 10**6, 10, "float32", "increasing", origin="nearest 10 of a million distances")
    yield call("models", 1, 2**24, 10, "float32", "increasing", origin="nearest 10 of 16 million distances")
    many_ties = "quantized scores, many ties"
    yield on("few distinct", call("models", 1, 2**20, 64, "uint8", "decreasing", origin=many_ties))


def _growth_of_top_k() -> Iterator[NamedCall]:
    ranges = {"n": [(2**i, 64) for i in range(10, 27)], "k": [(2**20, 2**i) for i in range(20)]}
    dtypes = "float32", "float16", "int32", "int16", "uint8"
    for (by, sizes), dtype in itertools.product(ranges.items(), dtypes):
        for n, k in sizes:
            grown = top_k.call(f"growth in {by}", 1, n, k, dtype, "decreasing", origin=f"how time grows with {by}")
            yield replace(grown, at={"n": n, "k": k}[by])


def _top_k_on_accelerators() -> Iterator[NamedCall]:
    sizes = [
        *((64, 2**17, 10), (1024, 2**15, 16), (8192, 256, 8), (1, 50_257, 50), (128, 2**17, 64), (128, 2**20, 64)),
        *((128, 2**20, 2048), (1, 2**24, 64), (1, 2**24, 4096), (1, 2**28, 64), (1, 2**30, 100)),
    ]
    dtypes = ("float32", "float16", "bfloat16", "int32", "int16", "uint8")
    kinds = [
        *((dtype, "random", "decreasing") for dtype in dtypes),
        *(("float32", data, "decreasing") for data in ("ascending", "all equal")),
        ("float32", "random", "increasing"),
    ]
    for (rows, n, k), (dtype, data, direction) in itertools.product(sizes, kinds):
        if n < 2**28 or (data, direction) == ("random", "decreasing"):
            limited = "what a GPU's memory and its tensor cores limit"
            yield on(data, top_k.call("accelerators", rows, n, k, dtype, direction, origin=limited))


def _argmax() -> Iterator[NamedCall]:
    call = argmax.call
    sizes = [(1, 4096), (64, 1000), (1024, 256), (16, 131_072), (1, 2**20), (1, 2**24)]
    for size, (dtype, data) in itertools.product(sizes, _KINDS):
        yield on(data, call("grid", size, dtype))
    for size, dtype in itertools.product([(4096, 1024), (256, 1024)], ("float32", "bfloat16", "int8")):
        yield call("grid", size, dtype, axis=0)

    for dtype in ("float32", "bfloat16"):
        yield call("models", (1, 50_257), dtype, origin="the likeliest token, GPT-2's vocabulary")
        yield call("models", (16, 128_256), dtype, origin="the likeliest token of 16, Llama 3's vocabulary")
    yield on("with NaN", call("models", (1, 128_256), "float32", origin="a diverged model's logits"))
    yield call("models", (32, 1000), "float32", origin="classes of 32 images, ImageNet")
    yield call("models", (4096, 64), "float32", origin="routing 4,096 tokens to one of 64 experts")
    yield call("models", (21, 512, 512), "float32", axis=0, origin="a mask of 21 classes for an image, channels first")

    limited = [((1, 2**28), -1), ((1, 128_256), -1), ((32, 128_256), -1), ((65_536, 64), -1), ((4096, 4096), 0)]
    for (size, axis), dtype in itertools.product(limited, ("float32", "bfloat16", "int8")):
        yield call("accelerators", size, dtype, axis=axis, origin="what a GPU's memory limits")


def _argmin() -> Iterator[NamedCall]:
    for size, dtype in itertools.product([(64, 1000), (16, 131_072), (1, 2**24)], ("float32", "int32", "uint8")):
        yield argmin.call("grid", size, dtype)
    yield argmin.call("models", (4096, 1024), "float32", origin="the nearest of 1,024 codewords for 4,096 vectors")
    yield argmin.call("models", (1, 10**6), "float32", origin="the nearest of a million distances")


SIZES = {
    "top_k": (*_top_k(), *_growth_of_top_k(), *_top_k_on_accelerators()),
    "argmax": tuple(_argmax()),
    "argmin": tuple(_argmin()),
}
