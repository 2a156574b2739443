"""Models of many groups: they run in one program, and each integer is judged by the interpreter."""

from typing import Any

import jax
import numpy as np
import onnx
from onnx import helper, numpy_helper

import jaxdml.onnx
from tests.kit import assert_same_bits
from tests.onnx import oracle
from tests.onnx.sessions import session


class Groups:
    """Collects nodes. Operands are names of values, or arrays, which become initializers; None leaves one out."""

    def __init__(self, opset: int = 21):
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.dimensions: dict[str, Any] = {}
        self.outputs: list[str] = []

    def input(self, array: Any, *dimensions: str) -> str:
        """Add an input with its value; its dimensions may have names."""
        name = f"input_{len(self.inputs)}"
        self.inputs[name] = np.asarray(array)
        self.dimensions[name] = dimensions or self.inputs[name].shape
        return name

    def _name(self, operand: Any) -> str:
        if operand is None or isinstance(operand, str):
            return operand or ""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(operand), name))
        return name

    def __call__(self, kind: str, *operands: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; ``com.microsoft.`` may stand before its kind. Its name is that of its first output."""
        domain, _, op_type = kind.rpartition(".")
        made = [f"{op_type}_{len(self.nodes)}{'_' * i}" for i in range(outputs)]
        names = [self._name(operand) for operand in operands]
        self.nodes.append(helper.make_node(op_type, names, made, made[0], domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def dq(self, integers: Any, scale: Any, zero: Any = None, **attributes: Any) -> str:
        """Dequantize; a Python number is float32."""
        return self("DequantizeLinear", integers, _scale(scale), zero, **attributes)

    def q(self, x: str, scale: Any, zero: Any = None, **attributes: Any) -> str:
        """Quantize, and return it from the model."""
        return self.out(self("QuantizeLinear", x, _scale(scale), zero, **attributes))

    def out(self, name: str) -> str:
        """Return a value from the model."""
        self.outputs.append(name)
        return name

    def proto(self) -> onnx.ModelProto:
        """Return the model."""
        typed = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), self.dimensions[name])
            for name, array in self.inputs.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "groups", typed, outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def load(self, numerics: Any = "exact") -> jaxdml.onnx.Model:
        """Return the model as the door has it."""
        return jaxdml.onnx.load(self.proto(), numerics=numerics)

    def run(self, numerics: Any = "exact", compiled: bool = True) -> dict[str, np.ndarray]:
        """Return the outputs by name."""
        model = self.load(numerics)
        apply = jax.jit(model.apply) if compiled else model.apply
        results = apply(model.params, *map(jax.numpy.asarray, self.inputs.values()))
        return dict(zip(self.outputs, map(np.asarray, results), strict=True))

    def notes(self) -> dict[str, str]:
        """Return what became of each node, by name."""
        lines = self.load().report().splitlines()
        start = lines[0].index("runs as")
        return {line.split()[0]: line[start:] for line in lines[1:]}

    def check(self, **options: Any) -> dict[str, np.ndarray]:
        """Require the interpreter's bits of every output that is made of integers."""
        got, want = self.run(**options), oracle.run(self.proto(), self.inputs)
        for name in self.outputs:
            assert_same_bits(got[name], want.computed[name])
        return got

    def nearly(self, **options: Any) -> dict[str, np.ndarray]:
        """Require onnxruntime's values of every output, but for one step where it is made of integers."""
        got, want = self.run(**options), session(self.proto())(**self.inputs)
        for name in self.outputs:
            whole = got[name].dtype.kind in "iu"
            assert got[name].dtype == want[name].dtype, name
            allowed = {"rtol": 0, "atol": 1} if whole else {"rtol": 1e-5, "atol": 1e-6}
            np.testing.assert_allclose(*(x[name].astype(np.float64) for x in (got, want)), **allowed, err_msg=name)
        return got


def _scale(scale: Any) -> Any:
    return np.float32(scale) if isinstance(scale, float | int) else scale


def draw(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    """Draw integers from the whole range of a dtype."""
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
