"""The facts of an operator as data: its struct, its checks and its function come from them and from the schema."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._support import Levels


def as_it_is(desc: Any, name: str, tensor: Any, known: Mapping[str, Any]) -> Any:
    """Return a tensor that needs no preparation."""
    return tensor


@dataclass(frozen=True, eq=False)
class Operator:
    """The facts of an operator. Its name is the key under which its family lists it.

    Attributes:
      number: its number in ``DML_OPERATOR_TYPE``.
      levels: its table of feature levels: what each tensor may be from a level on.
      compute: takes a description, for every input field an array of the described sizes (None for a tensor left out, a
        tuple for an array of tensors, what ``prepared`` returned for a tensor that is bound at initialization), and a
        value for every option by name. Returns the array if the struct has one output, otherwise a tuple of them in the
        order of the fields. If it may be fused into other operators, it reads no tensor of the description.
      constraints: takes a description and yields the constraints of the operator's page that it breaks. Each tensor by
        itself, the levels, the lengths of arrays and fused activations are checked elsewhere.
      doc: what the operator does, in sentences.
      fields: what ``help`` says of fields, by their names; the others are described by their kinds.
      aliases: other names of its number.
      options: the options that ``compile_operator`` takes for it; for each one its values, the default first.
      optional_from: for an optional tensor that older levels require, the first level at which it may be left out.
      outputs: the NamedTuple in which several outputs are returned. None means one with the names of the fields.
      prepared: takes a description, the name of an input field, its array, and the arrays of the fields that are known
        then, by name; returns the form in which ``compute`` takes it fastest, an array or a pytree of arrays that has
        the ``shape`` and ``dtype`` of the array.
      channels_last: like ``compute``, but the channels, dimension 1, of the output and of the inputs in ``images`` are
        stored last. Graphs call it where that is faster: always if it is another function than ``compute``, else if an
        input is stored so already. None if there is no such function.
      images: the input fields that it takes so.
      fused_from: the first level at which it may be a fused activation; None means never.
      fused_into: the operators into which it may be fused; none named means all that fuse activations.
    """

    number: int
    levels: Levels
    compute: Callable[..., Any]
    constraints: Callable[[Any], Violations]
    doc: str = field(kw_only=True)
    fields: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional_from: Mapping[str, FeatureLevel] = field(default_factory=dict)
    outputs: Callable[..., tuple[Any, ...]] | None = None
    prepared: Callable[[Any, str, Any, Mapping[str, Any]], Any] = as_it_is
    channels_last: Callable[..., Any] | None = None
    images: tuple[str, ...] = ()
    fused_from: FeatureLevel | None = None
    fused_into: tuple[str, ...] = ()


def activated(activation: Any, x: Any) -> Any:
    """Return an array after a fused activation, given as its description without tensors, or None."""
    return x if activation is None else activation.operator.compute(activation, x)
