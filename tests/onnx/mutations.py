"""Broken models: small ones with bytes, fields, names or nodes changed. ``python -m tests.onnx.mutations 10000``;
with a first number and kinds after it, ``10000 0 language blocks``.

What may become of a broken model: it runs, since a change need not break it; ``load`` refuses it with an
``UnsupportedModelError``; or tracing it raises an ``ALLOWED`` error with a text. Anything else is a bug, and so is more
than ``SECONDS``.
"""

import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import contextmanager

import jax
import numpy as np
import onnx
import onnx.parser

import jaxdml.onnx
from benchmarks.models.language_model import Sizes, language_model

ALLOWED = (TypeError, ValueError, NotImplementedError, OverflowError)
"""Errors of tracing a model that ``load`` accepts. OverflowError: a number of 64 bits where JAX has 32."""

SECONDS = 20
"""For one model at most."""

MEMORY = 2**34
"""Bytes of addresses that the script may have."""

LARGEST = 2**22
"""Elements of an input that must be a NumPy array, at most; larger ones are not made here."""

TEXTS = {
    "trees": """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
        g (float[N, 2] x) => (int64[N] label, float[N, 2] scores, float[N, 2] values) {
            a = ai.onnx.ml.Scaler<offset = [0.5, 1.0], scale = [2.0, 3.0]>(x)
            b = ai.onnx.ml.Imputer<imputed_value_floats = [1.0], replaced_value_float = 2.0>(a)
            label, scores = ai.onnx.ml.TreeEnsembleClassifier<
                nodes_treeids = [0, 0, 0, 0, 0, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0],
                nodes_featureids = [0, 1, 0, 0, 0, 0], nodes_values = [0.5, 1.0, 0.0, 0.0, 0.0, 0.0],
                nodes_modes = ["BRANCH_LEQ", "BRANCH_EQ", "LEAF", "LEAF", "LEAF", "LEAF"],
                nodes_truenodeids = [1, 3, 0, 0, 0, 0], nodes_falsenodeids = [2, 4, 0, 0, 0, 0],
                class_treeids = [0, 0, 0, 1], class_nodeids = [2, 3, 4, 0], class_ids = [0, 0, 0, 0],
                class_weights = [0.1, 0.2, 0.3, 0.4], classlabels_int64s = [3, 4], post_transform = "LOGISTIC">(b)
            values = ai.onnx.ml.TreeEnsembleRegressor<
                nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0],
                nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_GT", "LEAF", "LEAF"],
                nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], n_targets = 2,
                nodes_missing_value_tracks_true = [1, 0, 0], aggregate_function = "MIN", base_values = [0.1, 0.2],
                target_treeids = [0, 0, 0], target_nodeids = [1, 1, 2], target_ids = [0, 1, 1],
                target_weights = [1.0, 2.0, 3.0]>(b) }""",
    "vectors": """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 4]>
        g (float[N, 2] x, int64[N, 2] i) => (int64[N] l, float[N, 3] p, int64[N] m, float[N, 2] q, float[N, 1] r) {
            e = ai.onnx.ml.LabelEncoder<keys_int64s = [1, 2], values_floats = [0.5, 0.25], default_float = 3.0>(i)
            h = ai.onnx.ml.OneHotEncoder<cats_int64s = [0, 1]>(i)
            f = ai.onnx.ml.FeatureVectorizer<inputdimensions = [2, 3]>(x, h)
            n = ai.onnx.ml.Normalizer<norm = "L2">(e)
            l, p = ai.onnx.ml.SVMClassifier<coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], rho = [0.1, 0.2, 0.3],
                support_vectors = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0], vectors_per_class = [1, 1, 1], kernel_type = "RBF",
                prob_a = [-1.0, -1.0, -1.0], prob_b = [0.1, 0.2, 0.3], kernel_params = [0.5, 0.0, 3.0],
                classlabels_ints = [0, 1, 2]>(n)
            m, q = ai.onnx.ml.LinearClassifier<coefficients = [1.0, 2.0, 3.0, 4.0, 5.0], intercepts = [0.5],
                classlabels_ints = [0, 1], post_transform = "LOGISTIC">(f)
            r = ai.onnx.ml.SVMRegressor<coefficients = [1.0, 2.0], rho = [0.1], n_supports = 2, kernel_type = "POLY",
                support_vectors = [1.0, 0.0, 0.0, 1.0], kernel_params = [0.5, 0.0, 3.0]>(x) }""",
    "network": """<ir_version: 8, opset_import: ["": 17]> g (float[N, 2, 6, 6] x) => (float[N, 3] y)
        <float[2, 2, 3, 3] w, float[2] b, float[2, 3] m> {
            a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, b)
            c = Relu(a)
            d = MaxPool<kernel_shape = [2, 2]>(c)
            e = GlobalAveragePool(d)
            f = Flatten(e)
            g = Gemm<alpha = 0.5>(f, m)
            y = Softmax<axis = -1>(g) }""",
    "shapes": """<ir_version: 8, opset_import: ["": 17]> g (float[N, 6] x, int64[2] i) => (float[A, B] y, int64[2] j) {
            shape = Shape(x)
            zero = Constant<value = int64 {0}>()
            n = Gather<axis = 0>(shape, zero)
            where = Constant<value_ints = [0]>()
            one = Unsqueeze(n, where)
            six = Constant<value = int64[2] {2, 3}>()
            wanted = Concat<axis = 0>(one, six)
            r = Reshape(x, wanted)
            t = Transpose<perm = [2, 0, 1]>(r)
            begin = Constant<value_ints = [1]>()
            end = Constant<value_ints = [9223372036854775807]>()
            s = Slice(t, begin, end)
            p = ReduceMax<axes = [0], keepdims = 0>(s)
            y, k = TopK(p, begin)
            j = Add(i, i) }""",
    "quantized": """<ir_version: 8, opset_import: ["": 17]> g (float[2, 4] x) => (float[2, 3] y)
        <float s = {0.5}, uint8 z = {3}, int8[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
         float[3] t = {0.5, 0.25, 1.0}, int8[3] u = {0, 0, 0}> {
            q = QuantizeLinear(x, s, z)
            d = DequantizeLinear(q, s, z)
            v = DequantizeLinear<axis = 1>(w, t, u)
            m = MatMul(d, v)
            n = QuantizeLinear(m, s, z)
            y = DequantizeLinear(n, s, z) }""",
    "bodies": """<ir_version: 8, opset_import: ["": 17]> g (float[3] x, bool c) => (float[3] y, float[2, 3] z) {
            a = If(c) <then_branch = t () => (float[3] p) { p = Add(x, x) },
              else_branch = e () => (float[3] p) { k = Constant<value_floats = [1.0, 2.0, 3.0]>() p = Sub(x, k) }>
            n = Constant<value = int64 {2}>()
            yes = Constant<value = bool {1}>()
            y, z = Loop(n, yes, a) <body = l (int64 i, bool d, float[3] u) => (bool d2, float[3] v, float[3] o) {
                d2 = Identity(d) v = Add(u, x) o = Sub(v, u) }> }""",
    "functions": """<ir_version: 10, opset_import: ["": 17, "own": 1]>
        g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z)
        <float[3] w = {1.0, 2.0, 3.0}> {
            a = own.twice<times = 2.0>(x, w)
            y, z = own.both<axis = 1>(a) }
        <domain: "own", opset_import: ["": 17]> twice<times>(p, q) => (r) {
            k = Constant<value_float: float = @times>() l = Mul(p, k) r = Add(l, q) }
        <domain: "own", opset_import: ["": 13, "own": 1]> both<axis>(p) => (r, p) {
            s = Softmax<axis: int = @axis>(p) t = Constant<value_float = 1.0>() u = Mul(s, t)
            r = own.twice<times = 3.0>(u, s) }""",
    "layers": """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (int64[2, 3] i) => (float[2, 3, 4] y)
        <float[5, 4] table, float[4] scale, float[4] bias, float[4, 4] w> {
            e = Gather(table, i)
            n = LayerNormalization<axis = -1>(e, scale, bias)
            m = MatMul(n, w)
            t = Transpose<perm = [0, 2, 1]>(m)
            s = MatMul(m, t)
            p = Softmax(s)
            o = MatMul(p, m)
            k = Sigmoid(o)
            y = Add(k, e) }""",
    "moved": """<ir_version: 8, opset_import: ["": 17]>
        g (float[N, 2, 4, 4] x) => (float[A, B, C, D] y, float[E] z, float[F] v)
        <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, float[4] scales = {1, 1, 2, 2}, int64[4] times = {1, 1, 1, 2},
         int64[2] parts = {1, 1}, int64[1, 2] at = {0, 1}, int64 from = {0}, int64 to = {6}, int64 by = {2},
         float[2] pair = {0, 1}, float[1] one = {7}, int64[2] sizes = {2, 3}, int64 depth = {3}> {
            p = Pad(x, pads)
            a, b = Split<axis = 1>(p, parts)
            r = Resize<mode = "linear", coordinate_transformation_mode = "asymmetric">(a, "", scales)
            y = Tile(r, times)
            o = ConstantOfShape<value = float[1] {1.5}>(sizes)
            h = OneHot(at, depth, pair)
            e = Expand(o, sizes)
            s = ScatterND(e, at, one)
            t = Trilu<upper = 1>(s)
            c = CumSum(t, from)
            q = Range(from, to, by)
            f = Cast<to = 1>(q)
            n = Einsum<equation = "ij,kj->i">(c, t)
            m = ReduceSum(h)
            d = Greater(n, m)
            w = Where(d, n, n)
            v = Sum(n, w)
            z = Flatten<axis = 0>(f) }""",
    "recurrent": """<ir_version: 8, opset_import: ["": 17]>
        g (float[3, 1, 2] x) => (float[3, 1, 1, 2] y, float[2] u, float[1, 2] v)
        <float[1, 8, 2] w, float[1, 8, 2] r, float[1, 16] b, float[2] zero = {0, 0}> {
            y, h = LSTM<hidden_size = 2>(x, w, r, b)
            k = Constant<value_ints = [1]>()
            q = Squeeze(x, k)
            u, s = Scan<num_scan_inputs = 1, body = l (float[2] p, float[2] i) => (float[2] n, float[2] o) {
                n = Add(p, i) o = Identity(n) }>(zero, q)
            v = ReduceMean<axes = [0]>(s) }""",
    "defined": """<ir_version: 8, opset_import: ["": 17]>
        g (float[2, 3, 1, 1] x, int64[2, 1, 1] t) => (float[A, B, C, D] y, float[E] w, float l) <int64 n = {4}> {
            w = HannWindow<periodic = 0>(n)
            y = MeanVarianceNormalization<axes = [0]>(x)
            l = NegativeLogLikelihoodLoss<reduction = "mean">(y, t) }""",
    "integers": """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (uint8[1, 2, 4, 4] x) => (uint8[1, 2, 4, 4] y, int32[1, 2, 4, 4] i, float[2, 3] f)
        <float s = {0.5}, uint8 z = {3}, int8[2, 2, 1, 1] w = {1, 2, 3, 4}, float[2] t = {0.5, 0.25},
         int8[2] o = {0, 0}, int32[2] b = {5, 6},
         uint8[8, 3] k = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6}> {
            c = QLinearConv(x, s, z, w, t, o, s, z, b)
            y = com.microsoft.QLinearAdd(c, s, z, x, s, z, s, z)
            i = ConvInteger(x, w, z)
            p = com.microsoft.QLinearGlobalAveragePool<channels_last = 0>(y, s, z, s, z)
            d = DequantizeLinear(y, s, z)
            l = Constant<value_ints = [4, 8]>()
            r = Reshape(d, l)
            q, v, a = DynamicQuantizeLinear(r)
            m = MatMulInteger(q, k, a, z)
            g = Cast<to = 1>(m)
            n = com.microsoft.QGemm(q, v, a, k, s, z, "", s, z)
            f = Mul(g, v) }""",
    "sequences": """<ir_version: 8, opset_import: ["": 17]>
        g (float[4, 6] x, int64 i) => (float[4, 6] y, float[2, 6] z, int64 n, bool has, float[2, 6] w)
        <int64[2] parts = {1, 3}, int64 at = {-1}, int64 first = {0}> {
            s = SplitToSequence<axis = 0>(x, parts)
            a = SequenceAt(s, at)
            t = SequenceInsert(s, a, first)
            u = SequenceErase(t, at)
            y = ConcatFromSequence<axis = 0>(s)
            n = SequenceLength(u)
            z = ConcatFromSequence<axis = 0>(u)
            o = Optional(z)
            has = OptionalHasElement(o)
            e = OptionalGetElement(o)
            p, q = Split<axis = 1>(e)
            l = SequenceConstruct(p, q)
            w = ConcatFromSequence<axis = 1>(l) }""",
    "drawn": """<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x) => (float[2, 3] y, int32[2, 5] c)
        <float ratio = {0.5}, bool yes = {1}> {
            d, m = Dropout<seed = 3>(x, ratio, yes)
            s = Sigmoid(d)
            b = Bernoulli(s)
            u = RandomUniform<shape = [2, 3], low = -1.0, high = 1.0>()
            n = RandomNormalLike<dtype = 1>(b)
            v = RandomUniformLike(x)
            w = RandomNormal<shape = [3]>()
            c = Multinomial<sample_size = 5, dtype = 6>(x)
            y = Sum(b, u, n, v, w) }""",
    "blocks": """<ir_version: 10, opset_import: ["": 21]> g (float[2, 32] x) => (float[2, 8] y, uint8[2, 8] z)
        <int4[32, 8] w, float[2, 8] s, int4[2, 8] o, float[2, 2] k, uint8[2, 2] j, float t = {0.5}, uint8 p = {3}> {
            d = DequantizeLinear<axis = 0, block_size = 16>(w, s, o)
            m = MatMul(x, d)
            q = QuantizeLinear<block_size = 4, axis = 1>(m, k, j)
            r = DequantizeLinear<block_size = 4, axis = 1>(q, k, j)
            y = Add(r, m)
            z = QuantizeLinear(y, t, p) }""",
    "attention": """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (int32[2, 3] i, int32[2, 3] mask) => (float[2, 3, 16] y, float[2, 3, 16] z, float[2, 3, 16] w)
        <float[9, 16] words, float[4, 16] places, float[2, 16] kinds, float[16] g1, float[16] b1, float[16, 48] qkv,
         float[48] bias, float[8, 4] cos, float[8, 4] sin, int64[1] zero = {0}> {
            e, h = com.microsoft.EmbedLayerNormalization<epsilon = 1e-5>(i, i, words, places, kinds, g1, b1, mask)
            a = com.microsoft.Attention<num_heads = 2>(e, qkv, bias, h)
            s, n, v, t = com.microsoft.SkipLayerNormalization(a, e, g1, b1)
            r = com.microsoft.RotaryEmbedding<num_heads = 2>(s, zero, cos, sin)
            y = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = 1>(r, s, e)
            f = com.microsoft.BiasGelu(y, g1)
            z = SimplifiedLayerNormalization(f, g1)
            w = com.microsoft.QuickGelu(t) }""",
    "found": """<ir_version: 8, opset_import: ["": 17]> g (float[6, 4] x, float[6] s) => (float[n, 4] y, float[6] r)
        <float[1] w, float o = {0.5}, int64[1] k = {3}, int64[1] d = {0}, int64[2] e = {0, 1}, int64[1] l = {2}> {
            m = Mul(s, w)
            p = Greater(m, o)
            a = NonZero(p)
            c = Squeeze(a, d)
            b = Gather(x, c)
            t = Gather(m, c)
            f = Unsqueeze(b, d)
            h = Unsqueeze(t, e)
            u = NonMaxSuppression(f, h, k, o)
            v = Gather<axis = 1>(u, l)
            y = GatherND(x, v)
            r = RandomNormalLike(s) }""",
}


