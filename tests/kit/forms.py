"""Run the forms of another platform on this one, whatever they would be chosen for."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import jax

from jaxdml._placement import platforms


@contextmanager
def forms_of(platform: str) -> Iterator[None]:
    """Lower every program with the forms of this platform, on whichever device it runs."""
    # What was lowered before has the forms of its own platform, and so has what is lowered here.
    jax.clear_caches()
    with mock.patch.dict(platforms._FIELDS, dict.fromkeys(("cpu", "gpu", "cuda", "rocm"), platform)):
        yield
    jax.clear_caches()
