"""What a peer makes of a case: something to run, to time and to check, and what the check found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

from benchmarks.cases import Arguments, Case


class Absent(Exception):  # noqa: N818  # It is an answer, not an error.
    """A peer cannot do a case; the message says why."""


@dataclass(frozen=True)
class Contender:
    """A peer ready for one case.

    Attributes:
      run: makes one call and returns what it gave, when that is complete.
      answers: brings what ``run`` gave to NumPy.
      promises: ``"exact"``: every bit of the oracle's answer; ``"values"``: ties in any order; ``"within one"``:
        rounding may be off by one; ``"close"``: floats, of which a rounding before the last may be left out;
        ``"float32"``, ``"bfloat16"``, ``"int8"``: what a whole model computes with, and how near it has to be.
      compile_s: seconds from the Python function to the program that runs, None where nothing is compiled.
      chain: makes calls that wait for one another in one program, where there is no profiler; None for what is not JAX.
      many: makes so many calls, and waits when all of them have been handed to the device; None for what has no device.
    """

    run: Callable[[], Any]
    answers: Callable[[Any], Arguments]
    promises: str
    compile_s: float | None = None
    chain: Callable[[int], Any] | None = None
    many: Callable[[int], Any] | None = None


@dataclass(frozen=True)
class Verdict:
    """How an answer compares with the oracle's.

    Attributes:
      compared: how many elements were.
      different: how many of them differ.
      accepted: whether that is within what the peer promises.
      promises: what it promises, see ``Contender``.
    """

    compared: int
    different: int
    accepted: bool
    promises: str


Prepare = Callable[[Case, Sequence[Arguments]], Contender]
"""Makes a contender of a case, to run on several draws of its data in turn."""

Peers = Mapping[str, Prepare]
"""How each peer that can does an operator."""

Expected = Callable[[Case, Arguments], tuple[Any, Arguments]]
"""Returns an index into each answer to a case, and what the oracle says it holds there."""


def each(program: Callable[[Case, Arguments], Contender]) -> Prepare:
    """Prepare one contender for each draw of the data, and run those in turn."""

    def prepared(case: Case, draws: Sequence[Arguments]) -> Contender:
        contenders = [program(case, arguments) for arguments in draws]
        turns = cycle(contenders)
        return replace(contenders[0], run=lambda: next(turns).run())

    return prepared