def models():
    """Return the models that are broken, as bytes by name."""
    found = {name: _filled(onnx.parser.parse_model(text)).SerializeToString() for name, text in TEXTS.items()}
    smallest = Sizes(1, 32, 32, 16, 1, 16, 16)  # Heads have the size that unknown dimensions get here.
    return found | {"language": language_model(smallest, dtype=np.float32).SerializeToString()}


def _filled(model):
    """Give values to the initializers that the text only declares."""
    rng = np.random.default_rng(0)
    known = {tensor.name for tensor in model.graph.initializer}
    for value in list(model.graph.value_info):
        if value.name not in known:
            shape = [size.dim_value for size in value.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            tensor = onnx.numpy_helper.from_array(rng.normal(size=shape).astype(dtype), value.name)
            model.graph.initializer.append(tensor)
            model.graph.value_info.remove(value)
    return model


_NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 17, 255, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)


def mutated(data, number):
    """Return the model's bytes with one to three changes, drawn from a number."""
    draw = random.Random(number)
    if draw.random() < 0.3:
        return _with_other_bytes(data, draw)
    model = onnx.ModelProto.FromString(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        fields = list(_fields(model))
        _change(*draw.choice(fields), fields, draw)
    return model.SerializeToString()


def _with_other_bytes(data, draw):
    data = bytearray(data)
    at, kind = draw.randrange(len(data)), draw.randrange(5)
    length = draw.randint(1, 8)
    if kind == 0:
        del data[at:]
    elif kind == 1:
        del data[at : at + length]
    elif kind == 2:
        data[at:at] = data[at : at + length]
    elif kind == 3:
        data[at : at + length] = draw.randbytes(length)
    else:
        data[at] ^= 1 << draw.randrange(8)
    return bytes(data)


def _fields(message):
    """Yield every field that is set, with the message that holds it."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type:
            for part in value if field.is_repeated else [value]:
                yield from _fields(part)


def _change(message, field, fields, draw):
    value = getattr(message, field.name)
    others = [
        (other, same) for other, same in fields if same.type == field.type and same.is_repeated == field.is_repeated
    ]
    if draw.random() < 0.15:
        message.ClearField(field.name)
    elif field.message_type:
        # As bytes, since a message that is changed may hold the one that is copied.
        same = [getattr(other, same.name) for other, same in others if same.message_type == field.message_type]
        same = [part.SerializePartialToString() for found in same for part in (found if field.is_repeated else [found])]
        copied = draw.choice(same)
        if not field.is_repeated:
            message.ClearField(field.name)
            getattr(message, field.name).MergeFromString(copied)
        elif draw.random() < 0.2:
            value.add().MergeFromString(copied)
        else:
            _change_list(value, draw)
    elif field.is_repeated:
        items = [_other(item, field, others, draw) if draw.random() < 0.5 else item for item in value]
        message.ClearField(field.name)
        getattr(message, field.name).extend(items)
        _change_list(getattr(message, field.name), draw)
    else:
        setattr(message, field.name, _other(value, field, others, draw))


def _change_list(values, draw):
    items = [item.SerializePartialToString() if hasattr(item, "ListFields") else item for item in values]
    kind, at = draw.randrange(3), draw.randrange(len(items)) if items else 0
    if kind == 0:
        del items[at : at + 1]
    elif kind == 1:
        items[at:at] = items[at : at + 1]
    else:
        draw.shuffle(items)
    messages = any(hasattr(item, "ListFields") for item in values)
    del values[:]
    for item in items:
        if messages:
            values.add().MergeFromString(item)
        else:
            values.append(item)


def _other(value, field, others, draw):
    if isinstance(value, str | bytes) and draw.random() < 0.7:
        found = [getattr(other, same.name) for other, same in others]
        return draw.choice([item for part in found for item in (part if field.is_repeated else [part])])
    if isinstance(value, str):
        return draw.choice(("", "x", "/", "../x", "é" * 3, "Relu", "Loop", "Reshape", "ai.onnx", "Q" * 300))
    if isinstance(value, bytes):
        return draw.choice((value[:-1], value + b"\0", b"", bytes(value[::-1]), draw.randbytes(len(value))))
    if isinstance(value, float):
        return draw.choice((0.0, -1.0, 1e30, float("inf"), float("nan"), 0.5))
    number = draw.choice((*_NUMBERS, value + 1, value - 1, draw.randint(0, 30)))
    if field.cpp_type == field.CPPTYPE_INT64:
        return min(max(number, -(2**63)), 2**63 - 1)
    if field.cpp_type == field.CPPTYPE_UINT64:
        return number % 2**64
    if field.cpp_type == field.CPPTYPE_ENUM:
        return draw.choice(field.enum_type.values).number
    return (number + 2**31) % 2**32 - 2**31


class Hang(BaseException):
    """The model takes too long."""


@contextmanager
def limited(seconds):
    """Raise Hang after some seconds of this process, which has not all of a busy machine's."""

    def stop(*_):
        raise Hang(f"more than {seconds} seconds")

    usual = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, usual)


