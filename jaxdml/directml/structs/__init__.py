"""DirectML's structs, one file an operator: the fields, the feature levels, the constraints, the options, the call."""

from importlib import import_module
from pkgutil import iter_modules

from jaxdml.directml._descs import OperatorDesc

_FILES = [import_module(f"{__name__}.{file.name}") for file in iter_modules(__path__)]

STRUCTS: tuple[type[OperatorDesc], ...] = tuple(
    dict.fromkeys(
        value
        for file in _FILES
        for value in vars(file).values()
        if isinstance(value, type) and issubclass(value, OperatorDesc) and value is not OperatorDesc
    )
)
"""The structs of all files of this folder."""
