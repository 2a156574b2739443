"""Operators on regions of images."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._networks.regions import greatest_of_regions
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, alike_in_kind, sized
from jaxdml.directml._enums import InterpolationMode, ReduceFunction
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing


def _broadcasting(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Let arrays of different ranks be broadcast in an operator, whatever JAX's configuration says."""

    @wraps(compute)
    def run(*operands: Any) -> Any:
        with jax.numpy_rank_promotion("allow"):
            return compute(*operands)

    return run


class Axis(NamedTuple):
    """Hold how one axis of regions is sampled."""

    scale: float
    outputs: int
    length: int
    """Of the image."""

    before: float
    after: float
    fewest: int
    most: int
    to_corners: bool

    def samples(self, begin: Any, end: Any) -> Any:
        """Return how many samples each output of each region has."""
        span = (end - begin) * self.scale
        count = jnp.ceil(lax.stop_gradient(span) / self.outputs)
        return jnp.clip(count, max(self.fewest, 1), min(self.most, 2**24)).astype(jnp.int32)

    def places(self, begin: Any, end: Any, counts: Any, i: Any) -> Any:
        """Return where sample ``i`` of each output lies, ``[regions, outputs]``."""
        span, each = ((end - begin) * self.scale)[:, None], counts.astype(jnp.float32)[:, None]
        all_counts = self.outputs * each
        s = jnp.arange(self.outputs, dtype=jnp.float32) * each + jnp.asarray(i, jnp.float32).reshape(-1, 1)
        first = (begin * self.scale)[:, None] - self.before
        if not self.to_corners:
            return (s - self.after) * span / all_counts + first
        # A single sample lies in the middle.
        step = jnp.where(all_counts == 1, 0, span / jnp.maximum(all_counts - 1, 1))
        return jnp.where(all_counts == 1, span / 2, (s - self.after) * step) + first

    def neighbours(self, place: Any, linear: bool) -> tuple[Any, list[tuple[Any, Any]]]:
        """Return whether places are in the image, and the integer places around them with their weights."""
        inside = (place >= -1) & (place <= self.length)
        kept = jnp.clip(place, 0, self.length - 1)
        if not linear:
            nearest = jnp.clip(jnp.floor(kept + 0.5), 0, self.length - 1)
            return inside, [(nearest.astype(jnp.int32), jnp.ones_like(kept))]
        low = jnp.floor(lax.stop_gradient(kept))
        high = jnp.minimum(low + 1, self.length - 1)
        return inside, [(low.astype(jnp.int32), 1 - (kept - low)), (high.astype(jnp.int32), kept - low)]


def _axes(desc: Any, image: Any, counts: tuple[int, ...]) -> tuple[Axis, Axis]:
    """Return how rows and columns are sampled."""
    before, after = getattr(desc, "input_pixel_offset", 0.5), getattr(desc, "output_pixel_offset", -0.5)
    limits = desc.minimum_samples_per_output, desc.maximum_samples_per_output
    to_corners = bool(getattr(desc, "align_regions_to_corners", False))
    scales = desc.spatial_scale_y, desc.spatial_scale_x
    rows, columns = (
        Axis(scale, count, length, before, after, *limits, to_corners)
        for scale, count, length in zip(scales, counts, image.shape[2:], strict=True)
    )
    return rows, columns


def _ends(rois: Any) -> list[tuple[Any, Any]]:
    """Return where rows and columns of regions begin and end; a region is given as x before y."""
    x1, y1, x2, y2 = jnp.moveaxis(rois, -1, 0)
    return [(y1, y2), (x1, x2)]


def _sample(axes: tuple[Axis, Axis], linear: bool, outside: float, images: Any, rois: Any, of: Any, i: Any) -> Any:
    """Return sample ``i`` of each output, ``[regions, channels, rows, columns]``, and whether there is such a one."""
    ends = _ends(rois)
    counts = [axis.samples(*end) for axis, end in zip(axes, ends, strict=True)]
    columns = counts[1].max(initial=1)
    each = i // columns, i % columns
    (in_rows, rows), (in_columns, columns_) = (
        axis.neighbours(axis.places(*end, count, index), linear)
        for axis, end, count, index in zip(axes, ends, counts, each, strict=True)
    )
    value = sum(
        images[of[:, None, None], :, row[:, :, None], column[:, None, :]]
        * (row_weight[:, :, None] * column_weight[:, None, :])[..., None]
        for row, row_weight in rows
        for column, column_weight in columns_
    )
    inside = (in_rows[:, :, None] & in_columns[:, None, :])[..., None]
    valid = (each[0] < counts[0]) & (each[1] < counts[1])
    return jnp.moveaxis(jnp.where(inside, value, outside), -1, 1), valid[:, None, None, None]


