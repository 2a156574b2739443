"""Products of quantized matrices: to integers, to floats, and to quantized values."""

from collections.abc import Mapping
from typing import Any

from jaxdml import (
    matrix_multiply_integer,
    matrix_multiply_integer_to_float,
    prepack,
    quantized_linear_matrix_multiply,
)
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, sized, varying
from jaxdml.directml._errors import Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing
from jaxdml.directml.operators._weights import known_parameters

_AXES = {"a": -2, "b": -1, "output": -2}
"""The dimension of each tensor along which its scale and its zero point may vary."""


def _product_constraints(desc: Any, *parameters: str) -> Violations:
    """Yield the broken constraints that the pages of all products have.

    Args:
      desc: the description. Its tensors are ``a_tensor``, ``b_tensor``, ``output_tensor`` and the parameters.
      parameters: the fields of the scales and zero points.
    """
    yield from alike(desc, "dimension_count", "a_tensor", "b_tensor", "output_tensor")
    for name in parameters:
        of, _, kind = name.partition("_")
        if kind == "zero_point_tensor":
            yield from alike(desc, "data_type", f"{of}_tensor", name)
    a, b = desc.a_tensor.sizes, desc.b_tensor.sizes
    rows, columns = a[-2] if len(a) > 1 else None, b[-1] if len(b) > 1 else None
    if rows is not None and columns is not None:
        batch, depth = a[:-2], a[-1]
        why = "the batch of ATensor and as many rows as that has columns"
        yield from sized(desc, "b_tensor", why, (*batch, depth, columns))
        why = "the rows of ATensor and the columns of BTensor"
        yield from sized(desc, "output_tensor", why, (*batch, rows, columns))
    for name in parameters:
        of = name.partition("_")[0]
        length, what = (columns, "column") if of == "b" else (rows, "row")
        tensor = getattr(desc, name)
        if tensor is not None and tensor.sizes and length is not None:
            why = f"one for {c_field(of)}Tensor or one for each {what} of it"
            count = tensor.dimension_count
            yield from sized(desc, name, why, (1,) * count, varying(count, _AXES[of], length))


def _packed_right(desc: Any, name: str, tensor: Any, known: Mapping[str, Any]) -> Any:
    """Pack the right matrix, for the parameters of the calls if all are known."""
    if name != "b_tensor":
        return tensor
    return prepack(tensor, parameters=known_parameters(desc, known, {"a": "a", "b": "b"}))


def _of_rank(rank: int, inputs: tuple[Any, ...]) -> list[Any]:
    """Reshape scales and zero points that have more dimensions than the product. The leading ones have size 1."""
    return [part if part is None or part.ndim <= rank else part.reshape(part.shape[-rank:]) for part in inputs]


def _to_integers(desc: Any, *inputs: Any) -> Any:
    return matrix_multiply_integer(*_of_rank(desc.output_tensor.dimension_count, inputs))


_OF_FACTORS = [f"{of}_{kind}_tensor" for of in "ab" for kind in ("scale", "zero_point")]
_OF_ALL = [*_OF_FACTORS, "output_scale_tensor", "output_zero_point_tensor"]


def _of_floats(desc: Any) -> Violations:
    yield from _product_constraints(desc, *_OF_FACTORS)
    yield from alike(desc, "dimension_count", *_OF_FACTORS)
    yield from alike(desc, "dimension_count", "a_tensor", "bias_tensor")
    yield from alike(desc, "data_type", "a_scale_tensor", "b_scale_tensor", "bias_tensor", "output_tensor")
    if desc.bias_tensor is not None:
        yield from sized(desc, "bias_tensor", "those of OutputTensor", desc.output_tensor.sizes)


def _to_floats(desc: Any, *inputs: Any) -> Any:
    given = _of_rank(desc.output_tensor.dimension_count, inputs)
    return matrix_multiply_integer_to_float(*given, output_dtype=desc.output_tensor.data_type.dtype)


