"""ONNX's own interface of backends, on which its node tests run."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import onnx
import onnx.backend.base

from jaxdml._base import errors
from jaxdml.onnx import load
from jaxdml.onnx._errors import unsupported
from jaxdml.onnx.running.model import Model

PLATFORMS = {"CPU": "cpu", "CUDA": "cuda"}
"""What ONNX calls devices, and what JAX does."""


class JaxdmlBackendRep(onnx.backend.base.BackendRep):  # type: ignore[misc]  # onnx has no types that help.
    """A model, ready to run on NumPy arrays.

    Attributes:
      model: what runs.
      device: where it runs.
    """

    def __init__(self, model: Model, device: jax.Device):
        self.model = model
        self.device = device

    def run(self, inputs: Sequence[Any], **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Compute the outputs, with 64-bit types, since ONNX's models have them.

        Args:
          inputs: arrays, NumPy scalars or lists of arrays in the order of the model's inputs.
          kwargs: ``key``, as for ``Model.apply``.

        Returns:
          One array, or list of arrays, for each output, of the dtype that the model declares; also by its name.
        """
        sequences = {place for place, value in enumerate(self.model.inputs) if value.within}
        arrays = [
            value if place in sequences else _array(value, f"input {place}") for place, value in enumerate(inputs)
        ]
        with jax.enable_x64(True), jax.default_device(self.device):
            results = jax.tree.map(np.asarray, self.model(*arrays, key=kwargs.get("key")))
        names = [value.name for value in self.model.outputs]
        return onnx.backend.base.namedtupledict("Outputs", names)(*results)


class JaxdmlBackend(onnx.backend.base.Backend):  # type: ignore[misc]
    """Runs models with ``jaxdml.onnx`` on the devices that JAX finds."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node of a model is supported, on a device that JAX has."""
        try:
            cls.prepare(model, device, **kwargs)
        except ValueError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> JaxdmlBackendRep:
        """Read a model.

        Args:
          model: as for ``jaxdml.onnx.load``.
          device: as in ``supports_device``.
          kwargs: ``numerics``, as for ``jaxdml.onnx.load``.

        Returns:
          What runs it.
        """
        found = _device(device)
        if found is None:
            advice = f"Give one of {', '.join(map(repr, PLATFORMS))} that JAX has here."
            raise ValueError(errors.compose("onnx.backend", f"there is no device {device!r}.", advice))
        with jax.enable_x64(True), jax.default_device(found):
            return JaxdmlBackendRep(load(model, numerics=kwargs.get("numerics", "exact")), found)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[np.ndarray, ...]:
        """Run one node on NumPy arrays.

        Args:
          node: what to run.
          inputs: arrays or NumPy scalars in the order of its inputs. One that the node leaves out is left out here
            too, or None.
          device: as in ``supports_device``.
          outputs_info: not used: dtypes and shapes follow from the inputs.
          kwargs: ``opset_version`` of ai.onnx, the newest of the package onnx by default, and what ``prepare`` takes.

        Returns:
          One array for each output.
        """
        node, arrays = _with_inputs(node, list(inputs))
        helper = onnx.helper
        typed = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(filter(None, node.input), arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", typed, outputs)
        opsets = {"": kwargs.pop("opset_version", onnx.defs.onnx_opset_version())}
        opsets.setdefault("" if node.domain == "ai.onnx" else node.domain, 1)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in opsets.items()])
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on ``"CPU"``, ``"CUDA"`` or, say, ``"CUDA:1"``, that is, whether JAX has such a device."""
        return _device(device) is not None


def _device(name: str) -> jax.Device | None:
    kind, _, number = name.partition(":")
    try:
        return jax.devices(PLATFORMS[kind])[int(number or 0)]
    except (RuntimeError, LookupError, ValueError):
        return None


def _array(value: Any, what: str) -> np.ndarray:
    if value is None or isinstance(value, list | tuple | dict | str | bytes):
        raise unsupported(f"{what} is {errors.describe(value)}.", "Only tensors are supported: no sequences, no texts.")
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        raise unsupported(f"{what} has dtype {array.dtype}.", "Only numbers and bools are supported.")
    return array


def _with_inputs(node: onnx.NodeProto, given: list[Any]) -> tuple[onnx.NodeProto, list[np.ndarray]]:
    """Return a node each of whose inputs has its own name, and the arrays for them."""
    places = [place for place, name in enumerate(node.input) if name]
    if len(given) == len(node.input):
        given = [given[place] for place in places]
    if len(given) != len(places):
        rule = f"{len(given)} inputs are given; {node.op_type} has {len(places)}."
        raise TypeError(errors.compose("onnx.backend", rule, "Give one array for each."))
    names, arrays = [""] * len(node.input), []
    for place, value in zip(places, given, strict=True):
        if value is not None:
            name = node.input[place]
            names[place] = f"{name} #{place}" if name in names else name
            arrays.append(_array(value, f"input {place} of {node.op_type}"))
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    changed.input[:] = names
    return changed, arrays


is_compatible = JaxdmlBackend.is_compatible
prepare = JaxdmlBackend.prepare
run_model = JaxdmlBackend.run_model
run_node = JaxdmlBackend.run_node
supports_device = JaxdmlBackend.supports_device
