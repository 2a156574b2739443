"""Operators that make elements: constants, sequences, diagonals, random bits, coordinates."""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._networks.philox import philox
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing
from jaxdml.directml.operators._pointwise import alike_in_groups, number_of, typed

_valued = typed("value_data_type")


def _constant(desc: Any) -> Any:
    return jnp.full(desc.output_tensor.sizes, desc.value)


def _sequence(desc: Any) -> Any:
    """Compute floats in float32 at least: of products beyond 2048, float16 has no odd ones."""
    sizes = desc.output_tensor.sizes
    places = jnp.arange(math.prod(sizes), dtype=jnp.uint32).reshape(sizes)
    start, delta = (np.asarray(value) for value in (desc.value_start, desc.value_delta))
    wide = np.promote_types(start.dtype, np.float32) if start.dtype.kind == "f" else start.dtype
    return (start.astype(wide) + places.astype(wide) * delta.astype(wide)).astype(start.dtype)


def _columns_less_rows(sizes: tuple[int, ...]) -> Any:
    rows, columns = (lax.broadcasted_iota(jnp.int32, sizes, len(sizes) - place) for place in (2, 1))
    return columns - rows


def _diagonal(desc: Any) -> Any:
    tensor = desc.output_tensor
    chosen = _columns_less_rows(tensor.sizes) == desc.offset
    value = number_of(desc.value, tensor.data_type.dtype)
    return jnp.where(chosen, value, np.zeros_like(value))


def _of_matrices(desc: Any) -> Violations:
    return iter(())  # The levels say how many dimensions a tensor has.


def _diagonal_1(desc: Any, x: Any) -> Any:
    sizes, begin, end = desc.output_tensor.sizes, desc.diagonal_fill_begin, desc.diagonal_fill_end
    places = _columns_less_rows(sizes)
    chosen = (end >= begin) ^ (places >= begin) ^ (places < end)
    x = jnp.zeros(sizes, desc.value.dtype) if x is None else x
    return jnp.where(chosen, desc.value, x)


def _diagonal_1_constraints(desc: Any) -> Violations:
    yield from alike_in_groups(desc, [("input_tensor output_tensor",)])
    for name in desc.tensors:
        yield from sized(desc, name, "those of OutputTensor", desc.output_tensor.sizes)
    yield from _valued(desc)


def _random(desc: Any, state: Any) -> tuple[Any, Any]:
    words, following = philox(state.reshape(6), math.prod(desc.output_tensor.sizes))
    return words.reshape(desc.output_tensor.sizes), following.reshape(state.shape)


def _random_constraints(desc: Any) -> Violations:
    states = [name for name in desc.tensors if name != "output_tensor"]
    yield from alike(desc, "dimension_count", "input_state_tensor", *states[1:])
    for name in states:
        count = desc.tensors[name].dimension_count
        yield from sized(desc, name, "the counter's four words and the key's two", (*(1,) * (count - 1), 6))


def _nonzero(desc: Any, x: Any) -> tuple[Any, Any]:
    """Find the flat places first; the rows beyond their number are zeros."""
    found = x.reshape(-1) != 0
    (flat,) = jnp.nonzero(found, size=found.size, fill_value=0)
    columns = desc.output_coordinates_tensor.sizes[-1]
    places = jnp.stack(jnp.unravel_index(flat, x.shape)[x.ndim - columns :], axis=1)
    count = jnp.sum(found, dtype=jnp.uint32).reshape(desc.output_count_tensor.sizes)
    return count, places.astype(jnp.uint32).reshape(desc.output_coordinates_tensor.sizes)


def _nonzero_constraints(desc: Any) -> Violations:
    sizes, coordinates = desc.input_tensor.sizes, desc.output_coordinates_tensor.sizes
    yield from sized(desc, "output_count_tensor", "one number", (1,) * desc.output_count_tensor.dimension_count)
    elements, rank = math.prod(sizes), len(sizes)
    # The dimensions before the first that is not 1 need no column.
    least = max(1, next((rank - d for d, size in enumerate(sizes) if size != 1), 0))
    rows, columns = (1, 1, *coordinates)[-2:]
    if len(coordinates) > 1 and (math.prod(coordinates) != rows * columns or rows != elements):
        rule = f"must be 1 in all dimensions but the last 2, of which the first is {elements}, InputTensor's elements"
        yield Violation("OutputCoordinatesTensor.Sizes", rule, coordinates)
    if not least <= columns <= rank:
        rule = f"must be between {least} and {rank}, of which InputTensor's first {rank - least} are 1"
        yield Violation(f"OutputCoordinatesTensor.Sizes[{len(coordinates) - 1}]", rule, columns)


OPERATORS: Mapping[str, Operator] = {
    "FILL_VALUE_CONSTANT": Operator(
        103,
        growing("2_1 4, 4_0 1-8", ("output_tensor", "2_1 F+I, 4_1 A")),
        _constant,
        _valued,
        doc="Fill a tensor with a number.",
    ),
    "FILL_VALUE_SEQUENCE": Operator(
        104,
        growing("2_1 4, 4_0 1-8", ("output_tensor", "2_1 F+I, 5_0 F+I+L")),
        _sequence,
        _valued,
        doc="Fill a tensor with ValueStart + ValueDelta n, where n counts its elements.",
    ),
    "DIAGONAL_MATRIX": Operator(
        93,
        growing("2_0 4, 4_0 2-4", ("output_tensor", "2_0 F, 2_1 F+I, 5_1 A")),
        _diagonal,
        _of_matrices,
        doc="Fill a diagonal with a number, and all else with 0.",
    ),
    "DIAGONAL_MATRIX1": Operator(
        163,
        growing("5_1 2-4", ("input_tensor output_tensor", "5_1 A")),
        _diagonal_1,
        _diagonal_1_constraints,
        doc="Fill diagonals from DiagonalFillBegin to before DiagonalFillEnd; if that is less, those outside.",
    ),
    "RANDOM_GENERATOR": Operator(
        132,
        growing("3_0 4, 4_0 1-8", ("input_state_tensor output_tensor output_state_tensor", "3_0 UINT32")),
        _random,
        _random_constraints,
        doc="Generate random bits by Philox 4x32-10, and the state to go on with.",
    ),
    "NONZERO_COORDINATES": Operator(
        133,
        growing(
            "3_0 4-5, 4_0 1-8",
            ("input_tensor", "3_0 F+I"),
            ("output_count_tensor", "3_0 UINT32"),
            ("output_coordinates_tensor", "3_0 UINT32", "3_0 4-5, 4_0 2-8"),
        ),
        _nonzero,
        _nonzero_constraints,
        doc="Count the elements that are not 0, and list their coordinates in order. Rows beyond their number are 0.",
    ),
}
