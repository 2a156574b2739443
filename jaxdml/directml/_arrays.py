"""Check the arrays that an operator is called with, and return the arrays that it computes."""

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._operators._arguments import Call, x64_enabled
from jaxdml.directml._buffers import buffer_of, elements_of
from jaxdml.directml._c import c_field
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._fields import Role
from jaxdml.directml._tensors import BufferTensorDesc, buffer_length


def input_arrays(desc: OperatorDesc, inputs: Sequence[Any]) -> list[Any]:
    """Return an array of the described sizes for every input field; None or a tuple of arrays where the field is so."""
    roles = {name: role for name, role in desc.roles().items() if not role.output}
    fields = list(map(c_field, roles))
    shown = dict(zip(fields, (*inputs, *[None] * len(fields)), strict=False))
    call = Call(f"directml.{type(desc).__name__}", **shown)
    if len(inputs) != len(roles):
        rule = f"the inputs must be {len(fields)}: {', '.join(fields)}; got {len(inputs)}."
        call.fail(TypeError, rule, "Pass None for an optional tensor that is not described.")
    arrays = [_given(call, name, role, getattr(desc, name)) for name, role in roles.items()]
    for name, role in desc.roles().items():
        if role.output and name in desc.tensors:
            _require_x64(call, name, role, desc.tensors[name])
    return arrays


def output_arrays(desc: OperatorDesc, computed: Any) -> Any:
    """Return what an operator computed: outputs with strides as buffers, and several outputs under their names."""
    names = [name for name, role in desc.roles().items() if role.output]
    each = computed if len(names) > 1 else (computed,)
    packed = [_packed(c_field(name), getattr(desc, name), values) for name, values in zip(names, each, strict=True)]
    return desc.result()(*packed) if len(packed) > 1 else packed[0]


def _packed(field: str, tensor: BufferTensorDesc | None, values: Any) -> Any:
    if tensor is None:
        return None
    described = tensor.sizes, tensor.data_type.dtype
    assert (values.shape, values.dtype) == described, f"{field} is not as described: {described}"
    return values if tensor.strides is None else buffer_of(values, tensor)


def _given(call: Call, name: str, role: Role, described: Any) -> Any:
    """Check what an input field is given, and return it in the described sizes."""
    field = c_field(name)
    given = call.operands[field]
    if not role.several:
        return _elements(call, name, role, described)
    if not isinstance(given, tuple | list) or len(given) != len(described):
        got = f"{len(given)} of them" if isinstance(given, tuple | list) else type(given).__name__
        rule = f"{field} must be a list of {len(described)} arrays; got {got}."
        call.fail(TypeError, rule, "Pass one array for each tensor that is described there.", field)
    each = {f"{name}[{place}]": one for place, one in enumerate(given)}
    call.operands |= {c_field(label): one for label, one in each.items()}
    return tuple(_elements(call, label, role, tensor) for label, tensor in zip(each, described, strict=True))


def _elements(call: Call, name: str, role: Role, tensor: BufferTensorDesc | None) -> Any:
    """Check an array against the description of its tensor, and return it in the described sizes."""
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
        converts = isinstance(given, list | tuple | int | float | np.generic)
        fail("must be an array.", f"Pass jnp.asarray({name})." if converts else "Pass a NumPy or JAX array.")
    if not (role.indices and isinstance(given, np.ndarray)):
        _require_x64(call, name, role, tensor, field)
    dtype = tensor.data_type.dtype
    if given.dtype != dtype:
        extended = jnp.issubdtype(given.dtype, jax.dtypes.extended)
        advice = f"Pass {name}.astype({str(dtype)!r}), or describe another data type."
        fail(f"must be {dtype}; got {given.dtype}.", "Pass an array of numbers." if extended else advice)
    if tensor.strides is None:
        if given.shape != tensor.sizes:
            rule = f"must have the sizes {list(tensor.sizes)}; got {list(given.shape)}."
            fail(rule, f"Pass {name}.reshape({tensor.sizes}), or describe another size.")
        return given
    length = buffer_length(tensor)
    if given.ndim != 1 or given.size < length:
        size = tensor.size_in_bytes
        rule = f"has strides, so it must be a 1-D buffer of at least {size} bytes; got {list(given.shape)}."
        fail(rule, f"Pass the whole buffer as one dimension, {length} elements.")
    return elements_of(given, tensor)


def _require_x64(call: Call, name: str, role: Role, tensor: BufferTensorDesc, *only: str) -> None:
    if tensor.data_type.bits > 32 and not x64_enabled():
        rule = f"{c_field(name)} is {tensor.data_type.name}, which JAX has only with jax_enable_x64."
        numpy = ", pass a NumPy array outside of jax.jit" if role.indices else ""
        call.fail(TypeError, rule, f"Enable jax_enable_x64{numpy}, or describe a narrower type.", *only)
