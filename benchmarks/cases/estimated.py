"""The calls whose programs compilers are asked about: of every operator, with jaxdml and in stock JAX."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from benchmarks.cases.shapes import undrawn
from jaxdml._cases import (
    OPERATORS,
    _quantizing,
    argmax,
    dynamic_quantize_linear,
    gather,
    gather_elements,
    gather_nd,
    quantized_linear_add,
    quantized_linear_average_pooling,
    scatter_elements,
    scatter_nd,
    top_k,
)
from jaxdml._cases.records import NamedCall, with_constants

Function = Callable[..., Any]
Shape = tuple[tuple[int, ...], str]


class Sides(NamedTuple):
    """Two ways to write a call, each a function and its arguments."""

    jaxdml: tuple[Function, Sequence[Any]]
    stock: tuple[Function, Sequence[Any]]
    least: int
    """The bytes of what has to be read and written."""


class Cell(NamedTuple):
    """A call that is compiled."""

    operator: str
    name: str
    sides: Callable[[], Sides]

    @property
    def title(self) -> str:
        """The name of the cell."""
        return f"{self.operator} {self.name}"


_RECORDS = {record.name: record for record in OPERATORS}


def of(call: NamedCall) -> Cell:
    """Return the cell of a call, with the stock form of its record. As in a model, single numbers are constants."""
    name = f"{call.dtype} {call.size} {call.options.get('duplicates', '')}".strip()
    functions = partial(getattr(jaxdml, call.operator), **call.keywords), _RECORDS[call.operator].stock(call)

    def sides() -> Sides:
        drawn = undrawn(call)
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in drawn if x.ndim]
        ours, stock = (
            partial(with_constants, function, [None if x.ndim else x for x in drawn]) for function in functions
        )
        return Sides((ours, shapes), (stock, shapes), call.bytes)

    return Cell(call.operator, name, sides)


def _of_integers(
    operator: str, name: str, ours: Function, stock: Function, arguments: Sequence[Shape], packed: bool = False
) -> Cell:
    """Return the cell of a product or convolution of which stock JAX multiplies the integers themselves.

    That is how one writes it for a TPU where zero points are 0. The forms in the records take any zero points. With
    ``packed`` the third argument of ours is a packed matrix.
    """
    shapes = [jax.ShapeDtypeStruct(*shape) for shape in arguments]

    def sides() -> Sides:
        given = [*shapes[:2], jax.eval_shape(jaxdml.prepack, shapes[2])] if packed else shapes
        read_and_written = [*shapes, *jax.tree.leaves(jax.eval_shape(stock, *shapes))]
        least = sum(math.prod(x.shape) * x.dtype.itemsize for x in read_and_written)
        return Sides((ours, given), (stock, shapes), least)

    return Cell(operator, name, sides)


def _int32(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.int32)


def _product(m: int, k: int, n: int, a: str = "int8") -> Cell:
    def ours(x: jax.Array, y: jax.Array) -> jax.Array:
        return jaxdml.matrix_multiply_integer(x, None, y, None)

    return _of_integers("matrix_multiply_integer", f"{a} {m}x{k}x{n}", ours, _int32, [((m, k), a), ((k, n), "int8")])


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
    return _of_integers("quantized_linear_matrix_multiply", name, ours, stock, arguments, packed=packed)


def _to_float(m: int, k: int, n: int) -> Cell:
    def ours(a: jax.Array, scale: jax.Array, b: jax.Array, scales: jax.Array) -> jax.Array:
        return jaxdml.matrix_multiply_integer_to_float(a, scale, None, b, scales, None)

    def stock(a: jax.Array, scale: jax.Array, b: jax.Array, scales: jax.Array) -> jax.Array:
        return _int32(a, b).astype(jnp.float32) * (scale * scales)

    arguments = [((m, k), "int8"), ((), "float32"), ((k, n), "int8"), ((n,), "float32")]
    return _of_integers("matrix_multiply_integer_to_float", f"{m}x{k}x{n}", ours, stock, arguments)


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
    return _of_integers(operator, name, ours, stock, arguments)


_LAYERS = (
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
)

_GROUP = "estimates"
_NARROW = "float32", "bfloat16", "int32", "uint8"

_CHOSEN = (
    *(top_k.call(_GROUP, 8192, 256, 8, dtype, "decreasing") for dtype in _NARROW),
    *(top_k.call(_GROUP, 1, 50257, 50, dtype, "decreasing") for dtype in _NARROW[:3]),
    *(top_k.call(_GROUP, 1024, 32768, 16, dtype, "decreasing") for dtype in _NARROW),
    *(
        top_k.call(_GROUP, *size, "float32", "decreasing")
        for size in (
            *((4, 1024, 8), (128, 1000, 5), (4096, 64, 8), (64, 8192, 64), (64, 131072, 10), (16, 128256, 50)),
            *((16, 128256, 1), (1024, 4096, 512), (128, 2**20, 64), (1, 2**24, 64), (1, 2**24, 4096)),
        )
    ),
    *(argmax.call(_GROUP, (1024, 32768), dtype) for dtype in _NARROW),
    argmax.call(_GROUP, (1, 50257), "float32"),
    argmax.call(_GROUP, (21, 512, 512), "float32", axis=0),
    *(gather.call(_GROUP, (131072, 1024), (512,), dtype) for dtype in ("float32", "bfloat16", "int8")),
    gather.call(_GROUP, (50257, 768), (64,), "float32"),
    gather_elements.call(_GROUP, (1024, 4096), (1024, 8), "float32", axis=1),
    gather_elements.call(_GROUP, (64, 128256), (64, 64), "float32", axis=1),
    *(gather_nd.call(_GROUP, (65536, 128), (16384, 1), dtype) for dtype in ("float32", "bfloat16")),
    *(
        scatter_nd.call(_GROUP, shape, count, "float32", memory="copied", duplicates=duplicates)
        for shape, count in (((4096, 4096), 512), ((65536, 128), 16384), ((2**20, 1), 2**18))
        for duplicates in ("unspecified", "last", "unique")
    ),
    *(
        scatter_nd.call(_GROUP, (65536, 128), 16384, dtype, memory="copied", duplicates="last")
        for dtype in ("bfloat16", "int8")
    ),
    scatter_elements.call(_GROUP, (4096, 1024), 512, "float32", memory="copied"),
    *(quantized_linear_add.call(_GROUP, shape, "uint8", origin="") for shape in ((1024, 4096), (32, 56, 56, 256))),
    quantized_linear_average_pooling.call(_GROUP, (32, 2048, 7, 7), "uint8", origin="", window=7, strides=1),
    quantized_linear_average_pooling.call(_GROUP, (8, 64, 56, 56), "uint8", origin="", window=2, strides=1),
    *(_quantizing.call("quantize_linear", _GROUP, (4096, 4096), dtype, "uint8") for dtype in _NARROW[:2]),
    _quantizing.call("dequantize_linear", _GROUP, (4096, 4096), "uint8", "float32"),
    *(dynamic_quantize_linear.call(_GROUP, shape) for shape in ((4096, 4096), (128, 768))),
)
"""Sizes of models."""


_KNOWN = (*map(of, _CHOSEN), *_LAYERS)

CELLS = (
    *_KNOWN,
    *(
        of(race)
        for record in OPERATORS
        if record.name not in {cell.operator for cell in _KNOWN}
        for race in record.races
    ),
)
"""What is compiled. Of an operator of which no size is chosen that is what the self-check times."""
