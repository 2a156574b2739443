"""Normalizations, padding, blocks and concatenations of images that are longer than what counts."""

import numpy as np
import pytest

from tests.kit import long, quick
from tests.onnx.padded import by_onnxruntime, check, exactly, parsed

pytestmark = quick


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


CONSTANTS = {
    "w": normal(4, 4, 3, 3) / 6,
    "four": normal(4),
    "other": normal(4) + 1,
    "two": normal(2),
    "three": normal(2) + 1,
    "one": normal(1),
    "positive": np.abs(normal(4)) + 0.1,
    "p1": np.array([0, 0, 1, 2, 0, 0, 3, 1]),
    "p2": np.array([1, 2, 2, 1]),
    "p3": np.array([0, -1, 2, -1]),
    "spatial": np.array([2, 3]),
    "seven": np.float32(7),
    "eight": np.array([8]),
    "zero": np.array([0]),
    "i2": np.array([2]),
    "i3": np.array([3]),
    "i4": np.array([4]),
    "s": np.float32(0.05),
    "st": np.float32(0.07),
    "zx": np.uint8(130),
    "zy": np.uint8(97),
}

IMAGES = [(5, 4), (6, 7), (3, 5), (8, 9), (4, 11), (11, 6), (10, 10)]
CAPACITY = {"H": 11, "W": 11}

NORMALIZED = {
    "of images": "a = Conv<pads=[1,1,1,1]>(x, w) y = BatchNormalization(a, four, other, four, positive)"
    " z = InstanceNormalization(a, four, other) v = LRN<size=3>(x)",
    "by dimensions": "y = MeanVarianceNormalization(x) z = LpNormalization<axis=2>(x) v = LpNormalization<p=1>(x)",
    "from an axis on": "n = Shape<start=3>(x) g = Expand(one, n)"
    " y = LayerNormalization<axis=2>(x, g) z = LayerNormalization<axis=1>(x, one, one)"
    " t = Transpose<perm=[0,2,3,1]>(x) v, m, i = LayerNormalization(t, four, other)",
}


def images():
    return [{"x": normal(2, 4, *sizes)} for sizes in IMAGES]


def proto_of(body, kind="float", outputs="y, z, v", shape="2, 4, H, W", opset=18):
    return parsed(f"g ({kind}[{shape}] x) => ({outputs}) {{ {body} }}", CONSTANTS, opset, com_microsoft=1)


@pytest.mark.parametrize("case", NORMALIZED)
def test_normalizations(case):
    check(proto_of(NORMALIZED[case]), images(), CAPACITY, judge=by_onnxruntime)


def test_normalizations_of_groups():
    body = "y = GroupNormalization<num_groups=2>(x, {0}, {1}) v = Relu(x) z = Relu(x)"
    check(proto_of(body.format("two", "three")), images()[:3], CAPACITY, judge=exactly)
    check(proto_of(body.format("four", "other"), opset=21), images(), CAPACITY, judge=by_onnxruntime)


def test_division_by_the_root():
    proto = proto_of(
        "y = RMSNormalization<axis=2>(x, one) z = RMSNormalization(t, four)"
        " t = Transpose<perm=[0,2,3,1]>(x) v = Relu(x)",
        opset=23,
    )
    check(proto, images()[:4], CAPACITY)


PADDED = {
    "a number": "y = Pad(x, p1) z = Pad(x, p2, seven, spatial) v = Pad(x, p3, seven, spatial)",
    "edge": 'y = Pad<mode="edge">(x, p1) z = Pad<mode="edge">(x, p2, , spatial) v = Pad(x, p1)',
    "reflect": 'y = Pad<mode="reflect">(x, p1) z = Pad<mode="reflect">(x, p2, , spatial) v = Pad(x, p1)',
    "wrap": 'y = Pad<mode="wrap">(x, p1) z = Pad<mode="wrap">(x, p2, , spatial) v = Pad(x, p1)',
    "from a length on": "n = Shape<start=2, end=3>(x) m = Shape<start=3>(x) e = Sub(n, i4) f = Sub(i3, m)"
    " p = Concat<axis=0>(e, f, e, i2) y = Pad(x, p, seven, spatial) q = Concat<axis=0>(f, e) z = Pad(x, q, , i3)"
    " v = Relu(x)",
    "to a multiple": "n = Shape<start=2, end=3>(x) r = Mod(n, eight) d = Sub(eight, r) e = Mod(d, eight)"
    ' p = Concat<axis=0>(zero, e) y = Pad(x, p, , i2) z = Pad<mode="reflect">(x, p, , i2)'
    ' v = Pad<mode="edge">(x, p, , i2)',
}


