"""Operators that move, fill, count and reduce, against the pages' examples, NumPy and onnxruntime."""

from itertools import product

import jax
import numpy as np
import pytest

from tests.directml.calls import Call, check, compare, onnx, wide
from tests.kit import quick

pytestmark = quick

RNG = np.random.default_rng(0)
DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def drawn(dtype, *sizes):
    """Draw from all bits, so that what moves is seen to move as it is."""
    dtype = np.dtype(dtype)
    return RNG.integers(0, 256, (*sizes, dtype.itemsize), np.uint8).view(dtype)[..., 0]


def sliced(x, offsets, windows, strides, sizes):
    """Take elements as the page defines it, place by place."""
    result = np.empty(sizes, x.dtype)
    for place in np.ndindex(*sizes):
        first = [o if s > 0 else o + w - 1 for o, w, s in zip(offsets, windows, strides, strict=True)]
        result[place] = x[tuple(f + s * at for f, s, at in zip(first, strides, place, strict=True))]
    return result


def scattered(gradient, shape, offsets, windows, strides):
    result = np.zeros(shape, gradient.dtype)
    places = sliced(np.arange(result.size).reshape(shape), offsets, windows, strides, gradient.shape)
    result.reshape(-1)[places] = gradient
    return result


WINDOWS = {"input_window_offsets": (0, 1, 2), "input_window_sizes": (2, 3, 5), "input_window_strides": (1, -2, 3)}
PADS = {"start_padding": (1, 0, 2), "end_padding": (0, 3, 1)}
MODES = {0: "constant", 1: "edge", 2: "reflect", 3: "symmetric", 4: "wrap"}


def moved(dtype):
    """Return calls that move elements of a type, each with what NumPy makes of it."""
    dtype = np.dtype(dtype)
    x, image, few = drawn(dtype, 2, 4, 7), drawn(dtype, 2, 8, 4, 6), drawn(dtype, 2, 1)
    calls = [
        Call("SLICE", [x], [x[0:2:1, 1:4:2, 0:7:3]], {"offsets": (0, 1, 0), "sizes": (2, 2, 3), "strides": (1, 2, 3)}),
        Call("SPLIT", [x], [tuple(np.split(x, [1, 5], 2))], {"axis": 2}),
        Call("JOIN", [tuple(np.split(x, [1, 3], 1))], [x], {"axis": 1}),
        Call("PADDING", [x], [np.pad(x, [(1, 0), (0, 3), (2, 1)])], {"padding_mode": 0, "padding_value": 0.0, **PADS}),
        Call("TILE", [x], [np.tile(x, (1, 3, 2))], {"repeats": (1, 3, 2)}),
    ]
    for sizes in ((2, 2, 2), (1, 1, 1)):
        part = sliced(x, *WINDOWS.values(), sizes)
        calls.append(Call("SLICE1", [x], [part], WINDOWS))
        calls.append(Call("SLICE_GRAD", [part], [scattered(part, x.shape, *WINDOWS.values())], WINDOWS))
    for mode, name in MODES.items():
        kind = {"padding_value_data_type": ..., "padding_value": x[0, 0, 0]}
        options = {"constant_values": x[0, 0, 0]} if mode == 0 else {}
        padded = np.pad(few, [(0, 3), (2, 1)], name, **options)
        calls.append(
            Call(
                "PADDING1",
                [few],
                [padded],
                {"padding_mode": mode, **kind, "start_padding": (0, 2), "end_padding": (3, 1)},
            )
        )
    for order, kind in enumerate(("DCR", "CRD")):
        deep = onnx(
            "DepthToSpace", np.arange(image.size, dtype=np.float32).reshape(image.shape), blocksize=2, mode=kind
        )
        places = deep[0].astype(int)
        fields = {"block_size": 2, "order": order}
        calls.append(Call("DEPTH_TO_SPACE1", [image], [image.reshape(-1)[places]], fields))
        calls.append(Call("SPACE_TO_DEPTH1", [image.reshape(-1)[places]], [image], fields))
        if order == 0:
            calls.append(Call("DEPTH_TO_SPACE", [image], [image.reshape(-1)[places]], {"block_size": 2}))
            calls.append(Call("SPACE_TO_DEPTH", [image.reshape(-1)[places]], [image], {"block_size": 2}))
    lengths = np.array([0, 1, 5, 9], np.uint64 if dtype.itemsize == 8 else np.uint32).reshape(1, 4, 1)
    reversed_ = x.copy()
    reversed_[:, 2, :5], reversed_[:, 3] = x[:, 2, 4::-1], x[:, 3, ::-1]
    calls.append(Call("REVERSE_SUBSEQUENCES", [x, np.broadcast_to(lengths, (2, 4, 1))], [reversed_], {"axis": 2}))
    return calls


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_moved_as_they_are(dtype):
    with wide(dtype):
        check([call for call in moved(dtype) if dtype != "float64" or call.name != "TILE"])


