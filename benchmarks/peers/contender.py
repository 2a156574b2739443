"""What a peer makes of a case: something to run, to time and to check."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import Arguments


class Absent(Exception):  # noqa: N818  # It is an answer, not an error.
    """A peer cannot do a case; the message says why."""


@dataclass(frozen=True)
class Contender:
    """A peer ready for one case.

    Attributes:
      run: makes one call and returns what it gave, when that is complete.
      answers: brings what ``run`` gave to NumPy.
      promises: ``"exact"``: every bit of the oracle's answer; ``"values"``: ties in any order; ``"within one"``:
        rounding may be off by one.
      compile_s: seconds from the Python function to the program that runs, None where nothing is compiled.
    """

    run: Callable[[], Any]
    answers: Callable[[Any], Arguments]
    promises: str
    compile_s: float | None = None