def _of_quantized(desc: Any) -> Violations:
    yield from _product_constraints(desc, *_OF_ALL)
    yield from alike(desc, "dimension_count", *_OF_ALL)


def _to_quantized(desc: Any, *inputs: Any) -> Any:
    given = _of_rank(desc.output_tensor.dimension_count, inputs)
    return quantized_linear_matrix_multiply(*given, output_dtype=desc.output_tensor.data_type.dtype)


_FIELDS = {
    "a_tensor": "``{..., M, K}``.",
    "a_zero_point_tensor": "the data type of ``a_tensor``; None means 0.",
    "b_tensor": "``{..., K, N}``, of a data type independent of that of ``a_tensor``.",
    "b_zero_point_tensor": "the data type of ``b_tensor``; None means 0.",
    "bias_tensor": "the sizes and the data type of ``output_tensor``; None adds nothing.",
    "output_zero_point_tensor": "the data type of ``output_tensor``; None means 0.",
    "output_tensor": "``{..., M, N}``.",
}

OPERATORS: Mapping[str, Operator] = {
    "MATRIX_MULTIPLY_INTEGER": Operator(
        117,
        growing(
            "2_1 4, 4_0 2-4",
            ("a_tensor b_tensor", "2_1 B"),
            ("a_zero_point_tensor", "2_1 B", "2_1 4, 4_0 1-4"),
            ("b_zero_point_tensor", "2_1 B", "2_1 4, 4_0 2-4, 5_2 1-4"),
            ("output_tensor", "2_1 INT32"),
        ),
        _to_integers,
        lambda desc: _product_constraints(desc, "a_zero_point_tensor", "b_zero_point_tensor"),
        doc="Multiply matrices of 8-bit integers, and return the sums as they are. A zero point has size 1 in all "
        "dimensions, or in all but one. For ``a`` that one is the second last, of size M; for ``b`` it is the last, of "
        "size N. The zero points may have any dimension count that the feature level accepts.",
        fields=_FIELDS,
        prepared=_packed_right,
    ),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": Operator(
        170,
        growing(
            "6_2 2-4",
            ("a_tensor b_tensor", "6_2 B"),
            ("a_zero_point_tensor b_zero_point_tensor", "6_2 B", "6_2 1-4"),
            ("a_scale_tensor b_scale_tensor", "6_2 F", "6_2 1-4"),
            ("bias_tensor output_tensor", "6_2 F"),
        ),
        _to_floats,
        _of_floats,
        doc="Multiply quantized matrices, and return the real numbers as floats. A scale or zero point has size 1 in "
        "all dimensions, or in all but one. For ``a`` that one is the second last, of size M; for ``b`` it is the "
        "last, of size N. All scales and zero points have one dimension count. The scales, the bias and the output "
        "have one data type; with FLOAT16 the result is computed in float32, and then rounded. The page's integers of "
        "16 and 32 bits are not accepted.",
        fields=_FIELDS,
        prepared=_packed_right,
    ),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": Operator(
        118,
        growing(
            "2_1 4, 4_0 2-4",
            ("a_tensor b_tensor output_tensor", "2_1 B"),
            ("a_scale_tensor b_scale_tensor output_scale_tensor", "2_1 FLOAT32", "2_1 4, 4_0 1-4"),
            ("a_zero_point_tensor b_zero_point_tensor output_zero_point_tensor", "2_1 B", "2_1 4, 4_0 1-4"),
        ),
        _to_quantized,
        _of_quantized,
        doc="Multiply quantized matrices and quantize the product. A scale or zero point has size 1 in all dimensions, "
        "or in all but one. For ``a`` and the output that one is the second last, of size M; for ``b`` it is the last, "
        "of size N. All scales and zero points have one dimension count.",
        fields=_FIELDS,
        prepared=_packed_right,
    ),
}
