"""Sizes of what reads and writes at indices."""

import itertools
from collections.abc import Callable, Iterator

from jaxdml._cases import gather, gather_elements, gather_nd, scatter_elements, scatter_nd
from jaxdml._cases.records import NamedCall

_LIMITED = "what a GPU's memory limits"


def _gather() -> Iterator[NamedCall]:
    call = gather.call
    for dtype in ("float32", "int8"):
        yield call("grid", (2**18, 128), (2**18,), dtype)
        yield call("grid", (65_536, 128), (16_384,), dtype)
    yield call("grid", (2**22,), (2**22,), "float32")
    yield call("grid", (4096, 4096), (1024,), "float32", axis=1)
    yield call("grid", (64, 4096, 64), (1024,), "float32", axis=1)
    yield call("models", (50_257, 768), (64,), "float32", origin="embedding lookup, GPT-2, 64 tokens")
    yield call("models", (128_256, 4096), (32,), "bfloat16", origin="embedding lookup, Llama 3 8B, 32 tokens")
    for dtype in ("float32", "bfloat16", "int8"):
        yield call("accelerators", (2**20, 128), (2**18,), dtype, origin=_LIMITED)
    yield call("accelerators", (2**24,), (2**22,), "float32", origin=_LIMITED)


def _gather_elements() -> Iterator[NamedCall]:
    call = gather_elements.call
    yield call("grid", (65_536, 128), (16_384, 128), "float32")
    yield call("grid", (4096, 4096), (4096, 512), "float32", axis=1)
    yield call("grid", (4096, 4096), (512, 4096), "float32")
    yield call("grid", (4096, 4096), (4096, 512), "int8", axis=1)
    yield call("models", (64, 128_256), (64, 64), "float32", axis=1, origin="the logits that top_k chose, Llama 3")
    yield call("accelerators", (2**14, 4096), (2**14, 512), "float32", axis=1, origin=_LIMITED)


def _gather_nd() -> Iterator[NamedCall]:
    call = gather_nd.call
    yield call("grid", (65_536, 128), (16_384, 1), "float32")
    yield call("grid", (2048, 2048), (2**20, 2), "float32")
    yield call("grid", (64, 64, 64, 64), (2**14, 3), "float32")
    yield call("grid", (32, 2048, 64), (32, 512, 1), "float32", batch_dims=1)
    yield call("accelerators", (2**12, 2**12), (2**22, 2), "float32", origin=_LIMITED)


def _copied_and_donated(call: Callable[..., NamedCall]) -> Iterator[NamedCall]:
    for size in (((65_536, 128), 16_384), ((2**20, 1), 2**18), ((4096, 4096), 512), ((16_384, 64), 16_384)):
        for memory in ("copied", "donated"):
            yield call("grid", *size, "float32", memory=memory)


def _scatter_nd() -> Iterator[NamedCall]:
    call = scatter_nd.call
    yield from _copied_and_donated(call)
    yield call("models", (50_257, 768), 8192, "float32", memory="donated", origin="embedding update, GPT-2")
    yield call("models", (65_536, 128), 64, "float16", memory="donated", origin="KV-cache write, 64 tokens")
    writes = [
        *(((2**20, 128), 2**18, "float32"), ((2**24, 1), 2**22, "float32")),
        *(((2**20, 128), 2**18, "float16"), ((2**20, 128), 2**18, "uint8")),
    ]
    rules = ("unspecified", "unique", "last")
    for write, memory, duplicates in itertools.product(writes, ("copied", "donated"), rules):
        limited = "what a GPU's memory and its tensor cores limit"
        yield call("accelerators", *write, memory=memory, duplicates=duplicates, origin=limited)


SIZES = {
    "gather": tuple(_gather()),
    "gather_elements": tuple(_gather_elements()),
    "gather_nd": tuple(_gather_nd()),
    "scatter_elements": tuple(_copied_and_donated(scatter_elements.call)),
    "scatter_nd": tuple(_scatter_nd()),
}