class _Regions(NamedTuple):
    """Hold what a call samples."""

    sample: Callable[..., Any]
    most: Any
    """How many samples the output with most of them has."""

    number: Any
    """How many samples each output of each region has, ``[regions, 1, 1, 1]``."""

    average: bool


def _regions(desc: Any, images: Any, rois: Any, sizes: tuple[int, ...]) -> _Regions:
    axes = _axes(desc, images, sizes)
    rows, columns = (axis.samples(*end) for axis, end in zip(axes, _ends(rois), strict=True))
    linear = desc.interpolation_mode == InterpolationMode.LINEAR
    sample = partial(_sample, axes, linear, getattr(desc, "out_of_bounds_input_value", 0.0))
    most = rows.max(initial=0) * columns.max(initial=0)
    average = desc.reduction_function == ReduceFunction.AVERAGE
    return _Regions(sample, most, (rows * columns)[:, None, None, None], average)


def _given(images: Any, rois: Any, of: Any) -> tuple[Any, Any, Any]:
    """Return operands without the dimensions of size 1, in float32; a batch that is not there is clamped."""
    indices = jnp.clip(of.reshape(-1), 0, images.shape[0] - 1).astype(jnp.int32)
    return images.astype(jnp.float32), rois.reshape(-1, 4).astype(jnp.float32), indices


@_broadcasting
def _align(desc: Any, *operands: Any) -> Any:
    """Average the samples of each output, or take the greatest of them."""
    images, rois, of = _given(*operands)
    sizes = desc.output_tensor.sizes
    regions = _regions(desc, images, rois, sizes[2:])

    def add(i: Any, total: Any) -> Any:
        value, valid = regions.sample(images, rois, of, i)
        if regions.average:
            return total + jnp.where(valid, value, 0)
        return jnp.where(valid, jnp.maximum(total, value), total)

    total = lax.fori_loop(0, regions.most, add, jnp.full(sizes, 0 if regions.average else -jnp.inf, jnp.float32))
    return (total / regions.number.astype(jnp.float32) if regions.average else total).astype(operands[0].dtype)


@_broadcasting
def _align_gradient(desc: Any, x: Any, gradient: Any, *regions_of: Any) -> Any:
    """Return the gradients in the images and in the regions: those of all samples, one after another."""
    shape = desc.output_gradient_tensor.sizes if x is None else x.shape
    given = jnp.zeros(shape, gradient.dtype) if x is None else x
    images, rois, of = _given(given, *regions_of)
    regions = _regions(desc, images, rois, gradient.shape[2:])
    wide = gradient.astype(jnp.float32)

    def find(i: Any, found: Any) -> Any:
        value, valid = regions.sample(images, rois, of, i)
        better = valid & (value > found[0])
        return jnp.where(better, value, found[0]), jnp.where(better, jnp.int32(i), found[1])

    start = jnp.full(wide.shape, -jnp.inf), jnp.full(wide.shape, -1, jnp.int32)
    chosen = None if regions.average else lax.fori_loop(0, regions.most, find, start)[1]

    def add(i: Any, totals: Any) -> Any:
        (_, valid), back = jax.vjp(lambda images, rois: regions.sample(images, rois, of, i), images, rois)
        share = (
            jnp.where(valid, wide / regions.number.astype(jnp.float32), 0)
            if chosen is None
            else jnp.where(chosen == i, wide, 0)
        )
        parts = back((share, jnp.zeros(valid.shape, jax.dtypes.float0)))
        return tuple(total + part for total, part in zip(totals, parts, strict=True))

    of_images, of_rois = lax.fori_loop(0, regions.most, add, (jnp.zeros_like(images), jnp.zeros_like(rois)))
    return of_images.astype(gradient.dtype), of_rois.reshape(regions_of[0].shape).astype(gradient.dtype)


@_broadcasting
def _pool(desc: Any, x: Any, rois: Any) -> Any:
    rows, columns = desc.pooled_size.height, desc.pooled_size.width
    return greatest_of_regions(x, rois.reshape(-1, 5), (rows, columns), desc.spatial_scale)


def _last_sizes(desc: Any, name: str, why: str, *wanted: int) -> Violations:
    """Require the last sizes of a tensor, and 1 before them."""
    tensor = desc.tensors[name]
    sizes = (1,) * (tensor.dimension_count - len(wanted)) + wanted
    yield from sized(desc, name, why, sizes[-tensor.dimension_count :])


