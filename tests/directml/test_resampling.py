"""Resampling and regions, against onnxruntime, loops of NumPy, differences, and what DirectML's own tests print."""

import numpy as np
import pytest

from tests.directml.calls import Call, check, onnx
from tests.directml.test_networks import numeric
from tests.kit import long, quick

pytestmark = quick

RNG = np.random.default_rng(0)
NEAREST, LINEAR = 0, 1
UP, DOWN = 0, 1


def drawn(*sizes, dtype="float32"):
    return RNG.normal(size=sizes).astype(dtype)


def resized(x, sizes, **attributes):
    return onnx("Resize", x, None, None, np.array(sizes, np.int64), opset=18, **attributes)[0]


def scaled(x, sizes):
    return [new / old for new, old in zip(sizes, x.shape, strict=True)]


def offsets(before, after, rank=4):
    return {"input_pixel_offsets": [before] * rank, "output_pixel_offsets": [after] * rank}


SIZES = [(1, 2, 7, 9), (1, 2, 3, 4), (1, 2, 8, 3), (2, 3, 12, 5)]


@pytest.mark.parametrize("sizes", SIZES)
def test_resampling(sizes):
    x = drawn(1, 2, 4, 6) if sizes[0] == 1 else drawn(1, 2, 4, 5)
    fields = {"scales": scaled(x, sizes)}
    half, corner = offsets(0.5, -0.5), offsets(0, 0)
    mode = {"coordinate_transformation_mode": "half_pixel"}
    linear = {"interpolation_mode": LINEAR, **fields}
    calls = []
    if sizes[0] == 1:
        wanted = resized(x, sizes, mode="linear", **mode)
        calls += [
            Call("RESAMPLE", [x], [wanted], linear, 1e-5),
            Call("RESAMPLE1", [x], [wanted], linear | half, 1e-5),
            Call("RESAMPLE2", [x], [wanted], linear | half | {"rounding_direction": UP}, 1e-5),
            Call("RESAMPLE3", [x], [wanted], linear | half | {"rounding_direction": UP, "antialiased": 0}, 1e-5),
        ]
        smooth = resized(x, sizes, mode="linear", antialias=1, exclude_outside=1, **mode)
        calls.append(
            Call("RESAMPLE3", [x], [smooth], linear | half | {"rounding_direction": UP, "antialiased": 1}, 1e-5)
        )
    nearest = {"interpolation_mode": NEAREST, **fields}
    asymmetric = {"coordinate_transformation_mode": "asymmetric", "mode": "nearest"}
    for direction, way in ((UP, "ceil"), (DOWN, "floor")):
        wanted = resized(x, sizes, nearest_mode=way, **asymmetric)
        calls.append(Call("RESAMPLE2", [x], [wanted], nearest | corner | {"rounding_direction": direction}))
    wanted = resized(x, sizes, nearest_mode="round_prefer_ceil", mode="nearest", **mode)
    calls += [Call("RESAMPLE", [x], [wanted], nearest), Call("RESAMPLE1", [x], [wanted], nearest | half)]
    check(calls)


def test_ties_go_up_and_edges_are_repeated():
    rows = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
    # A well-known case: 4 x 6 to 2 x 3 reads rows 1, 3 and columns 1, 3, 5.
    halved = rows[:, :, 1::2, 1::2]
    line = np.float32([[[[1, 2, 4]]]])
    shifted = {"interpolation_mode": NEAREST, "scales": [1.0] * 4, **offsets(0, 0)}
    shifted["input_pixel_offsets"] = [0, 0, 0, 1]
    bytes_ = np.array([[[[0, 5, 6]]]], np.uint8)
    between = {"interpolation_mode": LINEAR, "rounding_direction": UP, "scales": [1, 1, 1, 2.0], **offsets(0, 0)}
    check(
        [
            Call("RESAMPLE", [rows], [halved], {"interpolation_mode": NEAREST, "scales": [1, 1, 0.5, 0.5]}),
            Call("RESAMPLE1", [line], [np.float32([[[[1, 1, 2]]]])], shifted),
            Call("RESAMPLE2", [bytes_], [np.array([[[[0, 2, 5, 6, 6, 6]]]], np.uint8)], between),
        ]
    )


def test_upsampling():
    x = np.float32([[[[1, 2], [3, 4]]]])
    wanted = np.float32([[[[1, 1.25, 1.75, 2], [1.5, 1.75, 2.25, 2.5], [2.5, 2.75, 3.25, 3.5], [3, 3.25, 3.75, 4]]]])
    deep = drawn(1, 2, 3, 2, 2)
    check(
        [
            Call("UPSAMPLE_2D", [x], [wanted], {"scale_size": (2, 2), "interpolation_mode": LINEAR}),
            Call(
                "UPSAMPLE_2D",
                [deep],
                [deep.repeat(3, 3).repeat(2, 4)],
                {"scale_size": (2, 3), "interpolation_mode": NEAREST},
            ),
        ]
    )


