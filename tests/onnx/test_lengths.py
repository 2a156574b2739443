"""Lengths: what is said of them holds for every number that they may be."""

import itertools
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import helper

from jaxdml.onnx import load
from jaxdml.onnx.values import tabled
from jaxdml.onnx.values.bounded import Bounded, Identical
from jaxdml.onnx.values.kinds import channels_first
from jaxdml.onnx.values.lengths import (
    Length,
    LengthError,
    as_traced,
    atom,
    greatest,
    least,
    limits,
    quotient,
    same,
    true,
)
from tests.kit import quick

pytestmark = quick

OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": least,
    "max": greatest,
}
COMPARISONS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


@cache
def lengths(n, m):
    """Return lengths of these numbers, and numbers."""
    first, second = atom("n", "n", np.int32(n), 5), atom("m", "m", np.int32(m), 3)
    return {
        "n": first,
        "m": second,
        "2n": first * 2,
        "n+1": first + 1,
        "n-2": first - 2,
        "2n+1": first * 2 + 1,
        "(n+3)//2": (first + 3) // 2,
        "(1-n)//4": (1 - first) // 4,
        "0": 0,
        "2": 2,
        "9": np.int64(9),
    }


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_number_within_its_limits_is_computed(operation):
    function = OPERATIONS[operation]
    if operation in ("min", "max"):
        plain = min if operation == "min" else max
    for names in itertools.product(lengths(0, 0), repeat=2):
        for n, m in itertools.product((0, 1, 5), (0, 3)):
            given = lengths(n, m)
            a, b = (given[name] for name in names)
            if not (isinstance(a, Length) or isinstance(b, Length)):
                continue
            try:
                found = function(a, b)
            except LengthError:
                assert operation in ("*", "//", "%")
                continue
            wanted = (plain if operation in ("min", "max") else function)(int(true(a)), int(true(b)))
            assert int(true(found)) == wanted
            assert limits(found).low <= wanted <= limits(found).bound


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_what_is_decided_holds_for_every_number(comparison):
    function = COMPARISONS[comparison]
    decided = 0
    for names in itertools.product(lengths(0, 0), repeat=2):
        answers = set()
        for n, m in itertools.product(range(6), range(4)):
            a, b = (lengths(n, m)[name] for name in names)
            try:
                found = function(a, b)
            except LengthError:
                continue
            assert found == function(int(true(a)), int(true(b)))
            answers.add(found)
            decided += 1
        assert len(answers) < 2
    assert decided


def test_products_cancel():
    n, m = (lengths(4, 2)[name] for name in ("n", "m"))
    assert same(quotient(n * m * 6, m * 2), n * 3)
    assert same(quotient(n * 3, 3), n)
    assert quotient(n * 3, 2) is None
    assert quotient(n, m) is None
    assert same(n * 2 - n, n)
    assert n - n == 0
    assert same(n + n, 2 * n)


