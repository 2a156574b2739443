"""Second copies of what DirectML's header and pages say of its structs, one file an operator.

Each file has ``STRUCTS``, a ``Struct`` for every struct of the operator.
"""

import dataclasses
from importlib import import_module
from pkgutil import iter_modules

_FILES = [import_module(f"{__name__}.{file.name}") for file in iter_modules(__path__)]

STRUCTS = {struct.name: struct for file in _FILES for struct in file.STRUCTS}
"""The structs of all operators, by name."""

VALID = {name: struct.valid for name, struct in STRUCTS.items()}
"""A valid description of every struct."""


def changed(name, **fields):
    """Return the valid description of a struct with these fields instead; ``field[0]`` is one of several tensors."""
    whole = {field: value for field, value in fields.items() if "[" not in field}
    for label in fields.keys() - whole.keys():
        field, place = label.rstrip("]").split("[")
        tensors = list(whole.get(field, getattr(VALID[name], field)))
        tensors[int(place)] = fields[label]
        whole[field] = tensors
    return dataclasses.replace(VALID[name], **whole)