def outcome(data):
    """Return what became of a model: "works", "refused", or the class of the error that tracing it raises.

    Raises:
      Exception: whatever is not allowed.
    """
    with limited(SECONDS):
        try:
            model = jaxdml.onnx.load(data)
        except jaxdml.onnx.UnsupportedModelError as error:
            return _said(error, "refused")
        try:
            str(model)
            inputs = [_declared(value, value.name in model.static_inputs) for value in model.inputs]
            if model.static_inputs and all(isinstance(value, np.ndarray) or value.size <= LARGEST for value in inputs):
                model(*(np.zeros(value.shape, value.dtype) for value in inputs), key=jax.random.key(0))
                return "works"
            known = {place: value for place, value in enumerate(inputs) if isinstance(value, np.ndarray)}
            traced = [value for value in inputs if not isinstance(value, np.ndarray)]

            def apply(params, given):
                rest = iter(given)
                inside = (known[i] if i in known else next(rest) for i in range(len(inputs)))
                return model.apply(params, *inside, key=jax.random.key(0))

            jax.eval_shape(apply, dict(model.params), traced)
        except ALLOWED as error:
            return _said(error, type(error).__name__)
        return "works"


def _said(error, what):
    if not str(error) or (what == "refused" and not str(error).startswith("jaxdml.onnx.load: ")):
        raise RuntimeError("an error without its text") from error
    return what


