"""One small call of every operator, for tests of transformations and of meshes: a new operator needs one entry here."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from jaxdml._cases import OPERATORS, dimensions
from jaxdml._kernels.extremes import kernel as extremes
from jaxdml._kernels.indexed_write import kernel as indexed_write
from jaxdml._kernels.integer_convolution import kernel as integer_convolution
from jaxdml._kernels.integer_product import kernel as integer_product
from jaxdml._kernels.selection import kernel as selection
from tests.kit import data

Arrays = tuple[np.ndarray, ...]

ON_CPU = jax.default_backend() == "cpu"

RECORDS = {record.name: record for record in OPERATORS}


@dataclass(frozen=True)
class Layout:
    """How the arguments and results of the call are sharded, over the mesh axes ``x`` and ``y``."""

    specs: tuple[P, ...]
    results: tuple[P, ...]
    axis_name: str | None = None
    """The mesh axis that the operator has to know by its name, if it is called on blocks of such arguments."""
    independent: bool = False
    """Whether blocks of such arguments need not know of each other."""

    def without(self, axis: str) -> "Layout":
        """Return the layout that leaves one mesh axis free."""
        specs, results = (
            tuple(P(*(None if name == axis else name for name in spec)) for spec in part)
            for part in (self.specs, self.results)
        )
        return replace(self, specs=specs, results=results)


@dataclass(frozen=True)
class Composition:
    """A call of one operator. Sharded dimensions are multiples of 4, or of 2 if they are sharded over ``x``."""

    draw: Callable[..., Arrays]
    """Takes a generator and whether to draw tame arguments, which have small integers and no index out of range."""
    sharded: Mapping[str, Mapping[str, str]]
    """By what is sharded: the mesh axes of some dimensions, by letter.

    The first is for all transformations; blocks of the last are independent."""
    options: Mapping[str, Any] = field(default_factory=dict)
    differentiable: tuple[int, ...] = (0,)
    derivative: Callable[..., np.ndarray] | None = None
    """Takes the arguments with tangents in the place of floats, and the arguments; returns the first result's tangent.

    None if all results are integers."""
    bilinear: bool = False
    """Whether the first result is linear in each differentiable argument, but not in all of them together."""
    mapped: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"x": (0,)})
    """What ``vmap`` maps alone, by name."""
    mapped_on_meshes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The same on meshes, if it is less."""
    donated: Mapping[str, Any] = field(default_factory=dict)
    """The options with which the first result can take the place of the first argument."""
    index: int | None = None
    """The argument that holds indices, of which some that are not tame are out of range."""
    methods: tuple[str, ...] = ()
    """What ``implementation`` can be, on the machine that runs the tests; nothing if the operator does not take it."""
    draw_long: Callable[..., Arrays] | None = None
    """Draws arguments that every method can serve, if those of ``draw`` are too short."""
    function: Callable[[Any], Callable[..., Any]] | None = None
    """Takes ``jaxdml`` or the oracle, and returns what to call; by default the operator of that name."""
    dimensions: str = ""
    """As in the record of the operator, where these are the dimensions of another way to call it."""
    stands_for_a_kernel: bool = False
    """Whether a default run has all its cells (tests/matrix/cells.py): it is the first one that a kernel serves."""


def layouts(name: str) -> dict[str, Layout]:
    """Return the layouts of a call by their names: they follow from the letters of its dimensions."""
    composition = COMPOSITIONS[name]
    dims = dimensions.of(composition.dimensions or RECORDS[name].dimensions)
    by_name = (
        "axis_name" in inspect.signature(getattr(jaxdml, name, jaxdml.quantized_linear_matrix_multiply)).parameters
    )
    found = {}
    for label, over in composition.sharded.items():
        specs, results = (tuple(P(*axes) for axes in arrays) for arrays in dims.sharded(over))
        combined = [axis for letter, axis in over.items() if letter in dims.combined]
        axis_name = combined[0] if by_name and len(combined) == 1 else None
        found[label] = Layout(specs, results, axis_name, dims.independent(over))
    return found


