"""Every refusal, its whole text: the call and the rule, the shapes and dtypes, what to write instead."""

import re
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

import jaxdml
from jaxdml._placement import lowering
from tests.kit import quick

F = np.zeros((2, 5), np.float32)
I8, U8 = np.zeros((2, 3), np.int8), np.zeros((3, 4), np.uint8)
S = np.float32(1)
LONG = jax.ShapeDtypeStruct((2**31 + 1,), "int8")
I1, I2 = np.zeros((2, 1), np.int32), np.zeros((2, 2), np.int32)


def top_k(*args, **options):
    return lambda: jaxdml.top_k(*args, **options)


def nd(*args, **options):
    return lambda: jaxdml.scatter_nd(*args, **options)


def elements(*args, **options):
    return lambda: jaxdml.scatter_elements(*args, **options)


def multiply(a=I8, sa=S, za=None, b=U8, sb=S, zb=None, so=S, zo=None, **options):
    return lambda: jaxdml.quantized_linear_matrix_multiply(a, sa, za, b, sb, zb, so, zo, **options)


def packed(**fields):
    return jaxdml.PackedMatrix(**{"matrix": U8.T, "sums": U8.sum(0, np.int32), "dtype": "uint8", "k": 3, **fields})


def prepack(b, **options):
    return lambda: jaxdml.prepack(b, **options)


SELECTABLE = "float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64"
INTEGERS = "int8, int16, int32, int64, uint8, uint16, uint32, uint64"
PACKED = "b.matrix: uint8[4, 3], b.sums: int32[4]"
ANEW = "Pass jaxdml.prepack of the matrix, or the fields that it returned."
OF_BLOCK = "Pass axis_name for a block of a matrix whose K is sharded, or prepack the matrix anew."
TOP = "jaxdml.top_k: "
PRE = "jaxdml.prepack: "
ND = "jaxdml.scatter_nd: "
EL = "jaxdml.scatter_elements: "
MM = "jaxdml.quantized_linear_matrix_multiply: "
X = "x: float32[2, 5]"
ND_OPERANDS = "x: float32[2, 5], indices: int32[2, 1], updates: float32[2, 5]"

