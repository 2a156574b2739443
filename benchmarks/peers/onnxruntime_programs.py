"""The operators of ONNX in onnxruntime, with inputs and outputs bound."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers.contender import Absent, Contender


def _session(
    node: str,
    case_dtypes: list[tuple[str, Any]],
    outputs: list[tuple[str, Any]],
    constants: dict[str, np.ndarray[Any, Any]],
    inputs: dict[str, np.ndarray[Any, Any]],
    promises: str,
    **attributes: Any,
) -> Contender:
    import onnx
    import onnxruntime as ort

    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(node, [name for name, _ in case_dtypes], [name for name, _ in outputs], **attributes)],
        node,
        [_info(name, dtype) for name, dtype in case_dtypes if name not in constants],
        [_info(name, dtype) for name, dtype in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)], ir_version=11)
    options = ort.SessionOptions()
    options.intra_op_num_threads = environment.THREADS
    begin = time.perf_counter()
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except ort.capi.onnxruntime_pybind11_state.NotImplemented as error:
        raise Absent(f"no {node} of {np.dtype(case_dtypes[0][1])}") from error
    compile_s = time.perf_counter() - begin
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_cpu_input(name, value)
    for name, _ in outputs:
        binding.bind_output(name)

    def run() -> Any:
        session.run_with_iobinding(binding)
        return binding

    return Contender(run, lambda bound: tuple(bound.copy_outputs_to_cpu()), promises, compile_s)


def _info(name: str, dtype: Any) -> Any:
    import onnx

    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)


def _top_k(case: Case, arguments: Arguments) -> Contender:
    (x,) = arguments
    if x.dtype.name == "bfloat16":
        raise Absent("no TopK of bfloat16")
    k = np.array([case.options["k"]])
    signature = [("x", x.dtype), ("k", np.int64)]
    results = [("values", x.dtype), ("indices", np.int64)]
    largest = int(case.options["direction"] == "decreasing")
    promises = "values" if case.data == "with NaN" else "exact"
    return _session("TopK", signature, results, {"k": k}, {"x": x}, promises, axis=1, largest=largest)


def _scatter(case: Case, arguments: Arguments) -> Contender:
    if case.options["memory"] == "donated":
        raise Absent("always writes into a copy")
    x, places, updates = arguments
    names = ("x", "places", "updates")
    given = dict(zip(names, (x, places.astype(np.int64), updates), strict=True))
    signature = [(name, value.dtype) for name, value in given.items()]
    node = {"scatter_nd": "ScatterND", "scatter_elements": "ScatterElements"}[case.operator]
    return _session(node, signature, [("output", x.dtype)], {}, given, "exact")


def _product(case: Case, arguments: Arguments, prepacked: bool) -> Contender:
    if case.options.get("scales"):
        raise Absent("one scale for all of the left matrix")
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    names = ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "output_scale", "output_zero")
    values = dict(zip(names, (a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero), strict=True))
    constants = {name: value for name, value in values.items() if value.ndim == 0 or (prepacked and name == "b")}
    inputs = {name: value for name, value in values.items() if name not in constants}
    signature = [(name, value.dtype) for name, value in values.items()]
    output = [("output", output_zero.dtype)]
    return _session("QLinearMatMul", signature, output, constants, inputs, "within one")


PLAIN: Mapping[str, Callable[[Case, Arguments], Contender]] = {
    "top_k": _top_k,
    "scatter_nd": _scatter,
    "scatter_elements": _scatter,
    "quantized_linear_matrix_multiply": partial(_product, prepacked=False),
}

PREPACKED: Mapping[str, Callable[[Case, Arguments], Contender]] = {
    "quantized_linear_matrix_multiply": partial(_product, prepacked=True),
}
"""With the right matrix a constant of the model, brought into the kernel's layout beforehand."""
