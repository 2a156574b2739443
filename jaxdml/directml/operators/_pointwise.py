"""What operators have in common that compute each element from the elements at its place."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml._networks.integers import is_integer, to_integers
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing

FOUR_THEN_EIGHT = "1_0 4, 3_0 1-8"
"""The dimension counts of most of them."""

Constraints = Callable[[Any], Violations]


def pointwise(
    number: int,
    doc: str,
    compute: Callable[..., Any],
    *groups: tuple[str, str],
    counts: str = FOUR_THEN_EIGHT,
    constraints: Constraints | None = None,
    **facts: Any,
) -> Operator:
    """Return the facts of an operator whose tensors all have the same sizes.

    Args:
      number: its number.
      doc: what it computes.
      compute: the function of the description and of its inputs, the first of them after its ``ScaleBias``.
      groups: the fields whose tensors have the same data type, and their data types, as ``growing`` takes them.
      counts: the dimension counts, likewise.
      constraints: those that it has beside equal sizes and data types.
      facts: other facts of an ``Operator``.
    """

    def of_scaled(desc: Any, x: Any, *others: Any) -> Any:
        return compute(desc, _scaled(getattr(desc, "scale_bias", None), x), *others)

    def every(desc: Any) -> Violations:
        yield from alike_in_groups(desc, groups)
        (first, tensor), *others = desc.tensors.items()
        for name, _ in others:
            yield from sized(desc, name, f"those of {c_field(first)}", tensor.sizes)
        yield from _narrow_if_scaled(desc)
        yield from constraints(desc) if constraints else ()

    return Operator(number, growing(counts, *groups), of_scaled, every, doc=doc, **facts)


def alike_in_groups(desc: Any, groups: Sequence[tuple[str, ...]]) -> Violations:
    """Require all tensors to have one dimension count, and those of each group of fields one data type."""
    yield from alike(desc, "dimension_count", *desc.tensors)
    for fields, *_ in groups:
        names = [name for name in desc.tensors if name.partition("[")[0] in fields.split()]
        yield from alike(desc, "data_type", *names)


def _scaled(scale_bias: Any, x: Any) -> Any:
    """Return ``x * Scale + Bias``; of integers in float32, without the fraction and saturated."""
    if _is_neutral(scale_bias):
        return x
    if is_integer(x):
        return to_integers(jnp, x.astype(jnp.float32) * scale_bias.scale + scale_bias.bias, x.dtype)
    return x * scale_bias.scale + scale_bias.bias


def _narrow_if_scaled(desc: Any) -> Violations:
    scale_bias: Any = getattr(desc, "scale_bias", None)
    if not _is_neutral(scale_bias) and desc.input_tensor.data_type.bits == 64:
        yield Violation("ScaleBias", "must be null, or 1 and 0, for elements of 64 bits", tuple(scale_bias))


def _is_neutral(scale_bias: Any) -> bool:
    return scale_bias is None or scale_bias == (1, 0)


def number_of(value: Any, dtype: Any) -> Any:
    """Return a number as one of another type: without its fraction and saturated if that has integers, NaN as 0."""
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return np.asarray(0 if math.isnan(value) else int(max(limits.min, min(limits.max, value))), dtype)
    with np.errstate(over="ignore"):  # FLOAT32's greatest number stands for no bound at all.
        return np.asarray(value, dtype)


def widened(function: Callable[[Any], Any], x: Any) -> Any:
    """Compute with float32 where elements are float16, and round once."""
    return function(x.astype(jnp.float32)).astype(x.dtype) if x.dtype == jnp.float16 else function(x)


def typed(kind: str) -> Constraints:
    """Require the field ``kind``, a data type, to name that of the output."""

    def run(desc: Any) -> Violations:
        output = next(reversed(desc.tensors))
        want, got = desc.tensors[output].data_type, getattr(desc, kind)
        if got != want:
            yield Violation(c_field(kind), f"must be {want.name}, as in {c_field(output)}", got.name)

    return run