def call(module: Any, name: str, *arguments: Any, **more: Any) -> tuple[Any, ...]:
    """Call an operator, or its oracle, and return a tuple of results."""
    composition = COMPOSITIONS[name]
    function = composition.function(module) if composition.function else getattr(module, name)
    result = function(*arguments, **{**composition.options, **more})
    return tuple(result) if isinstance(result, tuple) else (result,)


operator, oracle = partial(call, jaxdml), partial(call, reference)


def operands(name: str, seed: int = 0, *, tame: bool = False, long: bool = False) -> Arrays:
    """Draw the arguments of one call."""
    draw = (long and COMPOSITIONS[name].draw_long) or COMPOSITIONS[name].draw
    return draw(np.random.default_rng(seed), tame)


def _floats(rng, tame, shape):
    if tame:
        return rng.integers(-9, 9, shape).astype(np.float32)
    return data("mixed", rng.integers(2**32), shape, np.dtype(np.float32))


def _scattered(rng, tame, *, indices, updates, size=4):
    drawn = rng.integers(-size if tame else -size - 2, size if tame else size + 2, indices).astype(np.int32)
    return _floats(rng, tame, (4, 4)), drawn, _floats(rng, tame, updates)


def _quantized(rng, tame):
    a, b = rng.integers(0, 256, (2, 4, 8)).astype(np.uint8), rng.integers(-128, 128, (2, 8, 8)).astype(np.int8)
    a_scale, b_scale, output_scale = (
        (np.exp2(rng.integers(-1, 2, shape)) if tame else rng.uniform(0.5, 2, shape)).astype(np.float32)
        for shape in ((4,), (8,), ())
    )
    a_zero, b_zero, output_zero = np.uint8(rng.integers(256, size=4)), np.int8(rng.integers(9)), np.uint8(128)
    return a, a_scale, a_zero, b, b_scale, b_zero, np.float32(256) * output_scale, output_zero


def _integers(rng, tame):
    """Draw the arguments of a product of integers; no argument is a float, so all are tame."""
    a, _, a_zero, b, *_ = _quantized(rng, tame)
    return a, a_zero, b, rng.integers(-128, 128, 8).astype(np.int8)


def _added(rng, tame):
    """Draw the arguments of a sum: ``b`` is broadcast, and each column has a scale and a zero point of its own."""
    a, a_scale, _, b, b_scale, _, _, output_zero = _quantized(rng, tame)
    of_columns = rng.integers(0, 256, 8).astype(np.uint8)
    return a, np.resize(a_scale, 8), of_columns, b[0, :4], b_scale[:1], np.int8(3), np.float32(1.5), output_zero


def _averaged(rng, tame):
    """Draw the arguments of a pooling of four channels."""
    x, x_scale, x_zero, *_, output_zero = _quantized(rng, tame)
    return x.reshape(2, 4, 2, 4), x_scale, x_zero, np.float32(0.75), output_zero


def _packed(rng, tame):
    """Draw the arguments of a product, with the two arrays of a packed matrix that is stored as uint8."""
    *of_a, b, b_scale, b_zero, output_scale, output_zero = _quantized(rng, tame)
    matrix = b.swapaxes(-1, -2).copy().view(np.uint8) ^ np.uint8(0x80)
    return *of_a, matrix, matrix.sum(-1, dtype=np.int32), b_scale, b_zero, output_scale, output_zero


def _packed_product(module):
    """Return the product of arguments that ``_packed`` has drawn, or of blocks of them with the sums of the whole K."""

    def multiply(a, a_scale, a_zero, matrix, sums, *rest, **options):
        if module is jaxdml:
            b = jaxdml.PackedMatrix(matrix=matrix, sums=sums, dtype="int8", k=8)
        else:
            b = (matrix ^ np.uint8(0x80)).view(np.int8).swapaxes(-1, -2)
        return module.quantized_linear_matrix_multiply(a, a_scale, a_zero, b, *rest, **options)

    return multiply


