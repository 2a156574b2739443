"""What the structs of matrix products have in common."""

from typing import Any

from jaxdml import prepack
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, sized, varying
from jaxdml.directml._errors import Violations

_AXES = {"a": -2, "b": -1, "output": -2}
"""The dimension of each tensor along which its scale and its zero point may vary."""


def product_constraints(desc: Any, *parameters: str) -> Violations:
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


def packed_right(desc: Any, name: str, tensor: Any) -> Any:
    """Pack the right matrix."""
    return prepack(tensor) if name == "b_tensor" else tensor


def of_rank(rank: int, inputs: tuple[Any, ...]) -> list[Any]:
    """Reshape scales and zero points that have more dimensions than the product. The leading ones have size 1."""
    return [part if part is None or part.ndim <= rank else part.reshape(part.shape[-rank:]) for part in inputs]
