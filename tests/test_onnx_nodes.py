"""ONNX's own backend node tests, as the installed ``onnx`` brings them, run against the operators and the oracle."""

import importlib
from collections import Counter
from contextlib import nullcontext
from functools import partial

import jax
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node

import jaxdml
from jaxdml import reference
from tests.kit import assert_same_bits, quick

pytestmark = quick

AT_LEAST = Counter(
    {
        "TopK": 7,
        "Scatter": 2,
        "ScatterElements": 7,
        "ScatterND": 7,
        "QLinearMatMul": 8,
        "MatMulInteger": 1,
        "Gather": 4,
        "GatherElements": 3,
        "GatherND": 3,
        "QuantizeLinear": 13,
        "DequantizeLinear": 14,
        "DynamicQuantizeLinear": 3,
        "ArgMax": 16,
        "ArgMin": 16,
        "ConvInteger": 2,
        "QLinearConv": 1,
    }
)
"""How many cases onnx 1.23.2 has for each operator type. 1.17 has fewer, and wrong answers for int8."""

_REDUCES = "asks for a reduction of old and new values, which DirectML's scatters do not have"
_NARROW = "has a dtype of 2 or 4 bits, or a float of 8, which DirectML's struct or jaxdml does not have"
NOT_RUN = {
    **{
        f"test_{operator}linear_{kind}": _NARROW
        for operator in ("quantize", "dequantize")
        for kind in ("e4m3fn", "e5m2", "uint4", "int4", "uint2", "int2", "float4e2m1")
    },
    "test_dequantizelinear_e4m3fn_float16": _NARROW,
    "test_dequantizelinear_e4m3fn_zero_point": _NARROW,
    "test_scatter_elements_with_duplicate_indices": _REDUCES,
    "test_scatter_elements_with_reduction_max": _REDUCES,
    "test_scatter_elements_with_reduction_min": _REDUCES,
    "test_scatter_elements_with_reduction_mul": _REDUCES,
    "test_scatternd_add": _REDUCES,
    "test_scatternd_max": _REDUCES,
    "test_scatternd_max_with_element_indices": _REDUCES,
    "test_scatternd_min": _REDUCES,
    "test_scatternd_min_with_element_indices": _REDUCES,
    "test_scatternd_multiply": _REDUCES,
}
DIRECTIONS = {1: "decreasing", 0: "increasing"}


def _collect():
    # A case comes to be when its module is imported. The loader imports every operator's, which takes 5 s.
    for operator in AT_LEAST:
        importlib.import_module(f"{node.__name__}.{operator.lower()}")
    cases = (case for case in node._NodeTestCases if len(case.model.graph.node) == 1)
    return {case.name: case for case in cases if case.model.graph.node[0].op_type in AT_LEAST}


CASES = _collect()


def attributes(case):
    return {a.name: helper.get_attribute_value(a) for a in case.model.graph.node[0].attribute}


def top_k(operators, x, k, *, largest=1, sorted=1, **axis):
    assert sorted == 1
    values, indices = operators.top_k(x, int(k.item()), direction=DIRECTIONS[largest], **axis)
    return values, np.asarray(indices).astype(np.int64)


def extreme(name, operators, x, *, axis=0, keepdims=1, select_last_index=0):
    call = getattr(operators, name)
    indices = call(x, axis=axis, keepdims=bool(keepdims), select_last_index=bool(select_last_index))
    return [np.asarray(indices).astype(np.int64)]


def scatter_nd(operators, x, indices, updates, *, reduction=b"none"):
    assert reduction == b"none"
    return [operators.scatter_nd(x, indices, updates)]


def scatter_elements(operators, x, indices, updates, *, reduction=b"none", **axis):
    assert reduction == b"none"
    return [operators.scatter_elements(x, indices, updates, **axis)]


def quantized_linear_matrix_multiply(operators, *inputs):
    return [operators.quantized_linear_matrix_multiply(*inputs)]


def matrix_multiply_integer(operators, a, b, a_zero_point, b_zero_point):
    return [operators.matrix_multiply_integer(a, a_zero_point, b, b_zero_point)]


