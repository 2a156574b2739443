"""ONNX Runtime's CPU provider as a second judge, on random data; and the places where it is no judge."""

from functools import cache

import jax
import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as errors

import jaxdml
from jaxdml import reference
from jaxdml._kernels.selection import kernel as lowering
from tests.kit import OneOf, assert_same_bits, data, grid, is_float, quick
from tests.kit.grids import pairwise

DIRECTIONS = {"decreasing": 1, "increasing": 0}

ORDERS_NANS = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 32)
"""Before this version, TopK of ONNX Runtime returned rows with NaNs in another order."""


def dtypes(*names):
    return [np.dtype(name) for name in names]


@cache
def session(operator, opset, inputs, outputs, **attributes):
    """Build a model of one node, with inputs and outputs of these dtypes, and return it as a function."""
    takes, gives = (
        [
            helper.make_tensor_value_info(f"{way}_{i}", helper.np_dtype_to_tensor_dtype(dtype), None)
            for i, dtype in enumerate(dtypes_)
        ]
        for way, dtypes_ in (("input", inputs), ("output", outputs))
    )
    names = [value.name for value in takes]
    node = helper.make_node(operator, names, [value.name for value in gives], **attributes)
    graph = helper.make_graph([node], operator, takes, gives)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    built = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda *arrays: built.run(None, dict(zip(names, arrays, strict=True)))


# TopK

ORDERED = [
    OneOf(*dtypes(*names))
    for names in (("float32", "int32"), ("float16", "int16"), ("int8", "uint8"), ("float64", "int64"))
]
NOT_ORDERED = dtypes("uint16", "uint32", "uint64")
SELECTIONS = [
    ((300, 33), -1, 1),
    ((300, 33), 1, 7),
    ((300, 33), -1, 33),
    ((20, 40, 9), 1, 30),
    ((70, 50), 0, 3),
    ((4, 3000), -1, 20),
]
"""Shape, axis and k: for each of the three methods of ONNX Runtime, with and without pruning, on every axis."""


def theirs_of_top_k(x, k, axis, direction):
    judge = session(
        "TopK", 11, (x.dtype, np.dtype("int64")), (x.dtype, np.dtype("int64")), axis=axis, largest=DIRECTIONS[direction]
    )
    return judge(x, np.array([k], np.int64))


def ours_of_top_k(x, k, axis, direction, method=None):
    with jax.enable_x64(x.dtype.itemsize == 8):
        # A NumPy array takes a program of its own to copy.
        values, indices = jaxdml.top_k(jax.device_put(x), k, axis=axis, direction=direction, implementation=method)
    return np.asarray(values), np.asarray(indices).astype(np.int64)


def without_nans(x):
    return np.where(np.isnan(x), np.zeros((), x.dtype), x) if is_float(x.dtype) else x


@quick
@grid(selection=[OneOf(*SELECTIONS[:3]), *SELECTIONS[3:]], dtype=ORDERED, direction=DIRECTIONS)
def test_without_nans_values_and_indices_are_those_of_onnxruntime(selection, dtype, direction):
    shape, axis, k = selection
    for kind in ("any bits", "specials", "few distinct"):
        x = without_nans(data(kind, k, shape, dtype))
        theirs = theirs_of_top_k(x, k, axis, direction)
        ours = ours_of_top_k(x, k, axis, direction)
        for got, want in zip(ours, theirs, strict=True):
            assert_same_bits(got, want)


@quick
@grid(
    method=list(lowering.METHODS),
    selection=[OneOf(((70, 50), 0, 3), ((4, 3000), -1, 20))],
    dtype=[OneOf(*dtypes("float32", "int32"))],
    direction=[OneOf(*DIRECTIONS)],
)
def test_every_method_answers_as_onnxruntime(method, selection, dtype, direction):
    if method == "float_top_k" and jax.default_backend() != "cpu":
        pytest.skip(f"float_top_k does not serve on {jax.default_backend()}")
    shape, axis, k = selection
    x = without_nans(data("specials", k, shape, dtype))
    theirs = theirs_of_top_k(x, k, axis, direction)
    for got, want in zip(ours_of_top_k(x, k, axis, direction, method), theirs, strict=True):
        assert_same_bits(got, want)


