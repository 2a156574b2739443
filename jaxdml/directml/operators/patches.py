"""FOLD and UNFOLD: windows of an image as columns."""

import math
from collections.abc import Mapping
from typing import Any

from jaxdml._networks.patches import fold, unfold
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, sized, without_zeros
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing
from jaxdml.directml.operators._pointwise import widened
from jaxdml.directml.operators._windows import fits


def _windows(desc: Any) -> dict[str, Any]:
    return {
        "window": desc.window_sizes,
        "strides": desc.strides,
        "dilations": desc.dilations,
        "start_padding": desc.start_padding,
        "end_padding": desc.end_padding,
    }


def _unfold(desc: Any, x: Any) -> Any:
    image = x.shape[x.ndim - desc.dimension_count - 2 :]
    return unfold(x.reshape(image), **_windows(desc)).reshape(desc.output_tensor.sizes)


def _fold(desc: Any, x: Any) -> Any:
    sizes = desc.output_tensor.sizes
    image = sizes[len(sizes) - desc.dimension_count :]
    columns = x.reshape(x.shape[-3:])
    return widened(lambda x: fold(x, image, **_windows(desc)), columns).reshape(sizes)


def _constraints(image_field: str, columns_field: str) -> Any:
    def run(desc: Any) -> Violations:
        yield from alike(desc, "data_type", "input_tensor", "output_tensor")
        yield from without_zeros(desc, "window_sizes", "strides", "dilations")
        image, columns = desc.tensors[image_field].sizes, desc.tensors[columns_field].sizes
        spatial = desc.dimension_count
        if not 1 <= spatial <= len(image) - 2:
            yield Violation(
                "DimensionCount",
                f"must be between 1 and {len(image) - 2}, {c_field(image_field)}.DimensionCount less 2",
                spatial,
            )
            return
        n, channels, *sizes = image[len(image) - spatial - 2 :]
        strides = [max(stride, 1) for stride in desc.strides]
        along = fits(sizes, **_windows(desc) | {"strides": strides})
        want = (n, channels * math.prod(desc.window_sizes), math.prod(max(fit.number, 0) for fit in along))
        leading = (1,) * (len(columns) - 3)
        yield from sized(desc, columns_field, "the columns of all windows", (*leading, *want))

    return run


_LEVELS = growing("6_4 3-8", ("input_tensor output_tensor", "6_4 F+I"))

OPERATORS: Mapping[str, Operator] = {
    "FOLD": Operator(
        176,
        _LEVELS,
        _fold,
        _constraints("output_tensor", "input_tensor"),
        doc="Add columns up to an image, at the places of windows.",
    ),
    "UNFOLD": Operator(
        177,
        _LEVELS,
        _unfold,
        _constraints("input_tensor", "output_tensor"),
        doc="Write the windows of an image as columns.",
    ),
}
