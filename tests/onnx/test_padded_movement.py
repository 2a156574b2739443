"""What moves elements of arrays that are longer than what counts: parts, repetitions, places."""

import numpy as np

from tests.kit import quick
from tests.onnx.padded import check, parsed, together

pytestmark = quick

CONSTANTS = {
    **{f"i{number}": np.array([number]) for number in (0, 1, 2, 3)},
    "n0": np.array(0),
    "n1": np.array(1),
    "e1": np.array(-1),
    "on_off": np.float32([0, 2]),
    "low": np.float32(-np.inf),
    "fine": np.float32(0.1),
    "coarse": np.float32(0.004),
    "zero": np.uint8(3),
    "half": np.float32(0.5),
    "one": np.float32(1),
    "back": np.float32(-1.5),
    "part": np.float32(0.3),
    "twice": np.array([2, 1]),
    "thrice": np.array([1, 3]),
}
TYPES = "float[N, M] x, float[N] f"
X = [(2, 4), (4, 2), (6, 5), (8, 7)]


def draw(n, m):
    rng = np.random.default_rng(n)
    x, f = rng.integers(-4, 5, (n, m)), rng.integers(-4, 5, n)
    return {"x": x.astype(np.float32), "f": f.astype(np.float32)}


def check_of(bodies, opset=18, **expected):
    body, outputs = together(bodies.values())
    shape = "n = Shape<end=1>(x) m = Shape<start=1>(x) s = Squeeze(n)"
    proto = parsed(f"g ({TYPES}) => ({outputs}) {{ {shape} {body} }}", CONSTANTS, opset=opset)
    check(proto, [draw(*sizes) for sizes in X], {"N": 8, "M": 7}, **expected)


PARTS = {
    "halves": "y, z = Split<num_outputs=2>(x)",
    "thirds, the last one smaller": "a = Concat<axis=0>(x, x) y, z, w = Split<num_outputs=3>(a)",
    "halves of what has two": "a = Concat<axis=1>(x, x) y, z = Split<axis=1, num_outputs=2>(a)",
    "by lengths": "a = Concat<axis=0>(x, x) l = Concat<axis=0>(n, n) y, z = Split(a, l)",
    "by a length and the rest": "b = Sub(n, i1) l = Concat<axis=0>(i1, b) y, z = Split(x, l)",
    "off the length": "a = Unsqueeze(x, i1) b = Concat<axis=1>(a, a) y, z = Split<axis=1, num_outputs=2>(b)",
}
OLD_PARTS = {
    "halves": "y, z = Split(x)",
    "by numbers": "l = Sub(n, i1) k = Concat<axis=0>(i1, l) y, z = Split(x, k)",
}
TILES = {
    "twice": "y = Tile(x, twice)",
    "columns": "y = Tile(x, thrice)",
    "as often as a length": "a = Unsqueeze(f, i1) l = Concat<axis=0>(i1, m) y = Tile(a, l)",
    "a length by a length": "y = Tile(f, m)",
    "never": "l = Concat<axis=0>(i1, i1) y = Tile(x, l)",
}


def test_parts_begin_where_those_before_truly_end():
    check_of(PARTS)
    check_of(OLD_PARTS, opset=17)


def test_what_counts_is_repeated():
    check_of(TILES)


PLACES = {
    "a triangle": "y = Trilu(x, n1) z = Trilu<upper=0>(x)",
    "a diagonal": "y = EyeLike<k=1>(x)",
    "one of as many as a length": "a = Range(n0, s, n1) b = Sub(a, n1) y = OneHot(b, n, on_off) c = Sub(a, s)"
    " z = OneHot<axis=0>(c, n, on_off)",
    "numbers from one length to another": "l = Add(s, s) y = Range(s, l, n1)",
    "numbers in steps": "b = Neg(s) y = Range(n0, s, n2) n2 = Add(n1, n1) z = Range(s, b, e2) e2 = Add(e1, e1)",
    "floats up to a length": "b = Cast<to=1>(s) y = Range(half, b, one)",
    "floats in steps": "b = Cast<to=1>(s) c = Neg(b) y = Range(half, c, back) z = Range(half, b, part)",
    "the last of equal elements": "a = Mul(f, f) b = Log(a) c = Min(b, low) y = ArgMax<axis=0, select_last_index=1>(c)"
    " d = ArgMin<axis=0, select_last_index=1>(x) z = Identity(d)",
    "sums from the end": "y = CumSum<reverse=1>(x, n0) z = CumSum<exclusive=1>(x, n0)",
    "sums from either end": "y = CumSum<reverse=1, exclusive=1>(x, n1)",
    "a normal in integers": "q = QuantizeLinear(x, fine, zero) d = DequantizeLinear(q, fine, zero)"
    " a = Softmax<axis=0>(d) y = QuantizeLinear(a, coarse, zero) b = LogSoftmax<axis=0>(d) z = Identity(b)",
}
SEQUENCES = {
    "one of several": "a = SequenceConstruct(x, x) b = Neg(x) c = SequenceInsert(a, b, n1) y = SequenceAt(c, n1)"
    " z = SequenceLength(c)",
    "the last one": "b = Neg(x) a = SequenceConstruct(x, b) c = SequenceInsert(a, x) d = SequenceErase(c)"
    " y = SequenceAt(d, e1)",
    "together": "b = Neg(x) a = SequenceConstruct(x, b) y = ConcatFromSequence<axis=0>(a)"
    " z = ConcatFromSequence<axis=1, new_axis=1>(a)",
    "parts": "b = Unsqueeze(x, i1) c = Concat<axis=1>(b, b) a = SplitToSequence<axis=1, keepdims=0>(c)"
    " y = SequenceAt(a, n1) d = SplitToSequence<axis=1>(c, n1) z = SequenceAt(d, n0)",
}


def test_places_and_orders_are_those_of_what_counts():
    check_of(PLACES)


def test_sequences_have_arrays_with_lengths():
    check_of(SEQUENCES)


def test_how_many_parts_there_are_must_be_known():
    check_of({"": "a = SplitToSequence<axis=0>(x) y = SequenceAt(a, n1)"}, refuses="how many parts")