# The two tests share their programs.
every_selection_of_floats = grid(k=[1, 7, 33], dtype=dtypes("float32", "float16", "float64"), direction=[*DIRECTIONS])


@quick
@every_selection_of_floats
def test_zeros_of_both_signs_tie_as_in_onnxruntime(k, dtype, direction):
    x = np.random.default_rng(0).choice(np.array([-0.0, 0.0], dtype), (300, 33))
    values, indices = ours_of_top_k(x, k, -1, direction)
    assert (indices == np.arange(k)).all()
    assert_same_bits(values, x[:, :k])
    for got, want in zip((values, indices), theirs_of_top_k(x, k, -1, direction), strict=True):
        assert_same_bits(got, want)


@quick
@every_selection_of_floats
def test_we_keep_the_order_of_nans_as_newer_versions_of_onnxruntime_do(k, dtype, direction):
    rng = np.random.default_rng(k)
    x = without_nans(data("any bits", k, (300, 33), dtype))
    x = np.where(rng.random(x.shape) < 0.04, rng.choice(np.array([np.nan, -np.nan], dtype), x.shape), x)
    ours = ours_of_top_k(x, k, -1, direction)
    values, indices = reference.top_k(x, k, direction=direction, index_dtype=np.int64)
    assert_same_bits(ours[0], values)
    assert_same_bits(ours[1], indices)

    has_nan = np.isnan(x).any(axis=-1)
    assert 0 < has_nan.sum() < len(x)
    _, their_indices = theirs_of_top_k(x, k, -1, direction)
    differs = (their_indices != indices).any(axis=-1)
    assert differs.any() != ORDERS_NANS
    assert not differs[~has_nan].any()


@quick
@pytest.mark.parametrize("dtype", NOT_ORDERED, ids=str)
def test_onnxruntime_cannot_order_the_dtypes_left_out_above(dtype):
    with pytest.raises(errors.NotImplemented):
        session("TopK", 11, (dtype, np.dtype("int64")), (dtype, np.dtype("int64")))


# Scatters

MOVED = [
    OneOf(*dtypes(*names))
    for names in (("float32", "int32", "uint32"), ("float16",), ("int8", "int16", "uint8", "uint16"), ("bool",))
]
ND_SHAPES = [
    ((37,), (37,), 1),
    ((37, 3), (4, 5), 1),
    ((5, 6, 7), (11,), 2),
    ((5, 6, 7), (3, 4), 3),
    ((6, 2), (), 1),
]
"""Shape of x, leading shape of the indices, and how many dimensions they address."""
ELEMENTS_SHAPES = [
    ((41,), 0, (41,)),
    ((6, 7, 8), 1, (6, 7, 8)),
    ((6, 7, 8), -1, (5, 7, 3)),
    ((9, 4), 0, (3, 4)),
]
"""Shape of x, axis, and shape of the indices."""
OUTSIDE = [7, -8, 2**31, 2**32 + 1, -(2**32) + 1, 2**63 - 1, -(2**63)]
"""Indices out of range for 7 elements; the low 32 bits of some are in range."""


def from_either_end(rng, places, sizes):
    """Write half of the places as negative ones."""
    return np.where(rng.random(places.shape) < 0.5, places, places - np.asarray(sizes))


def unique_places(rng, shape, leading, t):
    """Draw places of the first ``t`` dimensions, no two of them the same."""
    drawn = rng.choice(np.prod(shape[:t], dtype=int), leading, replace=False)
    return from_either_end(rng, np.stack(np.unravel_index(drawn, shape[:t]), axis=-1), shape[:t])


