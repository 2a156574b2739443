"""The error that names every constraint which a description breaks."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from jaxdml._base.errors import compose
from jaxdml.directml._enums import FeatureLevel


def shown(value: Any, write: Callable[[Any], str] = repr) -> str:
    """Return a value as an error shows it. What is long is cut."""
    try:
        text = write(value)
    except ValueError:
        return "a number of more digits than Python writes"
    return text if len(text) <= 500 else f"{text[:500]} ..."


class Violation(NamedTuple):
    """One constraint that a description breaks.

    Attributes:
      field: the field, under DirectML's name: ``OutputValueTensor.Sizes``.
      rule: what is required of it, as the rest of a sentence.
      got: its value.
      accepted_from: the lowest feature level that accepts this value; None if no level does.
    """

    field: str
    rule: str
    got: Any
    accepted_from: FeatureLevel | None = None

    def __str__(self) -> str:
        """Return it as one line."""
        got = list(self.got) if isinstance(self.got, tuple) else self.got
        later = f" Feature level {self.accepted_from.label} accepts it." if self.accepted_from else ""
        return f"{self.field} {self.rule}; got {shown(got, str)}.{later}"


Violations = Iterator[Violation]


def require_level(function: str, given: Any) -> FeatureLevel:
    """Return the feature level that an argument of a function is, or the number of; else raise ValueError."""
    if given not in list(FeatureLevel):
        listed = ", ".join(level.name for level in FeatureLevel)
        raise ValueError(compose(f"directml.{function}", f"feature_level must be one of {listed}; got {given!r}."))
    return FeatureLevel(given)


class InvalidDescError(ValueError):
    """A description that breaks constraints, or whose values do not fit their fields.

    DirectML itself answers with ``E_INVALIDARG`` and no explanation.

    Attributes:
      subject: what is invalid, and at which feature level.
      violations: every constraint that it breaks.
    """

    def __init__(self, subject: str, violations: Iterable[Violation]) -> None:
        self.subject, self.violations = subject, tuple(violations)
        super().__init__(subject, self.violations)

    def __str__(self) -> str:
        """Return the subject, and below it one line for each violation."""
        return compose("directml", self.subject, *map(str, self.violations))
