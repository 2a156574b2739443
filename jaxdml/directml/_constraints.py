"""Find every constraint of DirectML's pages that a description breaks."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jaxdml.directml._descs import (
    OperatorDesc,
    QuantizedLinearMatrixMultiplyOperatorDesc,
    Role,
    ScatterNdOperatorDesc,
    ScatterOperatorDesc,
    TopK1OperatorDesc,
    TopKOperatorDesc,
)
from jaxdml.directml._enums import FeatureLevel, OperatorType, TensorFlags, c_field, c_name
from jaxdml.directml._errors import Violation
from jaxdml.directml._support import SUPPORT
from jaxdml.directml._tensors import LARGEST_UINT, BufferTensorDesc, size_in_bytes

Violations = Iterator[Violation]


def violations(desc: OperatorDesc, level: FeatureLevel) -> Violations:
    """Go through the constraints of every tensor, of the feature level, and of the operator."""
    roles = desc.roles()
    for name, tensor in desc.tensors.items():
        for part, rule, got in _of_tensor(tensor, roles[name]):
            yield Violation(f"{c_field(name)}.{part}", rule, got)
    yield from _of_level(desc, level)
    yield from _OF_OPERATORS[desc.operator_type](desc)


def _of_tensor(tensor: BufferTensorDesc, role: Role) -> Iterator[tuple[str, str, Any]]:
    sizes, strides, bits = tensor.sizes, tensor.strides, tensor.data_type.bits
    if 0 in sizes:
        yield "Sizes", "must not contain a 0", sizes
    if (elements := math.prod(sizes)) > LARGEST_UINT:
        yield "Sizes", f"must be of at most {LARGEST_UINT} elements", _short(elements)
    if strides is not None:
        if len(strides) != len(sizes):
            yield "Strides", f"must have as many numbers as Sizes, {len(sizes)}", strides
        elif tensor.span > LARGEST_UINT:
            yield "Strides", f"must span at most {LARGEST_UINT} elements", _short(tensor.span)
        elif role is Role.OUTPUT and _overlaps(sizes, strides):
            yield "Strides", "must give each element of an output its own place, one dimension within the next", strides
    least, most = tensor.least_size_in_bytes, size_in_bytes(LARGEST_UINT, bits)
    if bits and least <= most and not least <= tensor.size_in_bytes <= most:
        yield "TotalTensorSizeInBytes", f"must be between {least} and {most}", tensor.size_in_bytes
    alignment = tensor.guaranteed_base_offset_alignment
    if alignment and (alignment.bit_count() != 1 or 8 * alignment < bits):
        rule = f"must be 0, or a power of two of at least {max(1, bits // 8)}"
        yield "GuaranteedBaseOffsetAlignment", rule, alignment
    if role is Role.OUTPUT and TensorFlags.OWNED_BY_DML in tensor.flags:
        yield "Flags", "must not say of an output that DirectML owns it", c_name(tensor.flags)


def _short(number: int) -> int | str:
    return number if number.bit_length() <= 64 else "2**64 or more"


def _overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Tell whether some dimension's stride does not step over all that the dimensions of smaller strides span."""
    span = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride <= span:
            return True
        span += (size - 1) * stride
    return False


def _of_level(desc: OperatorDesc, level: FeatureLevel) -> Violations:
    rows = SUPPORT[desc.operator_type]
    first = min(rows)
    if level < first:
        rule = f"needs feature level {first.label}"
        yield Violation(c_name(desc.operator_type), rule, level.label, first)
        level = first
    row = rows[max(reached for reached in rows if reached <= level)]
    for name, tensor in desc.tensors.items():
        count, counts = tensor.dimension_count, row[name].dimension_counts
        if count not in counts:
            only = len(counts) == 1
            rule = f"must be {counts[0]}" if only else f"must be between {counts[0]} and {counts[-1]}"
            later = min((reached for reached in rows if count in rows[reached][name].dimension_counts), default=None)
            yield Violation(f"{c_field(name)}.DimensionCount", f"{rule} at feature level {level.label}", count, later)
        kind, kinds = tensor.data_type, row[name].data_types
        if kind not in kinds:
            listed = kinds[0].name if len(kinds) == 1 else f"one of {', '.join(one.name for one in kinds)}"
            rule = f"must be {listed} at feature level {level.label}"
            later = min((reached for reached in rows if kind in rows[reached][name].data_types), default=None)
            yield Violation(f"{c_field(name)}.DataType", rule, kind.name, later)


