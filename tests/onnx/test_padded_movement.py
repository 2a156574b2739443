"""What moves elements of arrays that are longer than what counts: parts, repetitions, places."""

import numpy as np

from tests.kit import quick
from tests.onnx.padded import check, parsed, together

pytestmark = quick

CONSTANTS = {
    **{f"i{number}": np.array([number]) for number in (0, 1, 2, 3)},
    "n1": np.array(1),
    "twice": np.array([2, 1]),
    "thrice": np.array([1, 3]),
}
TYPES = "float[N, M] x, float[N] f"
X = [(2, 4), (4, 2), (6, 5), (8, 7)]


def draw(n, m):
    rng = np.random.default_rng(n)
    x, f = rng.integers(-4, 5, (n, m)), rng.integers(-4, 5, n)
    return {"x": x.astype(np.float32), "f": f.astype(np.float32)}


def check_of(bodies, **options):
    body, outputs = together(bodies.values())
    shape = "n = Shape<end=1>(x) m = Shape<start=1>(x)"
    proto = parsed(f"g ({TYPES}) => ({outputs}) {{ {shape} {body} }}", CONSTANTS, **options)
    check(proto, [draw(*sizes) for sizes in X], {"N": 8, "M": 7})


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
