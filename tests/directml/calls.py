"""Calls of operators whose descriptions follow from the arrays, many of them in one program; and their judge."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdml import directml as dml
from jaxdml.directml._structs import struct_of
from tests.kit import assert_same_bits
from tests.onnx.floats import by_onnxruntime, one_node


class Call(NamedTuple):
    """One call of an operator, and what it has to return.

    Attributes:
      name: the operator.
      inputs: for each input field an array, None, or a tuple of arrays.
      wanted: for each output field an array, or a tuple of arrays.
      fields: all other fields; one for a data type is that of the first output, whatever it says.
      tolerance: None if the bits have to be the same, 0 if the numbers have to be.
    """

    name: str
    inputs: Sequence[Any]
    wanted: Sequence[Any]
    fields: Mapping[str, Any] = {}
    tolerance: float | None = None

    @property
    def desc(self) -> dml.OperatorDesc:
        """The description, with the data types and the sizes of the arrays."""
        struct = struct_of(dml.OperatorType[self.name])
        tensors = iter(self.inputs), iter(self.wanted)
        described = {name: _tensor(next(tensors[role.output])) for name, role in struct.roles().items()}
        kind = {name: _kind(self.wanted[0]) for name in self.fields if name.endswith("data_type")}
        return struct(**described, **{**self.fields, **kind})

    @property
    def operator(self) -> dml.CompiledOperator:
        """The description, compiled."""
        return dml.compile_operator(self.desc)


def _tensor(array: Any) -> Any:
    if isinstance(array, tuple):
        return tuple(map(_tensor, array))
    return None if array is None else dml.BufferTensorDesc(_kind(array), array.shape)


def _kind(array: np.ndarray) -> dml.TensorDataType:
    return dml.TensorDataType[array.dtype.name.upper()]


def check(calls: Sequence[Call]) -> list[Any]:
    """Compute all calls in one program, require of each what is wanted, and return the results."""
    operators = [call.operator for call in calls]
    run = jax.jit(lambda inputs: [op(*given) for op, given in zip(operators, inputs, strict=True)])
    found = run([[jax.tree.map(np.asarray, given) for given in call.inputs] for call in calls])
    wrong = []
    for call, got in zip(calls, found, strict=True):
        try:
            compare(got, call.wanted if len(call.wanted) > 1 else call.wanted[0], call.tolerance)
        except AssertionError as error:
            wrong.append(f"{call.desc}: {error}")
    assert not wrong, "\n".join(wrong)
    return found


def compare(found: Any, wanted: Any, tolerance: float | None = None) -> None:
    """Require the same bits, or numbers within a tolerance, of an array or of several."""
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        if tolerance is None:
            assert_same_bits(one, other)
        else:
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=tolerance, atol=tolerance)


def wide(dtype: Any) -> Any:
    """Return a context in which JAX has the type."""
    return jax.enable_x64(np.dtype(dtype).itemsize == 8)


def onnx(kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> list[np.ndarray]:
    """Return what onnxruntime computes of a node."""
    operands = {f"x{place}": value for place, value in enumerate(inputs)}
    proto, given = one_node(kind, operands, *(f"y{place}" for place in range(outputs)), **attributes)
    return by_onnxruntime(proto, *given)
