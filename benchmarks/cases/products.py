"""Sizes of products of matrices."""

import itertools
from collections.abc import Iterator

from jaxdml._cases import matrix_multiply_integer, matrix_multiply_integer_to_float, quantized_linear_matrix_multiply
from jaxdml._cases.records import NamedCall

_Size = tuple[tuple[int, ...], int, int, int]
"""The batch, M, K and N."""


def _quantized_linear_matrix_multiply() -> Iterator[NamedCall]:
    call = quantized_linear_matrix_multiply.call
    sizes: list[_Size] = [
        *(((), size, size, size) for size in (256, 1024, 2048)),
        *(((), m, 4096, 4096) for m in (1, 8, 512)),
        ((12,), 64, 128, 64),
    ]
    dtypes = [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]
    for size, (a, b) in itertools.product(sizes, dtypes):
        yield call("grid", *size, a, b)

    for m, k, n in [(1, 4096, 14_336), (128, 4096, 14_336), (128, 14_336, 4096)]:
        origin = f"a layer of Llama 3 8B's MLP, {m} token{'s' * (m > 1)}"
        yield call("models", (), m, k, n, "uint8", "int8", origin=origin)
    yield call("models", (12,), 128, 64, 128, "uint8", "uint8", origin="attention scores, 12 heads of BERT base")

    large: list[_Size] = [
        *(((), m, 4096, 4096) for m in (1, 32, 1024, 4096)),
        *(((), 4096, 4095, 4097), ((), 8192, 8192, 8192), ((64,), 512, 512, 512)),
    ]
    for size, (a, b) in itertools.product(large, [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")]):
        limited = "what a GPU's memory and its tensor cores limit"
        yield call("accelerators", *size, a, b, by_axis=True, origin=limited)


def _matrix_multiply_integer() -> Iterator[NamedCall]:
    call = matrix_multiply_integer.call
    sizes: list[_Size] = [((), 1024, 1024, 1024), ((), 1, 4096, 4096), ((12,), 64, 128, 64)]
    for size, a in itertools.product(sizes, ("uint8", "int8")):
        yield call("grid", *size, a, "int8")
    origin = "a layer of BERT base's MLP, 128 tokens, quantized dynamically"
    yield call("models", (), 128, 768, 3072, "uint8", "int8", origin=origin)


def _matrix_multiply_integer_to_float() -> Iterator[NamedCall]:
    call = matrix_multiply_integer_to_float.call
    for size, a in itertools.product([(512, 512, 512), (1, 4096, 4096)], ("uint8", "int8")):
        yield call("grid", *size, a, "int8")
    for part, n in (("MLP", 3072), ("attention", 768)):
        origin = f"a layer of BERT base's {part}, 128 tokens, quantized dynamically"
        yield call("models", 128, 768, n, "uint8", "int8", origin=origin)
    yield call("accelerators", 1024, 4096, 4096, "int8", "int8", by_axis=True, origin="a scale of each token")


SIZES = {
    "quantized_linear_matrix_multiply": tuple(_quantized_linear_matrix_multiply()),
    "matrix_multiply_integer": tuple(_matrix_multiply_integer()),
    "matrix_multiply_integer_to_float": tuple(_matrix_multiply_integer_to_float()),
}
