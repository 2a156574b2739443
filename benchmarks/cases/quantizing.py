"""Sizes of what computes with quantized numbers element by element."""

from collections.abc import Iterator

from jaxdml._cases import dynamic_quantize_linear, quantized_linear_add
from jaxdml._cases._quantizing import call, shape_of
from jaxdml._cases.records import NamedCall

_ELEMENTS = tuple(2**power for power in (12, 20, 24))
"""These fit the first cache, the last one, and neither."""


def _with_one_scale_and_by_row(name: str, *dtypes: tuple[str, str]) -> Iterator[NamedCall]:
    for elements in _ELEMENTS:
        for given, returned in dtypes:
            yield call(name, "grid", shape_of(elements), given, returned)
    origin = "the weights of a layer of Llama 3 8B's MLP, by output channel"
    yield call(name, "models", (14_336, 4096), *dtypes[0], by_row=True, origin=origin)


def _dynamic_quantize_linear() -> Iterator[NamedCall]:
    for elements in _ELEMENTS:
        yield dynamic_quantize_linear.call("grid", shape_of(elements))
    hidden = "the hidden states of BERT base, 128 tokens"
    yield dynamic_quantize_linear.call("models", (128, 768), origin=hidden)


def _quantized_linear_add() -> Iterator[NamedCall]:
    add = quantized_linear_add.call
    for n in (1, 32):
        for shape in ((256, 56, 56), (512, 28, 28), (2048, 7, 7)):
            yield add("models", (n, *shape), "uint8", origin=f"a residual of ResNet-50, batch {n}")
    for bits in (12, 20):
        for dtype in ("uint8", "int8"):
            yield add("grid", (2**bits,), dtype, origin="the grid")
    yield add("accelerators", (2**24,), "uint8", origin="what a GPU's memory limits")


SIZES = {
    "quantize_linear": tuple(_with_one_scale_and_by_row("quantize_linear", ("float32", "uint8"), ("float16", "int8"))),
    "dequantize_linear": tuple(
        _with_one_scale_and_by_row("dequantize_linear", ("uint8", "float32"), ("int32", "float32"))
    ),
    "dynamic_quantize_linear": tuple(_dynamic_quantize_linear()),
    "quantized_linear_add": tuple(_quantized_linear_add()),
}