def _taken(tangents, at):
    _, indices = oracle("top_k", *at)
    return np.take_along_axis(tangents[0], indices.astype(int), -1)


def _written(name, tangents, at):
    return oracle(name, tangents[0], at[1], tangents[2])[0]


_SCATTERS = Composition(
    draw=partial(_scattered, indices=(6, 1), updates=(6, 4)),
    sharded={
        "rows_and_columns": {"m": "y", "c": "x"},
        "updates": {"c": "y", "u": "x"},
        "columns": {"c": "y"},
    },
    options={"duplicates": "last"},
    differentiable=(0, 2),
    mapped={"x": (0,), "indices": (1,), "updates": (2,)},
    index=1,
    methods=indexed_write.METHODS,
)

COMPOSITIONS = {
    "top_k": Composition(
        draw=lambda rng, tame: (_floats(rng, tame, (2, 4, 8)),),
        sharded={
            "selected": {"a": "x", "n": "y"},
            "batch": {"a": "x", "b": "y"},
        },
        options={"k": 3},
        methods=tuple(name for name in selection.METHODS if ON_CPU or name not in selection.ONLY_ON),
        draw_long=lambda rng, tame: (_floats(rng, tame, (2, 4, 48)),),
        derivative=_taken,
        donated={"k": 8},
        stands_for_a_kernel=True,
    ),
    "scatter_nd": replace(_SCATTERS, derivative=partial(_written, "scatter_nd"), stands_for_a_kernel=True),
    "scatter_elements": replace(
        _SCATTERS,
        draw=partial(_scattered, indices=(6, 4), updates=(6, 4)),
        sharded={
            "rows_and_columns": {"m": "x", "c": "y"},
            "updates": {"c": "y", "u": "x"},
            "columns": {"c": "y"},
        },
        derivative=partial(_written, "scatter_elements"),
    ),
    "quantized_linear_matrix_multiply": Composition(
        draw=_quantized,
        sharded={
            "depth": {"b": "x", "k": "y"},
            "rows_and_columns": {"m": "x", "n": "y"},
            "rows": {"b": "x", "m": "y"},
        },
        methods=tuple(name for name, only in integer_product.METHODS.items() if ON_CPU or not only),
        differentiable=(1, 4, 6),
        mapped={"a": (0,), "b": (3,), "scales": (1, 4, 6), "zero_points": (2, 5, 7)},
        mapped_on_meshes={"a_and_zero_points": (0, 2, 5, 7), "b_and_scales": (1, 3, 4, 6)},
        stands_for_a_kernel=True,
    ),
}
COMPOSITIONS["matrix_multiply_integer"] = Composition(
    draw=_integers,
    sharded=COMPOSITIONS["quantized_linear_matrix_multiply"].sharded,
    methods=COMPOSITIONS["quantized_linear_matrix_multiply"].methods,
    differentiable=(),
    mapped={"a": (0,), "b": (2,), "zero_points": (1, 3)},
    mapped_on_meshes={"a_and_zero_points": (0, 1, 3), "b": (2,)},
)
COMPOSITIONS["packed_product"] = replace(
    COMPOSITIONS["quantized_linear_matrix_multiply"],
    function=_packed_product,
    dimensions="b m k, m, m, b n k, b n, n, , , -> b m n; k",
    draw=_packed,
    differentiable=(1, 5, 7),
    mapped={"b": (3, 4), "zero_points": (2, 6, 8)},
    mapped_on_meshes={"b": (3, 4)},
    stands_for_a_kernel=False,
)


def _gathered(rng, tame, *, shape, indices):
    drawn = rng.integers(-4 if tame else -6, 4 if tame else 6, indices).astype(np.int32)
    return _floats(rng, tame, shape), drawn


def _read(name, tangents, at):
    return oracle(name, tangents[0], at[1])[0]


