"""What is measured: calls of all operators, of sizes that occur in practice, and whole models."""

from dataclasses import replace

from benchmarks.cases import convolving, indexing, products, quantizing, selecting, whole_models
from jaxdml._cases import OPERATORS as _RECORDS
from jaxdml._cases.records import Array, Operator
from jaxdml._cases.records import NamedCall as Case

Arguments = tuple[Array, ...]

OPERATORS = tuple(record.name for record in _RECORDS)

MODELS = tuple(whole_models.NETWORKS)

GROUPS = (whole_models.GROUP, "grid", "models", "growth in n", "growth in k", "accelerators")

SIZES = selecting.SIZES | indexing.SIZES | quantizing.SIZES | products.SIZES | convolving.SIZES
"""By operator, the calls that are chosen to be measured."""


def calls(record: Operator) -> tuple[Case, ...]:
    """Return what is measured of an operator; if no size is chosen, what the self-check times."""
    return SIZES.get(record.name) or tuple(replace(race, group="grid") for race in record.races)


CASES = tuple(
    sorted(
        (*(call for record in _RECORDS for call in calls(record)), *whole_models.CASES),
        key=lambda call: GROUPS.index(call.group),
    )
)
"""All calls, by group and operator."""

STOCK = {record.name: record.stock for record in _RECORDS}
"""For each operator, what writes a call in stock JAX."""

SMALL = tuple(record.small for record in _RECORDS)
"""For each operator a small call, of which most is overhead."""

__all__ = ["CASES", "GROUPS", "MODELS", "OPERATORS", "SIZES", "SMALL", "STOCK", "Arguments", "Array", "Case", "calls"]
