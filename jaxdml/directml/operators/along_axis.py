"""Operators along axes: cumulative sums and products, reductions, one-hot sequences."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml import argmax, argmin
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._networks.along_axes import cumulative_product, cumulative_sum
from jaxdml._networks.reductions import REDUCTIONS
from jaxdml.directml._checks import alike, axes_in_range, in_range, ones_at_axes, sized
from jaxdml.directml._enums import ReduceFunction
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing, types
from jaxdml.directml.operators._pointwise import pointwise, widened


def _cumulative(
    number: int, what: str, function: Callable[..., Any], exclusive: str, counts: str, types: str
) -> Operator:
    def run(desc: Any, x: Any) -> Any:
        reverse = desc.axis_direction == AxisDirection.DECREASING
        return widened(lambda x: function(x, desc.axis, exclusive=getattr(desc, exclusive), reverse=reverse), x)

    def constraints(desc: Any) -> Violations:
        return in_range(desc, "axis", "input_tensor")

    doc = f"Compute the {what} of all elements up to each one along an axis, in the order of AxisDirection."
    return pointwise(number, doc, run, ("input_tensor output_tensor", types), counts=counts, constraints=constraints)


_REDUCED: Mapping[ReduceFunction, str] = {
    ReduceFunction.AVERAGE: "Mean",
    ReduceFunction.L1: "L1",
    ReduceFunction.L2: "L2",
    ReduceFunction.LOG_SUM: "LogSum",
    ReduceFunction.LOG_SUM_EXP: "LogSumExp",
    ReduceFunction.MAX: "Max",
    ReduceFunction.MIN: "Min",
    ReduceFunction.MULTIPLY: "Prod",
    ReduceFunction.SUM: "Sum",
    ReduceFunction.SUM_SQUARE: "SumSquare",
}
_INDICES = types("L+INT32+UINT32")
_OF_FLOATS = ReduceFunction.AVERAGE, ReduceFunction.L2, ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP
_OF_ALL = ReduceFunction.ARGMAX, ReduceFunction.ARGMIN, ReduceFunction.MAX, ReduceFunction.MIN
_SEARCHES = {ReduceFunction.ARGMAX: argmax, ReduceFunction.ARGMIN: argmin}


def _reduce(desc: Any, x: Any) -> Any:
    if search := _SEARCHES.get(desc.function):
        return search(x, axis=desc.axes, keepdims=True, index_dtype=desc.output_tensor.data_type.dtype)
    return widened(lambda x: REDUCTIONS[_REDUCED[desc.function]](jnp, x, axis=desc.axes, keepdims=True), x)


def _reduce_constraints(desc: Any) -> Violations:
    kind = desc.input_tensor.data_type
    yield from alike(desc, "dimension_count", "input_tensor", "output_tensor")
    yield from axes_in_range(desc, "input_tensor")
    if desc.function in _SEARCHES:
        if desc.output_tensor.data_type not in _INDICES:
            yield Violation(
                "OutputTensor.DataType",
                f"must be one of {', '.join(one.name for one in _INDICES)} for {desc.function.name}",
                desc.output_tensor.data_type.name,
            )
    else:
        yield from alike(desc, "data_type", "input_tensor", "output_tensor")
    if kind not in types("F") and (desc.function in _OF_FLOATS or (kind.bits < 32 and desc.function not in _OF_ALL)):
        accepted = "FLOAT32 or FLOAT16" if desc.function in _OF_FLOATS else "a float or have at least 32 bits"
        yield Violation("InputTensor.DataType", f"must be {accepted} for {desc.function.name}", kind.name)
    yield from ones_at_axes(desc, "input_tensor", "output_tensor")


def _one_hot(desc: Any, indices: Any, values: Any) -> Any:
    depth, axis, rank = desc.output_tensor.sizes[desc.axis], desc.axis, indices.ndim
    # Where the indices are NumPy's, so is what they are compared with: JAX might have cut their bits.
    places = np.arange(depth, dtype=indices.dtype).reshape([depth if d == axis else 1 for d in range(rank)])
    hot = indices == places
    if jnp.issubdtype(indices.dtype, jnp.signedinteger):
        hot |= indices == places - depth
    off, on = values.reshape(-1)[:2]
    return jnp.where(jnp.asarray(hot), on, off)


def _one_hot_constraints(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "output_tensor", "indices_tensor", "values_tensor")
    yield from alike(desc, "data_type", "output_tensor", "values_tensor")
    yield from in_range(desc, "axis", "indices_tensor")
    sizes = desc.output_tensor.sizes
    want = (*sizes[: desc.axis], 1, *sizes[desc.axis + 1 :])
    yield from sized(desc, "indices_tensor", "those of OutputTensor with 1 at Axis", want)
    if all(size == 1 for size in desc.values_tensor.sizes):
        yield Violation("ValuesTensor.Sizes", "must give at least 2 elements", desc.values_tensor.sizes)


OPERATORS: Mapping[str, Operator] = {
    "CUMULATIVE_SUMMATION": _cumulative(
        105, "sum", cumulative_sum, "has_exclusive_sum", "2_1 4, 4_0 1-8", "2_1 F+INT32+UINT32, 5_0 F+INT32+UINT32+L"
    ),
    "CUMULATIVE_PRODUCT": _cumulative(
        145,
        "product",
        cumulative_product,
        "has_exclusive_product",
        "3_1 4, 4_0 1-8",
        "3_1 F+INT32+UINT32, 5_0 F+INT32+UINT32+L",
    ),
    "REDUCE": Operator(
        55,
        growing(
            "1_0 4, 3_0 1-8",
            ("input_tensor", "1_0 F, 2_1 F+I, 4_1 F+I+L"),
            ("output_tensor", "1_0 F+UINT32, 2_1 F+I, 3_0 F+I+L"),
        ),
        _reduce,
        _reduce_constraints,
        doc="Reduce Axes together by Function, and keep them with size 1.",
    ),
    "ONE_HOT": Operator(
        95,
        growing(
            "2_0 4, 3_0 1-8",
            ("indices_tensor", "2_0 UINT32, 3_0 INT64+INT32+UINT64+UINT32"),
            ("values_tensor output_tensor", "2_0 F, 2_1 F+I, 4_1 A"),
        ),
        _one_hot,
        _one_hot_constraints,
        doc="Write the second value where the index along an axis points to, and the first value elsewhere.",
    ),
}
