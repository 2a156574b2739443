"""Whether what is traced is the body of a loop or of a branch, which a program may never run."""

from contextlib import AbstractContextManager
from contextvars import ContextVar

from jaxdml._base.scoped import scoped

_TRACED: ContextVar[bool] = ContextVar("traced", default=False)


def tracing_a_body() -> AbstractContextManager[None]:
    """Trace a body: it returns nothing but its results, and what it would read may not be there."""
    return scoped(_TRACED, True)


def may_not_run() -> bool:
    """Whether a body is traced."""
    return _TRACED.get()