def filled(dtype):
    """Return calls that make elements of a type."""
    dtype = np.dtype(dtype)
    number, step = np.array([7, -2]).astype(dtype)
    value = {"value_data_type": ..., "value": number}
    x = drawn(dtype, 2, 3, 5)
    below = np.tri(3, 5, 1, bool)  # Up to the first diagonal above the middle.
    wanted = np.arange(0, -600, -2).astype(dtype) + number
    calls = [
        Call("FILL_VALUE_CONSTANT", [], [np.full((2, 3), number)], value),
        Call(
            "DIAGONAL_MATRIX", [], [np.stack([np.eye(3, 5, -1) * 2.5] * 2).astype(dtype)], {"offset": -1, "value": 2.5}
        ),
        Call(
            "DIAGONAL_MATRIX1",
            [None],
            [np.eye(3, 5, 2, dtype) * number],
            value | {"diagonal_fill_begin": 2, "diagonal_fill_end": 3},
        ),
    ]
    if dtype != np.float64:
        sequence = {"value_data_type": ..., "value_start": number, "value_delta": step}
        calls.append(Call("FILL_VALUE_SEQUENCE", [], [wanted.reshape(3, 100)], sequence))
    for begin, end, chosen in (
        (-(2**31), 2, below),
        (2, 2**31 - 1, ~below),
        (2, 2, ~below & below),
        (2, -(2**31), ~below),
    ):
        fields = value | {"diagonal_fill_begin": begin, "diagonal_fill_end": end}
        if begin < end or begin == 2 == end:
            calls.append(Call("DIAGONAL_MATRIX1", [x], [np.where(chosen, number, x)], fields))
    outside = np.tri(3, 5, -2, bool) | ~np.tri(3, 5, 0, bool)
    calls.append(
        Call(
            "DIAGONAL_MATRIX1",
            [x],
            [np.where(outside, number, x)],
            value | {"diagonal_fill_begin": 1, "diagonal_fill_end": -1},
        )
    )
    return calls


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_made(dtype):
    with wide(dtype):
        check(filled(dtype))


def test_sequences_of_halves_are_rounded_once():
    wanted = np.arange(3000, dtype=np.float32).astype(np.float16)
    fields = {"value_data_type": ..., "value_start": np.float16(0), "value_delta": np.float16(1)}
    check([Call("FILL_VALUE_SEQUENCE", [], [wanted], fields)])


