"""Give a context variable a value for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_T = TypeVar("_T")


@contextmanager
def scoped(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Give the variable this value until the block ends, however it ends."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)
