"""Constraints that the pages of several operators share, for the structs to name the fields."""

from typing import Any

from jaxdml.directml._c import c_field
from jaxdml.directml._errors import Violation, Violations


def alike(desc: Any, field: str, first: str, *others: str) -> Violations:
    """Require a field of every other described tensor to equal that of the first.

    Args:
      desc: the description.
      field: ``"dimension_count"`` or ``"data_type"``.
      first: the field of the tensor that decides.
      others: the fields of the tensors that are compared with it.
    """
    tensors = desc.tensors
    want = getattr(tensors[first], field)
    for name in others:
        tensor = tensors.get(name)
        if tensor is not None and getattr(tensor, field) != want:
            shown, got = (getattr(value, "name", value) for value in (want, getattr(tensor, field)))
            yield Violation(f"{c_field(name)}.{c_field(field)}", f"must be {shown}, as in {c_field(first)}", got)


def alike_in_kind(desc: Any, first: str, *others: str) -> Violations:
    """Require every other described tensor to have the dimension count and the data type of the first."""
    for field in ("dimension_count", "data_type"):
        yield from alike(desc, field, first, *others)


def sized(desc: Any, name: str, why: str, *allowed: tuple[int, ...]) -> Violations:
    """Require a tensor to have one of the ``allowed`` sizes.

    A wrong number of dimensions is not reported: ``alike`` and the table of feature levels do that.
    """
    sizes = desc.tensors[name].sizes
    if len(sizes) == len(allowed[0]) and sizes not in allowed:
        listed = " or ".join(str(list(one)) for one in dict.fromkeys(allowed))
        yield Violation(f"{c_field(name)}.Sizes", f"must be {listed}, {why}", sizes)


def sized_except_along(desc: Any, axis: str, tensor: str, name: str) -> Violations:
    """Require a tensor to have the sizes of another, ``tensor``, in all dimensions but the axis in a field."""
    sizes, own, place = desc.tensors[tensor].sizes, desc.tensors[name].sizes, getattr(desc, axis)
    if place < len(sizes) == len(own):
        want = (*sizes[:place], own[place], *sizes[place + 1 :])
        yield from sized(desc, name, f"those of {c_field(tensor)} except along {c_field(axis)}", want)


def only_ones_before(desc: Any, count_field: str, tensor_field: str, least: int) -> Violations:
    """Require a count to be from ``least`` to the tensor's DimensionCount, and sizes of 1 before what it counts."""
    sizes, count = getattr(desc, tensor_field).sizes, getattr(desc, count_field)
    if not least <= count <= len(sizes):
        rule = f"must be between {least} and {len(sizes)}, {c_field(tensor_field)}.DimensionCount"
        yield Violation(c_field(count_field), rule, count)
    elif any(size != 1 for size in sizes[: len(sizes) - count]):
        rule = f"must be 1 in all dimensions but the last {count}, {c_field(count_field)}"
        yield Violation(f"{c_field(tensor_field)}.Sizes", rule, sizes)


def without_zeros(desc: Any, *names: str) -> Violations:
    """Require arrays to contain no 0."""
    for name in names:
        if 0 in getattr(desc, name):
            yield Violation(c_field(name), "must not contain a 0", getattr(desc, name))


def varying(count: int, axis: int, size: int) -> tuple[int, ...]:
    """Return ``count`` sizes: ``size`` at ``axis``, or in the nearest dimension that there is, and 1 elsewhere."""
    sizes = [1] * count
    sizes[min(max(axis, -count), count - 1)] = size
    return tuple(sizes)


def in_range(desc: Any, axis: str, tensor: str) -> Violations:
    """Require the axis in one field to be a dimension of the tensor in another."""
    value, count = getattr(desc, axis), getattr(desc, tensor).dimension_count
    if 0 < count <= value:
        yield Violation(c_field(axis), f"must be less than {count}, {c_field(tensor)}.DimensionCount", value)


def ones_at_axes(desc: Any, tensor: str, name: str) -> Violations:
    """Require a tensor to have the sizes of another, ``tensor``, with 1 at the field ``axes``."""
    want = tuple(1 if d in desc.axes else size for d, size in enumerate(getattr(desc, tensor).sizes))
    yield from sized(desc, name, f"those of {c_field(tensor)} with 1 at Axes", want)


def axes_in_range(desc: Any, tensor: str) -> Violations:
    """Require the field ``axes`` to name dimensions of a tensor, each once."""
    count = getattr(desc, tensor).dimension_count
    for place, axis in enumerate(desc.axes):
        if 0 < count <= axis:
            yield Violation(f"Axes[{place}]", f"must be less than {count}, {c_field(tensor)}.DimensionCount", axis)
    if len(set(desc.axes)) < len(desc.axes):
        yield Violation("Axes", "must name each dimension once", desc.axes)
