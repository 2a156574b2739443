"""What is known of each operator: worked examples, traps, what to time, and how stock JAX does it.

The self-check, the tests and the benchmarks take all of these from here. Each file that has an ``OPERATOR`` is found.
"""

from importlib import import_module
from pkgutil import iter_modules

from jaxdml._cases.records import Operator

_FILES = [import_module(f"{__name__}.{file.name}") for file in iter_modules(__path__)]

OPERATORS: tuple[Operator, ...] = tuple(file.OPERATOR for file in _FILES if hasattr(file, "OPERATOR"))
"""One record for each operator; tables show them in this order."""
