"""The operators of ONNX in onnxruntime, with inputs and outputs bound."""

import time
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.cases import Array
from benchmarks.peers.contender import Absent, Contender


def session(
    node: str,
    operands: Mapping[str, Array],
    outputs: Mapping[str, Any],
    promises: str,
    *,
    constants: Collection[str] = (),
    domain: str = "",
    **attributes: Any,
) -> Contender:
    """Make a model of one node, whose operands are inputs but for those that are constants of the model.

    Args:
      node: the name of ONNX's operator.
      operands: the node's operands, in its order, with names of our own.
      outputs: the dtype of each output, by a name of our own.
      promises: see ``Contender``.
      constants: which of the operands onnxruntime gets beforehand.
      domain: the domain of the operator.
      attributes: the node's attributes.
    """
    import onnx
    import onnxruntime as ort

    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(node, list(operands), list(outputs), domain=domain, **attributes)],
        node,
        [_info(name, value.dtype) for name, value in operands.items() if name not in constants],
        [_info(name, dtype) for name, dtype in outputs.items()],
        [onnx.numpy_helper.from_array(value, name) for name, value in operands.items() if name in constants],
    )
    versions = {"": 24, "com.microsoft": 1}
    opsets = [onnx.helper.make_opsetid(*pair) for pair in versions.items()]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=11)
    given = {name: value for name, value in operands.items() if name not in constants}
    try:
        return bound(model, given, promises)
    except ort.capi.onnxruntime_pybind11_state.NotImplemented as error:
        raise Absent(f"no {node} of {next(iter(operands.values())).dtype}") from error


def bound(model: Any, given: Mapping[str, Array], promises: str) -> Contender:
    """Make a contender of a model, with these inputs and all outputs bound."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = environment.THREADS
    options.log_severity_level = 3  # Of a model's optimizations it says much.
    begin = time.perf_counter()
    ready = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    compile_s = time.perf_counter() - begin
    binding = ready.io_binding()
    for name, value in given.items():
        binding.bind_cpu_input(name, value)
    for output in ready.get_outputs():
        binding.bind_output(output.name)

    def run() -> Any:
        ready.run_with_iobinding(binding)
        return binding

    return Contender(run, lambda found: tuple(found.copy_outputs_to_cpu()), promises, compile_s)


def _info(name: str, dtype: Any) -> Any:
    import onnx

    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
