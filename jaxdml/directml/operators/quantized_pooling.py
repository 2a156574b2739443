"""The average pooling of quantized images."""

from collections.abc import Mapping
from typing import Any

from jaxdml import quantized_linear_average_pooling
from jaxdml.directml._checks import alike, sized, varying, without_zeros
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing
from jaxdml.directml.operators._windows import fits


def _of_pooling(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "input_tensor", "output_tensor")
    for of in ("input", "output"):
        yield from alike(desc, "data_type", f"{of}_tensor", f"{of}_zero_point_tensor")
    sizes = desc.input_tensor.sizes
    for name in (f"{of}_{kind}_tensor" for of in ("input", "output") for kind in ("scale", "zero_point")):
        tensor = getattr(desc, name)
        if tensor is not None and tensor.sizes and len(sizes) > 1:
            why = "one for all, or one for each channel of InputTensor"
            count = tensor.dimension_count
            yield from sized(desc, name, why, (1,) * count, varying(count, 1, sizes[1]))
    yield from without_zeros(desc, "strides", "window_size", "dilations")
    spatial = len(sizes) - 2
    if desc.dimension_count != spatial and spatial in (2, 3):
        rule = f"must be {spatial}, the spatial dimensions of InputTensor"
        yield Violation("DimensionCount", rule, desc.dimension_count)
    elif spatial in (2, 3):
        yield from _of_windows(desc, sizes)


def _of_windows(desc: Any, sizes: tuple[int, ...]) -> Violations:
    if 0 in (*desc.strides, *desc.window_size, *desc.dilations):
        return
    along = fits(sizes[2:], desc.window_size, desc.strides, desc.dilations, desc.start_padding, desc.end_padding)
    for d, fit in enumerate(along, 2):
        if fit.reach > fit.inside:
            rule = f"must span at most {fit.inside} elements along dimension {d} of the padded InputTensor"
            yield Violation("WindowSize", rule, fit.reach)
    counts = [fit.number for fit in along]
    if min(counts) > 0:
        why = "N and C of InputTensor and the number of windows"
        yield from sized(desc, "output_tensor", why, (*sizes[:2], *counts))


def _pool(desc: Any, x: Any, *parameters: Any) -> Any:
    """Average, with scales and zero points of the rank of the input or of one dimension."""
    ranked = (part if part is None or part.ndim == x.ndim else part.reshape(-1) for part in parameters)
    return _averages(desc, x, *ranked)


def _pool_last(desc: Any, x: Any, *parameters: Any) -> Any:
    flat = (part if part is None else part.reshape(-1) for part in parameters)
    return _averages(desc, x, *flat, dimension_numbers="NHWC")


def _averages(desc: Any, *operands: Any, **options: Any) -> Any:
    return quantized_linear_average_pooling(
        *operands,
        window=desc.window_size,
        strides=desc.strides,
        dilations=desc.dilations,
        start_padding=desc.start_padding,
        end_padding=desc.end_padding,
        include_padding=desc.include_padding,
        output_dtype=desc.output_tensor.data_type.dtype,
        **options,
    )


OPERATORS: Mapping[str, Operator] = {
    "QUANTIZED_LINEAR_AVERAGE_POOLING": Operator(
        169,
        growing(
            "6_2 4-5",
            ("input_tensor output_tensor", "6_2 B"),
            ("input_scale_tensor output_scale_tensor", "6_2 FLOAT32", "6_2 1-5"),
            ("input_zero_point_tensor output_zero_point_tensor", "6_2 B", "6_2 1-5"),
        ),
        _pool,
        _of_pooling,
        doc="Average the windows of a quantized tensor and quantize the means. A scale or zero point has size 1 in all "
        "dimensions, or in all but the second, of size C. If it has a single dimension, that is the one of size 1 or "
        "C.",
        fields={
            "input_tensor": "``{N, C, H, W}`` or ``{N, C, D, H, W}``.",
            "input_zero_point_tensor": "the data type of ``input_tensor``; None means 0.",
            "output_zero_point_tensor": "the data type of ``output_tensor``; None means 0.",
            "output_tensor": "as many windows as there are along each spatial dimension.",
        },
        channels_last=_pool_last,
        images=("input_tensor",),
    ),
}
