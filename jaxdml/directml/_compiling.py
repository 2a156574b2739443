"""Turn a description into a function on arrays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NoReturn

import jax
from jax import export
from jax.typing import ArrayLike

from jaxdml._base.errors import compose
from jaxdml.directml._arrays import InputField, input_fields, output_arrays
from jaxdml.directml._binding import bound_arrays, input_arrays
from jaxdml.directml._constraints import violations
from jaxdml.directml._descs import OperatorDesc, require
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import InvalidDescError, require_level
from jaxdml.directml._json import from_json, to_json


@dataclass(frozen=True)
class CompiledOperator:
    """A valid description as a function of its input tensors, as ``compile_operator`` returns it.

    It is pure and works under ``jit`` and ``vmap``.

    Attributes:
      desc: the description.
      feature_level: the level for which it is valid.
      options: every option of the operator with its value, in pairs: ``dict(operator.options)`` is a dict of them.
    """

    desc: OperatorDesc
    feature_level: FeatureLevel
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check the description. There is no way to an operator around this."""
        require("compile_operator", self.desc)
        level = require_level("compile_operator", self.feature_level)
        object.__setattr__(self, "feature_level", level)
        object.__setattr__(self, "options", _options(self.desc, self.options))
        if broken := list(violations(self.desc, level)):
            count = "a constraint" if len(broken) == 1 else f"{len(broken)} constraints"
            subject = f"{self.desc.c_name()} breaks {count} at feature level {level.label}."
            raise InvalidDescError(subject, broken)

    @cached_property
    def _input_fields(self) -> tuple[InputField, ...]:
        return input_fields(self.desc)

    def __call__(self, *inputs: ArrayLike | Sequence[ArrayLike | None] | None) -> Any:
        """Compute the outputs.

        Args:
          inputs: one argument for each input field of the struct, in the order of the fields. For a tensor pass an
            array of the described ``Sizes``, or, if it has ``Strides``, a 1-D buffer of at least the described size.
            For an optional tensor that is not described pass None. For an array of tensors pass a list of arrays.

        Returns:
          An array if the struct has one output. Otherwise a NamedTuple with the struct's output fields; one that is not
          described is None. The selections return ``TopK(values, indices)``. An output with ``Strides`` is a 1-D
          buffer of the described size, with zeros in its gaps.

        Raises:
          TypeError: an input does not have the described type, sizes or buffer size, or a data type has 64 bits while
            JAX keeps only 32. An input is OWNED_BY_DML: call ``initialize`` first.
        """
        return InitializedOperator(self, {})(*inputs)

    def initialize(self, /, **tensors: ArrayLike | Sequence[ArrayLike | None]) -> InitializedOperator:
        """Bind the inputs that are OWNED_BY_DML, and return the function of the other inputs.

        A weight is prepared here once: the right matrix of a product is packed as by ``jaxdml.prepack``. The
        outputs have the same bits as without the flag.

        Args:
          tensors: an array for each input field that is OWNED_BY_DML, by the field's name in C: ``BTensor=b``. As in a
            call, pass a 1-D buffer for a tensor with ``Strides``. For an array of tensors pass a list, with None in
            place of each tensor that is not OWNED_BY_DML. NumPy arrays are copied.

        Returns:
          The ``InitializedOperator``.

        Raises:
          TypeError: a tensor that is OWNED_BY_DML is missing, another one is given, or one is not as described.

        Source:
          ``DML_TENSOR_FLAG_OWNED_BY_DML``, ``IDMLDevice::CreateOperatorInitializer``.
        """
        return InitializedOperator(self, bound_arrays(self.desc, self._input_fields, tensors))