def _declared(value, static):
    shape = tuple(size if isinstance(size, int) else 2 for size in value.shape or ())
    dtype = jax.dtypes.canonicalize_dtype(value.dtype or np.float32)
    if static and np.prod([float(size) for size in shape]) <= LARGEST:
        return np.zeros(shape, dtype)
    return jax.ShapeDtypeStruct(shape, dtype)


def _with_little_memory():
    """Have what takes a lot of memory fail instead of the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def main(count, first=0, *kinds):
    """Try some mutations of each kind, or of some, print what became of them, and return how many are bugs."""
    _with_little_memory()
    originals = {name: data for name, data in models().items() if name in (kinds or models())}
    for name, data in originals.items():
        print(f"{name}: {outcome(data)}")
    found, bugs, slow = Counter(), Counter(), []
    for number in range(first, first + count):
        name = list(originals)[number % len(originals)]
        start = time.perf_counter()
        try:
            found[outcome(mutated(originals[name], number))] += 1
        except (Exception, Hang) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}: {str(error)[:150]}"
            bugs[key] += 1
            print(f"BUG {number} ({name}): {key}", flush=True)
        slow.append((time.perf_counter() - start, number, name))
    print(dict(found))
    print(f"slowest: {[f'{seconds:.1f} s: {number} ({name})' for seconds, number, name in sorted(slow)[-3:]]}")
    print(f"{bugs.total()} bugs in {count} mutations")
    for key, times in bugs.most_common():
        print(f"  {times} x {key}")
    return bugs.total()


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:3] or ["200"]), *sys.argv[3:]) else 0)
