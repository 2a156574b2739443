"""What a model computes of lengths of its inputs: sizes, floats and conditions, the same as where they are known."""

import numpy as np

from tests.kit import quick
from tests.onnx.padded import check, parsed, together

pytestmark = quick

CONSTANTS = {
    **{f"i{number}": np.array([number]) for number in (0, 1, 2, 3, 4, 16, 100)},
    **{f"e{number}": np.array([-number]) for number in (1, 2)},
    "fifteen": np.float32([1.5]),
    "third": np.float32([0.1]),
    "three": np.float32([3]),
    "half": np.float32([0.5]),
}

BODIES = {
    "a scaled size": "k = Cast<to=1>(n) a = Mul(k, fifteen) b = Floor(a) c = Cast<to=7>(b) y = Expand(i2, c)",
    "a size that is divided": "k = Cast<to=1>(n) a = Div(k, third) b = Ceil(a) y = Cast<to=7>(b)",
    "a ratio": "k = Cast<to=1>(n) a = Div(three, k) y = Mul(x, a)",
    "what is missing to 16": "a = Mod(n, i16) b = Sub(i16, a) c = Mod(b, i16) y = Expand(i2, c)",
    "a quotient below 0": "a = Sub(n, i4) b = Div(a, i3) y = Add(b, i2)",
    "a quotient of sizes": "a = Add(n, i1) b = Div(i100, a) y = Expand(i2, b)",
    "a condition": "c = Equal(n, i1) y = Where(c, i100, n)",
    "a condition that is negated": "a = Greater(n, i3) b = Not(a) d = Less(n, i16) y = And(b, d)",
    "a size by a condition": "c = Greater(n, i3) a = Where(c, n, i3) y = Expand(i2, a)",
    "a branch": "c = Greater(n, i3) y = If(c) <then_branch = t () => (float[p, q] a) { a = Neg(x) },"
    " else_branch = e () => (float[p, q] b) { b = Identity(x) }>",
    "limits": "k = Cast<to=1>(n) l = Squeeze(three, i0) a = Clip(k, , l) b = Cast<to=7>(a) y = Expand(i2, b)",
    "all sizes": "s = Shape(x) k = Cast<to=1>(s) a = Mul(k, half) b = Sqrt(k) y = Concat<axis=0>(a, b, k)",
    "a float of two sizes": "s = Shape(x) k = Cast<to=1>(s) y = ReduceProd(k)",
    "sizes of two lengths": "m = Shape<start=1>(x) a = Add(n, m) b = Mul(n, m) c = Div(b, a) d = Mod(a, i2)"
    " y = Concat<axis=0>(a, b, c, d)",
    "a position from the end": "a = Neg(n) b = Gather(x, a) y = Slice(x, e2, i100)",
    "no position of the rest": "a = Sub(n, i1) b = Slice(x, a, n) c = Shape(b) d = ConstantOfShape(c) y = Add(b, d)",
}
X = [np.random.default_rng(n).normal(size=(n, m)).astype(np.float32) for n, m in ((2, 4), (3, 2), (4, 3), (7, 5))]


def test_what_follows_from_a_length_does_not_depend_on_the_padding():
    body, outputs = together(BODIES.values())
    proto = parsed(f"g (float[N, M] x) => ({outputs}) {{ n = Shape<end=1>(x) {body} }}", CONSTANTS)
    check(proto, [{"x": x} for x in X], {"N": 7, "M": 5})


def test_numbers_in_steps_of_a_length_are_refused():
    text = "g (float[N] x) => (y) { n = Shape(x) s = Squeeze(n) z = Squeeze(i0) e = Squeeze(i100) y = Range(z, e, s) }"
    check(parsed(text, CONSTANTS), [{"x": X[0][0][:n]} for n in (2, 3)], {"N": 4}, refuses="Range")