def test_gradients_are_transposes():
    calls = []
    for sizes in SIZES[:3]:
        x, gradient = drawn(1, 2, 4, 6), drawn(*sizes)
        fields = {"scales": scaled(x, sizes), **offsets(0.5, -0.5)}
        smooth = {"coordinate_transformation_mode": "half_pixel", "mode": "linear"}
        wanted = numeric(lambda x, to=sizes, way=smooth: resized(x.astype(np.float32), to, **way), x, gradient, 0.5)
        linear = {"interpolation_mode": LINEAR, **fields}
        calls.append(Call("RESAMPLE_GRAD", [gradient], [wanted], linear, 1e-5))
        floor = {"coordinate_transformation_mode": "half_pixel", "mode": "nearest", "nearest_mode": "floor"}
        wanted = numeric(lambda x, to=sizes, way=floor: resized(x.astype(np.float32), to, **way), x, gradient, 0.5)
        nearest = {"interpolation_mode": NEAREST, "rounding_direction": DOWN, **fields}
        calls.append(Call("RESAMPLE_GRAD1", [gradient], [wanted], nearest, 1e-5))
    check(calls)


ROIS = np.float32([[0, 0, 0, 5, 6], [1, 1, 2, 3, 3], [0, 2, 1, 7, 9], [1, -3, -2, 1, 1]])


def test_the_greatest_of_regions():
    x = drawn(2, 3, 8, 7)
    calls = []
    for scale, size in ((1.0, (2, 2)), (0.5, (3, 3))):
        (wanted,) = onnx("MaxRoiPool", x, ROIS, pooled_shape=size, spatial_scale=scale)
        fields = {"spatial_scale": scale, "pooled_size": size}
        calls.append(Call("ROI_POOLING", [x, ROIS[None, None]], [wanted], fields))
    check(calls)


def align(**given):
    return {
        "reduction_function": 2,
        "interpolation_mode": LINEAR,
        "spatial_scale_x": 1.0,
        "spatial_scale_y": 1.0,
        "out_of_bounds_input_value": 0.0,
        "minimum_samples_per_output": 1,
        "maximum_samples_per_output": 2**32 - 1,
        **given,
    }


PLAIN = {"input_pixel_offset": 0.5, "output_pixel_offset": -0.5, "align_regions_to_corners": 0}
OF = np.uint32([0, 1, 1, 0])


def test_aligned_regions():
    x, rois = drawn(2, 3, 8, 7), ROIS[:, 1:] + np.float32(0.25)
    calls = []
    for ratio in (0, 2):
        limits = {"minimum_samples_per_output": ratio, "maximum_samples_per_output": ratio} if ratio else {}
        of = {"output_height": 3, "output_width": 2, "sampling_ratio": ratio, "spatial_scale": 0.5, "opset": 16}
        scales = {"spatial_scale_x": 0.5, "spatial_scale_y": 0.5, **limits}
        (wanted,) = onnx("RoiAlign", x, rois, OF.astype(np.int64), **of)
        calls += [
            Call("ROI_ALIGN", [x, rois, OF], [wanted], align(**scales), 1e-5),
            Call("ROI_ALIGN1", [x, rois, OF], [wanted], align(**scales, **PLAIN), 1e-5),
        ]
    check(calls)


def test_regions_at_the_border():
    """Tests of DirectML's provider in onnxruntime have these numbers."""
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    points = np.float32([(7, 5), (-15, -15), (-10, 21), (13, 8), (-14, 19)])
    rois, of = np.concatenate([points, points], 1), np.zeros(5, np.uint32)
    scales = {"spatial_scale_x": 1 / 16, "spatial_scale_y": 1 / 16}
    calls = [
        Call(
            "ROI_ALIGN1",
            [x, rois, of],
            [np.float32(wanted).reshape(5, 1, 1, 1)],
            align(**scales, **PLAIN | {"input_pixel_offset": before}),
            1e-6,
        )
        for before, wanted in ((0.0, [2, 0, 6.5625, 3.3125, 5.9375]), (0.5, [0, 0, 0, 0.3125, 0]))
    ]
    check(calls)