@partial(jax.tree_util.register_dataclass, data_fields=["bound"], meta_fields=["operator"])
@dataclass(frozen=True, eq=False)
class InitializedOperator:
    """An operator with bound inputs as a function of its other inputs, as ``CompiledOperator.initialize`` returns it.

    It is a pytree of the bound arrays: pass it to ``jax.jit``, ``jax.device_put`` and so on, or close over it.

    Attributes:
      operator: the compiled operator. Static.
      bound: a dict of the bound inputs in the form in which the operator takes them, by the names of the fields in C.

    Example:
      >>> def tensor(kind, *sizes, **more):
      ...     return dml.BufferTensorDesc(dml.TensorDataType[kind], sizes, **more)
      >>> desc = dml.QuantizedLinearMatrixMultiplyOperatorDesc(
      ...     a_tensor=tensor("INT8", 1, 2), a_scale_tensor=tensor("FLOAT32", 1),
      ...     b_tensor=tensor("INT8", 2, 1, flags=dml.TensorFlags.OWNED_BY_DML), b_scale_tensor=tensor("FLOAT32", 1),
      ...     output_scale_tensor=tensor("FLOAT32", 1), output_tensor=tensor("INT8", 1, 1))
      >>> one = jnp.ones(1)
      >>> op = dml.compile_operator(desc).initialize(BTensor=jnp.array([[3], [-4]], jnp.int8))
      >>> op(jnp.array([[5, 2]], jnp.int8), one, None, one, None, one, None)
      Array([[7]], dtype=int8)
    """

    operator: CompiledOperator
    bound: dict[str, Any]

    def __call__(self, *inputs: ArrayLike | Sequence[ArrayLike | None] | None) -> Any:
        """Compute the outputs.

        Args:
          inputs: as for ``CompiledOperator``, without the fields that are bound. If only some tensors of an array of
            tensors are bound, pass a list with None in their places.

        Returns:
          What ``CompiledOperator`` returns.

        Raises:
          TypeError: as for ``CompiledOperator``, or a bound array no longer has the described type and sizes.
        """
        operator = self.operator
        desc, options = operator.desc, dict(operator.options)
        arrays = input_arrays(desc, operator._input_fields, inputs, self.bound)
        return output_arrays(desc, desc.operator.compute(desc, *arrays, **options))


def compile_operator(
    desc: OperatorDesc, feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4, **options: str
) -> CompiledOperator:
    """Check a description against DirectML's constraints and return it as a function on arrays.

    All constraints are checked. The error names every one that is broken.

    Args:
      desc: the description of an operator.
      feature_level: the level whose data types and dimension counts are allowed; the newest by default.
      options: choices that DirectML leaves open. The class of the description says which ones an operator has.

    Returns:
      The ``CompiledOperator``. Call it with arrays, as ``op(input, ...)``, to run jaxdml's operator on them. If inputs
      are OWNED_BY_DML, call its ``initialize`` first.

    Raises:
      TypeError: ``desc`` is not the description of an operator.
      InvalidDescError: the description breaks a constraint.
      ValueError: ``feature_level`` is not a level, the operator has no such option, or the option has no such value.

    Source:
      ``IDMLDevice::CreateOperator`` and ``IDMLDevice::CompileOperator``, which return ``E_INVALIDARG`` for a broken
      constraint, without a reason. Where DirectML's pages contradict one another, docs/departures.md says which is
      followed.

    Example:
      >>> desc = dml.TopK1OperatorDesc(
      ...     input_tensor=dml.BufferTensorDesc(dml.TensorDataType.FLOAT32, (1, 1, 1, 4)),
      ...     output_value_tensor=dml.BufferTensorDesc(dml.TensorDataType.FLOAT32, (1, 1, 1, 2)),
      ...     output_index_tensor=dml.BufferTensorDesc(dml.TensorDataType.UINT32, (1, 1, 1, 2)),
      ...     axis=3, k=2, axis_direction=dml.AxisDirection.DECREASING)
      >>> dml.compile_operator(desc)(jnp.array([[[[3.0, 1.0, 3.0, 2.0]]]])).indices
      Array([[[[0, 2]]]], dtype=uint32)
    """
    return CompiledOperator(desc, feature_level, tuple(options.items()))


def _to_bytes(static: tuple[CompiledOperator]) -> bytes:
    (operator,) = static
    parts = {"desc": to_json(operator.desc), "feature_level": operator.feature_level, "options": operator.options}
    return json.dumps(parts).encode()


def _from_bytes(written: bytes) -> tuple[CompiledOperator]:
    parts = json.loads(written)
    return (compile_operator(from_json(parts["desc"]), parts["feature_level"], **dict(parts["options"])),)


export.register_pytree_node_serialization(
    InitializedOperator,
    serialized_name="jaxdml.directml.InitializedOperator",
    serialize_auxdata=_to_bytes,
    deserialize_auxdata=_from_bytes,
)


def _options(desc: OperatorDesc, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return a value for every option of an operator: the given one, or the default."""
    known, given = desc.operator.options, dict(pairs)
    for name, value in given.items():
        if name not in known:
            _refuse(f"{desc.c_name()} has no option {name}; got {name}={value!r}.")
        if not isinstance(value, str) or value not in known[name]:
            _refuse(f"{name} must be one of {', '.join(known[name])}; got {value!r}.")
    return tuple((name, given.get(name, values[0])) for name, values in known.items())


def _refuse(rule: str) -> NoReturn:
    raise ValueError(compose("directml.compile_operator", rule))
