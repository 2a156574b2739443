"""What is measured: the named calls of all operators in ``jaxdml/_cases``, and whole models."""

from benchmarks.cases import whole_models
from jaxdml._cases import OPERATORS as _RECORDS
from jaxdml._cases.records import Array
from jaxdml._cases.records import NamedCall as Case

Arguments = tuple[Array, ...]

OPERATORS = tuple(record.name for record in _RECORDS)

MODELS = tuple(whole_models.NETWORKS)

GROUPS = (whole_models.GROUP, "grid", "models", "growth in n", "growth in k", "accelerators")

CASES = tuple(
    sorted(
        (*(call for record in _RECORDS for call in record.calls), *whole_models.CASES),
        key=lambda call: GROUPS.index(call.group),
    )
)
"""All calls, by group and operator."""

STOCK = {record.name: record.stock for record in _RECORDS}
"""For each operator, what writes a call in stock JAX."""

SMALL = tuple(record.small for record in _RECORDS)
"""For each operator a small call, of which most is overhead."""

__all__ = ["CASES", "GROUPS", "MODELS", "OPERATORS", "SMALL", "STOCK", "Arguments", "Array", "Case"]
