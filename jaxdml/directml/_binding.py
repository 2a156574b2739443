"""Bind the tensors that are OWNED_BY_DML when an operator is initialized, and join them with the others at a call."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base.errors import ErrorContext, describe
from jaxdml.directml._arrays import InputField, given_arrays, require_x64, x64_enabled
from jaxdml.directml._c import c_field, c_name
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._enums import TensorFlags
from jaxdml.directml._fields import Role
from jaxdml.directml._tensors import BufferTensorDesc


def bound_arrays(desc: OperatorDesc, described: Iterable[InputField], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Check the arguments of ``initialize``; return them by the names in C, each in the form that the call takes.

    Args:
      desc: the description.
      described: its input fields.
      tensors: the arguments.
    """
    known = {one.c_name: one for one in described}
    owned = {field: one for field, one in known.items() if one.some_owned}
    call = _call(desc, dict.fromkeys(owned) | dict(tensors))
    advice = f"Pass only what is so described: {', '.join(owned) or 'nothing'}."
    for field in tensors:
        if field not in known:
            call.fail(TypeError, f"initialize takes inputs by their names in C; got {field}.", advice, field)
        if field not in owned:
            call.fail(TypeError, f"{field} must be OWNED_BY_DML for initialize to bind it.", advice, field)
    _require_all(call, [field for field in owned if field not in tensors])
    checked = {field: given_arrays(call, one, owned=True) for field, one in owned.items()}
    return {field: _prepared(desc, one.name, checked[field]) for field, one in owned.items()}


def input_arrays(
    desc: OperatorDesc, described: Sequence[InputField], inputs: Sequence[Any], bound: Mapping[str, Any]
) -> list[Any]:
    """Return what the operator's call takes: an array for every input field, or None, or a tuple of arrays.

    Args:
      desc: the description.
      described: its input fields.
      inputs: an argument for every input field, except for those of which all tensors are bound.
      bound: what ``bound_arrays`` returned. It may have passed through JAX's transformations since then.
    """
    missing = [one.c_name for one in described if one.some_owned and one.c_name not in bound]
    fields = [one.c_name for one in described if missing or not one.all_owned]
    call = _call(desc, dict(zip(fields, (*inputs, *[None] * len(fields)), strict=False)))
    _require_all(call, missing)
    if len(inputs) != len(fields):
        rule = f"the inputs must be {len(fields)}: {', '.join(fields)}; got {len(inputs)}."
        left_out = ", ".join(field for field in bound if field not in fields)
        advice = "Pass None for an optional tensor that is not described."
        call.fail(TypeError, rule, f"Leave out what initialize has bound: {left_out}." if left_out else advice)
    arrays = []
    for one in described:
        owned = _as_described(desc, one, bound[one.c_name]) if one.some_owned else None
        if one.all_owned:
            arrays.append(owned)
            continue
        taken = given_arrays(call, one, owned=False)
        arrays.append(taken if owned is None else _joined(taken, owned))
    for label, tensor in desc.tensors.items():
        role = desc.roles()[label.partition("[")[0]]
        if role.output:
            require_x64(call, c_field(label), role, tensor)
    return arrays


def _call(desc: OperatorDesc, operands: Mapping[str, Any]) -> ErrorContext:
    return ErrorContext(f"directml.{type(desc).__name__}", operands)


def _require_all(call: ErrorContext, missing: Sequence[str]) -> None:
    if missing:
        rule = f"{', '.join(missing)} must be bound by initialize, since {c_name(TensorFlags.OWNED_BY_DML)} is set."
        named = ", ".join(f"{field}=..." for field in missing)
        call.fail(TypeError, rule, f"Pass {named} to initialize, and the other inputs to what it returns.")


def _prepared(desc: OperatorDesc, name: str, array: Any) -> Any:
    if isinstance(array, tuple):
        return tuple(_prepared(desc, name, one) for one in array)
    return None if array is None else desc.operator.prepared(desc, name, kept(array), {})


def kept(array: Any) -> Any:
    """Return an array that the caller cannot change: a JAX array, or a NumPy copy if JAX would cut its 64 bits."""
    if isinstance(array, jax.Array):
        return array
    if array.dtype.itemsize > 4 and not x64_enabled():
        copied = np.array(array)
        copied.flags.writeable = False
        return copied
    return jnp.array(array, copy=True)


def _as_described(desc: OperatorDesc, described: InputField, value: Any) -> Any:
    """Return what is bound of a field, if it still is as described.

    ``jax.jit`` cuts 64 bits of an argument, and ``jax.tree.map`` may change sizes.
    """
    name, role = described.name, described.role
    arrays = value if role.several else [value]
    for place, (tensor, owned, array) in enumerate(zip(described.tensors, described.owned, arrays, strict=True)):
        label = f"{name}[{place}]" if role.several else name
        if owned:
            require_bound(_call(desc, {}), array, c_field(label), role, tensor)
    return value


def require_bound(call: ErrorContext, array: Any, field: str, role: Role, tensor: BufferTensorDesc) -> None:
    """Raise TypeError if what is bound is not as described.

    Args:
      call: the call.
      array: what is bound.
      field: what it is called in the error.
      role: what its field holds.
      tensor: its description.
    """
    call.operands = {field: array}
    if not (role.indices and isinstance(array, np.ndarray)):
        require_x64(call, field, role, tensor)
    dtype, sizes = tensor.data_type.dtype, tensor.sizes
    if (getattr(array, "dtype", None), getattr(array, "shape", None)) != (dtype, sizes):
        rule = f"{field} must be bound as {dtype}{list(sizes)}; got {describe(array)}."
        call.fail(TypeError, rule, "Call initialize again, or map over a leading dimension with jax.vmap.")


def _joined(taken: tuple[Any, ...], owned: tuple[Any, ...]) -> tuple[Any, ...]:
    """Fill the places of the bound tensors of an array of tensors."""
    return tuple(given if own is None else own for given, own in zip(taken, owned, strict=True))