def unique_along(rng, shape, axis, index_shape):
    """Draw indices along an axis, no two of them the same in one sequence."""
    n = shape[axis]
    full = [*index_shape]
    full[axis] = n
    orders = np.moveaxis(np.argsort(rng.random(full), axis=axis), axis, 0)
    return from_either_end(rng, np.moveaxis(orders[: index_shape[axis]], 0, axis), n)


def theirs_of_scatter(operator, x, indices, updates, **axis):
    judge = session(operator, 16, (x.dtype, indices.dtype, x.dtype), (x.dtype,), **axis)
    (written,) = judge(x, indices, updates)
    return written


def bits_for(rng, shape, dtype):
    return rng.random(shape) < 0.5 if dtype.kind == "b" else data("any bits", int(rng.integers(2**32)), shape, dtype)


@quick
@grid(shapes=ND_SHAPES, dtype=MOVED)
def test_scatter_nd_writes_what_onnxruntime_writes(shapes, dtype):
    shape, leading, t = shapes
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, updates = bits_for(rng, shape, dtype), bits_for(rng, (*leading, *shape[t:]), dtype)
        indices = unique_places(rng, shape, leading, t)
        assert indices.dtype == np.int64
        want = theirs_of_scatter("ScatterND", x, indices, updates)
        x, updates = jax.device_put((x, updates))
        assert_same_bits(jaxdml.scatter_nd(x, indices, updates), want)


@quick
@grid(shapes=ELEMENTS_SHAPES, dtype=MOVED)
def test_scatter_elements_writes_what_onnxruntime_writes(shapes, dtype):
    shape, axis, index_shape = shapes
    rng = np.random.default_rng(0)
    for index_dtype in [np.int64, np.int32] * 10:
        x, updates = bits_for(rng, shape, dtype), bits_for(rng, index_shape, dtype)
        indices = unique_along(rng, shape, axis, index_shape).astype(index_dtype)
        want = theirs_of_scatter("ScatterElements", x, indices, updates, axis=axis)
        x, updates = jax.device_put((x, updates))
        assert_same_bits(jaxdml.scatter_elements(x, indices, updates, axis=axis), want)


@quick
@pytest.mark.parametrize("index", OUTSIDE)
def test_scatter_nd_drops_an_update_for_which_onnxruntime_refuses_them_all(index):
    x, updates = np.arange(14, dtype=np.float32).reshape(7, 2), -1 - np.arange(6, dtype=np.float32).reshape(3, 2)
    indices = np.array([[5], [index], [-7]], np.int64)
    with pytest.raises(errors.InvalidArgument):
        theirs_of_scatter("ScatterND", x, indices, updates)
    got = jaxdml.scatter_nd(x, indices, updates)
    assert_same_bits(got, reference.scatter_nd(x, indices, updates))
    assert_same_bits(got, theirs_of_scatter("ScatterND", x, indices[::2], updates[::2]))


@quick
@pytest.mark.parametrize("index", OUTSIDE)
def test_scatter_elements_drops_an_update_for_which_onnxruntime_refuses_them_all(index):
    x, updates = np.arange(14, dtype=np.float32).reshape(2, 7), -1 - np.arange(6, dtype=np.float32).reshape(2, 3)
    indices = np.array([[5, 0, -7], [1, index, -1]], np.int64)
    with pytest.raises(errors.InvalidArgument):
        theirs_of_scatter("ScatterElements", x, indices, updates, axis=1)
    # 0 and -7 are one place, so the last of them has to win.
    got = jaxdml.scatter_elements(x, indices, updates, axis=1, duplicates="last")
    assert_same_bits(got, reference.scatter_elements(x, indices, updates, axis=1))
    # What it should be: the element that the update in range beside it writes, written once more.
    indices[1, 1], updates[1, 1] = indices[1, 0], updates[1, 0]
    assert_same_bits(got, theirs_of_scatter("ScatterElements", x, indices, updates, axis=1))


# Gather, GatherElements, GatherND

