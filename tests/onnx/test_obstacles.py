"""One trace finds which lengths have to be numbers, and as few of them as nodes accept."""

import numpy as np
import onnx.parser
import pytest

import jaxdml.onnx
from jaxdml.onnx._errors import NotKnownError
from jaxdml.onnx._graph import Node
from jaxdml.onnx.values import obstacles
from jaxdml.onnx.values.bounded import Bounded
from jaxdml.onnx.values.held import Free
from jaxdml.onnx.values.lengths import Length, LengthError, atom, least, same
from jaxdml.onnx.values.tabled import Tabled
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime, close
from tests.onnx.padded import without_rule

pytestmark = quick

NODE = Node("Conv", "", 17, "c", (), ())
B, N, M = (Free(name) for name in "BNM")
LENGTHS = {key: atom(key, key.name, 3, bound, 2) for key, bound in ((B, 4), (N, 8), (M, 16))}


def refusing(*keys):
    """Return a computation that refuses arrays with lengths of these keys, and numbers that follow from them."""

    def compute(operands):
        for operand in operands:
            sizes = operand.sizes if isinstance(operand, Bounded) else operand.flat if operand is not None else ()
            if any(obstacles._mentions(each.key, key) for size in sizes for each in atoms(size) for key in keys):
                raise LengthError("it")
        return operands

    return compute


def atoms(size):
    if isinstance(size, Tabled):
        return [size.of]
    return [each for _, product in size.terms for each in product] if isinstance(size, Length) else []


def found(operands, compute):
    """Return why which lengths have to be numbers, and the results."""
    results = None
    try:
        with obstacles.watched([B, N, M], True):
            results = obstacles.passed(NODE, operands, compute)
    except obstacles.InTheWayError as error:
        return error.why, results
    return {}, results


def test_as_few_lengths_as_possible_are_numbers():
    image = Bounded(np.zeros((4, 3, 8, 16)), (LENGTHS[B], 3, LENGTHS[N], LENGTHS[M]))
    for keys in ((), (B,), (N, M), (B, N, M)):
        why, results = found([image, None], refusing(*keys))
        assert why == dict.fromkeys(keys, "Conv 'c' needs to know it")
        (x, none) = results
        assert none is None
        sizes = x.sizes if isinstance(x, Bounded) else x.shape
        for size, key, bound in zip(sizes, (B, None, N, M), image.shape, strict=True):
            assert (size == bound) if key in (*keys, None) else same(size, LENGTHS[key])


def test_lengths_that_follow_are_numbers_too():
    half, shorter, joined = LENGTHS[N] // 2, LENGTHS[N] - LENGTHS[B], LENGTHS[N] * LENGTHS[M]
    of_both = least(LENGTHS[N], LENGTHS[M])
    sizes = (half, shorter, joined, of_both)
    arrays = [Bounded(np.zeros((each.bound, 2)), (each, 2)) for each in sizes]
    why, results = found(arrays, refusing(N))
    assert list(why) == [N]
    assert not isinstance(results[0], Bounded)
    assert [x.sizes[0].bound for x in results[1:3]] == [shorter.bound, joined.bound]
    assert not isinstance(results[3], Bounded)
    assert [str(x.sizes[0]) for x in results[1:3]] == ["-B + 8", "8 * M"]


def test_sizes_on_the_host_are_numbers_too():
    scale = Tabled(LENGTHS[N].terms[0][1][0], np.arange(2, 9) / 4)
    sizes = np.array([1, LENGTHS[N], LENGTHS[B]], object)
    scales = np.empty(2, object)
    scales[:] = [np.float64(1), scale]
    why, (a, b, c) = found([sizes, scales, np.array([5])], refusing(N))
    assert list(why) == [N]
    assert (a[0], a[1]) == (1, 8)
    assert same(a[2], LENGTHS[B])
    np.testing.assert_array_equal(b, [1.0, 2.0])
    assert c == [5]
    why, (a, b, c) = found([sizes, scales, np.array([5])], refusing(B))
    assert list(why) == [B]
    assert b[1] is scale
    assert same(a[1], LENGTHS[N])


def test_what_is_refused_in_any_case_blames_all_of_the_operands():
    def never(operands):
        raise NotKnownError("input 1 of it is traced.", "It must be known.")

    why, _ = found([Bounded(np.zeros((4, 8)), (LENGTHS[B], LENGTHS[N]))], never)
    assert why == dict.fromkeys((B, N), "input 1 of it is traced")
    why, _ = found([np.zeros(3)], never)
    assert why == dict.fromkeys((B, N, M), "input 1 of it is traced")
    with pytest.raises(NotKnownError):
        obstacles.passed(NODE, [Bounded(np.zeros(4), (LENGTHS[B],))], never)
    with pytest.raises(NotKnownError), obstacles.watched([], False):
        obstacles.passed(NODE, [np.zeros(3)], never)


def parsed(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')


@without_rule("LpNormalization")
def test_dimensions_that_vary_together_are_found_together():
    proto = parsed("g (float[B, N] x, float[B, M] z) => (y, w) { y = LpNormalization(x) w = Softmax(z) }")
    model = jaxdml.onnx.load(proto)
    rng = np.random.default_rng(0)
    for rows, n, m in ((2, 5, 3), (3, 6, 4), (4, 7, 6), (4, 7, 7)):
        given = rng.normal(size=(rows, n)).astype(np.float32), rng.normal(size=(rows, m)).astype(np.float32)
        close(model(*given), by_onnxruntime(proto, *given))
    assert set(model._calls.programs.in_the_way) == {B, N}


def test_a_number_of_two_lengths_that_must_be_known_is_a_number():
    proto = parsed("""g (float[N] x, float[M] z) => (y) {
        n = Shape(x)
        m = Shape(z)
        a = Cast<to = 1>(n)
        b = Cast<to = 1>(m)
        c = Mul(a, b)
        d = Sqrt(c)
        times = Cast<to = 7>(d)
        y = Tile(x, times)
    }""")
    model = jaxdml.onnx.load(proto)
    for n, m in ((4, 4), (4, 9), (9, 16), (3, 3)):
        given = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
        close(model(*given), by_onnxruntime(proto, *given))
    assert N in model._calls.programs.in_the_way
