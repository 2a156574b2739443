"""The cases of ``convolution_integer``."""

import itertools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases import _convolving
from jaxdml._cases._accumulating import INT8, UINT8, greatest, zero_points
from jaxdml._cases._convolving import GEOMETRIES, Geometry
from jaxdml._cases._layers import RACE, SMALL, Layer, stock_sums
from jaxdml._cases.data import any_bits, mixed, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "convolution_integer"

_X = np.arange(2, 11, dtype=np.uint8).reshape(1, 1, 3, 3)
_ONE = np.array(1, np.uint8)
_OF_ONES, _OF_TWOS = (np.full((1, 1, 2, 2), value, np.uint8) for value in (1, 2))
_PADDED = {"start_padding": 1, "end_padding": 1}
_SUMS = np.array([[[[1, 3, 5, 3], [5, 12, 16, 9], [11, 24, 28, 15], [7, 15, 17, 9]]]], np.int32)

EXAMPLES = (
    # DirectML's page has no numbers. The first two examples are those of ONNX's ConvInteger.
    Example(_NAME, (_X, _ONE, _OF_ONES, None), {}, (_SUMS[..., 1:3, 1:3],)),
    Example(
        _NAME,
        (_X, _ONE, np.concatenate([_OF_ONES, _OF_ONES]), np.array([0, 1], np.uint8)),
        _PADDED,
        (np.concatenate([_SUMS, np.zeros_like(_SUMS)], axis=1),),
    ),
    # This one is from onnxruntime's tests of the same operator.
    Example(_NAME, (_X, _ONE, _OF_TWOS, _ONE), _PADDED, (_SUMS,)),
)

_DTYPES = {f"{x} x {w}": (x, w) for x, w in itertools.product(("int8", "uint8"), repeat=2)}


def _draw(dtypes: tuple[str, str], geometry: Geometry, rng: np.random.Generator, cases: int) -> Arguments:
    """Draw many extreme values, and zero points of which every other case has extreme ones only."""
    x, w = (np.dtype(name) for name in dtypes)
    of_x = None if geometry.of_filters is None else ()
    return (
        *(mixed(rng, (cases, *geometry.x), x), zero_points(rng, of_x, cases, x)),
        *(mixed(rng, (cases, *geometry.w), w), zero_points(rng, geometry.of_filters, cases, w)),
    )


def _scenario(name: str, geometry: Geometry) -> Scenario:
    dtypes = _DTYPES[name]
    draw = partial(greatest, dtypes, geometry.operands) if geometry.deep else partial(_draw, dtypes, geometry)
    return Scenario(geometry.trap, draw, geometry.options, geometry.cases, geometry.way)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return convolutions of all kinds, and one whose sums do not fit an int32."""
    return tuple(_scenario(name, geometry) for geometry in GEOMETRIES)


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return convolutions with images sharded, with channels, and with filters."""
    return _convolving.shardings(partial(_scenario, name))


def call(group: str, layer: Layer, batch: int, x: str, w: str) -> NamedCall:
    """Return the call that convolves a batch of images, with one zero point each for images and filters."""

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        images, filters = plain(rng, (batch, *layer.x), np.dtype(x)), plain(rng, layer.w, np.dtype(w))
        x_zero, w_zero = (np.array(120 if dtype == "uint8" else 3, dtype) for dtype in (x, w))
        return images, x_zero, filters, w_zero

    return NamedCall(
        *(_NAME, group, layer.named(batch), f"{x} x {w}", "random", layer.origin),
        draw=draw,
        bytes=layer.moved(batch, output_bytes=4),
        operations=layer.operations(batch),
        options=layer.options,
    )


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the convolution in float32, which holds the sums of these layers exactly."""
    options = call.keywords
    return lambda *operands: stock_sums(options, *operands).astype(jnp.int32)


def sample(rng: np.random.Generator, tame: bool, *, n: int = 2, c: int = 4, o: int = 4) -> Arguments:
    """Draw a small convolution; no argument is a float, so all are tame."""
    return (
        *(any_bits(rng, (n, c, 3, 2), UINT8), any_bits(rng, (), UINT8)),
        *(any_bits(rng, (o, c, 2, 1), INT8), any_bits(rng, (o,), INT8)),
    )


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="n c h w, , o c p q, o -> n o h w; c",
    sample=sample,
    options={"start_padding": (1, 0)},
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("uint8 x int8",),
    races=(call("races", RACE, 16, "uint8", "int8"),),
    raced=False,
    small=call("overheads", SMALL, 1, "uint8", "int8"),
    stock=stock,
    judged_rows=1,
)