READS = [
    ("gather", "Gather", (5, 4), (2, 3), 5, {"axis": 0}),
    ("gather", "Gather", (3, 6, 2), (), 2, {"axis": -1}),
    ("gather_elements", "GatherElements", (3, 6), (3, 9), 6, {"axis": 1}),
    ("gather_nd", "GatherND", (4, 4, 3), (5, 2), 4, {}),
    ("gather_nd", "GatherND", (2, 5, 3), (2, 4, 1), 5, {"batch_dims": 1}),
]
"""The operator, the node, the shapes of x and of the indices, the size of what they index, and the attributes."""


@quick
@grid(read=READS, dtype=MOVED)
def test_the_gathers_read_what_onnxruntime_reads(read, dtype):
    ours, theirs, shape, index_shape, size, options = read
    rng = np.random.default_rng(0)
    judge = session(theirs, 16, (dtype, np.dtype(np.int64)), (dtype,), **options)
    for _ in range(20):
        x, indices = bits_for(rng, shape, dtype), rng.integers(-size, size, index_shape)
        (want,) = judge(x, np.asarray(indices))
        assert_same_bits(getattr(jaxdml, ours)(jax.device_put(x), indices, **options), want)


@pytest.mark.parametrize("read", READS, ids=lambda read: read[0])
def test_the_gathers_clip_an_index_that_onnxruntime_refuses(read):
    ours, theirs, shape, index_shape, size, options = read
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    judge = session(theirs, 16, (x.dtype, np.dtype(np.int64)), (x.dtype,), **options)
    for index, nearest in ((size, size - 1), (-size - 1, 0)):
        with pytest.raises((errors.InvalidArgument, errors.Fail)):
            judge(x, np.full(index_shape, index))
        (want,) = judge(x, np.full(index_shape, nearest))
        assert_same_bits(getattr(jaxdml, ours)(x, np.full(index_shape, index), **options), want)


# QLinearMatMul

MULTIPLIED = [("uint8", "uint8", "uint8"), ("uint8", "int8", "uint8"), ("int8", "int8", "int8")]
"""The dtypes of a, b and the output that ONNX Runtime knows."""
NOT_MULTIPLIED = [
    ("uint8", "uint8", "int8"),
    ("uint8", "int8", "int8"),
    ("int8", "uint8", "uint8"),
    ("int8", "uint8", "int8"),
    ("int8", "int8", "uint8"),
]
"""The other dtypes of DirectML. With every tensor and zero point moved by 128 they are uint8 throughout."""
PRODUCTS = [((40, 24), (24, 48)), ((3, 40, 24), (3, 24, 48)), ((3, 40, 24), (24, 48))]
every_product = pytest.mark.parametrize(
    ("types", "shapes", "per_column"),
    [
        *pairwise({"types": MULTIPLIED, "shapes": PRODUCTS, "per_column": [False, True]}),
        *((types, PRODUCTS[1], True) for types in NOT_MULTIPLIED),
    ],
    ids=str,
)
CALLS = 25
DECIMALS = np.array([0.01, 0.02, 0.025, 0.05, 0.07, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2.5, 5, 10, 20], np.float32)
"""The inputs' scales are the first six: no float32 is such a decimal, so a multiplier of them only looks round."""
POWERS = np.exp2(np.arange(-7, 6)).astype(np.float32)
"""A multiplier made of three of these is exact, and so are many ties."""


def quantized(rng, shape, dtype, fraction=1.0):
    """Draw from the middle of what the dtype holds."""
    # Without VNNI, onnxruntime adds two uint8 x int8 products in 16 bits on x86: with 7 bits of int8 they always fit.
    middle, reach = (128, 128) if dtype == np.uint8 else (0, 64)
    return rng.integers(middle - int(fraction * reach), middle + int(fraction * reach), shape, dtype)


