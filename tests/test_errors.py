"""Every refusal, its whole text: the call and the rule, the shapes and dtypes, what to write instead."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml

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


SELECTABLE = "float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64"
INTEGERS = "int8, int16, int32, int64, uint8, uint16, uint32, uint64"
TOP = "jaxdml.top_k: "
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
    "none": (top_k(None, 1), TypeError, TOP + "x must be an array.", "x: None", "Pass jnp.asarray(x)."),
    "objects": (top_k(np.array([None, 1]), 1), TypeError, TOP + "x must be an array.", "x: object[2]",
        "Pass jnp.asarray(x)."),
    "direction unknown": (top_k(F, 1, direction="up"), ValueError,
        TOP + "direction must be one of 'decreasing', 'increasing'; got 'up'.", X, "Pass direction='decreasing'."),
    "direction no name": (top_k(F, 1, direction=1), TypeError,
        TOP + "direction must be one of 'decreasing', 'increasing'; got 1.", X, "Pass direction='decreasing'."),
    "index dtype float": (top_k(F, 1, index_dtype="float32"), TypeError,
        TOP + "index_dtype must be one of uint32, int32; got 'float32'.", X,
        "Enable jax_enable_x64 for 64-bit indices."),
    "index dtype no dtype": (top_k(F, 1, index_dtype="word"), TypeError,
        TOP + "index_dtype must be one of uint32, int32; got 'word'.", X, "Enable jax_enable_x64 for 64-bit indices."),
    "index dtype too narrow": (
        lambda: jax.eval_shape(lambda x: jaxdml.top_k(x, 1, index_dtype="int32"), LONG),
        TypeError, TOP + "index_dtype int32 cannot count the 2147483649 elements of the axis.", "x: int8[2147483649]",
        "Pass a wider index_dtype."),
    "implementation unknown": (top_k(F, 1, implementation="magic"), ValueError,
        TOP + "implementation must be one of 'sort', 'integer_top_k', 'float_top_k', 'repeated_maxima', 'threshold', "
        "'chunk_maxima', 'tournament'; got 'magic'.", X,
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
        "x: float32[2, 5], indices: int32[2, 1], updates: int32[2, 5]", "Pass updates.astype(float32)."),
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
        EL + "indices must be no larger than x off axis 0; they are in dimension 1.",
        "x: float32[2, 5], indices: int32[1, 6], updates: float32[1, 6]",
        "Cut indices and updates to 5 in that dimension."),
    "elements axis": (elements(F, I2, F[:, :2], axis=-3), ValueError,
        EL + "axis must be between -2 and 1 for rank 2; got axis=-3.",
        "x: float32[2, 5], indices: int32[2, 2], updates: float32[2, 2]", "Pass axis=-1 for the last one."),
    "elements shape": (elements(F, I2, F), TypeError,
        EL + "updates must have the shape [2, 2], that of indices; got [2, 5].",
        "x: float32[2, 5], indices: int32[2, 2], updates: float32[2, 5]", "Pass updates of shape [2, 2]."),
    # quantized_linear_matrix_multiply
    "a of floats": (multiply(a=F), TypeError, MM + "a must be one of int8, uint8; got float32.", "a: float32[2, 5]",
        "Convert a with .astype first."),
    "b a vector": (multiply(b=U8[0]), TypeError, MM + "b must have at least two dimensions; got 1.", "b: uint8[4]",
        "Add a dimension of size 1 to b."),
    "depths differ": (multiply(b=U8.T), TypeError,
        MM + "the last dimension of a, 3, must be the last but one of b; got 4.", "a: int8[2, 3], b: uint8[4, 3]",
        "Transpose a or b, so that they share K."),
    "batches differ": (multiply(a=np.zeros((2, 2, 3), np.int8), b=np.zeros((3, 3, 4), np.uint8)), TypeError,
        MM + "leading dimensions must broadcast; got [2] and [3].", "a: int8[2, 2, 3], b: uint8[3, 3, 4]",
        "Give a and b equal leading dimensions."),
    "scale of another dtype": (multiply(sa=np.float16(1)), TypeError, MM + "a_scale must be float32; got float16.",
        "a_scale: float16[]", "Pass a_scale as float32."),
    "zero point of another dtype": (multiply(zb=np.int8(1)), TypeError, MM + "b_zero_point must be uint8; got int8.",
        "b_zero_point: int8[]", "Pass b_zero_point as uint8."),
    "zero point out of range": (multiply(za=128), ValueError,
        MM + "a_zero_point must be a whole number from -128 to 127; got 128.", "a_zero_point: int",
        "Pass a_zero_point as int8."),
    "zero point not whole": (multiply(zo=1.5), ValueError,
        MM + "output_zero_point must be a whole number from -128 to 127; got 1.5.", "output_zero_point: float",
        "Pass output_zero_point as int8."),
    "rows of a": (multiply(sa=np.ones(3, np.float32)), TypeError,
        MM + "a_scale must be one value, or one per row, 2, or broadcast to [2, 1]; got [3].",
        "a: int8[2, 3], b: uint8[3, 4], a_scale: float32[3]", "Reshape a_scale to [2, 1]."),
    "columns of b": (multiply(sb=np.ones((4, 1), np.float32)), TypeError,
        MM + "b_scale must be one value, or one per column, 4, or broadcast to [1, 4]; got [4, 1].",
        "a: int8[2, 3], b: uint8[3, 4], b_scale: float32[4, 1]", "Reshape b_scale to [1, 4]."),
    "columns of the output": (multiply(so=np.ones((1, 4), np.float32)), TypeError,
        MM + "output_scale must be one value, or one per row, 2, or broadcast to [2, 1]; got [1, 4].",
        "a: int8[2, 3], b: uint8[3, 4], output_scale: float32[1, 4]", "Reshape output_scale to [2, 1]."),
    "rank of a scale": (multiply(so=np.ones((1, 1, 1), np.float32)), TypeError,
        MM + "output_scale must be one value, or one per row, 2, or broadcast to [2, 1]; got [1, 1, 1].",
        "a: int8[2, 3], b: uint8[3, 4], output_scale: float32[1, 1, 1]", "Reshape output_scale to [2, 1]."),
    "scale missing": (multiply(so=None), TypeError, MM + "output_scale must be an array.", "output_scale: None",
        "Pass jnp.asarray(output_scale)."),
    "output dtype": (multiply(output_dtype="int32"), TypeError,
        MM + "the output's dtype must be one of int8, uint8; got 'int32'.", "output_zero_point: None",
        "Pass output_dtype='uint8', or an output_zero_point of that dtype."),
    "output dtype no dtype": (multiply(output_dtype="byte8"), TypeError,
        MM + "the output's dtype must be one of int8, uint8; got 'byte8'.", "output_zero_point: None",
        "Pass output_dtype='uint8', or an output_zero_point of that dtype."),
    "output zero point": (multiply(zo=np.int32(3)), TypeError,
        MM + "the output's dtype must be one of int8, uint8; got int32.", "output_zero_point: int32[]",
        "Pass output_dtype='uint8', or an output_zero_point of that dtype."),
    "two output dtypes": (multiply(zo=np.int8(3), output_dtype="uint8"), TypeError,
        MM + "output_zero_point must be uint8; got int8.", "output_zero_point: int8[]",
        "Pass output_zero_point as uint8."),
    "matmul implementation": (multiply(implementation="float"), ValueError,
        MM + "implementation must be one of 'integer_dot', 'mixed_dot'; got 'float'.",
        "a: int8[2, 3], a_scale: float32[], a_zero_point: None, b: uint8[3, 4], b_scale: float32[], "
        "b_zero_point: None, output_scale: float32[], output_zero_point: None",
        "Pass implementation='integer_dot'."),
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


def test_python_and_numpy_scalars_are_arrays():
    got = jaxdml.quantized_linear_matrix_multiply(I8, np.float32(1), None, U8, jnp.float32(1), np.uint8(0), S)
    assert got.dtype == jnp.int8
    assert jaxdml.scatter_nd(2.0, np.zeros((0,), np.int32), 3.0) == 3
