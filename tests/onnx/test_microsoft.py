"""The quantized operators of com.microsoft: judged by exact numbers, in one program."""

import numpy as np
import pytest

import jaxdml.onnx
from jaxdml.onnx import UnsupportedModelError
from tests.kit import assert_same_bits, quick
from tests.onnx import microsoft
from tests.onnx.quantized import Groups, draw

pytestmark = quick

U8, S8, S32 = np.uint8, np.int8, np.int32
F = np.float32


def test_every_operator_is_rounded_once():
    groups, wanted, rng = Groups(), {}, np.random.default_rng(0)

    def both(kind, *operands, opset=None, **attributes):
        """Add a node whose first array is an input; judge it by the exact function."""
        given = list(operands)
        first = next(i for i, x in enumerate(given) if x is not None and np.ndim(x) > 1)
        given[first] = groups.input(given[first])
        extra = {} if opset is None else {"opset": opset}
        name = groups.out(groups(f"com.microsoft.{kind}", *given, **attributes, **extra))
        wanted[name] = microsoft.MICROSOFT[kind](*operands, **attributes, **extra)

    for dtype, scales in ((U8, (0.5, 0.25, 1.0)), (S8, (0.0371, 0.0213, 0.0871))):
        sa, sb, sc = map(F, scales)
        za, zb, zc = draw(rng, 3, dtype)
        x, y = draw(rng, (3, 40), dtype), draw(rng, 40, dtype)
        for kind in ("QLinearAdd", "QLinearMul"):
            both(kind, x, sa, za, y, sb, zb, sc, zc)
            both(kind, x, sa, None, y, F([sb]), None, sc)
            both(kind, x, F([sa]), dtype([za]), y, sb, None, sc, zc)
        both("QLinearConcat", sc, zc, x, sa, za, x[:, :7], sb, zb, axis=-1)
        both("QLinearWhere", x > 3, x, sa, za, y, sb, zb, sc, zc)
        both("QLinearLeakyRelu", x, sa, None, sc, zc, alpha=0.5)
        both("QLinearLeakyRelu", x, sa, za, sc)
        both("QLinearSigmoid", x, sa, None, F(1 / 256), zc)
        both("QLinearSigmoid", x, sa, za, F(1 / 128))
        image = draw(rng, (2, 4, 3, 5), dtype)
        both("QLinearSoftmax", image, sa, za, F(1 / 256), dtype(0), opset=13)
        both("QLinearSoftmax", image, sa, None, F(1 / 256), dtype(0), opset=11, axis=-2)
        for last in (0, 1):
            both("QLinearGlobalAveragePool", image, sa, za, sb, zb, channels_last=last)
            window = {"kernel_shape": [2, 2], "strides": [1, 2], "channels_last": last}
            both("QLinearAveragePool", image, sa, None, sb, zb, pads=[1, 0, 1, 1], count_include_pad=1, **window)
            both("QLinearAveragePool", image, sa, za, sb, ceil_mode=1, **window)
            depth = image.shape[-1 if last else 1]
            w, by_channel = draw(rng, (6, depth, 2, 2), dtype), rng.choice(F([0.5, 0.0371, 2]), 6)
            zeros, bias = draw(rng, 6, dtype), rng.integers(-9999, 9999, 6).astype(S32)
            both("QLinearConv", image, sa, za, w, by_channel, zeros, F(64), zc, bias, channels_last=last)
    for name, got in groups.run().items():
        assert_same_bits(got, wanted[name])


