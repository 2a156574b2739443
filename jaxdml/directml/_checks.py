"""Constraints that the pages of several operators share, for the structs to name the fields."""

from typing import Any

from jaxdml.directml._c import c_field
from jaxdml.directml._errors import Violation, Violations


def alike(desc: Any, part: str, first: str, *others: str) -> Violations:
    """Require ``part`` of every other described tensor to equal that of the first.

    Args:
      desc: the description.
      part: ``"dimension_count"`` or ``"data_type"``.
      first: the field of the tensor that decides.
      others: the fields of the tensors that are compared with it.
    """
    tensors = desc.tensors
    want = getattr(tensors[first], part)
    for name in others:
        tensor = tensors.get(name)
        if tensor is not None and getattr(tensor, part) != want:
            shown, got = (getattr(value, "name", value) for value in (want, getattr(tensor, part)))
            yield Violation(f"{c_field(name)}.{c_field(part)}", f"must be {shown}, as in {c_field(first)}", got)


def sized(desc: Any, name: str, why: str, *allowed: tuple[int, ...]) -> Violations:
    """Require a tensor to have one of the ``allowed`` sizes.

    A wrong number of dimensions is not reported: ``alike`` and the table of feature levels do that.
    """
    sizes = desc.tensors[name].sizes
    if len(sizes) == len(allowed[0]) and sizes not in allowed:
        listed = " or ".join(str(list(one)) for one in dict.fromkeys(allowed))
        yield Violation(f"{c_field(name)}.Sizes", f"must be {listed}, {why}", sizes)


def in_range(desc: Any, axis: str, tensor: str) -> Violations:
    """Require the axis in one field to be a dimension of the tensor in another."""
    value, count = getattr(desc, axis), getattr(desc, tensor).dimension_count
    if 0 < count <= value:
        yield Violation(c_field(axis), f"must be less than {count}, {c_field(tensor)}.DimensionCount", value)
