"""Resize and Upsample of images that are longer than what counts."""

import itertools

import numpy as np
import pytest

from tests.kit import quick
from tests.onnx.padded import check, parsed

pytestmark = quick


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


CONSTANTS = {
    "double": np.float32([1, 1, 2, 2]),
    "half": np.float32([1, 1, 0.5, 3]),
    "odd": np.float32([1, 1, 13 / 11, 0.7]),
    "grown": np.float32([1, 1, 2.6, 1 / 3]),
    "w": normal(2, 2, 3, 3),
    "batch": np.array([2, 2]),
    "i2": np.array([2]),
    "i5": np.array([5]),
    "i13": np.array([13]),
    "nine": np.array([9, 7]),
}
CAPACITY = {"H": 11, "W": 11}
IMAGES = [{"x": normal(2, 2, *sizes)} for sizes in ((6, 7), (2, 5), (11, 10))]
COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "tf_half_pixel_for_nn",
)
MODES = (
    'mode="nearest"',
    'mode="nearest", nearest_mode="ceil"',
    'mode="nearest", nearest_mode="round_prefer_ceil"',
    'mode="linear"',
    'mode="cubic"',
    'mode="cubic", exclude_outside=1',
)


WANTED = (("x", "fixed"), ("k", "same"), ("x", "larger"), ("x", "ceiling"))


def proto_of(bodies, opset=19, kind="float"):
    """Return a model of one result for each body, which has x in it and no names."""
    text = " ".join(f"y{number} = {body}" for number, body in enumerate(bodies))
    sizes = "s = Shape<start=2>(x) h = Div(s, i2) k = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w) c = Shape<start=2>(k)"
    sizes += " smaller = Concat<axis=0>(batch, h) same = Concat<axis=0>(batch, s) ceiling = Concat<axis=0>(batch, c)"
    sizes += " t = Mul(s, i2) larger = Concat<axis=0>(batch, t) fixed = Concat<axis=0>(batch, nine)"
    names = [f"y{number}" for number in range(len(bodies))]
    used = sizes if opset > 14 and kind == "float" else ""
    return parsed(f"g ({kind}[2, 2, H, W] x) => ({', '.join(names)}) {{ {used} {text} }}", CONSTANTS, opset)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_by_factors(coordinates):
    how = [f'coordinate_transformation_mode="{coordinates}", {mode}' for mode in MODES]
    bodies = [f"Resize<{each}>(x, , odd)" for each in how]
    bodies += [f"Resize<{how[place]}>(x, , {scales})" for place, scales in ((0, "double"), (3, "double"), (4, "half"))]
    check(proto_of(bodies), IMAGES, CAPACITY, 1e-5, 1e-5)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_to_sizes_that_follow_from_lengths(coordinates):
    how = [f'coordinate_transformation_mode="{coordinates}", {mode}' for mode in MODES]
    bodies = [
        f"Resize<{each}>({x}, , , {sizes})" for each, (x, sizes) in zip(how, itertools.cycle(WANTED), strict=False)
    ]
    bodies += [f"Resize<{how[3]}>({x}, , , {sizes})" for x, sizes in WANTED]
    check(proto_of(bodies), IMAGES, CAPACITY, 1e-5, 1e-5)


def test_with_wider_weights_for_smaller_results():
    how = ('mode="linear"', 'mode="cubic"', 'mode="cubic", coordinate_transformation_mode="asymmetric"')
    bodies = [f"Resize<{each}, antialias=1>(x, , {scales})" for each in how for scales in ("odd", "grown")]
    check(proto_of(bodies), IMAGES, CAPACITY, 1e-5, 1e-5)


def test_of_older_versions():
    bodies = [f'Resize<mode="{mode}">(x, {scales})' for mode in ("nearest", "linear") for scales in ("double", "odd")]
    check(proto_of(bodies, 10), IMAGES, CAPACITY)
    check(proto_of(['Upsample<mode="nearest">(x, double)', 'Upsample<mode="linear">(x, double)'], 9), IMAGES, CAPACITY)
    check(proto_of(['Upsample<mode="bilinear", scales=[1.0, 1.0, 2.0, 1.0]>(x)'], 8), IMAGES[:4], CAPACITY)


def test_beside_a_dimension_that_is_known():
    proto = parsed('g (float[2, 2, 5, W] x) => (y) { y = Resize<mode="linear">(x, , double) }', CONSTANTS)
    check(proto, [{"x": normal(2, 2, 5, width)} for width in (3, 11)], {"W": 11})


def test_of_integers():
    calls = [{"x": (call["x"] * 90).astype(np.uint8)} for call in IMAGES]
    bodies = [f'Resize<mode="{mode}">(x, , double)' for mode in ("nearest", "linear")]
    check(proto_of(bodies, 19, "uint8"), calls, CAPACITY)


REFUSED = {
    'Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, , double)': "the region of sizes",
    'Resize<keep_aspect_ratio_policy="not_larger">(x, , , larger)': "the sizes that keep the ratio",
    'Resize<mode="linear", antialias=1>(x, , , ceiling)': "how far each of .* elements reaches",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_would_depend_on_the_padding_is_refused(body):
    check(proto_of([body]), IMAGES[:1], CAPACITY, refuses=REFUSED[body])


def test_places_that_32_bits_do_not_hold_are_refused():
    proto = proto_of(['Resize<mode="linear">(k, , , same)'])
    check(proto, [{"x": normal(2, 2, 11, 30)}], {"W": 40_000}, refuses="places among .* elements in 32 bits")


def test_of_no_images():
    proto = parsed('g (float[B, 2, H, 4] x) => (y) { y = Resize<mode="linear">(x, , odd) }', CONSTANTS)
    check(proto, [{"x": normal(0, 2, height, 4)} for height in (3, 7)], {"H": 7})