def sampled(x, rois, of, sizes, fields, chosen=None):
    """Sample as the page defines it, one by one, in float64."""
    result = np.zeros((len(rois), x.shape[1], *sizes))
    for r, (x1, y1, x2, y2) in enumerate(rois.astype(float)):
        counts, spans = [], [(y2 - y1) * fields["spatial_scale_y"], (x2 - x1) * fields["spatial_scale_x"]]
        for span, size in zip(spans, sizes, strict=True):
            limits = fields["minimum_samples_per_output"], fields["maximum_samples_per_output"]
            counts.append(int(np.clip(np.ceil(span / size), *limits)))
        begins = y1 * fields["spatial_scale_y"], x1 * fields["spatial_scale_x"]
        for place in np.ndindex(*sizes):
            found = []
            for sample in np.ndindex(*counts):
                at = []
                for d in (0, 1):
                    s, n = place[d] * counts[d] + sample[d], sizes[d] * counts[d]
                    if fields["align_regions_to_corners"]:
                        inside = spans[d] / 2 if n == 1 else (s - fields["output_pixel_offset"]) * spans[d] / (n - 1)
                    else:
                        inside = (s - fields["output_pixel_offset"]) * spans[d] / n
                    at.append(inside + begins[d] - fields["input_pixel_offset"])
                found.append(read(x[of[r]].astype(float), at, fields))
            kind = np.mean if fields["reduction_function"] == 2 else np.max
            result[(r, slice(None), *place)] = kind(found, axis=0)
    return result


def read(image, at, fields):
    if any(not -1 <= place <= n for place, n in zip(at, image.shape[1:], strict=True)):
        return np.full(len(image), fields["out_of_bounds_input_value"])
    at = [min(max(place, 0), n - 1) for place, n in zip(at, image.shape[1:], strict=True)]
    if fields["interpolation_mode"] == NEAREST:
        row, column = (int(min(np.floor(place + 0.5), n - 1)) for place, n in zip(at, image.shape[1:], strict=True))
        return image[:, row, column]
    low = [int(np.floor(place)) for place in at]
    high = [min(place + 1, n - 1) for place, n in zip(low, image.shape[1:], strict=True)]
    u, v = (place - least for place, least in zip(at, low, strict=True))
    return (
        image[:, low[0], low[1]] * (1 - u) * (1 - v)
        + image[:, low[0], high[1]] * (1 - u) * v
        + image[:, high[0], low[1]] * u * (1 - v)
        + image[:, high[0], high[1]] * u * v
    )


WAYS = [
    {},
    {"reduction_function": 7},
    {"interpolation_mode": NEAREST, "out_of_bounds_input_value": 2.5},
    {"align_regions_to_corners": 1, "input_pixel_offset": 0.0, "output_pixel_offset": 0.0},
    {"align_regions_to_corners": 1, "minimum_samples_per_output": 1, "maximum_samples_per_output": 1},
    {"spatial_scale_x": 0.75, "spatial_scale_y": 0.5, "minimum_samples_per_output": 2},
]


def test_aligned_regions_by_loops():
    x, rois = drawn(2, 2, 6, 5), np.float32([[0.3, 0.2, 3.6, 4.1], [1, 1, 1, 1], [-2, 3, 7, 2], [2.2, 0.1, 4.4, 5.5]])
    calls = []
    for sizes in ((2, 3), (1, 1)):
        for way in WAYS:
            fields = align(**PLAIN | way)
            wanted = sampled(x, rois, OF, sizes, fields).astype(np.float32)
            calls.append(Call("ROI_ALIGN1", [x, rois[None], OF[None]], [wanted], fields, 1e-4))
    check(calls)


@long
def test_gradients_of_regions():
    x, rois, of = drawn(1, 2, 5, 4), np.float32([[0.3, 0.2, 2.6, 3.1], [1.1, 0.7, 2.8, 3.3]]), np.uint32([0, 0])
    gradient = drawn(2, 2, 2, 1)
    calls = []
    for way in ({}, {"reduction_function": 7}, {"spatial_scale_x": 0.75, "align_regions_to_corners": 1}):
        fields = align(**PLAIN | way | {"minimum_samples_per_output": 2, "maximum_samples_per_output": 2})
        in_image = numeric(lambda x, f=fields: sampled(x, rois, of, (2, 1), f), x, gradient)
        in_rois = numeric(lambda rois, f=fields: sampled(x, rois, of, (2, 1), f), rois, gradient)
        del fields["out_of_bounds_input_value"]
        calls.append(Call("ROI_ALIGN_GRAD", [x, gradient, rois, of], [in_image, in_rois], fields, 1e-3))
        if not way:
            calls.append(Call("ROI_ALIGN_GRAD", [None, gradient, rois, of], [in_image, None], fields, 1e-3))
            calls.append(Call("ROI_ALIGN_GRAD", [x, gradient, rois, of], [None, in_rois], fields, 1e-3))
    check(calls)


def test_unpooling():
    x = np.float32([[[[1, 2], [3, 4]]]])
    places = np.uint32([[[[5, 1], [5, 99]]]])
    wanted = np.float32([[[[0, 2, 0], [0, 0, 3]]]])
    (same,) = onnx("MaxUnpool", x, np.int64([[[[0, 3], [8, 11]]]]), kernel_shape=[2, 2], strides=[2, 2])
    check(
        [
            Call("MAX_UNPOOLING", [x, places], [wanted]),
            Call("MAX_UNPOOLING", [x, np.uint32([[[[0, 3], [8, 11]]]])], [same]),
        ]
    )
