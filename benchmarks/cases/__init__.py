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
    """Return what is measured of an operator; if no size is chosen, what the self-check times.

    The least and the greatest call of a model that knows its scales is also measured with traced ones.
    """
    chosen = SIZES.get(record.name) or tuple(replace(race, group="grid") for race in record.races)
    knowing = [call for call in chosen if call.known]
    of_models = [call for call in knowing if call.group == "models"] or knowing
    by_size = sorted(of_models, key=lambda call: call.bytes)
    return *chosen, *map(traced, by_size[:1] + by_size[1:][-1:])


def traced(call: Case) -> Case:
    """Return the same call with scales and zero points that are arguments of the program."""
    return replace(call, known=(), options={**call.options, "given": "traced scales"})


CASES = tuple(
    sorted(
        (*(call for record in _RECORDS for call in calls(record)), *whole_models.CASES),
        key=lambda call: GROUPS.index(call.group),
    )
)
"""All calls, by group and operator."""

KNOWING = frozenset(case.operator for case in CASES if case.known)
"""Operators whose calls know their scales and zero points, if nothing else is said."""

STOCK = {record.name: record.stock for record in _RECORDS}
"""For each operator, what writes a call in stock JAX."""

SMALL = tuple(record.small for record in _RECORDS)
"""For each operator a small call, of which most is overhead."""

__all__ = [
    "CASES",
    "GROUPS",
    "KNOWING",
    "MODELS",
    "OPERATORS",
    "SIZES",
    "SMALL",
    "STOCK",
    "Arguments",
    "Array",
    "Case",
    "calls",
    "traced",
]
