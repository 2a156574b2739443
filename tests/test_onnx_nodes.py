"""ONNX's own backend node tests, as the installed ``onnx`` brings them, run against the operators and the oracle."""

import importlib
from collections import Counter
from contextlib import nullcontext

import jax
import numpy as np
import pytest
from onnx import helper
from onnx.backend.test.case import node

import jaxdml
from jaxdml import reference
from tests.laws import assert_same_bits
from tests.quick import quick

pytestmark = quick

AT_LEAST = Counter(
    {"TopK": 7, "Scatter": 2, "ScatterElements": 7, "ScatterND": 7, "QLinearMatMul": 8, "MatMulInteger": 1}
)
"""How many cases onnx 1.23.2 has for each operator type. 1.17 has fewer, and wrong answers for int8."""

_REDUCES = "asks for a reduction of old and new values, which DirectML's scatters do not have"
NOT_RUN = {
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


def scatter_nd(operators, x, indices, updates, *, reduction=b"none"):
    assert reduction == b"none"
    return [operators.scatter_nd(x, indices, updates)]


def scatter_elements(operators, x, indices, updates, *, reduction=b"none", **axis):
    assert reduction == b"none"
    return [operators.scatter_elements(x, indices, updates, **axis)]


def quantized_linear_matrix_multiply(operators, *inputs):
    # DirectML has no float16 scales, and jaxdml refuses them. As float32 they are the same numbers: the answer stands.
    widened = [x.astype(np.float32) if x.dtype == np.float16 else x for x in inputs]
    return [operators.quantized_linear_matrix_multiply(*widened)]


def matrix_multiply_integer(operators, a, b, a_zero_point, b_zero_point):
    return [operators.matrix_multiply_integer(a, a_zero_point, b, b_zero_point)]


CALLS = {
    "TopK": top_k,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "QLinearMatMul": quantized_linear_matrix_multiply,
    "MatMulInteger": matrix_multiply_integer,
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
            assert_same_bits(ours, theirs)


def test_half_precision_scales_are_refused_as_onnx_gives_them():
    ((inputs, _),) = CASES["test_qlinearmatmul_2D_uint8_float16"].data_sets
    with pytest.raises(TypeError, match="a_scale must be float32; got float16"):
        jaxdml.quantized_linear_matrix_multiply(*inputs)


def test_no_case_is_left_out_but_for_what_directml_lacks():
    assert set(NOT_RUN) == {name for name in CASES if attributes(CASES[name]).get("reduction", b"none") != b"none"}


def test_onnx_brings_no_fewer_cases_than_it_did():
    found = Counter(case.model.graph.node[0].op_type for case in CASES.values())
    assert found >= AT_LEAST
    assert set(CALLS) == set(AT_LEAST)
