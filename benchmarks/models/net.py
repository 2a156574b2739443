"""Collect the nodes and the random weights of a network, as an ONNX model."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_NEARLY_ZERO = 0.01
"""How many channels are, where they differ."""


class Net:
    """Collects the nodes and weights of a model.

    Args:
      name: of the model.
      opset: that its nodes are written in. 22 is the first one whose convolutions take bfloat16.
      batch: the first dimension of its inputs and outputs.
      spread: by how many powers of two the weights of output channels differ, as a standard deviation. If it is not 0,
        one channel in a hundred is nearly zero, too.
    """

    def __init__(self, name: str, opset: int = 22, batch: int | str = "batch", spread: float = 0.0) -> None:
        self.name, self.opset, self.batch, self.spread = name, opset, batch, spread
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: Any, *shape: int | str) -> str:
        """Add an input whose first dimension is the batch."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, (self.batch, *shape)))
        return name

    def constant(self, value: Any) -> str:
        """Add an initializer."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def __call__(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; inputs that are not names of values become initializers."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        label = f"{kind.lower()}_{len(self.nodes)}"
        results = [f"{label}_out{place or ''}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, results, label, **attributes))
        return results[0] if outputs == 1 else results

    def normal(self, *shape: int, spread: float) -> np.ndarray[Any, Any]:
        """Draw weights."""
        return self.random.standard_normal(shape, np.float32) * np.float32(spread)

    def channels(self, count: int) -> np.ndarray[Any, Any]:
        """Draw what the weights of output channels are multiplied by, so that their squares keep their mean."""
        if not self.spread:
            return np.ones(count, np.float32)
        factors = 2 ** (self.spread * self.random.standard_normal(count))
        factors[self.random.random(count) < _NEARLY_ZERO] *= 2.0**-20
        return (factors / np.sqrt(np.mean(factors**2))).astype(np.float32)

    def convolve(self, x: str, taken: int, given: int, window: int = 1, after: str = "", **options: Any) -> str:
        """Add a convolution with bias that keeps the size but for its strides, and what follows it.

        Args:
          x: the name of what it takes.
          taken: channels.
          given: channels.
          window: height and width.
          after: an operator, or ``Clip`` for a clip at 6.
          options: further attributes.
        """
        each = taken // options.get("group", 1) * window**2
        # A Relu halves the squares; a sum with what went around the block doubles them.
        weights = self.normal(given, taken // options.get("group", 1), window, window, spread=(1 + bool(after)) ** 0.5)
        weights /= np.float32(each**0.5)
        weights *= self.channels(given).reshape(-1, 1, 1, 1)
        pads = [window // 2] * 4
        x = self("Conv", x, weights, self.normal(given, spread=0.05), kernel_shape=[window] * 2, pads=pads, **options)
        return self("Clip", x, np.float32(0), np.float32(6)) if after == "Clip" else self(after, x) if after else x

    def linear(self, x: str, taken: int, given: int) -> str:
        """Add a product with a weight, and a bias, as transformers have it."""
        product = self("MatMul", x, self.normal(taken, given, spread=taken**-0.5) * self.channels(given))
        return self("Add", product, self.normal(given, spread=0.05))

    def dense(self, x: str, taken: int, given: int) -> str:
        """Add a Gemm whose weight is stored transposed."""
        weights = self.normal(given, taken, spread=taken**-0.5) * self.channels(given)[:, None]
        return self("Gemm", x, weights, self.normal(given, spread=0.05), transB=1)

    def layer_norm(self, x: str, size: int) -> str:
        """Normalize the last dimension."""
        weights = 1 + self.normal(size, spread=0.1), self.normal(size, spread=0.1)
        return self("LayerNormalization", x, *weights, axis=-1, epsilon=1e-5)

    def finished(self, **outputs: tuple[int | str, ...]) -> onnx.ModelProto:
        """Return the model, whose outputs are these values, with their shapes but for the batch."""
        results = []
        for number, (value, shape) in enumerate(outputs.items()):
            name = f"output_{number}"
            self.nodes.append(helper.make_node("Identity", [value], [name], f"{name}_identity"))
            results.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (self.batch, *shape)))
        graph = helper.make_graph(self.nodes, self.name, self.inputs, results, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        # Older versions of onnxruntime read older versions of the format.
        return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))