def test_sums_and_products_have_one_form():
    n, m = (lengths(4, 2)[name] for name in ("n", "m"))
    assert same((n + m) - n, m)
    assert same(m + n - 1, n + m + -1)
    assert same((n + 1) * (m + 2), n * m + 2 * n + m + 2)
    assert same(quotient((n + m) * 6, n + m), 6)
    assert same(quotient((n + 1) * (n + m) * m, m + n), m + n * m)
    assert quotient(n * m + 1, n) is None
    assert same((4 * n + 2 * m + 3) // 2, 2 * n + m + 1)
    assert same((2 * n + m) // 2, n + m // 2)
    assert same(least(n + 1, n), n)
    assert same(greatest(n, n - 1), n)
    assert same(-(n - 3), 3 - n)
    assert n + 1 > n
    assert not n + 1 < n
    assert n + 2 != n
    assert [str(x) for x in (n + 1, 2 * n - m, -n, 3 - n * m)] == ["n + 1", "-m + 2 * n", "-n", "-m * n + 3"]


def test_quotients_have_one_form():
    n = lengths(4, 2)["n"]
    pairs = [
        ((n - 1) // 2 + 1, (n + 1) // 2),
        (((n + 1) // 2 + 1) // 2, (n + 3) // 4),
        ((n * 2 + 3) // 4, (n + 1) // 2),
        ((n // 2 * 2 + 5) // 4, (n + 4) // 4),
        ((n + 4) // 2 - n // 2, 2),
        ((n * 3 + 1) // 2, n + (n + 1) // 2),
        ((n * 4 + 7) % 2, 1),
        (n + (32 - n % 32) % 32, (n + 31) // 32 * 32),
    ]
    for found, wanted in pairs:
        assert same(found, wanted)
    assert [str(x) for x in (n // 2, (n + 1) // 2, -n // 3)] == ["(n // 2)", "((n + 1) // 2)", "-((n + 2) // 3)"]


def test_what_may_be_negative_is_no_factor():
    n, m = (lengths(4, 2)[name] for name in ("n", "m"))
    with pytest.raises(LengthError, match=r"min\(n - 9, m - 9\) \* n"):
        least(n - 9, m - 9) * n


def test_a_length_is_no_number():
    n = lengths(4, 2)["n"]
    for use in (int, float, range, [1].__getitem__, bool, lambda length: length * 1.5):
        with pytest.raises(LengthError):
            use(n)
    assert n != "n"
    assert {n: 1}[atom("n", "another name", np.int32(4), 5)] == 1
    assert str(n * n * 2) == "2 * n * n"
    assert bool(n + 1)


def test_what_follows_from_a_length_is_computed_for_all_that_it_may_be():
    def of(function, *sizes):
        return tabled.computed(function, [np.array(size, object) for size in sizes]).item()

    for n in range(2, 10):
        length = atom("n", "n", np.int32(n), 9, 2)
        half, rest = length // 2, of(np.mod, length, 4)
        assert int(true(of(lambda a, b, c: a * b + c, half, length, rest))) == n // 2 * n + n % 4
        assert limits(rest) == (0, 3)
        assert same(of(lambda a: 3 * a - 1, length), 3 * length - 1)
        root = of(lambda a: np.sqrt(a.astype(np.float32)), half)
        np.testing.assert_allclose(true(root), np.sqrt(np.float32(n // 2)), 1e-6)
        assert of(np.less, length, 10) is True
        with pytest.raises(LengthError, match="what follows from"):
            bool(root)
    other = atom("m", "m", np.int32(2), 2**21)
    for sizes, message in (((length, other), "from another length"), ((other,), "may be any of more than")):
        with pytest.raises(LengthError, match=message):
            of(lambda *numbers: sum(numbers) % 7, *sizes)


def test_sizes_become_numbers_that_are_traced():
    found = as_traced(np.array([[lengths(4, 2)["n"], 7]], object))
    np.testing.assert_array_equal(found, [[4, 7]])


def test_a_key_is_equal_for_one_value_only():
    value = np.zeros(2)
    assert {Identical(value): 1}[Identical(value)] == 1
    assert Identical(value) != Identical(np.zeros(2))
    assert Identical(value) != value.shape


def test_an_array_of_which_only_a_part_counts_is_not_read_whole():
    size = atom("k", "a length", np.int32(2), 4)
    with pytest.raises(LengthError, match=r"an array of sizes \[a length, 3\]"):
        channels_first(Bounded(np.zeros((4, 3), np.float32), (size, 3)))


def test_slices_of_a_length_near_the_ends_of_int64():
    low, high = -(2**63), 2**63 - 1
    places = (low, -2, 0, 1, high)
    chosen = [(a, b, c) for a in places for b in places for c in (low, -1, 2, high)]
    nodes = [
        helper.make_node("NonZero", ["x"], ["at"]),
        helper.make_node("Constant", [], ["axis"], value_ints=[1]),
    ]
    for place, numbers in enumerate(chosen):
        names = [f"{name}{place}" for name in "abc"]
        nodes += [
            helper.make_node("Constant", [], [name], value_ints=[n]) for name, n in zip(names, numbers, strict=True)
        ]
        nodes.append(helper.make_node("Slice", ["at", *names[:2], "axis", names[2]], [f"y{place}"]))
    outputs = [onnx.ValueInfoProto(name=f"y{place}") for place in range(len(chosen))]
    typed = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [6])]
    graph = helper.make_graph(nodes, "g", typed, outputs)
    model = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    for x in (np.float32([1, 0, 2, 3, 0, 4]), np.float32([0, 0, 0, 0, 0, 5]), np.zeros(6, np.float32)):
        (at,) = np.nonzero(x)
        for (first, end, step), found in zip(chosen, model(x, bounds={"at": 6}), strict=True):
            wanted = at[slice(max(first, -len(at)) if step < 0 else first, end, step)]
            np.testing.assert_array_equal(found, wanted[None], err_msg=f"{at}, {first}:{end}:{step}")
