"""The names of all operators, for tests to go through: the files of jaxdml/_operators."""

from pkgutil import iter_modules

from jaxdml import _operators

OPERATORS = sorted(file.name for file in iter_modules(_operators.__path__) if not file.name.startswith("_"))