@pytest.mark.parametrize("case", PADDED)
def test_padding(case):
    proto = proto_of(PADDED[case], opset=19)
    check(proto, [given for given in images() if min(given["x"].shape[2:]) > 4], CAPACITY, judge=by_onnxruntime)


@pytest.mark.parametrize("mode", ["reflect", "wrap"])
def test_padding_by_more_than_there_is(mode):
    proto = proto_of(f'y = Pad<mode="{mode}">(x, p1) z = Pad<mode="{mode}">(x, p2, , spatial) v = Relu(x)', opset=19)
    check(proto, [{"x": normal(2, 4, *sizes)} for sizes in ((2, 3), (3, 2))], CAPACITY)


def test_padding_by_attributes():
    body = 'y = Pad<pads=[0,0,1,1,0,0,2,3], value=7.0>(x) z = Pad<pads=[0,0,1,1,0,0,2,3], mode="edge">(x) v = Relu(x)'
    check(proto_of(body, opset=10), images()[:4], CAPACITY, judge=by_onnxruntime)


def test_blocks():
    body = "y = DepthToSpace<blocksize=2>(x) z = SpaceToDepth<blocksize=2>(y) v = SpaceToDepth<blocksize=2>(a)"
    proto = proto_of(body + " a = Pad(x, p2, , spatial)")
    check(proto, [{"x": normal(2, 4, *sizes)} for sizes in ((3, 5), (7, 9), (11, 11))], CAPACITY, judge=by_onnxruntime)


def test_what_is_not_made_of_whole_blocks_is_an_error():
    proto = proto_of("y = SpaceToDepth<blocksize=2>(x)", outputs="y")
    with pytest.raises(ValueError, match="SpaceToDepth 'y'"):
        check(proto, [{"x": normal(2, 4, 4, 5)}], CAPACITY)


def test_concatenations():
    body = (
        "a = Conv<pads=[1,1,1,1]>(x, w) y = Concat<axis=1>(x, a) z = Concat<axis=2>(x, a, x) v = Concat<axis=-1>(a, x)"
    )
    check(proto_of(body), images(), CAPACITY, judge=by_onnxruntime)


@long
def test_concatenations_of_integers():
    body = "a = DequantizeLinear(x, s, zx) k = DequantizeLinear(x, st, zx)"
    for number, axis in enumerate((1, 2)):
        body += f" c{number} = Concat<axis={axis}>(a, k) q{number} = QuantizeLinear(c{number}, st, zy)"
        body += f" f{number} = Relu(c{number})"
        body += f" m{number} = com.microsoft.QLinearConcat<axis={axis}>(st, zy, x, s, zx, x, st, zx)"
    proto = proto_of(body, "uint8", "q0, q1, f0, f1, m0, m1")
    given = [{"x": np.random.default_rng(5).integers(0, 256, (2, 4, *sizes)).astype(np.uint8)} for sizes in IMAGES[:4]]
    check(proto, given, CAPACITY)


REFUSED = {
    "old": ("y = MeanVarianceNormalization(x)", 8, "the result for sizes"),
    "training": (
        "y, m, n = BatchNormalization<training_mode=1>(x, four, other, four, positive)",
        15,
        "the result for sizes",
    ),
    "before": (
        'n = Shape<start=2, end=3>(x) p = Concat<axis=0>(n, zero) y = Pad<mode="edge">(x, p, , i2)',
        18,
        "before the first element",
    ),
    "cut": ('y = Pad<mode="reflect">(x, p3, , spatial)', 18, r"the elements that pads of \[0, -1, 2, -1\] leave"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_masked_is_refused(case):
    body, opset, why = REFUSED[case]
    check(proto_of(body, outputs="y", opset=opset), images()[:1], CAPACITY, refuses=why)
