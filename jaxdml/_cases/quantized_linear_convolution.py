"""The cases of ``quantized_linear_convolution``."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases import _convolving
from jaxdml._cases._accumulating import INT8, UINT8, Shape, greatest, sample_output, scales, stock_rounded
from jaxdml._cases._convolving import GEOMETRIES, Geometry, near_zero_point
from jaxdml._cases._layers import RACE, SMALL, Layer, stock_sums
from jaxdml._cases.data import any_bits, factors, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "quantized_linear_convolution"

_ONNX_X = np.array(
    [
        [255, 174, 162, 25, 203, 168, 58],
        [15, 59, 237, 95, 129, 0, 64],
        [56, 242, 153, 221, 168, 12, 166],
        [232, 178, 186, 195, 237, 162, 237],
        [188, 39, 124, 77, 80, 102, 43],
        [127, 230, 21, 83, 41, 40, 134],
        [255, 154, 92, 141, 42, 148, 247],
    ],
    np.uint8,
)

EXAMPLES = (
    # DirectML's page has no numbers. These are those of ONNX's QLinearConv: with its zero point, the filter is -1.
    Example(
        _NAME,
        (
            *(_ONNX_X[None, None], np.array(0.00369204697, np.float32), np.array(132, np.uint8)),
            *(np.zeros((1, 1, 1, 1), np.uint8), np.array([0.00172794575], np.float32), np.array([255], np.uint8)),
            *(None, np.array(0.00162681262, np.float32), np.array(123, np.uint8)),
        ),
        {},
        (255 - _ONNX_X[None, None],),
    ),
)

_DTYPES = {
    f"{x} x {w} -> {output}": (x, w, output)
    for x, w, output in (
        *(("int8", "int8", "int8"), ("uint8", "int8", "uint8")),
        *(("uint8", "uint8", "int8"), ("int8", "uint8", "uint8")),
    )
}
"""Every pair of dtypes of two of the three arrays."""


def _draw(dtypes: tuple[str, str, str], geometry: Geometry, rng: np.random.Generator, cases: int) -> Arguments:
    """Draw quotients of which many are ties or near one.

    In every third case all scales are powers of two, in another third powers of two or their neighbours, and in the
    rest any normal float32. The differences from the zero points reach 3, 30 or, saturating, 256. In every fourth case
    the bias is near an end of int32, or near halfway between two outputs. Some products of two scales are no float32.
    """
    of_filters, of_one = geometry.of_filters, None if geometry.of_filters is None else ()
    spread = np.array([3, 30, 256])[np.arange(cases) // 3 % 3]
    sums = np.log2(spread**2 * np.sqrt(geometry.terms)).astype(int)
    if geometry.deep:
        x, x_zero, w, w_zero = greatest(dtypes, geometry.operands, rng, cases)
        sums = np.full(cases, 31)
    else:
        x_zero, w_zero = (_zero_points(rng, shape, cases, dtypes[i]) for i, shape in enumerate((of_one, of_filters)))
        x = near_zero_point(rng, (cases, *geometry.x), x_zero, dtypes[0], spread)
        w = near_zero_point(rng, (cases, *geometry.w), w_zero, dtypes[1], spread)
    large = (np.arange(cases) % 4 == 3) & (of_filters is not None)
    reach = np.where(large, 24, np.maximum(1, sums - 6 + rng.integers(0, 3, cases)))
    of_fraction = np.arange(cases) % 3
    output_exponent, x_exponent = rng.integers(-126, 127, (2, cases))
    w_exponent = np.clip(output_exponent - reach - x_exponent, -126, 126)
    return (
        *(x, scales(rng, x_exponent, of_fraction, ()), x_zero),
        *(w, scales(rng, w_exponent, of_fraction, of_filters or ()), w_zero),
        None if of_filters is None else _biases(rng, large, sums, of_filters),
        *(scales(rng, output_exponent, of_fraction, ()), _zero_points(rng, of_one, cases, dtypes[2])),
    )


def _zero_points(rng: np.random.Generator, shape: Shape | None, cases: int, dtype: str) -> Array | None:
    return None if shape is None else any_bits(rng, (cases, *shape), np.dtype(dtype))


def _biases(rng: np.random.Generator, large: Array, sums: Array, shape: Shape) -> Array:
    """Draw biases as large as the sums, or ``large`` ones: near an end of int32, or near an odd multiple of 2**23."""
    whole = (len(large), *shape)
    large, sums = (part.reshape(-1, *[1] * len(shape)) for part in (large, sums))
    ends = rng.choice(np.array([2**31 - 9, -(2**31)]), whole) + rng.integers(0, 9, whole)
    halfway = rng.integers(-128, 128, whole) * 2**24 + 2**23 + rng.integers(-2, 3, whole)
    small = rng.integers(-(1 << sums), 1 << sums, whole)
    return np.where(large, np.where(rng.random(whole) < 0.5, ends, halfway), small).astype(np.int32)


def _scenario(name: str, geometry: Geometry) -> Scenario:
    dtypes = _DTYPES[name]
    options = {**geometry.options, "output_dtype": dtypes[2]}
    return Scenario(geometry.trap, partial(_draw, dtypes, geometry), options, geometry.cases, geometry.way)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return convolutions of all kinds whose quotients tie, nearly tie and saturate."""
    # The default self-check takes the first and the middle one: others than those of the integer convolution.
    first = len(GEOMETRIES) // 4
    return tuple(_scenario(name, geometry) for geometry in GEOMETRIES[first:] + GEOMETRIES[:first])


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return convolutions with images sharded, with channels, and with filters."""
    return _convolving.shardings(partial(_scenario, name))


def call(group: str, layer: Layer, batch: int, x: str, w: str) -> NamedCall:
    """Return the call that convolves a batch of images; each filter has a scale and a bias."""

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        images, filters = plain(rng, (batch, *layer.x), np.dtype(x)), plain(rng, layer.w, np.dtype(w))
        x_zero, w_zero = (np.array(120 if dtype == "uint8" else 0, dtype) for dtype in (x, w))
        x_scale, w_scale = np.array(0.021, np.float32), rng.uniform(0.007, 0.027, layer.filters).astype(np.float32)
        # With this the sums of full-range operands fill the range of the output, and saturate now and then.
        output_scale = np.array(0.021 * 0.0137 * 90 * np.sqrt(np.prod(layer.w[1:])), np.float32)
        bias = rng.integers(-3000, 3000, layer.filters).astype(np.int32)
        return images, x_scale, x_zero, filters, w_scale, w_zero, bias, output_scale, x_zero

    return NamedCall(
        *(_NAME, group, layer.named(batch), f"{x} x {w}", "random", layer.origin),
        draw=draw,
        bytes=layer.moved(batch, output_bytes=1),
        operations=layer.operations(batch),
        options=layer.options,
        known=(1, 2, 4, 5, 7, 8),
    )


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the convolution in float32, one float32 multiplication, and a rounding."""
    options = call.keywords

    def convolve(*operands: jax.Array) -> jax.Array:
        x, x_scale, x_zero, w, w_scale, w_zero, bias, output_scale, output_zero = operands
        of_filters = (1, -1, *[1] * (x.ndim - 2))
        total = stock_sums(options, x, x_zero, w, w_zero) + bias.astype(jnp.float32).reshape(of_filters)
        return stock_rounded(total * (x_scale * w_scale / output_scale).reshape(of_filters), output_zero)

    return convolve


def sample(rng: np.random.Generator, tame: bool, *, n: int = 2, c: int = 4, o: int = 4) -> Arguments:
    """Draw a small convolution with a bias."""
    return (
        *(any_bits(rng, (n, c, 3, 2), UINT8), factors(rng, (), tame), any_bits(rng, (), UINT8)),
        *(any_bits(rng, (o, c, 2, 1), INT8), factors(rng, (o,), tame), any_bits(rng, (o,), INT8)),
        *(rng.integers(-(2**14), 2**14, o, np.int32), *sample_output(rng, tame)),
    )


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="n c h w, , , o c p q, o, o, o, , -> n o h w; c",
    sample=sample,
    options={"start_padding": (1, 0)},
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("uint8 x int8 -> uint8",),
    races=(call("races", RACE, 16, "uint8", "int8"),),
    small=call("overheads", SMALL, 1, "uint8", "int8"),
    stock=stock,
    judged_rows=1,
)