def _alike(desc: OperatorDesc, part: str, first: str, *others: str) -> Violations:
    """Require this part of the first tensor of all others that there are."""
    want = getattr(getattr(desc, first), part)
    for name in others:
        tensor = getattr(desc, name)
        if tensor is not None and getattr(tensor, part) != want:
            shown, got = (getattr(value, "name", value) for value in (want, getattr(tensor, part)))
            yield Violation(f"{c_field(name)}.{c_field(part)}", f"must be {shown}, as of {c_field(first)}", got)


def _sized(desc: OperatorDesc, name: str, why: str, *allowed: tuple[int, ...]) -> Violations:
    """Require one of these sizes, of which there is one at least; a wrong count of dimensions is said elsewhere."""
    sizes = getattr(desc, name).sizes
    if len(sizes) == len(allowed[0]) and sizes not in allowed:
        listed = " or ".join(str(list(one)) for one in dict.fromkeys(allowed))
        yield Violation(f"{c_field(name)}.Sizes", f"must be {listed}, {why}", sizes)


def _axis(desc: TopKOperatorDesc | TopK1OperatorDesc | ScatterOperatorDesc) -> Violations:
    count = desc.input_tensor.dimension_count
    if 0 < count <= desc.axis:
        yield Violation("Axis", f"must be less than {count}, InputTensor.DimensionCount", desc.axis)


def _of_top_k(desc: TopKOperatorDesc | TopK1OperatorDesc) -> Violations:
    outputs = "output_value_tensor", "output_index_tensor"
    yield from _alike(desc, "dimension_count", "input_tensor", *outputs)
    yield from _alike(desc, "data_type", "input_tensor", "output_value_tensor")
    yield from _axis(desc)
    sizes, axis, k = desc.input_tensor.sizes, desc.axis, desc.k
    n = sizes[axis] if axis < len(sizes) else 0
    if n and not 1 <= k <= n:
        yield Violation("K", f"must be between 1 and {n}, InputTensor.Sizes[{axis}]", k)
    elif k < 1:
        yield Violation("K", "must be greater than 0", k)
    for name in outputs:
        own = getattr(desc, name).sizes
        if axis < len(sizes) == len(own):
            taken = k if 1 <= k <= n else own[axis]
            want = (*sizes[:axis], taken, *sizes[axis + 1 :])
            yield from _sized(desc, name, "those of InputTensor with K at Axis", want)


def _of_scatter_tensors(desc: ScatterOperatorDesc | ScatterNdOperatorDesc) -> Violations:
    others = "indices_tensor", "updates_tensor", "output_tensor"
    yield from _alike(desc, "dimension_count", "input_tensor", *others)
    yield from _alike(desc, "data_type", "input_tensor", "updates_tensor", "output_tensor")
    yield from _sized(desc, "output_tensor", "those of InputTensor", desc.input_tensor.sizes)


def _of_scatter(desc: ScatterOperatorDesc) -> Violations:
    yield from _of_scatter_tensors(desc)
    yield from _axis(desc)
    sizes, indices, axis = desc.input_tensor.sizes, desc.indices_tensor.sizes, desc.axis
    if axis < len(sizes) == len(indices):
        want = (*sizes[:axis], indices[axis], *sizes[axis + 1 :])
        yield from _sized(desc, "indices_tensor", "those of InputTensor but for Axis", want)
    yield from _sized(desc, "updates_tensor", "those of IndicesTensor", indices)