def a_call(rng, scales, types, shapes, per_column):
    """Draw arguments, in the order of ONNX and of jaxdml, for which most outputs do not saturate."""
    (a_dtype, b_dtype, output_dtype), (a_shape, b_shape) = dtypes(*types), shapes
    # ONNX Runtime wants one per column of each matrix of a stack.
    stacked = (*b_shape[:-2], 1, b_shape[-1]) if b_shape[:-2] else b_shape[-1:]
    columns = stacked if per_column else ()
    a, b = quantized(rng, a_shape, a_dtype), quantized(rng, b_shape, b_dtype)
    a_zero_point, b_zero_point = quantized(rng, (), a_dtype, 0.2), quantized(rng, columns, b_dtype, 0.2)
    output_zero_point = quantized(rng, (), output_dtype, 0.2)
    a_scale, b_scale = rng.choice(scales[:6]), rng.choice(scales[:6], columns)
    wanted = a_scale * b_scale.max() * np.sqrt(a_shape[-1]) * a.std() * b.std() / 60
    output_scale = scales[np.abs(np.log(scales / wanted)).argmin()]
    return a, a_scale, a_zero_point, b, b_scale, b_zero_point, output_scale, output_zero_point


def moved_by_128(x):
    """Move int8 into uint8, and back, by flipping the top bit."""
    flipped = np.asarray(x.view(np.uint8) ^ np.uint8(128))
    return flipped.view(np.int8) if x.dtype == np.uint8 else flipped


def theirs_of_multiply(given):
    given = [np.asarray(array) for array in given]
    types = [str(given[i].dtype) for i in (0, 3, 7)]
    if tuple(types) in NOT_MULTIPLIED:
        given = [moved_by_128(array) if array.dtype == np.int8 else array for array in given]
    (product,) = session("QLinearMatMul", 10, tuple(array.dtype for array in given), (given[7].dtype,))(*given)
    return product if product.dtype == types[2] else moved_by_128(product)


def the_true_one(given, place):
    """Ask the oracle for one output: the product of one row and one column."""
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, *output = given
    *stack, i, j = place
    row = a[(*stack, slice(i, i + 1))]
    column, b_scale, b_zero_point = (
        np.broadcast_to(x, (*a.shape[:-2], size, b.shape[-1]))[(*stack, slice(None), slice(j, j + 1))]
        for x, size in ((b, a.shape[-1]), (b_scale, 1), (b_zero_point, 1))
    )
    return reference.quantized_linear_matrix_multiply(
        row, a_scale, a_zero_point, column, b_scale, b_zero_point, *output
    )


def not_saturated(x):
    return (np.iinfo(x.dtype).min < x) & (x < np.iinfo(x.dtype).max)


@quick
@every_product
def test_onnxruntime_differs_only_by_one_and_only_where_it_is_wrong(types, shapes, per_column):
    rng = np.random.default_rng(0)
    compared = different = 0
    for _ in range(CALLS):
        given = a_call(rng, DECIMALS, types, shapes, per_column)
        ours = np.asarray(jaxdml.quantized_linear_matrix_multiply(*jax.device_put(given)))
        theirs = theirs_of_multiply(given)
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        places = [tuple(place) for place in np.argwhere(ours != theirs)]
        for place in places:
            assert abs(int(ours[place]) - int(theirs[place])) == 1
            assert ours[place] == the_true_one(given, place)
        compared += not_saturated(ours).sum()
        different += len(places)
    assert compared > 0.8 * CALLS * ours.size
    assert different


@every_product
def test_where_the_multiplier_is_exact_so_is_onnxruntime(types, shapes, per_column):
    rng = np.random.default_rng(0)
    for _ in range(CALLS):
        given = a_call(rng, POWERS, types, shapes, per_column)
        ours = jaxdml.quantized_linear_matrix_multiply(*jax.device_put(given))
        assert not_saturated(np.asarray(ours)).mean() > 0.5
        assert_same_bits(ours, theirs_of_multiply(given))


@quick
@pytest.mark.parametrize("types", NOT_MULTIPLIED, ids=str)
def test_onnxruntime_cannot_multiply_the_dtypes_moved_above(types):
    float32, a, b, output = dtypes("float32", *types)
    with pytest.raises(errors.NotImplemented):
        session("QLinearMatMul", 10, (a, float32, a, b, float32, b, float32, output), (output,))