def gather(operators, x, indices, **axis):
    return [operators.gather(x, indices, **axis)]


def gather_elements(operators, x, indices, **axis):
    return [operators.gather_elements(x, indices, **axis)]


def gather_nd(operators, x, indices, **batch_dims):
    return [operators.gather_nd(x, indices, **batch_dims)]


def parameters(x, scale, *, axis=1, block_size=0, output_dtype=None):
    """Return the options of both operators; to ONNX, one scale has no axis."""
    options = {"axis": axis} if scale.ndim else {}
    options |= {"block_size": block_size} if block_size else {}
    return options | ({"output_dtype": helper.tensor_dtype_to_np_dtype(output_dtype)} if output_dtype else {})


def quantize_linear(operators, x, scale, zero_point=None, **options):
    return [operators.quantize_linear(x, scale, zero_point, **parameters(x, scale, **options))]


def dequantize_linear(operators, x, scale, zero_point=None, **options):
    return [operators.dequantize_linear(x, scale, zero_point, **parameters(x, scale, **options))]


def dynamic_quantize_linear(operators, x):
    return operators.dynamic_quantize_linear(x)


def convolution_integer(operators, x, w, x_zero_point=None, w_zero_point=None, **attributes):
    return [operators.convolution_integer(x, x_zero_point, w, w_zero_point, **of_windows(**attributes))]


def quantized_linear_convolution(operators, *inputs, **attributes):
    # In DirectML's order the bias comes before the output's scale.
    *operands, output_scale, output_zero_point = inputs
    options = of_windows(**attributes)
    return [operators.quantized_linear_convolution(*operands, None, output_scale, output_zero_point, **options)]


def of_windows(*, pads=()):
    half = len(pads) // 2
    return {"start_padding": pads[:half], "end_padding": pads[half:]} if pads else {}


CALLS = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "TopK": top_k,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "QLinearMatMul": quantized_linear_matrix_multiply,
    "MatMulInteger": matrix_multiply_integer,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ArgMax": partial(extreme, "argmax"),
    "ArgMin": partial(extreme, "argmin"),
    "ConvInteger": convolution_integer,
    "QLinearConv": quantized_linear_convolution,
}


def _parameter(name):
    return pytest.param(name, marks=pytest.mark.skip(reason=NOT_RUN[name]) if name in NOT_RUN else ())


@pytest.mark.parametrize("operators", [jaxdml, reference], ids=["jax", "oracle"])
@pytest.mark.parametrize("name", [_parameter(name) for name in sorted(CASES)])
def test_the_answer_is_that_of_onnx(name, operators):
    case = CASES[name]
    call = CALLS[case.model.graph.node[0].op_type]
    assert case.data_sets
    for inputs, outputs in case.data_sets:
        # 64-bit data need x64; 64-bit indices do not.
        with jax.enable_x64(True) if inputs[0].dtype.itemsize == 8 else nullcontext():
            got = call(operators, *inputs, **attributes(case))
        assert len(got) == len(outputs)
        for ours, theirs in zip(got, outputs, strict=True):
            assert_same_bits(ours, numpy_helper.to_array(theirs) if isinstance(theirs, TensorProto) else theirs)


def test_no_case_is_left_out_but_for_what_directml_lacks():
    reduces = {name for name in CASES if attributes(CASES[name]).get("reduction", b"none") != b"none"}
    narrow = {name for name, case in CASES.items() if any(map(is_narrow, case.data_sets[0][0] + case.data_sets[0][1]))}
    assert set(NOT_RUN) == reduces | narrow


def is_narrow(tensor):
    """Tell whether a tensor has a dtype of less than 8 bits, or a float of 8."""
    return isinstance(tensor, TensorProto) and tensor.data_type != TensorProto.INT16


def test_onnx_brings_no_fewer_cases_than_it_did():
    found = Counter(case.model.graph.node[0].op_type for case in CASES.values())
    assert found >= AT_LEAST
    assert set(CALLS) == set(AT_LEAST)
