"""Check the arrays that an operator is called with, and return the arrays that it computes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base.errors import ErrorContext
from jaxdml.directml._buffers import buffer_of, elements_of
from jaxdml.directml._c import c_field
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._fields import Role
from jaxdml.directml._tensors import BufferTensorDesc, buffer_length, is_owned


@dataclass(frozen=True)
class InputField:
    """What a description says of one of its input fields.

    Attributes:
      name: the field.
      role: what the field holds.
      tensors: the tensors that are described there, none for an optional tensor that is left out.
      owned: for each of them whether it is OWNED_BY_DML.
    """

    name: str
    role: Role
    tensors: tuple[BufferTensorDesc, ...]
    owned: tuple[bool, ...]

    @cached_property
    def c_name(self) -> str:
        """The field's name in C."""
        return c_field(self.name)

    @cached_property
    def some_owned(self) -> bool:
        """Whether one of the tensors is OWNED_BY_DML."""
        return any(self.owned)

    @cached_property
    def all_owned(self) -> bool:
        """Whether there are tensors and all of them are OWNED_BY_DML, so that a call does not take the field."""
        return self.some_owned and all(self.owned)


def input_fields(desc: OperatorDesc) -> tuple[InputField, ...]:
    """Return the input fields of a description, in the struct's order."""
    fields = []
    for name, role in desc.roles().items():
        if not role.output:
            described = getattr(desc, name)
            tensors = described if role.several else () if described is None else (described,)
            fields.append(InputField(name, role, tensors, tuple(map(is_owned, tensors))))
    return tuple(fields)


def output_arrays(desc: OperatorDesc, computed: Any) -> Any:
    """Return what an operator computed: outputs with strides as buffers, and several outputs under their names."""
    names = [name for name, role in desc.roles().items() if role.output]
    each = computed if len(names) > 1 else (computed,)
    outputs = [
        as_described(c_field(name), getattr(desc, name), values) for name, values in zip(names, each, strict=True)
    ]
    return desc.result(*outputs) if len(outputs) > 1 else outputs[0]


def as_described(field: str, tensor: Any, values: Any) -> Any:
    if tensor is None:
        return None
    if isinstance(tensor, tuple):
        return tuple(as_described(field, one, value) for one, value in zip(tensor, values, strict=True))
    described = tensor.sizes, tensor.data_type.dtype
    assert (values.shape, values.dtype) == described, f"{field} is not as described: {described}"
    return values if tensor.strides is None else buffer_of(values, tensor)


def given_arrays(call: ErrorContext, described: InputField, *, owned: bool) -> Any:
    """Check what an input field is given, and return it in the described sizes.

    Args:
      call: has what the field is given.
      described: the field.
      owned: whether the tensors that are OWNED_BY_DML are given here, or those that are not. The others must be None.

    Returns:
      An array or None; a tuple of them if the field holds several.
    """
    name, role, tensors = described.name, described.role, described.tensors
    if not role.several:
        return elements_given(call, name, role, tensors[0] if tensors else None, owned in described.owned)
    field = described.c_name
    given = call.operands[field]
    if not isinstance(given, tuple | list) or len(given) != len(tensors):
        got = f"{len(given)} of them" if isinstance(given, tuple | list) else type(given).__name__
        rule = f"{field} must be a list of {len(tensors)} arrays; got {got}."
        call.fail(TypeError, rule, "Pass one array for each tensor that is described there.", field)
    labels = [f"{name}[{place}]" for place in range(len(tensors))]
    call.operands |= {c_field(label): one for label, one in zip(labels, given, strict=True)}
    return tuple(
        elements_given(call, label, role, tensor, of == owned)
        for label, tensor, of in zip(labels, tensors, described.owned, strict=True)
    )


def elements_given(call: ErrorContext, name: str, role: Role, tensor: BufferTensorDesc | None, wanted: bool) -> Any:
    """Check an array against the description of its tensor, and return it in the described sizes.

    Args:
      call: has the array.
      name: the label of the tensor.
      role: what its field holds.
      tensor: its description, if there is one.
      wanted: whether it is given here. If not, None must be.
    """
    field = c_field(name)
    given = call.operands[field]

    def fail(rule: str, advice: str) -> NoReturn:
        call.fail(TypeError, f"{field} {rule}", advice, field)

    if tensor is None or not wanted:
        if given is not None:
            fail(*_unwanted(tensor))
        return None
    if given is None:
        fail("must be an array, as described.", "Pass one.")
    if not isinstance(given, np.ndarray | jax.Array):
        converts = isinstance(given, list | tuple | int | float | np.generic)
        fail("must be an array.", f"Pass jnp.asarray({name})." if converts else "Pass a NumPy or JAX array.")
    if isinstance(given, np.ma.MaskedArray):
        fail("must not be masked.", f"Pass {name}.filled(value).")
    if not (role.indices and isinstance(given, np.ndarray)):
        require_x64(call, field, role, tensor, field)
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


def _unwanted(tensor: BufferTensorDesc | None) -> tuple[str, str]:
    """Say why None must be passed, and what to do."""
    if tensor is None:
        return "must be None, as described.", "Describe a tensor there, or pass None."
    if is_owned(tensor):
        return "must be None, since initialize has bound it.", "Pass None there."
    return "must be None, since it is not OWNED_BY_DML.", "Pass None there, and pass the tensor to the call."


def x64_enabled() -> bool:
    """Tell whether JAX keeps 64-bit dtypes."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def require_x64(call: ErrorContext, field: str, role: Role, tensor: BufferTensorDesc, *only: str) -> None:
    """Raise TypeError if a tensor has elements of 64 bits and JAX keeps only 32."""
    if tensor.data_type.bits > 32 and not x64_enabled():
        rule = f"{field} is {tensor.data_type.name}, which JAX has only with jax_enable_x64."
        numpy = ", pass a NumPy array outside of jax.jit" if role.indices else ""
        call.fail(TypeError, rule, f"Enable jax_enable_x64{numpy}, or describe a narrower type.", *only)