COMPOSITIONS["gather"] = Composition(
    draw=partial(_gathered, shape=(4, 4), indices=(4,)),
    sharded={
        "axis": {"m": "y", "c": "x"},
        "indices": {"c": "y", "i": "x"},
        "columns": {"c": "y"},
    },
    derivative=partial(_read, "gather"),
    mapped={"x": (0,), "indices": (1,)},
    index=1,
    stands_for_a_kernel=True,
)
COMPOSITIONS["gather_elements"] = replace(
    COMPOSITIONS["gather"],
    draw=partial(_gathered, shape=(4, 4), indices=(4, 4)),
    derivative=partial(_read, "gather_elements"),
    stands_for_a_kernel=False,
)
COMPOSITIONS["gather_nd"] = replace(
    COMPOSITIONS["gather"],
    draw=partial(_gathered, shape=(4, 4, 2), indices=(4, 4, 2)),
    sharded={
        "axis": {"m": "y", "c": "x"},
        "both": {"m": "x", "l": "y"},
        "indices": {"i": "x", "j": "y"},
        "columns": {"c": "x"},
    },
    derivative=partial(_read, "gather_nd"),
    stands_for_a_kernel=False,
)


def _to_floats(rng, tame):
    """Draw the arguments of a product with float results; tame ones have so few bits that nothing is rounded."""
    a, a_scale, a_zero, b, b_scale, b_zero, *_ = _quantized(rng, tame)
    if tame:
        a, a_zero, b, b_zero = a % 2, a_zero % 2, b % 2, b_zero % 2
    return a, a_scale, a_zero, b, b_scale, b_zero, _floats(rng, True, (8,)) if tame else b_scale * np.float32(-300)


def _scaled(tangents, at):
    total = oracle("matrix_multiply_integer", at[0], at[2], at[3], at[5])[0].astype(np.float32)
    return total * (tangents[1][:, None] * at[4] + at[1][:, None] * tangents[4]) + tangents[6]


COMPOSITIONS["matrix_multiply_integer_to_float"] = Composition(
    draw=_to_floats,
    sharded=COMPOSITIONS["quantized_linear_matrix_multiply"].sharded,
    methods=COMPOSITIONS["quantized_linear_matrix_multiply"].methods,
    differentiable=(1, 4, 6),
    derivative=_scaled,
    bilinear=True,
    mapped={"scales_and_bias": (1, 4, 6)},
    stands_for_a_kernel=True,
)
COMPOSITIONS["quantize_linear"] = Composition(
    draw=lambda rng, tame: (
        _floats(rng, tame, (4, 8)),
        np.exp2(_floats(rng, tame, (8,))) if tame else _floats(rng, tame, (8,)),
        rng.integers(-128, 128, 8).astype(np.int8),
    ),
    sharded={"rows_and_columns": {"m": "x", "c": "y"}, "columns": {"c": "y"}},
    options={"axis": -1},
    differentiable=(0, 1),
    mapped={"x": (0,), "scales": (1,), "zero_points": (2,)},
    mapped_on_meshes={"x_and_zero_points": (0, 2)},
    stands_for_a_kernel=True,
)  # fmt: skip
COMPOSITIONS["dequantize_linear"] = Composition(
    draw=lambda rng, tame: (
        rng.integers(-128, 128, (4, 8)).astype(np.int8),
        _floats(rng, tame, (4, 3)),
        rng.integers(9, size=(1, 3)).astype(np.int8),
    ),
    sharded={"rows_and_columns": {"m": "x", "c": "y"}, "rows": {"m": "x"}},
    options={"axis": -1, "block_size": 3},
    differentiable=(1,),
    derivative=lambda tangents, at: oracle("dequantize_linear", *tangents)[0],
    mapped={"x": (0,), "scales": (1,), "zero_points": (2,)},
    mapped_on_meshes={"scales": (1,)},
)  # fmt: skip
COMPOSITIONS["dynamic_quantize_linear"] = Composition(
    draw=lambda rng, tame: (_floats(rng, tame, (4, 8)),),
    sharded={
        "columns": {"c": "y"},
        "rows_and_columns": {"m": "x", "c": "y"},
        "whole": {},
    },
)
_ARGMAX = Composition(
    draw=lambda rng, tame: (_floats(rng, tame, (2, 4, 8)),),
    sharded={
        "axis": {"a": "x", "n": "y"},
        "axis_and_others": {"b": "y", "n": "x"},
        "batch": {"a": "x", "b": "y"},
    },
    methods=tuple(extremes.METHODS),
    draw_long=lambda rng, tame: (_floats(rng, tame, (2, 4, 1030)),),
)
COMPOSITIONS["argmax"] = replace(_ARGMAX, stands_for_a_kernel=True)
COMPOSITIONS["argmin"] = replace(
    _ARGMAX,
    options={"select_last_index": True},
)