REFUSALS = {
    # top_k
    "k too large": (top_k(F, 9), ValueError, TOP + "k must be between 1 and 5, the length of axis 1; got k=9.", X,
        "Pass k=5 to sort the whole axis."),
    "k zero": (top_k(F, 0, axis=0), ValueError, TOP + "k must be between 1 and 2, the length of axis 0; got k=0.", X,
        "Pass k=1 or more."),
    "k negative": (top_k(F, -1), ValueError, TOP + "k must be between 1 and 5, the length of axis 1; got k=-1.", X,
        "Pass k=1 or more."),
    "empty axis": (top_k(np.zeros((2, 0), np.float32), 1), ValueError,
        TOP + "axis 1 must have elements to select from; it has none.", "x: float32[2, 0]",
        "Pass another x or axis."),
    "k float": (top_k(F, 2.0), TypeError, TOP + "k must be an integer; got 2.0.", X, "Pass k as a Python int."),
    "k bool": (top_k(F, True), TypeError, TOP + "k must be an integer; got True.", X, "Pass k as a Python int."),
    "k traced": (lambda: jax.jit(lambda k: jaxdml.top_k(F, k))(2), TypeError,
        TOP + "k must be static; got a traced value.", X, "Name k in jax.jit's static_argnames, or close over it."),
    "axis out of range": (top_k(F, 1, axis=2), ValueError,
        TOP + "axis must be between -2 and 1 for rank 2; got axis=2.", X, "Pass axis=-1 for the last one."),
    "axis no integer": (top_k(F, 1, axis="last"), TypeError, TOP + "axis must be an integer; got 'last'.", X,
        "Pass axis as a Python int."),
    "scalar": (top_k(1.0, 1), TypeError, TOP + "x must have at least one axis.", "x: float32[]",
        "Pass x[None] to select from one element."),
    "complex": (top_k(np.zeros(3, np.complex64), 1), TypeError,
        TOP + f"x must be one of {SELECTABLE}; got complex64.", "x: complex64[3]", "Convert x with .astype first."),
    "boolean": (top_k(np.zeros(3, bool), 1), TypeError,
        TOP + f"x must be one of {SELECTABLE}; got bool.", "x: bool[3]", "Convert x with .astype first."),
    "list": (top_k([1.0, 2.0], 1), TypeError, TOP + "x must be an array.", "x: list", "Pass jnp.asarray(x)."),
    "none": (top_k(None, 1), TypeError, TOP + "x must be an array.", "x: None", "Pass an array of numbers."),
    "string": (top_k("logits", 1), TypeError, TOP + "x must be an array.", "x: str", "Pass an array of numbers."),
    "dictionary": (top_k({"x": F}, 1), TypeError, TOP + "x must be an array.", "x: dict", "Pass one of its arrays."),
    "sparse": (top_k(sparse.BCOO.fromdense(F), 1), TypeError, TOP + "x must be an array.", "x: float32[2, 5]",
        "Pass x.todense()."),
    "reference": (lambda: jaxdml.top_k(jax.new_ref(jnp.zeros(3)), 1), TypeError, TOP + "x must be an array.",
        "x: float32[3]", "Pass x[...], the array that it refers to."),
    "shape alone": (top_k(LONG, 1), TypeError, TOP + "x must be an array.", "x: int8[2147483649]",
        "Pass an array, or trace with jax.eval_shape to work with shapes alone."),
    "keys": (lambda: jaxdml.top_k(jax.random.key(0)[None], 1), TypeError,
        TOP + "x must be an array of numbers; got key<fry>.", "x: key<fry>[1]",
        "Pass jax.random.key_data(x) if it holds keys."),
    "masked": (top_k(np.ma.array(F, mask=F < 1), 1), TypeError, TOP + "x must not be masked.", X,
        "Pass x.filled(value)."),
    "strings": (top_k(np.array(["a"]), 1), TypeError, TOP + "x must be of a dtype that JAX has; got <U1.", "x: <U1[1]",
        "Pass x as an array of numbers of at most 64 bits."),
    "dates": (top_k(np.array(["2026-01-01"], "datetime64[D]"), 1), TypeError,
        TOP + "x must be of a dtype that JAX has; got datetime64[D].", "x: datetime64[D][1]",
        "Pass x as an array of numbers of at most 64 bits."),
    "structured": (top_k(np.zeros(2, [("a", "i4")]), 1), TypeError,
        TOP + "x must be of a dtype that JAX has; got [('a', '<i4')].", "x: [('a', '<i4')][2]",
        "Pass x as an array of numbers of at most 64 bits."),
    "extended precision": (top_k(np.zeros(2, np.longdouble), 1), TypeError,
        TOP + f"x must be of a dtype that JAX has; got {np.dtype(np.longdouble)}.", f"x: {np.dtype(np.longdouble)}[2]",
        "Pass x as an array of numbers of at most 64 bits."),
    "huge number": (top_k(10**400, 1), TypeError,
        TOP + "x must be of a dtype that JAX has; got an int that is too large.", "x: int",
        "Pass x as an array of numbers of at most 64 bits."),
    "arguments swapped": (top_k(3, F), TypeError, TOP + "x must have at least one axis.", "x: int32[]",
        "Pass the array first: jaxdml.top_k(x, k)."),
    "objects": (top_k(np.array([None, 1]), 1), TypeError,
        TOP + "x must be of a dtype that JAX has; got object.", "x: object[2]",
        "Pass x as an array of numbers of at most 64 bits."),
    "direction unknown": (top_k(F, 1, direction="up"), ValueError,
        TOP + "direction must be one of 'decreasing', 'increasing'; got 'up'.", X, "Pass direction='decreasing'."),
    "direction no name": (top_k(F, 1, direction=2), TypeError,
        TOP + "direction must be one of 'decreasing', 'increasing'; got 2.", X, "Pass direction='decreasing'."),
    "direction traced": (lambda: jax.jit(lambda d: jaxdml.top_k(F, 1, direction=d))(0), TypeError,
        TOP + "direction must be static; got a traced value.", X,
        "Name direction in jax.jit's static_argnames, or close over it."),
    "direction an array": (top_k(F, 1, direction=F), TypeError,
        TOP + "direction must be one of 'decreasing', 'increasing'; got a ndarray.", X,
        "Pass direction='decreasing'."),
    "index dtype float": (top_k(F, 1, index_dtype="float32"), TypeError,
        TOP + "index_dtype must be one of int32, uint32; got 'float32'.", X,
        "Pass index_dtype='int32'."),
    "index dtype wide": (top_k(F, 1, index_dtype=np.int64), TypeError,
        TOP + "index_dtype must be one of int32, uint32; got 'int64'.", X,
        "Enable jax_enable_x64 for 64-bit indices."),
    "index dtype no dtype": (top_k(F, 1, index_dtype="word"), TypeError,
        TOP + "index_dtype must be one of int32, uint32; got 'word'.", X, "Pass index_dtype='int32'."),
    "index dtype too narrow": (
        lambda: jax.eval_shape(lambda x: jaxdml.top_k(x, 1, index_dtype="int32"), LONG),
        TypeError, TOP + "index_dtype int32 cannot count the 2147483649 elements of the axis.", "x: int8[2147483649]",
        "Pass a wider index_dtype."),
    "implementation unknown": (top_k(F, 1, implementation="magic"), ValueError,
        TOP + "implementation must be one of 'sort', 'integer_top_k', 'float_top_k', 'repeated_maxima', 'threshold', "
        "'chunk_maxima', 'tournament', 'carried'; got 'magic'.", X,
        "Pass implementation='sort'."),
    "implementation cannot serve": (top_k(F, 2, implementation="chunk_maxima"), NotImplementedError,
        TOP + "implementation='chunk_maxima' cannot serve this call: it needs n >= 4 * k, and n is 5, k is 2.", X,
        "Pass implementation=None to let the library choose."),
    "maxima of too many": (
        lambda: jax.eval_shape(lambda x: jaxdml.top_k(x, 1, implementation="repeated_maxima"), LONG),
        NotImplementedError,
        TOP + "implementation='repeated_maxima' cannot serve this call: it takes at most 2147483647 elements of at "
        "most 32 bits; these are 2147483649 of 8.", "x: int8[2147483649]",
        "Pass implementation=None to let the library choose."),
    # scatter_nd
    "float indices": (nd(F, I1.astype(np.float32), F), TypeError,
        ND + f"indices must be one of {INTEGERS}; got float32.", "indices: float32[2, 1]",
        "Convert indices with .astype first."),
    "list of indices": (nd(F, [[0], [1]], F), TypeError, ND + "indices must be an array.", "indices: list",
        "Pass jnp.asarray(indices)."),
    "indices without axes": (nd(F, np.int64(0), F), TypeError,
        ND + "indices must have the shape [..., t] with t <= 2, the rank of x; got [].",
        "x: float32[2, 5], indices: int64[], updates: float32[2, 5]",
        "Pass indices[..., None] if each index addresses the first dimension of x."),
    "index tuple too long": (nd(F, np.zeros((2, 3), np.int32), F), TypeError,
        ND + "indices must have the shape [..., t] with t <= 2, the rank of x; got [2, 3].",
        "x: float32[2, 5], indices: int32[2, 3], updates: float32[2, 5]",
        "Pass indices[..., None] if each index addresses the first dimension of x."),
    "updates of another dtype": (nd(F, I1, F.astype(np.int32)), TypeError,
        ND + "updates must have the dtype of x, float32; got int32.",
        "x: float32[2, 5], indices: int32[2, 1], updates: int32[2, 5]", "Pass updates.astype('float32')."),
    "one index a row": (nd(F, np.zeros(2, np.int32), F), TypeError,
        ND + "updates must have the shape [], indices.shape[:-1] + x.shape[t:]; got [2, 5].",
        "x: float32[2, 5], indices: int32[2], updates: float32[2, 5]",
        "Pass indices[..., None] if each index addresses the first dimension of x."),
    "updates of another shape": (nd(F, I2, F), TypeError,
        ND + "updates must have the shape [2], indices.shape[:-1] + x.shape[t:]; got [2, 5].",
        "x: float32[2, 5], indices: int32[2, 2], updates: float32[2, 5]", "Pass updates of shape [2]."),
    "mode unknown": (nd(F, I1, F, mode="wrap"), ValueError,
        ND + "mode must be one of 'drop', 'clip', 'promise_in_bounds'; got 'wrap'.", ND_OPERANDS, "Pass mode='drop'."),
    "mode none": (nd(F, I1, F, mode=None), TypeError,
        ND + "mode must be one of 'drop', 'clip', 'promise_in_bounds'; got None.", ND_OPERANDS, "Pass mode='drop'."),
    "duplicates unknown": (nd(F, I1, F, duplicates="first"), ValueError,
        ND + "duplicates must be one of 'unspecified', 'last', 'unique'; got 'first'.", ND_OPERANDS,
        "Pass duplicates='unspecified'."),
    "scatter implementation": (nd(F, I1, F, implementation="loop"), ValueError,
        ND + "implementation must be one of 'scatter'; got 'loop'.", ND_OPERANDS, "Pass implementation='scatter'."),
    "dimension too long": (
        lambda: jax.eval_shape(lambda x, u: jaxdml.scatter_nd(x, I1, u), jax.ShapeDtypeStruct((2**31,), "int8"),
            jax.ShapeDtypeStruct((2,), "int8")),
        TypeError, ND + "a dimension of 2147483648 elements is too long for int32 indices.",
        "x: int8[2147483648], indices: int32[2, 1], updates: int8[2]",
        "Enable jax_enable_x64, or scatter into a reshaped x."),
    # scatter_elements
    "ranks differ": (elements(F, np.zeros(2, np.int32), np.zeros(2, np.float32)), TypeError,
        EL + "indices must have the rank of x, and that at least 1; got ranks 1 and 2.",
        "x: float32[2, 5], indices: int32[2], updates: float32[2]", "Add axes of size 1 to the one of lower rank."),
    "elements of a scalar": (elements(1.0, np.int32(0), 1.0), TypeError,
        EL + "indices must have the rank of x, and that at least 1; got ranks 0 and 0.",
        "x: float32[], indices: int32[], updates: float32[]", "Add axes of size 1 to the one of lower rank."),
    "larger off the axis": (elements(F, np.zeros((1, 6), np.int32), np.zeros((1, 6), np.float32)), TypeError,
        EL + "indices.shape[1] is 6, more than x.shape[1], 5; only axis 0 may be larger.",
        "x: float32[2, 5], indices: int32[1, 6], updates: float32[1, 6]",
        "Cut indices and updates to 5 in dimension 1, or pass axis=1."),
    "elements axis": (elements(F, I2, F[:, :2], axis=-3), ValueError,
        EL + "axis must be between -2 and 1 for rank 2; got axis=-3.",
        "x: float32[2, 5], indices: int32[2, 2], updates: float32[2, 2]", "Pass axis=-1 for the last one."),
    "elements shape": (elements(F, I2, F), TypeError,
        EL + "updates must have the shape [2, 2], that of indices; got [2, 5].",
        "x: float32[2, 5], indices: int32[2, 2], updates: float32[2, 5]", "Pass updates of shape [2, 2]."),
    # quantized_linear_matrix_multiply
    "a of floats": (multiply(a=F), TypeError, MM + "a must be one of int8, uint8; got float32.", "a: float32[2, 5]",
        "Quantize it: round(a / a_scale) + a_zero_point, clipped, as int8 or uint8."),
    "a of wide integers": (multiply(a=np.zeros((2, 5), np.int32)), TypeError,
        MM + "a must be one of int8, uint8; got int32.", "a: int32[2, 5]", "Convert a with .astype first."),
    "b a vector": (multiply(b=U8[0]), TypeError, MM + "b must have at least two dimensions; got 1.", "b: uint8[4]",
        "Add a dimension of size 1 to b."),
    "depths differ": (multiply(b=U8.T), TypeError,
        MM + "the last dimension of a, 3, must be the last but one of b; got 4.", "a: int8[2, 3], b: uint8[4, 3]",
        "Transpose a or b, so that they share K."),
    "batches differ": (multiply(a=np.zeros((2, 2, 3), np.int8), b=np.zeros((3, 3, 4), np.uint8)), TypeError,
        MM + "leading dimensions must broadcast; got [2] and [3].", "a: int8[2, 2, 3], b: uint8[3, 3, 4]",
        "Give a and b equal leading dimensions."),
    "rows of a batch": (multiply(a=np.zeros((2, 2, 3), np.int8), sa=np.ones((2, 2), np.float32)), TypeError,
        MM + "a_scale must be one value, or one per row, 2, or broadcast to [2, 2, 1]; got [2, 2].",
        "a: int8[2, 2, 3], b: uint8[3, 4], a_scale: float32[2, 2]", "Reshape a_scale to [2, 2, 1]."),
    "scale that is complex": (multiply(sa=1j), TypeError, MM + "a_scale must be float32; got complex64.",
        "a_scale: complex64[]", "Pass a_scale as float32."),
    "scale of another dtype": (multiply(sa=np.int32(1)), TypeError, MM + "a_scale must be float32; got int32.",
        "a_scale: int32[]", "Pass a_scale as float32."),
    "zero point of another dtype": (multiply(zb=np.int8(1)), TypeError, MM + "b_zero_point must be uint8; got int8.",
        "b_zero_point: int8[]", "Pass b_zero_point as uint8."),
    "zero point out of range": (multiply(za=128), ValueError,
        MM + "a_zero_point must be an integer from -128 to 127; got 128.", "a_zero_point: int",
        "Pass a_zero_point as int8."),
    "zero point not whole": (multiply(zo=1.5), ValueError,
        MM + "output_zero_point must be an integer from -128 to 127; got 1.5.", "output_zero_point: float",
        "Pass output_zero_point as int8."),
    "rows of a": (multiply(sa=np.ones(3, np.float32)), TypeError,
        MM + "a_scale must be one value, or one per row, 2, or broadcast to [2, 1]; got [3].",
        "a: int8[2, 3], b: uint8[3, 4], a_scale: float32[3]", "Pass one value, or 2: one for each row of a."),
    "columns of b": (multiply(sb=np.ones((4, 1), np.float32)), TypeError,
        MM + "b_scale must be one value, or one per column, 4, or broadcast to [1, 4]; got [4, 1].",
        "a: int8[2, 3], b: uint8[3, 4], b_scale: float32[4, 1]", "Reshape b_scale to [1, 4]."),
    "too many columns of b": (multiply(sb=np.ones(5, np.float32)), TypeError,
        MM + "b_scale must be one value, or one per column, 4, or broadcast to [1, 4]; got [5].",
        "a: int8[2, 3], b: uint8[3, 4], b_scale: float32[5]", "Pass one value, or 4: one for each column of b."),
    "columns of the output": (multiply(so=np.ones((1, 4), np.float32)), TypeError,
        MM + "output_scale must be one value, or one per row, 2, or broadcast to [2, 1]; got [1, 4].",
        "a: int8[2, 3], b: uint8[3, 4], output_scale: float32[1, 4]",
        "Pass one value, or 2: output_scale per column is not supported."),
    "rank of a scale": (multiply(so=np.ones((1, 1, 1), np.float32)), TypeError,
        MM + "output_scale must be one value, or one per row, 2, or broadcast to [2, 1]; got [1, 1, 1].",
        "a: int8[2, 3], b: uint8[3, 4], output_scale: float32[1, 1, 1]", "Reshape output_scale to [1]."),
    "rows of the output": (multiply(so=np.ones((1, 1, 3), np.float32)), TypeError,
        MM + "output_scale must be one value, or one per row, 2, or broadcast to [2, 1]; got [1, 1, 3].",
        "a: int8[2, 3], b: uint8[3, 4], output_scale: float32[1, 1, 3]",
        "Pass one value, or 2: one for each row of the output."),
    "scale missing": (multiply(so=None), TypeError, MM + "output_scale must be an array.", "output_scale: None",
        "Pass an array of numbers."),
    **{
        f"scale {name}": (multiply(sb=value), ValueError,
            MM + f"b_scale must be a finite float32, not 0 and not subnormal; got {shown}.",
            f"b_scale: {type(value).__name__}",
            "Pass a scale from 1.1754943508222875e-38 to 3.4028234663852886e+38 in magnitude.")
        for name, value, shown in (
            ("zero", 0, "0"), ("negative zero", -0.0, "-0.0"), ("subnormal", 1e-39, "1e-39"), ("tiny", 1e-60, "1e-60"),
            ("infinite", float("-inf"), "-inf"), ("nan", float("nan"), "nan"), ("too large", 1e39, "1e+39"),
            ("huge", 10**400, "an int of 2**64 or more in magnitude"),
        )
    },
    "zero point huge": (multiply(zb=-(10**400)), ValueError,
        MM + "b_zero_point must be an integer from 0 to 255; got an int of 2**64 or more in magnitude.",
        "b_zero_point: int", "Pass b_zero_point as uint8."),
    "output dtype": (multiply(output_dtype="int32"), TypeError,
        MM + "the output's dtype must be one of int8, uint8; got 'int32'.", "output_zero_point: None",
        "Pass output_dtype='int8' or 'uint8'."),
    "output dtype no dtype": (multiply(output_dtype="byte8"), TypeError,
        MM + "the output's dtype must be one of int8, uint8; got 'byte8'.", "output_zero_point: None",
        "Pass output_dtype='int8' or 'uint8'."),
    "output zero point": (multiply(zo=np.int32(3)), TypeError,
        MM + "the output's dtype must be one of int8, uint8; got int32.", "output_zero_point: int32[]",
        "Pass output_zero_point as int8 or uint8."),
    "two output dtypes": (multiply(zo=np.int8(3), output_dtype="uint8"), TypeError,
        MM + "output_zero_point must be uint8; got int8.", "output_zero_point: int8[]",
        "Pass output_zero_point as uint8."),
    "matmul implementation": (multiply(implementation="float"), ValueError,
        MM + "implementation must be one of 'integer_dot', 'mixed_dot'; got 'float'.",
        "a: int8[2, 3], a_scale: float32[], a_zero_point: None, b: uint8[3, 4], b_scale: float32[], "
        "b_zero_point: None, output_scale: float32[], output_zero_point: None",
        "Pass implementation='integer_dot'."),
    # PackedMatrix
    "packed: too few sums": (multiply(b=packed(sums=np.zeros(3, np.int32))), TypeError,
        MM + "b.sums must have the shape of b.matrix without K, [4]; got [3].",
        "b.matrix: uint8[4, 3], b.sums: int32[3]", ANEW),
    "packed: rank of the sums": (multiply(b=packed(sums=np.zeros((1, 4), np.int32))), TypeError,
        MM + "b.sums must have the shape of b.matrix without K, [4]; got [1, 4].",
        "b.matrix: uint8[4, 3], b.sums: int32[1, 4]", ANEW),
    "packed: dtype of the matrix": (multiply(b=packed(matrix=np.zeros((4, 3), np.int32))), TypeError,
        MM + "b.matrix must be one of int8, uint8; got int32.", "b.matrix: int32[4, 3], b.sums: int32[4]", ANEW),
    "packed: dtype of the sums": (multiply(b=packed(sums=np.zeros(4, np.float32))), TypeError,
        MM + "b.sums must be int32; got float32.", "b.matrix: uint8[4, 3], b.sums: float32[4]", ANEW),
    "packed: dtype": (multiply(b=packed(dtype="float32")), TypeError,
        MM + "b.dtype must be one of int8, uint8; got float32.", PACKED, ANEW),
    "packed: one dimension": (multiply(b=packed(matrix=U8[0], sums=np.int32(0))), TypeError,
        MM + "b.matrix must have at least two dimensions; got 1.", "b.matrix: uint8[4], b.sums: int32[]", ANEW),
    "packed: no array": (multiply(b=packed(matrix=None)), TypeError, MM + "b.matrix must be an array.",
        "b.matrix: None", "Pass an array of numbers."),
    "packed: a list": (multiply(b=packed(sums=[1, 2, 3, 4])), TypeError, MM + "b.sums must be an array.",
        "b.sums: list", "Pass jnp.asarray(b.sums)."),
    "packed: shapes alone": (multiply(b=jax.eval_shape(packed)), TypeError, MM + "b.matrix must be an array.",
        "b.matrix: uint8[4, 3]", "Pass an array, or trace with jax.eval_shape to work with shapes alone."),
    "packed: another k": (multiply(b=packed(k=4)), TypeError,
        MM + "b.sums must add up K numbers each, 3; got b.k = 4.", PACKED, OF_BLOCK),
    "packed: no k": (multiply(b=packed(k=None)), TypeError,
        MM + "b.sums must add up K numbers each, 3; got b.k = None.", PACKED, OF_BLOCK),
    "packed: depths differ": (multiply(b=packed(matrix=U8, sums=np.zeros(3, np.int32), k=4)), TypeError,
        MM + "the last dimension of a, 3, must be the last but one of b; got 4.", "a: int8[2, 3], b: uint8[4, 3]",
        "Transpose a or b, so that they share K."),
    "packed: batches differ": (
        multiply(a=np.zeros((2, 2, 3), np.int8), b=jax.tree.map(lambda x: np.stack([x] * 3), packed())), TypeError,
        MM + "leading dimensions must broadcast; got [2] and [3].", "a: int8[2, 2, 3], b: uint8[3, 3, 4]",
        "Give a and b equal leading dimensions."),
    "packed: dtype of the zero point": (multiply(b=packed(), zb=np.int8(1)), TypeError,
        MM + "b_zero_point must be uint8; got int8.", "b_zero_point: int8[]", "Pass b_zero_point as uint8."),
    "packed: columns": (multiply(b=packed(), sb=np.ones(5, np.float32)), TypeError,
        MM + "b_scale must be one value, or one per column, 4, or broadcast to [1, 4]; got [5].",
        "a: int8[2, 3], b: uint8[3, 4], b_scale: float32[5]", "Pass one value, or 4: one for each column of b."),
    "packed: in the place of a": (multiply(a=packed()), TypeError, MM + "a must be an array.", "a: uint8[3, 4]",
        "Pass the array that was packed."),
    # prepack
    "prepack floats": (prepack(F), TypeError, PRE + "b must be one of int8, uint8; got float32.", "b: float32[2, 5]",
        "Quantize it: round(b / b_scale) + b_zero_point, clipped, as int8 or uint8."),
    "prepack a vector": (prepack(U8[0]), TypeError, PRE + "b must have at least two dimensions; got 1.", "b: uint8[4]",
        "Add a dimension of size 1 to b."),
    "prepack a list": (prepack([[1]]), TypeError, PRE + "b must be an array.", "b: list", "Pass jnp.asarray(b)."),
    "prepack twice": (prepack(packed()), TypeError, PRE + "b must be an array.", "b: uint8[3, 4]",
        "Pass the array that was packed."),
    "prepack transposed traced": (lambda: jax.jit(lambda t: jaxdml.prepack(U8, transposed=t))(True), TypeError,
        PRE + "transposed must be static; got a traced value.", "b: uint8[3, 4]",
        "Name transposed in jax.jit's static_argnames, or close over it."),
    "prepack transposed a number": (prepack(U8, transposed=1), TypeError,
        PRE + "transposed must be a bool; got int.", "b: uint8[3, 4]", "Pass True or False."),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_with_the_whole_text(name):
    call, error, rule, operands, advice = REFUSALS[name]
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    text = str(caught.value)
    assert text == f"{rule}\n  {operands}\n  {advice}"
    assert re.fullmatch(r"jaxdml\.\w+: [^\n]+\.\n  [^\n]+\n  [^\n]+\.", text)  # Three lines, two of them sentences.


def test_refuses_while_tracing():
    with pytest.raises(ValueError, match="k=9"):
        jax.eval_shape(lambda x: jaxdml.top_k(x, 9), F)
    with pytest.raises(TypeError, match="indices must be one of"):
        jax.make_jaxpr(jaxdml.scatter_nd)(F, I1.astype(np.float32), F)


@quick
def test_python_and_numpy_scalars_are_arrays():
    got = jaxdml.quantized_linear_matrix_multiply(I8, np.float32(1), None, U8, jnp.float32(1), np.uint8(0), S)
    assert got.dtype == jnp.int8
    assert jaxdml.scatter_nd(2.0, np.zeros((0,), np.int32), 3.0) == 3


LOWERED_FOR_A_GPU = {
    "top_k": (
        lambda: jax.jit(top_k_of_floats).trace(F), "float_top_k", TOP, X,
    ),
    "quantized_linear_matrix_multiply": (
        lambda: jax.jit(mixed_product).trace(I8, U8), "mixed_dot", MM,
        "a: int8[2, 3], a_scale: float32[], a_zero_point: None, b: uint8[3, 4], b_scale: float32[], "
        "b_zero_point: None, output_scale: float32[], output_zero_point: None",
    ),
    "a deep product": (
        lambda: jax.jit(mixed_product).trace(jax.ShapeDtypeStruct((2, 70_000), "int8"),
            jax.ShapeDtypeStruct((70_000, 4), "int8")), "mixed_dot", MM,
        "a: int8[2, 70000], a_scale: float32[], a_zero_point: None, b: int8[70000, 4], b_scale: float32[], "
        "b_zero_point: None, output_scale: float32[], output_zero_point: None",
    ),
}  # fmt: skip


def top_k_of_floats(x):
    return jaxdml.top_k(x, 2, implementation="float_top_k")


def mixed_product(a, b):
    return multiply(a, b=b, implementation="mixed_dot")()


@pytest.mark.parametrize("here", ["cpu", "tpu"])
@pytest.mark.parametrize("name", LOWERED_FOR_A_GPU)
def test_a_method_that_a_platform_has_not_is_refused_at_lowering(name, here):
    trace, method, function, operands = LOWERED_FOR_A_GPU[name]
    jax.clear_caches()
    with mock.patch.object(lowering, "_here", return_value=here):
        traced = trace()
    traced.lower(lowering_platforms=("cpu",))
    for platform in ("cuda", "rocm", "tpu"):
        with pytest.raises(NotImplementedError) as caught:
            traced.lower(lowering_platforms=(platform,))
        rule = f"{function}implementation='{method}' serves only when lowered for cpu."
        assert str(caught.value) == f"{rule}\n  {operands}\n  Pass implementation=None to let the library choose."


@pytest.mark.skipif(jax.default_backend() == "cpu", reason="CPUs have the method")
def test_a_method_of_another_platform_is_refused_without_jit_too():
    with jax.disable_jit(), pytest.raises(NotImplementedError, match="serves only when lowered for cpu"):
        top_k_of_floats(F)
