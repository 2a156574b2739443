"""Say what is wrong with a description, all of it at once."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from jaxdml.directml._enums import FeatureLevel


class Violation(NamedTuple):
    """One constraint that a description breaks.

    Attributes:
      field: DirectML's name of what breaks it, like ``OutputValueTensor.Sizes``.
      rule: what is required of it, as the rest of a sentence.
      got: what it is instead.
      accepted_from: the lowest feature level that accepts it; None where none does.
    """

    field: str
    rule: str
    got: Any
    accepted_from: FeatureLevel | None = None

    def __str__(self) -> str:
        """Say it in one line."""
        got = list(self.got) if isinstance(self.got, tuple) else self.got
        later = f" Feature level {self.accepted_from.label} accepts it." if self.accepted_from else ""
        return f"{self.field} {self.rule}; got {got}.{later}"


class InvalidDescError(ValueError):
    """A description that breaks constraints, or holds what its fields do not.

    DirectML itself answers one with ``E_INVALIDARG``, and says no more.

    Attributes:
      subject: what is invalid, and for what.
      violations: every constraint that it breaks.
    """

    def __init__(self, subject: str, violations: Iterable[Violation]) -> None:
        self.subject, self.violations = subject, tuple(violations)
        super().__init__(subject, self.violations)

    def __str__(self) -> str:
        """Name every violation, each in a line of its own."""
        return "\n  ".join([f"jaxdml.directml: {self.subject}", *map(str, self.violations)])