def _pool_constraints(desc: Any) -> Violations:
    yield from alike_in_kind(desc, "input_tensor", "roi_tensor", "output_tensor")
    if len({tensor.dimension_count for tensor in desc.tensors.values()}) == 1:
        count = desc.roi_tensor.sizes[-2]
        yield from _last_sizes(desc, "roi_tensor", "a batch and two corners for each region", count, 5)
        size = desc.pooled_size
        want = (count, desc.input_tensor.sizes[1], size.height, size.width)
        yield from sized(desc, "output_tensor", "the regions, the channels and PooledSize", want)


def _align_constraints(images: str, results: str, desc: Any) -> Violations:
    """Yield what is wrong with regions: ``images`` and ``results`` are the tensors of these."""
    others = [
        name
        for name in desc.tensors
        if name not in ("roi_tensor", "batch_indices_tensor", "output_roi_gradient_tensor")
    ]
    yield from alike_in_kind(desc, others[0], *others)
    yield from alike(desc, "data_type", others[0], "roi_tensor", "output_roi_gradient_tensor")
    if desc.reduction_function not in (ReduceFunction.AVERAGE, ReduceFunction.MAX):
        yield Violation("ReductionFunction", "must be AVERAGE or MAX", desc.reduction_function.name)
    if desc.minimum_samples_per_output > desc.maximum_samples_per_output:
        rule = f"must be at most {desc.maximum_samples_per_output}, MaximumSamplesPerOutput"
        yield Violation("MinimumSamplesPerOutput", rule, desc.minimum_samples_per_output)
    result = desc.tensors[results].sizes
    if len(result) == 4:
        yield from _last_sizes(desc, "roi_tensor", "two corners for each region", result[0], 4)
        yield from _last_sizes(desc, "batch_indices_tensor", "one for each region", result[0])
        if images in desc.tensors:
            channels = desc.tensors[images].sizes[1:2]
            if channels not in ((), result[1:2]):
                yield Violation(
                    f"{c_field(results)}.Sizes[1]", f"must be {channels[0]}, as in {c_field(images)}", result[1]
                )


def _gradient_constraints(desc: Any) -> Violations:
    images = "input_tensor" if desc.input_tensor is not None else "output_gradient_tensor"
    yield from _align_constraints(images, "input_gradient_tensor", desc)
    if desc.output_gradient_tensor is None and desc.output_roi_gradient_tensor is None:
        yield Violation("OutputGradientTensor", "must be described, or OutputROIGradientTensor", None)
    needs = desc.output_roi_gradient_tensor is not None or desc.reduction_function == ReduceFunction.MAX
    if desc.input_tensor is None and needs:
        yield Violation("InputTensor", "must be described for the gradient of the regions, and for MAX", None)
    for name, like in (("output_gradient_tensor", "input_tensor"), ("output_roi_gradient_tensor", "roi_tensor")):
        if name in desc.tensors and like in desc.tensors:
            yield from sized(desc, name, f"those of {c_field(like)}", desc.tensors[like].sizes)


_INDICES = ("batch_indices_tensor", "{} UINT32, 5_0 UINT32+UINT64", "{} 1-4")


def _aligned(number: int, level: str) -> Operator:
    levels = growing(
        f"{level} 4",
        ("input_tensor output_tensor", f"{level} F"),
        ("roi_tensor", f"{level} F", f"{level} 2-4"),
        tuple(part.format(level) for part in _INDICES),
    )
    doc = "Sample regions of images, and average the samples of each output or take the greatest."
    return Operator(number, levels, _align, partial(_align_constraints, "input_tensor", "output_tensor"), doc=doc)


OPERATORS: Mapping[str, Operator] = {
    "ROI_POOLING": Operator(
        *(59, growing("1_0 4", ("input_tensor roi_tensor output_tensor", "1_0 F")), _pool, _pool_constraints),
        doc="Take the greatest element of each part of each region.",
    ),
    "ROI_ALIGN": _aligned(139, "3_0"),
    "ROI_ALIGN1": _aligned(149, "4_0"),
    "ROI_ALIGN_GRAD": Operator(
        150,
        growing(
            "4_1 4",
            ("input_tensor input_gradient_tensor output_gradient_tensor", "4_1 F"),
            ("roi_tensor output_roi_gradient_tensor", "4_1 F", "4_1 2-4"),
            tuple(part.format("4_1") for part in _INDICES),
        ),
        _align_gradient,
        _gradient_constraints,
        doc="Return the gradients of ROI_ALIGN1 in its input and in its regions.",
    ),
}
