"""Whether what is traced is the body of a loop or of a branch, which a program may never run."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_TRACED: ContextVar[bool] = ContextVar("traced", default=False)


@contextmanager
def tracing_a_body() -> Iterator[None]:
    """Trace a body: it returns nothing but its results, and what it would read may not be there."""
    before = _TRACED.set(True)
    try:
        yield
    finally:
        _TRACED.reset(before)


def may_not_run() -> bool:
    """Whether a body is traced."""
    return _TRACED.get()