def _of_scatter_nd(desc: ScatterNdOperatorDesc) -> Violations:
    yield from _of_scatter_tensors(desc)
    known = True
    for name, counted in (("input_dimension_count", "input_tensor"), ("indices_dimension_count", "indices_tensor")):
        sizes, count = getattr(desc, counted).sizes, getattr(desc, name)
        if not 1 <= count <= len(sizes):
            rule = f"must be between 1 and {len(sizes)}, {c_field(counted)}.DimensionCount"
            yield Violation(c_field(name), rule, count)
            known = False
        elif any(size != 1 for size in sizes[:-count]):
            rule = f"must begin with 1 in all dimensions but the last {count}, {c_field(name)}"
            yield Violation(f"{c_field(counted)}.Sizes", rule, sizes)
    if known:
        yield from _of_tuples(desc)


def _of_tuples(desc: ScatterNdOperatorDesc) -> Violations:
    sizes = desc.input_tensor.sizes[-desc.input_dimension_count :]
    *leading, coordinates = desc.indices_tensor.sizes[-desc.indices_dimension_count :]
    if coordinates > len(sizes):
        rule = f"must end in at most {len(sizes)}, InputDimensionCount: the coordinates of a tuple"
        yield Violation("IndicesTensor.Sizes", rule, desc.indices_tensor.sizes)
        return
    want = (*leading, *sizes[coordinates:])
    count = desc.updates_tensor.dimension_count
    if len(want) > count:
        rule = f"must be at least {len(want)}, for updates of {list(want)}"
        yield Violation("UpdatesTensor.DimensionCount", rule, count)
        return
    filled = (*(1,) * (count - len(want)), *want)
    why = "the leading sizes of IndicesTensor and the trailing ones of InputTensor"
    yield from _sized(desc, "updates_tensor", why, filled)


_PARAMETERS = {"a": -2, "b": -1, "output": -2}
"""Along which dimension of a tensor its scale and its zero point may differ."""


def _of_product(desc: QuantizedLinearMatrixMultiplyOperatorDesc) -> Violations:
    parameters = [f"{of}_{kind}_tensor" for of in _PARAMETERS for kind in ("scale", "zero_point")]
    yield from _alike(desc, "dimension_count", "a_tensor", "b_tensor", "output_tensor")
    yield from _alike(desc, "dimension_count", *parameters)
    for of in _PARAMETERS:
        yield from _alike(desc, "data_type", f"{of}_tensor", f"{of}_zero_point_tensor")
    a, b = desc.a_tensor.sizes, desc.b_tensor.sizes
    rows, columns = a[-2] if len(a) > 1 else None, b[-1] if len(b) > 1 else None
    if rows is not None and columns is not None:
        batch, depth = a[:-2], a[-1]
        why = "the batch of ATensor and as many rows as that has columns"
        yield from _sized(desc, "b_tensor", why, (*batch, depth, columns))
        yield from _sized(
            desc, "output_tensor", "the rows of ATensor and the columns of BTensor", (*batch, rows, columns)
        )
    for name in parameters:
        of = name.partition("_")[0]
        each, what = (columns, "column") if of == "b" else (rows, "row")
        tensor = getattr(desc, name)
        if tensor is not None and tensor.sizes and each is not None:
            why = f"one for {c_field(of)}Tensor or one for each {what} of it"
            yield from _sized(desc, name, why, *_of_parameter(tensor.dimension_count, each, _PARAMETERS[of]))


def _of_parameter(count: int, each: int, dimension: int) -> Iterator[tuple[int, ...]]:
    """List the sizes of a scale; of one dimension, that is the one along which it differs."""
    yield (1,) * count
    along = [1] * count
    along[max(dimension, -count)] = each
    yield tuple(along)


_OF_OPERATORS: Mapping[OperatorType, Callable[[Any], Violations]] = {
    OperatorType.TOP_K: _of_top_k,
    OperatorType.TOP_K1: _of_top_k,
    OperatorType.SCATTER: _of_scatter,
    OperatorType.SCATTER_ND: _of_scatter_nd,
    OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY: _of_product,
}