KNOWN_ANSWERS = [
    ([0] * 6, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([2**32 - 1] * 6, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
"""Of Philox 4x32-10, by its authors."""


def philox(counter, key):
    """Compute a block as the paper defines it, with integers of any length."""
    words = [counter >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
    for _ in range(10):
        one, other = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [other >> 32 ^ words[1] ^ key[0], other & 0xFFFFFFFF, one >> 32 ^ words[3] ^ key[1], one & 0xFFFFFFFF]
        key = (key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32
    return words


def state_of(counter, key):
    words = [counter >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
    return np.array([*words, *key], np.uint32).reshape(1, 1, 1, 6)


def random_bits():
    """Return calls whose bits are those that the authors publish, and those of the definition."""
    calls = []
    for state, words in KNOWN_ANSWERS:
        assert philox(sum(word << 32 * place for place, word in enumerate(state[:4])), state[4:]) == words
        calls.append(Call("RANDOM_GENERATOR", [np.uint32(state)], [np.uint32(words), None], {"type": 0}))
    for counter, n in ((0, 1), (2**32 - 2, 21), (2**64 - 1, 8), (2**128 - 3, 23)):
        blocks = -(-n // 4)
        words = [word for block in range(blocks) for word in philox((counter + block) % 2**128, (7, 2**32 - 1))]
        states = [state_of(start % 2**128, (7, 2**32 - 1)) for start in (counter, counter + blocks)]
        calls.append(Call("RANDOM_GENERATOR", states[:1], [np.array(words[:n], np.uint32), states[1]], {"type": 0}))
    return calls


def coordinates(x, columns):
    """Return the count and the coordinates of what is not 0, with rows of 0 for all else."""
    found = onnx("NonZero", x.astype(np.float32))[0].T[:, x.ndim - columns :]
    rows = np.zeros((x.size, columns), np.uint32)
    rows[: len(found)] = found
    return np.full((1,) * x.ndim, len(found), np.uint32), rows.reshape((1,) * (x.ndim - 2) + rows.shape)


def nonzeros():
    """Return the call of the page, and calls judged by onnxruntime."""
    page = np.float32([[1, 0, 0, 2], [-0.0, 3.5, 0, -5.2]]).reshape(1, 1, 2, 4)
    rows = np.zeros((1, 1, 8, 3), np.uint32)
    rows[0, 0, :4] = [[0, 0, 0], [0, 0, 3], [0, 1, 1], [0, 1, 3]]
    calls = [Call("NONZERO_COORDINATES", [page], [np.full((1, 1, 1, 1), 4, np.uint32), rows])]
    for dtype, sizes, columns in (
        ("float32", (1, 3, 2, 4), 4), ("int32", (1, 3, 2, 4), 3), ("uint8", (1, 1, 5, 2), 2), ("float16", (5, 7), 2),
        ("float32", (1, 1, 1, 1), 1),
    ):  # fmt: skip
        x = RNG.integers(0, 2, sizes).astype(dtype)
        calls.append(Call("NONZERO_COORDINATES", [x], coordinates(x, columns)))
    nan = np.float32([[np.nan, 0]])
    calls.append(Call("NONZERO_COORDINATES", [nan], [np.uint32([1]), np.uint32([[0, 0], [0, 0]])]))
    return calls


def one_hots():
    """Return the calls of the page, and one judged by onnxruntime."""

    def call(indices, values, wanted, axis, dtype=np.uint32):
        return Call("ONE_HOT", [np.array(indices, dtype), np.float32(values)], [np.float32(wanted)], {"axis": axis})

    across = [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    indices = RNG.integers(-9, 9, (2, 1, 3)).astype(np.int32)
    judged = onnx("OneHot", indices[:, 0], np.int32(5), np.float16([3, 7]).astype(np.float32), axis=1)[0]
    return [
        call([[[[0], [3], [2]]]], [[[[0, 1]]]], [[across]], 3),
        call([[[[0, 2, 1, 0]]]], [[[[0, 1]]]], [[[[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]]], 2),
        call([[[[0], [3], [2]]]], [[[[4], [2], [9]]]], [[[[2, 4, 4, 4], [4, 4, 4, 2], [4, 4, 2, 4]]]], 3),
        call([[-3], [100], [3]], [[0, 1]], [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]], 1, np.int32),
        call([[4], [2**32 - 1]], [[0, 1]], [[0, 0, 0, 0], [0, 0, 0, 0]], 1),
        Call("ONE_HOT", [indices, np.float16([3, 7]).reshape(1, 1, 2)], [judged.astype(np.float16)], {"axis": 1}),
    ]


def cumulative():
    """Return the calls of the page, calls judged by onnxruntime, and a long sum of halves."""
    x = np.float32([2, 1, 3, 5])
    sums = {(0, 0): [2, 3, 6, 11], (0, 1): [0, 2, 3, 6], (1, 0): [11, 9, 8, 5], (1, 1): [9, 8, 5, 0]}
    products = {(0, 0): [2, 2, 6, 30], (0, 1): [1, 2, 2, 6], (1, 0): [30, 15, 15, 5], (1, 1): [15, 15, 5, 1]}
    fields = {"axis": 0, "axis_direction": 0}
    calls = []
    for dtype in ("float32", "float16", "int32", "uint32"):
        kind = np.dtype(dtype)
        for (decreasing, exclusive), sum_ in sums.items():
            fields = {"axis": 0, "axis_direction": decreasing}
            product_ = np.array(products[decreasing, exclusive], kind)
            calls.append(
                Call(
                    "CUMULATIVE_SUMMATION",
                    [x.astype(kind)],
                    [np.array(sum_, kind)],
                    fields | {"has_exclusive_sum": exclusive},
                )
            )
            calls.append(
                Call("CUMULATIVE_PRODUCT", [x.astype(kind)], [product_], fields | {"has_exclusive_product": exclusive})
            )
    many = RNG.integers(-(2**31), 2**31, (3, 4, 5)).astype(np.int32)
    for axis, exclusive, reverse in product(range(3), (0, 1), (0, 1)):
        judged = onnx("CumSum", many, np.int32(axis), exclusive=exclusive, reverse=reverse)[0]
        fields = {"axis": axis, "axis_direction": reverse, "has_exclusive_sum": exclusive}
        calls.append(Call("CUMULATIVE_SUMMATION", [many], [judged], fields))
    ones = np.ones(4096, np.float16)  # In float16 the sum would stop at 2048.
    fields = {"axis": 0, "axis_direction": 0, "has_exclusive_sum": 0}
    calls.append(Call("CUMULATIVE_SUMMATION", [ones], [np.arange(1, 4097).astype(np.float16)], fields))
    return calls


REDUCED = {
    0: "ArgMax", 1: "ArgMin", 2: "ReduceMean", 3: "ReduceL1", 4: "ReduceL2", 5: "ReduceLogSum", 6: "ReduceLogSumExp",
    7: "ReduceMax", 8: "ReduceMin", 9: "ReduceProd", 10: "ReduceSum", 11: "ReduceSumSquare",
}  # fmt: skip


def reduced(function, x, axes):
    """Return what onnxruntime computes: of ArgMax and ArgMin the axes are one, in rows that have them last."""
    if function < 2:
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        rows = x.transpose(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), -1)
        found = onnx(REDUCED[function], rows, axis=len(kept), keepdims=0)[0]
        return found.reshape([1 if d in axes else n for d, n in enumerate(x.shape)]).astype(np.uint32)
    return onnx(REDUCED[function], x, np.array(axes, np.int64), keepdims=1, opset=18)[0]


def reductions():
    """Return calls judged by onnxruntime, and what it does not compute."""
    calls = []
    floats = np.abs(RNG.normal(size=(2, 3, 4, 5))).astype(np.float32) + np.float32(0.5)
    ints = RNG.integers(-(2**24), 2**24, (2, 3, 4, 5)).astype(np.int32)
    halves = floats.astype(np.float16)
    for function, axes in product(REDUCED, ((0,), (3, 1), (0, 1, 2, 3))):
        fields = {"function": function, "axes": axes}
        sorted_ = tuple(sorted(axes))
        judged = reduced(function, floats, sorted_)
        calls.append(Call("REDUCE", [floats], [judged], fields, 1e-5))
        with np.errstate(over="ignore"):  # A product of all is beyond float16.
            judged = reduced(function, halves.astype(np.float32), sorted_).astype(
                np.uint32 if function < 2 else np.float16
            )
        calls.append(Call("REDUCE", [halves], [judged], fields, 1e-3))
        if function in (0, 1, 7, 8, 10):
            calls.append(Call("REDUCE", [ints], [reduced(function, ints, sorted_)], fields))
    for function, numpy in ((3, np.abs), (9, None), (11, np.square)):
        many = np.uint32([[3, 2**31 + 5], [2, 7]]) if function != 3 else np.int32([[3, -5], [-(2**31), -7]])
        wanted = np.prod(many, 0, many.dtype) if numpy is None else np.sum(numpy(many), 0, many.dtype)
        calls.append(Call("REDUCE", [many], [wanted[None]], {"function": function, "axes": (0,)}))
    for dtype, function in product(("int8", "uint8", "int16", "uint16"), (7, 8)):
        x = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 4), dtype, True)
        wanted = x.max(1, keepdims=True) if function == 7 else x.min(1, keepdims=True)
        calls.append(Call("REDUCE", [x], [wanted], {"function": function, "axes": (1,)}))
    infinite = np.float32([[1, -np.inf], [-np.inf, -np.inf], [np.inf, 0]])
    calls.append(Call("REDUCE", [infinite], [np.float32([[1], [-np.inf], [np.inf]])], {"function": 6, "axes": (1,)}))
    calls.append(Call("REDUCE", [np.float32([[-3, 4]])], [np.float32([[3, 4]])], {"function": 4, "axes": ()}))
    large = np.full((1, 4096), 300, np.float16)  # Squares beyond float16, whose mean root is not.
    calls.append(Call("REDUCE", [large], [np.float16([[19200]])], {"function": 4, "axes": (1,)}))
    return calls


def patches():
    """Return calls of FOLD judged by Col2Im, and of UNFOLD judged place by place."""
    calls = []
    for dtype, strides, dilations, start, end in (
        ("float32", (2, 1), (1, 2), (1, 0), (0, 2)),
        ("int32", (1, 3), (2, 1), (0, 0), (0, 0)),
    ):
        windows = {
            "window_sizes": (2, 3),
            "strides": strides,
            "dilations": dilations,
            "start_padding": start,
            "end_padding": end,
        }
        image = RNG.integers(-9, 9, (2, 3, 5, 7)).astype(dtype)
        padded = np.pad(image, [(0, 0), (0, 0), *zip(start, end, strict=True)])
        counts = [
            (size - dilation * (window - 1) - 1) // stride + 1
            for size, window, stride, dilation in zip(padded.shape[2:], (2, 3), strides, dilations, strict=True)
        ]
        columns = np.empty((2, 3, 2, 3, *counts), dtype)
        for i, j, y, x in np.ndindex(2, 3, *counts):
            columns[:, :, i, j, y, x] = padded[
                :, :, y * strides[0] + i * dilations[0], x * strides[1] + j * dilations[1]
            ]
        columns = columns.reshape(2, 18, -1)
        calls.append(Call("UNFOLD", [image], [columns], windows))
        judged = onnx(
            "Col2Im", columns.astype(np.float32), np.array([5, 7]), np.array([2, 3]),
            strides=strides, dilations=dilations, pads=(*start, *end), opset=18,
        )[0]  # fmt: skip
        calls.append(Call("FOLD", [columns], [judged.astype(dtype)], windows))
    line = {"window_sizes": (2,), "strides": (1,), "dilations": (1,), "start_padding": (0,), "end_padding": (0,)}
    x = np.float16([[[[1, 2, 3]]]])
    calls.append(Call("UNFOLD", [x], [np.float16([[[[1, 2], [2, 3]]]])], line))
    calls.append(Call("FOLD", [np.float16([[[1, 2], [2, 3]]])], [np.float16([[[1, 4, 3]]])], line))
    return calls


def counterparts():
    """Return calls of what ONNX moves and makes too, judged by onnxruntime."""
    x, few = drawn("int32", 2, 4, 7), np.float32(RNG.normal(size=(4, 3)))
    starts, ends, axes = np.array([1, 5, 0]), np.array([2, -9, 4]), np.array([0, 2, 1])
    part = onnx("Slice", x, starts, ends, axes, np.array([1, -2, 3]))[0]
    window = {"input_window_offsets": (1, 0, 0), "input_window_sizes": (1, 4, 6), "input_window_strides": (1, 3, -2)}
    parts = tuple(onnx("Split", x, np.array([1, 4, 2]), axis=2, outputs=3))
    numbers = np.float32([-3.7, -0.2, 0.9, 2.5, 1e6])
    lengths = np.uint32([[3], [1], [4]])
    number = {"value_data_type": ..., "value": 1}
    sequence = {"value_data_type": ..., "value_start": np.float32(7), "value_delta": np.float32(-2)}
    band = {"diagonal_fill_begin": -(2**31), "diagonal_fill_end": 1}
    upper = onnx("Trilu", few, np.array(1), upper=1)[0]
    calls = [
        Call("SLICE1", [x], [part], window),
        Call("SLICE", [part], [onnx("Slice", part, *map(np.array, ([1], [2], [1])))[0]],
            {"offsets": (0, 1, 0), "sizes": (1, 1, 3), "strides": (1, 1, 1)}),
        Call("SPLIT", [x], [parts], {"axis": 2}),
        Call("JOIN", [parts], [onnx("Concat", *parts, axis=2)[0]], {"axis": 2}),
        Call("TILE", [x], [onnx("Tile", x, np.array([2, 1, 3]))[0]], {"repeats": (2, 1, 3)}),
        Call("REVERSE_SUBSEQUENCES", [few.T, lengths],
            onnx("ReverseSequence", few.T, lengths[:, 0].astype(np.int64), batch_axis=0, time_axis=1), {"axis": 1}),
        Call("FILL_VALUE_CONSTANT", [], [onnx("ConstantOfShape", np.array([2, 3]))[0] + np.float32(1)], number),
        Call("FILL_VALUE_SEQUENCE", [], [onnx("Range", *map(np.float32, (7, -9, -2)))[0]], sequence),
        Call("DIAGONAL_MATRIX", [], [onnx("EyeLike", few, k=-1)[0]], {"offset": -1, "value": 1.0}),
        Call("DIAGONAL_MATRIX1", [few], [upper], number | band | {"value": 0}),
        Call("ELEMENT_WISE_IF", [np.uint8(few > 0), few, -few], [onnx("Where", few > 0, few, -few)[0]]),
        *(Call("CAST", [numbers], [onnx("Cast", numbers, to=to)[0]]) for to in (6, 10)),
    ]  # fmt: skip
    pads = np.array([0, 2, 1, 0])
    for mode, name in ((0, "constant"), (1, "edge"), (2, "reflect"), (4, "wrap")):
        padded = onnx("Pad", few, pads, mode=name, opset=19)[0]
        fields = {"padding_mode": mode, "padding_value": 0.0, "start_padding": (0, 2), "end_padding": (1, 0)}
        calls.append(Call("PADDING", [few], [padded], fields))
    return calls


def _steps(start, delta):
    return {"value_data_type": ..., "value_start": start, "value_delta": delta}


def printed():
    """Return examples of the pages that no other function has."""
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    window = {"input_window_offsets": (0, 0, 0, 1), "input_window_sizes": (1, 1, 4, 3)}
    forward, backward = (window | {"input_window_strides": (1, 1, stride, 2)} for stride in (2, -2))
    corners = {"input_window_offsets": (0, 0), "input_window_sizes": (4, 4), "input_window_strides": (2, 2)}
    spread = [[1, 0, 2, 0], [0, 0, 0, 0], [3, 0, 4, 0], [0, 0, 0, 0]]
    joined = np.float32([[1, 2, 3, 7, 8, 9, 10], [4, 5, 6, 11, 12, 13, 14]]).reshape(1, 1, 2, 7)
    table = np.float32([[1, 2, 3], [3, 0, 4], [2, 4, 2]])
    sums = {(0,): [[6, 6, 9]], (1,): [[6], [7], [8]], (0, 1): [[21]]}
    return [
        Call("SLICE1", [x], [np.float32([[[[2, 4], [10, 12]]]])], forward),
        Call("SLICE1", [x], [np.float32([[[[14, 16], [6, 8]]]])], backward),
        Call("SLICE_GRAD", [np.float32([[1, 2], [3, 4]])], [np.float32(spread)], corners),
        Call("FILL_VALUE_SEQUENCE", [], [np.float32([3, 5, 7])], _steps(3, 2)),
        Call("FILL_VALUE_SEQUENCE", [], [np.uint8([[10, 8], [6, 4]])], _steps(10, 254)),
        Call("JOIN", [(joined[..., :3], joined[..., 3:])], [joined], {"axis": 3}),
        *(
            Call("REDUCE", [table], [np.float32(wanted)], {"function": 10, "axes": axes})
            for axes, wanted in sums.items()
        ),
    ]


FAMILIES = {
    "printed": printed,
    "counterparts": counterparts,
    "random bits": random_bits,
    "coordinates": nonzeros,
    "one hot": one_hots,
    "cumulative": cumulative,
    "reductions": reductions,
    "patches": patches,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families_agree_with_pages_and_onnxruntime(family):
    check(FAMILIES[family]())


def test_long_sums_and_products():
    with jax.enable_x64(True):
        longs = RNG.integers(-(2**63), 2**63 - 1, 9)
        fields = {"axis": 0, "axis_direction": 0}
        check(
            [
                Call("CUMULATIVE_SUMMATION", [longs], [np.cumsum(longs)], fields | {"has_exclusive_sum": 0}),
                Call("CUMULATIVE_PRODUCT", [longs], [np.cumprod(longs)], fields | {"has_exclusive_product": 0}),
            ]
        )


def test_long_indices_of_numpy_keep_their_bits():
    indices, values = np.array([[2**32 + 1], [-1]]), np.float32([[0, 1]])
    call = Call("ONE_HOT", [indices, values], [np.float32([[0, 0], [0, 1]])], {"axis": 1})
    compare(call.operator(indices, values), call.wanted[0])
