"""Devices that compute models, and the data that goes in and out, all of it as float32."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxdml.directml._enums import TensorFlags
from jaxdml.directml._tensors import BufferTensorDesc
from jaxdml.directml.pydirectml._expressions import Expression, Model


class Binding:
    """Data for an input.

    Args:
      expr: the input.
      data: an array, cast to float32 in row-major order. For indices and other integers pass their bits as float32.
    """

    def __init__(self, expr: Expression, data: Any) -> None:
        self._expr = expr
        self._data = np.ascontiguousarray(data, np.float32)


class TensorData:
    """An output: ``numpy.array(data)`` returns it, or its bits if it has integers, as float32."""

    def __init__(self, data: Any) -> None:
        self._data = np.ascontiguousarray(data, np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._data, dtype, copy=True if copy is None else copy)


class Device:
    """The device that JAX computes on by default.

    Args:
      use_gpu: shown by ``repr``; JAX's configuration chooses the device.
      use_debug_layer: without effect. Descriptions are always checked.
    """

    def __init__(self, use_gpu: bool = True, use_debug_layer: bool = False) -> None:
        self._use_gpu = use_gpu

    def compute(
        self, model: Model, inputs: Sequence[Binding | None], outputs: Sequence[Expression | None], /
    ) -> list[TensorData]:
        """Compute a model, which is compiled at the first call.

        Args:
          model: what ``GraphBuilder.build`` returned.
          inputs: a binding for each input of the graph, by its index; None for one that nothing reads.
          outputs: the expressions that were passed to ``build``; those that are None are left out.

        Returns:
          The outputs.

        Raises:
          RuntimeError: a binding is missing, or holds too few bytes, or an output has elements of 16 or 64 bits.
        """
        compiled = model.compiled
        described = dict(enumerate(compiled.inputs))
        arrays = {
            index: _given(index, desc, inputs[index] if index < len(inputs) else None)
            for index, desc in described.items()
            if desc is not None
        }
        owned = {index for index, desc in described.items() if desc and desc.flags & TensorFlags.OWNED_BY_DML}
        run: Any = compiled.initialize({index: arrays[index] for index in owned}) if owned else compiled
        results = run(*(arrays.get(index) for index in described if index not in owned))
        pairs = zip(results, compiled.outputs, outputs, strict=True)
        return [_returned(np.asarray(result), desc) for result, desc, wanted in pairs if wanted is not None]

    def __repr__(self) -> str:
        return f"dml.Device on {'GPU' if self._use_gpu else 'CPU'}"


def _given(index: int, desc: BufferTensorDesc, binding: Binding | None) -> np.ndarray:
    """Return the first bytes of what is bound, as the described elements."""
    if binding is None:
        raise RuntimeError(f"input {index} of the graph is not bound")
    data, size = binding._data.reshape(-1).view(np.uint8), desc.size_in_bytes
    if data.size < size:
        raise RuntimeError(f"input {index} of the graph has {size} bytes; {data.size} are bound")
    dtype = np.dtype(desc.data_type.dtype)
    elements = data[: size // dtype.itemsize * dtype.itemsize].view(dtype)
    return elements if desc.strides else elements[: int(np.prod(desc.sizes))].reshape(desc.sizes)


def _returned(result: np.ndarray, desc: BufferTensorDesc) -> TensorData:
    if result.itemsize not in (1, 4):
        raise RuntimeError(f"PyDirectML returns no {desc.data_type.name}: add a cast to a type of 32 bits")
    return TensorData(result.view(np.float32) if result.itemsize == 4 else result)
