"""The quantized operators of com.microsoft, and ONNX's own: in real numbers, rounded once, then the zero point added.

onnxruntime's operators add the zero point before they round in Add, Mul and AveragePool, and go through float32 in all.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tests.onnx import plain
from tests.onnx.exact import Term, along, rationals, rounded

Array = np.ndarray


def term(x: Array, scale: Any, zero: Any, axis: int | None = None) -> Term:
    """Return integers less their zero point, and the scale as rationals."""
    zeros = 0 if zero is None else along(zero, x.ndim, axis).astype(np.int64)
    return x.astype(np.int64) - zeros, along(rationals(scale), x.ndim, axis)


def finish(terms: list[Term], x: Array, scale: Any, zero: Any) -> Array:
    """Round; without a zero point the result has the dtype of ``x``."""
    one = along(rationals(scale), 0, None)
    return rounded(terms, one, 0 if zero is None else along(zero, 0, None), x.dtype if zero is None else zero.dtype)


def q_linear_conv(x, sx, zx, w, sw, zw, sy, zy, b=None, *, channels_last=0, **options):
    xs, wide = term(np.moveaxis(x, -1, 1) if channels_last else x, sx, zx)
    ws, scales = term(w, sw, zw, 0)
    acc = plain.convolve(xs, ws, **options)
    acc = acc if b is None else acc + plain.by_channel(b.astype(np.int64), x.ndim)
    scales = scales.reshape(-1, *[1] * (x.ndim - 2)) if scales.size > 1 else scales
    made = finish([(acc, np.asarray(wide * scales, object))], x, sy, zy)
    return np.moveaxis(made, 1, -1) if channels_last else made


def q_linear_mat_mul(a, sa, za, b, sb, zb, sy, zy):
    (left, of_a), (right, of_b) = term(a, sa, za, a.ndim - 2), term(b, sb, zb, b.ndim - 1)
    return finish([(plain.integer_product(left, right), np.asarray(of_a * of_b, object))], a, sy, zy)


def q_gemm(a, sa, za, b, sb, zb, c=None, sy=None, zy=None, *, alpha=1.0, transA=0, transB=0):  # noqa: N803
    (left, of_a), (right, of_b) = term(a, sa, za), term(b, sb, zb, 0 if transB else 1)
    acc = plain.integer_product(left.T if transA else left, right.T if transB else right)
    acc = acc if c is None else acc + c.astype(np.int64)
    of_b = of_b.T if transB else of_b
    if sy is None:
        floats = np.float32(alpha) * along(np.asarray(sa), 0, None) * along(sb, 2, 0 if transB else 1)
        return acc.astype(np.float32) * (floats.T if transB else floats)
    return finish([(acc, np.asarray(of_a * of_b * Fraction(float(np.float32(alpha))), object))], a, sy, zy)


def q_linear_add(a, sa, za, b, sb, zb, sc, zc=None):
    return finish([term(a, sa, za), term(b, sb, zb)], a, sc, zc)


def q_linear_mul(a, sa, za, b, sb, zb, sc, zc=None):
    (left, of_a), (right, of_b) = term(a, sa, za), term(b, sb, zb)
    return finish([(left * right, np.asarray(of_a * of_b, object))], a, sc, zc)


def q_linear_concat(sy, zy, *parts, axis):
    made = [finish([term(*parts[i : i + 3])], parts[i], sy, zy) for i in range(0, len(parts), 3)]
    return np.concatenate(made, axis)


def q_linear_where(condition, x, sx, zx, y, sy, zy, sz, zz):
    return np.where(condition, finish([term(x, sx, zx)], x, sz, zz), finish([term(y, sy, zy)], y, sz, zz))


def mean_term(values: Array, scale: Any, **options: Any) -> Term:
    """Return the means over windows as sums and scales."""
    total, count = plain.sums_and_counts(values, **options)
    return total, scale / np.vectorize(lambda n: Fraction(int(max(n, 1))), otypes=[object])(count)


def q_linear_average_pool(x, sx, zx, sy, zy=None, *, channels_last=0, **options):
    values, scale = term(np.moveaxis(x, -1, 1) if channels_last else x, sx, zx)
    made = finish([mean_term(values, scale, **options)], x, sy, zy)
    return np.moveaxis(made, 1, -1) if channels_last else made


def q_linear_global_average_pool(x, sx, zx, sy, zy, *, channels_last=0):
    axes = tuple(range(1, x.ndim - 1)) if channels_last else plain.spatial(x)
    values, scale = term(x, sx, zx)
    count = math.prod(x.shape[axis] for axis in axes)
    return finish([(values.sum(axes, keepdims=True), np.asarray(scale / count, object))], x, sy, zy)


def of_floats(values: Array, x: Array, scale: Any, zero: Any) -> Array:
    """Quantize numbers in float64, for functions whose values are not rational."""
    dtype = x.dtype if zero is None else zero.dtype
    made = np.rint(values / np.float64(along(scale, 0, None))) + (0 if zero is None else float(along(zero, 0, None)))
    return np.clip(made, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


def doubles(x: Array, scale: Any, zero: Any) -> Array:
    """Dequantize in float64."""
    values, factor = term(x, scale, zero)
    return values * np.float64(factor[()])


def q_linear_softmax(x, sx, zx, sy, zy, *, axis=-1, opset):
    return of_floats(plain.softmax(doubles(x, sx, zx), axis=axis, opset=opset), x, sy, zy)


def q_linear_sigmoid(x, sx, zx, sy, zy=None):
    return of_floats(plain.sigmoid(doubles(x, sx, zx)), x, sy, zy)


def q_linear_leaky_relu(x, sx, zx, sy, zy=None, *, alpha=0.01):
    return finish(leaky_terms(*term(x, sx, zx), alpha), x, sy, zy)


def leaky_terms(values: Array, scale: Array, alpha: float) -> list[Term]:
    """Return what LeakyRelu makes, as a sum."""
    slope = Fraction(float(np.float32(alpha)))
    return [(np.maximum(values, 0), scale), (np.minimum(values, 0), np.asarray(scale * slope, object))]


def mat_mul_integer_to_float(a, b, sa, sb, za=None, zb=None, bias=None):
    (left, _), (right, _) = term(a, sa, za), term(b, sb, zb, b.ndim - 1)
    made = plain.integer_product(left, right).astype(np.float32) * (along(sa, 0, None) * along(sb, b.ndim, b.ndim - 1))
    return made if bias is None else made + bias


def dynamic_quantize_mat_mul(a, b, sb, zb=None, bias=None):
    integers, scale, zero = plain.dynamic_quantize_linear(a)
    return mat_mul_integer_to_float(integers, b, scale, sb, zero, zb, bias)


# Float operators that only onnxruntime writes


def fused_mat_mul(a, b, *, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):  # noqa: N803
    assert transBatchA == transBatchB == 0
    a, b = (np.swapaxes(x, -1, -2) if turned else x for x, turned in ((a, transA), (b, transB)))
    return (a @ b) * np.float32(alpha)


def activated(x: Array, activation: str, parameters: Any) -> Array:
    """Apply what is fused behind a product."""
    if activation == "Clip":
        return plain.clip(x, *np.float32(parameters))
    names = {"LeakyRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"]}.get(activation, [])
    return plain.PLAIN[activation](x, **dict(zip(names, parameters, strict=False)))


def fused_conv(x, w, b=None, z=None, *, activation="", activation_params=(), **options):
    made = plain.conv(x, w, b, **options) + (0 if z is None else z)
    return activated(made, activation, activation_params) if activation else made


def fused_gemm(a, b, c=None, *, activation="", activation_alpha=0.01, **options):
    return activated(plain.gemm(a, b, c, **options), activation, [activation_alpha])


def skip_layer_normalization(x, skip, gamma, beta=None, bias=None, *, epsilon=1e-12, outputs):
    total = x + skip + (0 if bias is None else bias)
    made = plain.layer_normalization(total, gamma, beta, epsilon=epsilon)
    return (made, None, None, total)[:outputs]


def fast_gelu(x, bias=None):
    return plain.gelu(x if bias is None else x + bias, approximate="tanh")


def nhwc_max_pool(x, **options):
    return np.moveaxis(plain.max_pool(np.moveaxis(x, -1, 1), **options), 1, -1)


MICROSOFT: dict[str, Any] = {
    "QLinearConv": q_linear_conv,
    "QLinearMatMul": q_linear_mat_mul,
    "QGemm": q_gemm,
    "QLinearAdd": q_linear_add,
    "QLinearMul": q_linear_mul,
    "QLinearConcat": q_linear_concat,
    "QLinearWhere": q_linear_where,
    "QLinearAveragePool": q_linear_average_pool,
    "QLinearGlobalAveragePool": q_linear_global_average_pool,
    "QLinearSoftmax": q_linear_softmax,
    "QLinearSigmoid": q_linear_sigmoid,
    "QLinearLeakyRelu": q_linear_leaky_relu,
    "MatMulIntegerToFloat": mat_mul_integer_to_float,
    "DynamicQuantizeMatMul": dynamic_quantize_mat_mul,
    "FusedMatMul": fused_mat_mul,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "SkipLayerNormalization": skip_layer_normalization,
    "BiasGelu": lambda x, bias: plain.gelu(x + bias),
    "FastGelu": fast_gelu,
    "QuickGelu": lambda x, *, alpha=1.702: x * plain.sigmoid(x * np.float32(alpha)),
    "NhwcMaxPool": nhwc_max_pool,
}
"""By operator: a function of its inputs; None where one is left out."""
