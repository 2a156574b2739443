"""DirectML's operators by family: each file lists the facts of its operators by name."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from jaxdml.directml._operator import Operator

_FAMILIES = [import_module(f"{__name__}.{file.name}") for file in iter_modules(__path__) if file.name[0] != "_"]

OPERATORS: Mapping[str, Operator] = dict(
    sorted(
        ((name, operator) for family in _FAMILIES for name, operator in family.OPERATORS.items()),
        key=lambda entry: entry[1].number,
    )
)
"""The operators of all families, in the order of their numbers."""