def test_products_of_matrices():
    groups, wanted, rng = Groups(), {}, np.random.default_rng(1)
    scale, scales = F(0.0371), F([0.5, 0.25, 0.0213])
    bias = rng.normal(0, 1, 3).astype(F)

    def both(kind, *operands, **attributes):
        wanted[groups.out(groups(f"com.microsoft.{kind}", groups.input(operands[0]), *operands[1:], **attributes))] = (
            microsoft.MICROSOFT[kind](*operands, **attributes)
        )

    for dtype in (U8, S8):
        a, b, zeros = draw(rng, (5, 16), dtype), draw(rng, (16, 3), dtype), draw(rng, 3, dtype)
        whole = rng.integers(-999, 999, 3).astype(S32)
        for c in (None, whole, whole[:1]) if dtype is U8 else (whole[None], whole[0]):
            both("QGemm", a, scale, dtype(3), b, scales, zeros, c, F(4), dtype(5))
            both("QGemm", a, scale, dtype(3), b, scales, zeros, c)
        both("QGemm", a, scale, dtype(3), b.T.copy(), scales, zeros, whole, F(4), dtype(5), transB=1, alpha=0.5)
        both("QGemm", a.T.copy(), scale, dtype(3), b, scale, dtype(0), whole, F(4), dtype(5), transA=1)
        both("QGemm", a, scale, dtype(3), b.T.copy(), scale, dtype(9), whole, transB=1, alpha=0.5)
        both("QGemm", a, scale, dtype(3), b, scale, dtype(9), None, F(4))
        both("MatMulIntegerToFloat", a, b, scale, scales, dtype(3), zeros, bias)
        both("MatMulIntegerToFloat", a, b, scale, scale)
        x = rng.normal(0, 1, (2, 5, 16)).astype(F)
        both("DynamicQuantizeMatMul", x, b, scales, zeros, bias)
        both("DynamicQuantizeMatMul", x, b, scale)
    for name, got in groups.run().items():
        assert_same_bits(got, wanted[name])


def test_integers_of_16_bits_in_models_of_old_opsets():
    groups = Groups(13)
    x = F([-2, 0.25, 0.75, 9e9])
    made = groups("com.microsoft.QuantizeLinear", groups.input(x), F(0.5), np.uint16(3))
    groups.out(made)
    groups.out(groups("com.microsoft.DequantizeLinear", made, F(0.5), np.uint16(3)))
    integers, floats = groups.run().values()
    assert integers.tolist() == [0, 3, 5, 65535]
    assert floats.tolist() == [-1.5, 0, 1, 32766]


def refusals():
    x = np.zeros((1, 1, 5), U8)
    window = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1, "count_include_pad": 1}
    yield "overhang", lambda g: g("com.microsoft.QLinearAveragePool", g.input(x), F(1), U8(0), F(1), U8(0), **window)
    c = np.zeros((5, 1), S32)
    yield (
        "more than one row",
        lambda g: g("com.microsoft.QGemm", g.input(x[0].T), F(1), U8(0), x[0][:, :3], F(1), U8(0), c),
    )
    scale = lambda g: g.input(F(1))  # noqa: E731
    kinds = ("LeakyRelu", "Sigmoid")
    for kind in kinds:
        yield "not known", lambda g, k=kind: g(f"com.microsoft.QLinear{k}", g.input(x), scale(g), U8(0), F(1), U8(0))
    yield "not known", lambda g: g("com.microsoft.QLinearConcat", F(1), U8(0), g.input(x), scale(g), U8(0), axis=0)
    yield (
        "not known",
        lambda g: g("com.microsoft.QLinearSoftmax", g.input(x), scale(g), None, F(1), U8(0), opset=13),
    )
    yield (
        "not known",
        lambda g: g("com.microsoft.QLinearWhere", x > 0, g.input(x), F(1), U8(0), x, scale(g), U8(0), F(1), U8(0)),
    )


@pytest.mark.parametrize(("text", "make"), [*refusals()])
def test_what_is_refused_while_tracing(text, make):
    groups = Groups()
    groups.out(make(groups))
    with pytest.raises(UnsupportedModelError, match=text):
        groups.run(compiled=False)


def test_a_scale_may_not_be_left_out_though_a_zero_point_before_it_may():
    groups = Groups()
    x = groups.input(U8([1, 2]))
    groups.out(groups("com.microsoft.QLinearAdd", x, F(1), None, x, None, None, F(1)))
    with pytest.raises(UnsupportedModelError, match="input 4 is left out"):
        jaxdml.onnx.load(groups.proto())
