"""What operators have in common that read or write at index tuples."""

from typing import Any

from jaxdml.directml._checks import only_ones_before
from jaxdml.directml._errors import Violations

INDICES = "integers. Negative ones count from the end, if the data type is signed."
"""What ``help`` says of indices."""

TUPLES = "tuples of integers, along the last dimension. Negative ones count from the end, if the data type is signed."

COUNTS = {
    "input_dimension_count": "how many of the input's last dimensions are used. The dimensions before have size 1.",
    "indices_dimension_count": "how many of the indices' last dimensions are used, likewise.",
}
"""What it says of the fields that ``used`` reads."""


def counts_in_range(desc: Any) -> Violations:
    """Require that what is not used of the input and of the indices has size 1."""
    yield from only_ones_before(desc, "input_dimension_count", "input_tensor", 1)
    yield from only_ones_before(desc, "indices_dimension_count", "indices_tensor", 1)


def used(desc: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of the input and of the indices that are used."""
    sizes, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    return sizes[-desc.input_dimension_count :], indices[-desc.indices_dimension_count :]