def _convolved(rng, tame):
    """Draw the arguments of a convolution of integers; no argument is a float, so all are tame."""
    x, w = rng.integers(0, 256, (2, 4, 3, 2)).astype(np.uint8), rng.integers(-128, 128, (4, 4, 2, 1)).astype(np.int8)
    return x, np.uint8(rng.integers(256)), w, rng.integers(-128, 128, 4).astype(np.int8)


def _quantized_and_convolved(rng, tame):
    """Draw the arguments of a quantized convolution, with a bias."""
    x, x_zero, w, w_zero = _convolved(rng, tame)
    x_scale, w_scale, output_scale = (
        (np.exp2(rng.integers(-1, 2, shape)) if tame else rng.uniform(0.5, 2, shape)).astype(np.float32)
        for shape in ((), (4,), ())
    )
    bias = rng.integers(-(2**14), 2**14, 4).astype(np.int32)
    return x, x_scale, x_zero, w, w_scale, w_zero, bias, np.float32(256) * output_scale, np.uint8(128)


# A result has the shape of x.
_OPTIONS_OF_CONVOLUTIONS = {"start_padding": (1, 0)}

COMPOSITIONS["convolution_integer"] = Composition(
    draw=_convolved,
    sharded={
        "channels": {"N": "x", "C": "y"},
        "images_and_filters": {"N": "x", "O": "y"},
        "images": {"N": "x"},
    },
    options=_OPTIONS_OF_CONVOLUTIONS,
    # The other methods need channels last, or filters of one channel: tests/test_convolutions.py.
    methods=tuple(
        name for name in integer_convolution.METHODS if name in COMPOSITIONS["quantized_linear_matrix_multiply"].methods
    ),
    differentiable=(),
    mapped={"x": (0,), "w": (2,), "zero_points": (1, 3)},
    mapped_on_meshes={"x_and_zero_points": (0, 1, 3), "w": (2,)},
    stands_for_a_kernel=True,
)
COMPOSITIONS["quantized_linear_convolution"] = Composition(
    draw=_quantized_and_convolved,
    sharded={
        "channels": {"N": "x", "C": "y"},
        "images_and_filters": {"N": "x", "O": "y"},
        "images": {"N": "x"},
    },
    options=_OPTIONS_OF_CONVOLUTIONS,
    methods=COMPOSITIONS["convolution_integer"].methods,
    differentiable=(1, 4, 7),
)
COMPOSITIONS["quantized_linear_add"] = Composition(
    draw=_added,
    sharded={
        "batch": {"b": "x", "m": "y"},
        "columns": {"b": "x", "c": "y"},
    },
    differentiable=(1, 4, 6),
    mapped={"a_and_scales": (0, 1, 4, 6), "b_and_zero_points": (2, 3, 5, 7)},
    mapped_on_meshes={"a_and_scales": (0, 1, 4, 6)},
    stands_for_a_kernel=True,
)
COMPOSITIONS["quantized_linear_average_pooling"] = Composition(
    draw=_averaged,
    sharded={
        "batch_and_channels": {"N": "x", "C": "y"},
        "rows": {"C": "y", "h": "x"},
    },
    options={"window": (1, 2), "start_padding": (0, 1)},
    differentiable=(1, 3),
    mapped={"x_and_scales": (0, 1, 3), "zero_points": (2, 4)},
    mapped_on_meshes={"x_and_scales": (0, 1, 3)},
    stands_for_a_kernel=True,
)
"""By the operator's name, or by that of another way to call it."""
