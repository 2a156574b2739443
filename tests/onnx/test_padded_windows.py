"""Convolutions and poolings on images that are longer than what counts return what onnxruntime does."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdml.onnx.nodes.bounded._fitting import fitted, stretched
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.values.bounded import Bounded, inner
from jaxdml.onnx.values.lengths import atom
from jaxdml.onnx.values.stored import ChannelsLast
from tests.kit import quick
from tests.onnx.padded import by_onnxruntime, check, parsed

pytestmark = quick


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(0, 256, shape).astype(np.uint8)


CONSTANTS = {
    "w": normal(4, 3, 3, 3),
    "b": normal(4),
    "point": normal(4, 3, 1, 1),
    "even": normal(4, 3, 2, 4),
    "each": normal(3, 1, 3, 3),
    "groups": normal(6, 1, 3, 2),
    "back": normal(3, 4, 3, 3),
    "next": normal(3, 2, 2, 2),
    "wide": normal(3, 2, 4, 4),
    "line": normal(4, 3, 5),
    "qw": integers(4, 3, 3, 3).view(np.int8),
    "qb": np.arange(-2, 2, dtype=np.int32) * 99,
    "s": np.float32(0.05),
    "t": np.float32(0.7),
    "space": np.array([2, 3]),
    "sy": np.float32(0.03),
    "tiny": np.float32(1e-30),
    "thousand": np.float32(1000),
    "zx": np.uint8(130),
    "zero": np.int8(0),
    "zy": np.uint8(97),
}

IMAGES = [(5, 4), (6, 7), (7, 5), (8, 9), (4, 11), (11, 6), (10, 10)]
CAPACITY = {"H": 11, "W": 11}

FLOATS = {
    "Conv": "y = Conv<pads=[1,1,1,1]>(x, w, b) z = Conv<pads=[1,0,2,3], strides=[2,3]>(x, w)"
    " v = Conv<dilations=[2,1], pads=[2,0,1,1]>(x, w) u = Conv<strides=[2,2]>(x, point)",
    "Conv of each channel": "y = Conv<group=3, pads=[1,1,1,1]>(x, each) z = Conv<group=3, pads=[0,1,2,0]>(x, groups)"
    ' v = Conv<group=3, auto_pad="VALID">(x, each) u = Conv<pads=[0,2,1,2], strides=[1,2]>(x, even)',
    "Conv that pads by itself": 'y = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(x, w)'
    ' z = Conv<auto_pad="SAME_LOWER", strides=[2,3]>(x, even) v = Conv<auto_pad="SAME_LOWER">(x, even)'
    ' u = Conv<auto_pad="SAME_UPPER", strides=[3,2], group=3>(x, each)',
    "Conv after Conv": "a = Conv<pads=[1,1,1,1]>(x, w, b) c = Relu(a)"
    " d = Conv<pads=[1,1,1,1], strides=[2,2]>(c, back4)"
    " e = Conv<strides=[2,2]>(c, back1) y = Add(d, e) f = Conv(x, w) z = Conv<pads=[2,2,2,2]>(f, back4)"
    " v = Relu(z) u = Add(z, z)",
    "ConvTranspose": "y = ConvTranspose<strides=[2,2], pads=[1,1,1,1]>(x, wide)"
    " z = ConvTranspose<strides=[2,2]>(x, next)"
    " v = ConvTranspose<strides=[2,1], dilations=[1,2], output_padding=[1,0], pads=[1,0,0,2]>(x, back)"
    ' u = ConvTranspose<auto_pad="SAME_LOWER", strides=[2,3]>(x, wide)',
    "MaxPool": "y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(x)"
    " z = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x)"
    " v = MaxPool<kernel_shape=[2,3], dilations=[2,1], pads=[1,0,1,2]>(x)"
    ' u = MaxPool<kernel_shape=[3,2], auto_pad="SAME_UPPER", strides=[2,2]>(x)',
    "MaxPool that says where": "y, i = MaxPool<kernel_shape=[3,2], pads=[1,0,1,1], strides=[2,1]>(x) z = Cast<to=1>(i)"
    " v, j = MaxPool<kernel_shape=[2,2], storage_order=1>(x) u = Cast<to=1>(j)",
    "AveragePool": "y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)"
    " z = AveragePool<kernel_shape=[3,2], pads=[1,0,1,1], strides=[2,3], count_include_pad=1>(x)"
    " v = AveragePool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x)"
    ' u = AveragePool<kernel_shape=[2,3], auto_pad="SAME_UPPER", strides=[2,2]>(x)',
    "AveragePool that counts": "y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(x)"
    " z = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2], ceil_mode=1, count_include_pad=1>(x)"
    " v = GlobalAveragePool(x) u = GlobalMaxPool(x)",
    "LpPool": "y = LpPool<kernel_shape=[3,2], pads=[1,1,1,0], strides=[2,1], p=1>(x) z = LpPool<kernel_shape=[2,2]>(x)"
    ' v = GlobalLpPool<p=3>(x) u = LpPool<kernel_shape=[3,3], auto_pad="SAME_LOWER", strides=[2,2]>(x)',
    "FusedConv": 'y = com.microsoft.FusedConv<activation="Relu", pads=[1,1,1,1]>(x, w, b)'
    " a = Conv<pads=[1,1,1,1]>(x, w) z = com.microsoft.FusedConv<pads=[1,1,1,1]>(x, w, b, a) v = Relu(a) u = Neg(a)",
}
CONSTANTS |= {"back4": normal(4, 4, 3, 3) / 9, "back1": normal(4, 4, 1, 1)}


def images(make=normal):
    return [{"x": make(2, 3, *sizes)} for sizes in IMAGES]


def proto_of(body, kind="float", outputs="y, z, v, u", shape="2, 3, H, W"):
    return parsed(f"g ({kind}[{shape}] x) => ({outputs}) {{ {body} }}", CONSTANTS, com_microsoft=1)


@pytest.mark.parametrize("case", FLOATS)
def test_of_floats(case):
    check(proto_of(FLOATS[case]), images(), CAPACITY, judge=by_onnxruntime)


INTEGERS = {
    "QLinearConv": "y = QLinearConv<pads=[1,1,1,1], strides=[2,1]>(x, s, zx, qw, t, zero, sy, zy, qb)"
    ' v = QLinearConv<auto_pad="SAME_UPPER", strides=[2,2]>(x, s, zx, qw, t, zero, sy, zy)',
    "ConvInteger": "y = ConvInteger<pads=[1,1,1,1]>(x, qw, zx) v = ConvInteger<pads=[0,1,2,0]>(x, qw)",
    "groups of nodes": "a = DequantizeLinear(x, s, zx) k = DequantizeLinear(qw, t, zero)"
    " c = Conv<pads=[1,1,1,1]>(a, k) r = Relu(c) y = QuantizeLinear(r, sy, zy)"
    " d = DequantizeLinear(y, sy, zy) m = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(d)"
    " v = QuantizeLinear(m, sy, zy)",
    "means of groups": "a = DequantizeLinear(x, s, zx) m = AveragePool<kernel_shape=[2,2], strides=[2,2]>(a)"
    " y = QuantizeLinear(m, sy, zy) n = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(a)"
    " v = QuantizeLinear(n, sy, zy)",
}


@pytest.mark.parametrize("case", INTEGERS)
def test_of_integers(case):
    check(proto_of(INTEGERS[case], "uint8", "y, v"), images(integers), CAPACITY)


def test_channels_that_come_last_for_the_node_too():
    body = "y = com.microsoft.NhwcMaxPool<kernel_shape=[3,2], pads=[1,0,1,1], strides=[2,1]>(x)"
    body += " v = com.microsoft.QLinearConv<channels_last=1, pads=[1,1,1,1]>(x, s, zx, qw, t, zero, sy, zy)"
    given = [{"x": integers(2, *sizes, 3)} for sizes in IMAGES]
    check(proto_of(body, "uint8", "y, v", "2, H, W, 3"), given, CAPACITY)


def test_one_spatial_dimension_and_a_batch():
    body = "y = Conv<pads=[2,2]>(x, line) z = MaxPool<kernel_shape=[2], strides=[2]>(y) v = GlobalAveragePool(z)"
    proto = proto_of(body, outputs="y, z, v", shape="N, 3, T")
    calls = [{"x": normal(*shape)} for shape in ((2, 3, 3), (2, 3, 7), (4, 3, 12), (3, 3, 5))]
    check(proto, calls, {"N": 4, "T": 12}, judge=by_onnxruntime)


def test_a_batch_alone():
    proto = proto_of("y = GlobalAveragePool(x)", outputs="y", shape="N, 3, 5")
    check(proto, [{"x": normal(n, 3, 5)} for n in (2, 4)], {"N": 4}, judge=by_onnxruntime)


REFUSED = {
    "y = ConvTranspose<output_shape=[5, 4]>(x, next)": "how much of the result output_shape leaves",
    'y, i = MaxPool<kernel_shape=[3,3], auto_pad="SAME_UPPER", strides=[2,2]>(x)': "how much is padded before",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_would_depend_on_the_padding_is_refused(body):
    proto = proto_of(body, outputs="y, i" if "i =" in body else "y")
    check(proto, images()[:1], CAPACITY, refuses=REFUSED[body])


def test_channels_are_no_length():
    proto = proto_of("y = GlobalMaxPool(x)", outputs="y", shape="2, C, 5, 5")
    check(proto, [{"x": normal(2, 3, 5, 5)}], {"C": 4}, refuses="the result for an operand of sizes")


MEANS = {
    "groups": "a = DequantizeLinear(x, s, zx) m = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(a)"
    " y = QuantizeLinear(m, sy, zy) n = GlobalAveragePool(a) v = QuantizeLinear(n, sy, zy) z = Relu(m) u = Relu(n)",
    "rounded up": "a = DequantizeLinear(x, s, zx) m = AveragePool<kernel_shape=[3,2], strides=[2,2], ceil_mode=1>(a)"
    ' y = QuantizeLinear(m, sy, zy) n = AveragePool<kernel_shape=[2,3], auto_pad="SAME_UPPER", strides=[2,2]>(a)'
    " v = QuantizeLinear(n, sy, zy) z = Relu(m) u = Relu(n)",
    "reductions": "a = DequantizeLinear(x, s, zx) m = ReduceMean(a, space) y = QuantizeLinear(m, sy, zy)"
    " n = ReduceMean<keepdims=0>(a, space) v = QuantizeLinear(n, sy, zy) z = Relu(m) u = Relu(n)",
    "operators": "y = com.microsoft.QLinearAveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x, s, zx, sy, zy)"
    " z = com.microsoft.QLinearAveragePool<kernel_shape=[2,2], strides=[2,2], count_include_pad=1>(x, s, zx, sy, zy)"
    " v = com.microsoft.QLinearGlobalAveragePool(x, s, zx, sy, zy)"
    " u = com.microsoft.QLinearGlobalAveragePool(x, s, zx, s, zx)",
}


@pytest.mark.parametrize("case", MEANS)
def test_means_of_integers_are_rounded_once(case):
    check(proto_of(MEANS[case], "uint8"), images(integers), CAPACITY)


def test_means_of_integers_with_channels_last_for_the_node():
    body = "y = com.microsoft.QLinearAveragePool<channels_last=1, kernel_shape=[3,3], pads=[1,1,1,1]>(x, s, zx, sy, zy)"
    body += " v = com.microsoft.QLinearGlobalAveragePool<channels_last=1>(x, s, zx, sy, zy)"
    given = [{"x": integers(2, *sizes, 3)} for sizes in IMAGES]
    check(proto_of(body, "uint8", "y, v", "2, H, W, 3"), given, CAPACITY)


@pytest.mark.parametrize("scale", ["tiny", "own"])
def test_means_that_are_not_rounded_in_integers_are_refused(scale):
    body = "a = DequantizeLinear(x, s, zx) m = GlobalAveragePool(a) k = ReduceMax<keepdims=0>(x) f = Cast<to=1>(k)"
    proto = proto_of(f"{body} own = Div(f, thousand) v = QuantizeLinear(m, {scale}, zy)", "uint8", "v")
    check(proto, images(integers)[:1], CAPACITY, refuses="by how many elements sums are divided")


def test_images_are_filled_and_made_longer_as_they_are_stored():
    length, other = (atom(name, name, jnp.int32(number), 4) for name, number in (("n", 2), ("m", 1)))
    data = np.arange(24, dtype=np.float32).reshape(1, 4, 3, 2)
    x = Bounded(ChannelsLast(jnp.asarray(data)), (1, 2, length, 3))
    filled, longer = masked(x, x.sizes, 7), inner(fitted(x, (1, 2, length + 2, 3)))
    repeated = inner(stretched(Bounded(x.value, (1, 2, other, 3)), (1, 2, length, 3)))
    wanted = {2: 7, 4: 0}
    for found, first in ((filled, 2), (longer, 4)):
        assert isinstance(found, ChannelsLast)
        np.testing.assert_array_equal(found.array[:, :first], data[:, :first])
        np.testing.assert_array_equal(found.array[:, first:], wanted[first])
    assert isinstance(repeated, ChannelsLast)
    np.testing.assert_array_equal(repeated.array, np.repeat(data[:, :1], 4, 1))
