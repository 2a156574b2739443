"""Turn a description into a function on arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import numpy as np

from jaxdml._base.axis_direction import AxisDirection
from jaxdml._operators._arguments import Call, x64_enabled
from jaxdml._operators._indices import DUPLICATES
from jaxdml._operators.quantized_linear_matrix_multiply import quantized_linear_matrix_multiply
from jaxdml._operators.scatter_elements import scatter_elements
from jaxdml._operators.scatter_nd import scatter_nd
from jaxdml._operators.top_k import TopK, top_k
from jaxdml.directml._buffers import buffer_of, elements_of
from jaxdml.directml._constraints import violations
from jaxdml.directml._descs import OperatorDesc, Role, require
from jaxdml.directml._enums import FeatureLevel, OperatorType, c_field, c_name
from jaxdml.directml._errors import InvalidDescError
from jaxdml.directml._tensors import BufferTensorDesc

Outputs = tuple[jax.Array, ...]


@dataclass(frozen=True)
class CompiledOperator:
    """A valid description as a function of its input tensors: what ``compile_operator`` returns.

    It is pure and works under ``jit`` and ``vmap``.

    Attributes:
      desc: the description.
      feature_level: the level for which it is valid.
      duplicates: what two updates of one element do, in a scatter.
    """

    desc: OperatorDesc
    feature_level: FeatureLevel
    duplicates: str = "unspecified"

    def __post_init__(self) -> None:
        """Check the description, however it came here."""
        require("compile_operator", self.desc)
        if self.feature_level not in list(FeatureLevel):
            listed = ", ".join(level.name for level in FeatureLevel)
            _refuse(f"feature_level must be one of {listed}; got {self.feature_level!r}.")
        level = FeatureLevel(self.feature_level)
        object.__setattr__(self, "feature_level", level)
        kind = self.desc.operator_type
        if self.duplicates not in DUPLICATES:
            _refuse(f"duplicates must be one of {', '.join(DUPLICATES)}; got {self.duplicates!r}.")
        if self.duplicates != "unspecified" and kind not in _SCATTERS:
            _refuse(f"duplicates is for scatters; got {self.duplicates!r} for {c_name(kind)}.")
        if broken := list(violations(self.desc, level)):
            count = "a constraint" if len(broken) == 1 else f"{len(broken)} constraints"
            raise InvalidDescError(f"{c_name(kind)} breaks {count} at feature level {level.label}.", broken)

    def __call__(self, *inputs: Any) -> Any:
        """Compute the outputs.

        Args:
          inputs: an array for every input of the struct, in its order, and None for an optional one that the
            description leaves out. It has the described ``Sizes``, or, where there are ``Strides``, is a 1-D buffer of
            at least the described size.

        Returns:
          The output; of a selection ``TopK(values, indices)``. One with ``Strides`` is a 1-D buffer of the described
          size, with zeros in its gaps.

        Raises:
          TypeError: an input is not as described, or a data type has 64 bits and JAX keeps only 32.
        """
        roles = self.desc.roles()
        names = [name for name, role in roles.items() if role is not Role.OUTPUT]
        fields = list(map(c_field, names))
        shown = dict(zip(fields, (*inputs, *[None] * len(fields)), strict=False))
        call = Call(f"directml.{type(self.desc).__name__}", **shown)
        if len(inputs) != len(names):
            rule = f"the inputs must be {len(names)}: {', '.join(fields)}; got {len(inputs)}."
            call.fail(TypeError, rule, "Pass None for an optional tensor that is not described.")
        elements = [_elements(call, name, getattr(self.desc, name)) for name in names]
        outputs = {name: tensor for name, tensor in self.desc.tensors.items() if roles[name] is Role.OUTPUT}
        for name, tensor in outputs.items():
            _require_x64(call, name, tensor)
        computed = _OPERATORS[self.desc.operator_type](self, *elements)
        packed = [
            values if tensor.strides is None else buffer_of(values, tensor)
            for values, tensor in zip(computed, outputs.values(), strict=True)
        ]
        return TopK(*packed) if len(packed) > 1 else packed[0]


def _elements(call: Call, name: str, tensor: BufferTensorDesc | None) -> Any:
    """Check an input against its description and return it in its sizes."""
    field = c_field(name)
    given = call.operands[field]

    def fail(rule: str, advice: str) -> NoReturn:
        call.fail(TypeError, f"{field} {rule}", advice, field)

    if tensor is None:
        if given is not None:
            fail("must be None, as described.", "Describe a tensor there, or pass None.")
        return None
    if given is None:
        fail("must be an array, as described.", "Pass one.")
    if not isinstance(given, np.ndarray | jax.Array):
        fail("must be an array.", f"Pass jnp.asarray({name}).")
    if not (name == "indices_tensor" and isinstance(given, np.ndarray)):
        _require_x64(call, name, tensor, field)
    dtype = tensor.data_type.dtype
    if given.dtype != dtype:
        fail(f"must be {dtype}; got {given.dtype}.", f"Pass {name}.astype({str(dtype)!r}).")
    if tensor.strides is None:
        if given.shape != tensor.sizes:
            rule = f"must have the sizes {list(tensor.sizes)}; got {list(given.shape)}."
            fail(rule, f"Pass {name}.reshape({tensor.sizes}), or describe another size.")
        return given
    size = tensor.size_in_bytes
    if given.ndim != 1 or given.size * dtype.itemsize < size:
        rule = f"has strides, so it must be a 1-D buffer of at least {size} bytes; got {list(given.shape)}."
        fail(rule, f"Pass all of the buffer in one dimension, {-(-size // dtype.itemsize)} elements.")
    return elements_of(given, tensor)


def _require_x64(call: Call, name: str, tensor: BufferTensorDesc, *only: str) -> None:
    if tensor.data_type.bits > 32 and not x64_enabled():
        rule = f"{c_field(name)} is {tensor.data_type.name}, which JAX has only with jax_enable_x64."
        numpy = ", pass a NumPy array outside of jax.jit" if name == "indices_tensor" else ""
        call.fail(TypeError, rule, f"Enable jax_enable_x64{numpy}, or describe a narrower type.", *only)


def compile_operator(
    desc: OperatorDesc, feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4, *, duplicates: str = "unspecified"
) -> CompiledOperator:
    """Check a description against DirectML's constraints and return it as a function on arrays.

    All constraints are checked, and every one that is broken is named.

    Args:
      desc: the description of an operator.
      feature_level: whose data types and dimension counts are allowed; by default the newest.
      duplicates: what two updates of one element do in a scatter, as ``jaxdml.scatter_nd`` has it. DirectML calls them
        invalid; ``"last"`` gives what its page shows for them.

    Returns:
      A ``CompiledOperator``: ``op(input, ...)`` runs the public operator of jaxdml and gives what that gives.

    Raises:
      TypeError: ``desc`` is no description.
      InvalidDescError: the description breaks a constraint.
      ValueError: ``feature_level`` is no level, or ``duplicates`` no rule, or given for another operator.

    Source:
      ``IDMLDevice::CreateOperator`` and ``IDMLDevice::CompileOperator``, which answer a broken constraint with
      ``E_INVALIDARG`` and nothing else. What jaxdml takes from contradicting pages is in docs/departures.md.

    Example:
      >>> desc = dml.TopK1OperatorDesc(
      ...     input_tensor=dml.BufferTensorDesc(dml.TensorDataType.FLOAT32, (1, 1, 1, 4)),
      ...     output_value_tensor=dml.BufferTensorDesc(dml.TensorDataType.FLOAT32, (1, 1, 1, 2)),
      ...     output_index_tensor=dml.BufferTensorDesc(dml.TensorDataType.UINT32, (1, 1, 1, 2)),
      ...     axis=3, k=2, axis_direction=dml.AxisDirection.DECREASING)
      >>> dml.compile_operator(desc)(jnp.array([[[[3.0, 1.0, 3.0, 2.0]]]])).indices
      Array([[[[0, 2]]]], dtype=uint32)
    """
    return CompiledOperator(desc, feature_level, duplicates)


def _refuse(rule: str) -> NoReturn:
    raise ValueError(f"jaxdml.directml.compile_operator: {rule}")


_SCATTERS = OperatorType.SCATTER, OperatorType.SCATTER_ND


def _top_k(operator: CompiledOperator, x: Any) -> Outputs:
    desc: Any = operator.desc
    direction = getattr(desc, "axis_direction", AxisDirection.DECREASING)
    index_dtype = desc.output_index_tensor.data_type.dtype
    return top_k(x, desc.k, axis=desc.axis, direction=direction, index_dtype=index_dtype)


def _scatter(operator: CompiledOperator, x: Any, indices: Any, updates: Any) -> Outputs:
    desc: Any = operator.desc
    return (scatter_elements(x, indices, updates, axis=desc.axis, duplicates=operator.duplicates),)


def _scatter_nd(operator: CompiledOperator, x: Any, indices: Any, updates: Any) -> Outputs:
    desc: Any = operator.desc
    sizes = x.shape[-desc.input_dimension_count :]
    tuples = indices.shape[-desc.indices_dimension_count :]
    slices = (*tuples[:-1], *sizes[tuples[-1] :])
    given = (_shaped(part, shape) for part, shape in ((x, sizes), (indices, tuples), (updates, slices)))
    return (_shaped(scatter_nd(*given, duplicates=operator.duplicates), x.shape),)


def _multiply(operator: CompiledOperator, *inputs: Any) -> Outputs:
    desc: Any = operator.desc
    rank = desc.output_tensor.dimension_count
    # Scales may have more dimensions than what they scale; those are of size 1.
    given = [None if part is None else _shaped(part, part.shape[-rank:]) for part in inputs]
    return (quantized_linear_matrix_multiply(*given, output_dtype=desc.output_tensor.data_type.dtype),)


def _shaped(part: Any, shape: tuple[int, ...]) -> Any:
    return part if part.shape == shape else part.reshape(shape)


_OPERATORS: Mapping[OperatorType, Callable[..., Outputs]] = {
    OperatorType.TOP_K: _top_k,
    OperatorType.TOP_K1: _top_k,
    OperatorType.SCATTER: _scatter,
    OperatorType.SCATTER_ND: _scatter_nd,
    OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY: _multiply,
}
