"""ONNX's own interface of backends, on which its node tests run."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import onnx
import onnx.backend.base

from jaxdml.onnx import load
from jaxdml.onnx._model import Model


class JaxdmlBackendRep(onnx.backend.base.BackendRep):
    """A model, ready to run on NumPy arrays."""

    def __init__(self, model: Model):
        self.model = model

    def run(self, inputs: Sequence[Any], **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Compute the outputs, with 64-bit types, since ONNX's models have them.

        Args:
          inputs: arrays in the order of the model's inputs.
          kwargs: nothing that is used here.

        Returns:
          One array for each output, of the dtype that the model declares.
        """
        with jax.enable_x64(True):
            results = self.model(*(np.asarray(value) for value in inputs))
        return tuple(np.asarray(result) for result in results)


class JaxdmlBackend(onnx.backend.base.Backend):
    """Runs models with ``jaxdml.onnx`` on the device that JAX finds."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node of a model is supported."""
        try:
            load(model)
        except ValueError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> JaxdmlBackendRep:
        """Read a model."""
        with jax.enable_x64(True):
            return JaxdmlBackendRep(load(model, numerics=kwargs.get("numerics", "exact")))

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[np.ndarray, ...]:
        """Run one node on NumPy arrays.

        Args:
          node: what to run.
          inputs: arrays in the order of its inputs.
          device: as in ``supports_device``.
          outputs_info: not used: dtypes and shapes follow from the inputs.
          kwargs: ``opset_version``, the newest of the package onnx by default.

        Returns:
          One array for each output.
        """
        arrays = [np.asarray(value) for value in inputs]
        helper = onnx.helper
        typed = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(filter(None, node.input), arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in filter(None, node.output)]
        graph = helper.make_graph([node], "node", typed, outputs)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        opsets = [helper.make_opsetid(node.domain, version)]
        return cls.prepare(helper.make_model(graph, opset_imports=opsets), device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on ``"CPU"`` or ``"CUDA"``, that is, whether JAX has such a device."""
        platform = {"CPU": "cpu", "CUDA": "cuda"}.get(device.partition(":")[0])
        try:
            return platform is not None and bool(jax.devices(platform))
        except RuntimeError:
            return False


is_compatible = JaxdmlBackend.is_compatible
prepare = JaxdmlBackend.prepare
run_model = JaxdmlBackend.run_model
run_node = JaxdmlBackend.run_node
supports_device = JaxdmlBackend.supports_device
