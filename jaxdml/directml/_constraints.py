"""Find every constraint that a description breaks."""

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from jaxdml.directml._c import c_field, c_name
from jaxdml.directml._converting import LARGEST_UINT
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._enums import FeatureLevel, TensorFlags
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._fields import counts_of, kind_of
from jaxdml.directml._tensors import BufferTensorDesc, size_in_bytes


def violations(desc: OperatorDesc, level: FeatureLevel) -> Violations:
    """Check every tensor by itself, the feature level, the lengths of arrays, and the operator's own constraints."""
    for label, tensor in desc.tensors.items():
        for part, rule, got in _of_tensor(tensor, desc.roles()[_field(label)].output):
            yield Violation(f"{c_field(label)}.{part}", rule, got)
    yield from _of_level(desc, level)
    uneven = [*_of_arrays(desc)]
    yield from uneven
    yield from _of_activations(desc, level)
    lacking = [name for name, role in desc.roles().items() if not role.optional and getattr(desc, name) is None]
    for name in lacking:
        yield Violation(c_field(name), "must be described", "nullptr")
    # An operator's own constraints take its arrays for as long as the first, and tensors for described.
    if not lacking and not uneven:
        yield from desc.operator.constraints(desc)


def _field(label: str) -> str:
    """Return the field of a tensor: ``input_tensors`` for ``input_tensors[0]``."""
    return label.partition("[")[0]


def _of_tensor(tensor: BufferTensorDesc, output: bool) -> Iterator[tuple[str, str, Any]]:
    sizes, strides, bits = tensor.sizes, tensor.strides, tensor.data_type.bits
    if 0 in sizes:
        yield "Sizes", "must not contain a 0", sizes
    if (elements := math.prod(sizes)) > LARGEST_UINT:
        yield "Sizes", f"must give at most {LARGEST_UINT} elements", _short(elements)
    if strides is not None:
        if len(strides) != len(sizes):
            yield "Strides", f"must have as many numbers as Sizes, {len(sizes)}", strides
        elif tensor.span > LARGEST_UINT:
            yield "Strides", f"must span at most {LARGEST_UINT} elements", _short(tensor.span)
        elif output and _overlaps(sizes, strides):
            yield "Strides", "must be nested in an output: each must exceed the span of all smaller ones", strides
    least, most = tensor.least_size_in_bytes, size_in_bytes(LARGEST_UINT, bits)
    if bits and least <= most and not least <= tensor.size_in_bytes <= most:
        yield "TotalTensorSizeInBytes", f"must be between {least} and {most}", tensor.size_in_bytes
    alignment = tensor.guaranteed_base_offset_alignment
    if alignment and (alignment.bit_count() != 1 or 8 * alignment < bits):
        rule = f"must be 0, or a power of two that is at least {max(1, bits // 8)}"
        yield "GuaranteedBaseOffsetAlignment", rule, alignment
    if output and TensorFlags.OWNED_BY_DML in tensor.flags:
        yield "Flags", f"must not contain {c_name(TensorFlags.OWNED_BY_DML)} in an output", c_name(tensor.flags)


def _short(number: int) -> int | str:
    return number if number.bit_length() <= 64 else "2**64 or more"


def _overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Tell whether the stride of some dimension lies within the span of the dimensions with smaller strides."""
    span = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride <= span:
            return True
        span += (size - 1) * stride
    return False


def _of_level(desc: OperatorDesc, level: FeatureLevel) -> Violations:
    operator = desc.operator
    rows = operator.levels
    first = min(rows)
    if level < first:
        yield Violation(desc.c_name(), f"needs feature level {first.label}", level.label, first)
        level = first
    row = rows[max(reached for reached in rows if reached <= level)]
    for label, tensor in desc.tensors.items():
        name = _field(label)
        count, counts = tensor.dimension_count, row[name].dimension_counts
        if count not in counts:
            only = len(counts) == 1
            rule = f"must be {counts[0]}" if only else f"must be between {counts[0]} and {counts[-1]}"
            later = min((reached for reached in rows if count in rows[reached][name].dimension_counts), default=None)
            yield Violation(f"{c_field(label)}.DimensionCount", f"{rule} at feature level {level.label}", count, later)
        kind, kinds = tensor.data_type, row[name].data_types
        if kind not in kinds:
            listed = kinds[0].name if len(kinds) == 1 else f"one of {', '.join(one.name for one in kinds)}"
            rule = f"must be {listed} at feature level {level.label}"
            later = min((reached for reached in rows if kind in rows[reached][name].data_types), default=None)
            yield Violation(f"{c_field(label)}.DataType", rule, kind.name, later)
    for name, value in desc.scalars.items():
        since = getattr(value, "first_level", level)
        if level < since:
            rule = f"must be a member that there is at feature level {level.label}"
            yield Violation(c_field(name), rule, value.name, since)
    for name, optional_from in operator.optional_from.items():
        if level < optional_from and getattr(desc, name) is None:
            rule = f"must be described at feature level {level.label}"
            yield Violation(c_field(name), rule, "nullptr", optional_from)


def _of_arrays(desc: OperatorDesc) -> Violations:
    for _, counts in counts_of(desc):
        want = len(getattr(desc, counts.array))
        for name in counts.others:
            array = getattr(desc, name)
            if len(array) != want:
                yield Violation(c_field(name), f"must have as many entries as {c_field(counts.array)}, {want}", array)


def _of_activations(desc: OperatorDesc, level: FeatureLevel) -> Violations:
    """Yield the broken constraints on fused activations: which ones there may be, and that they have no tensors."""
    for one in fields(desc):
        if kind_of(one) not in ("activation?", "activation[]"):
            continue
        value, name = getattr(desc, one.name), c_field(one.name)
        if isinstance(value, tuple):
            for place, activation in enumerate(value):
                yield from _of_activation(desc, level, f"{name}[{place}]", activation)
        elif value is not None:
            yield from _of_activation(desc, level, name, value)


def _of_activation(desc: OperatorDesc, level: FeatureLevel, label: str, activation: OperatorDesc) -> Violations:
    first, into = activation.operator.fused_from, activation.operator.fused_into
    if first is None or (into and desc.operator_name not in into):
        yield Violation(label, f"must be an activation that {desc.c_name()} can fuse", activation.c_name())
    elif level < first:
        rule = f"must be an activation that is fused at feature level {level.label}"
        yield Violation(label, rule, activation.c_name(), first)
    for name in activation.tensors:
        yield Violation(f"{label}.{c_field(name)}", "must be nullptr in a fused activation", "a tensor")
