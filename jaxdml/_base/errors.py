"""Compose every error message of the library: the call and the rule, what was passed, what to write instead."""

from collections.abc import Mapping
from typing import Any, NoReturn


def describe(value: Any) -> str:
    """Write an array as ``float32[2, 5]``, and anything else as the name of its type."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or shape is None:
        return "None" if value is None else type(value).__name__
    return f"{dtype}{list(shape)}"


def message(function: str, rule: str, operands: Mapping[str, Any], advice: str) -> str:
    """Compose the three lines of an error message.

    Args:
      function: the public function's name, as the caller typed it after ``jaxdml.``.
      rule: what must hold and what was passed instead, as a full sentence.
      operands: the arguments to describe on the second line, by name.
      advice: what to write instead, as a full sentence.
    """
    described = ", ".join(f"{name}: {describe(value)}" for name, value in operands.items())
    return compose(function, rule, described, advice)


def compose(function: str, rule: str, *details: str) -> str:
    """Compose an error message: the call and the rule, then every detail on an indented line of its own."""
    return "\n  ".join([f"jaxdml.{function}: {rule}", *details])


class ErrorContext:
    """Hold the name and the array arguments of one call of a public function, so that error messages can show them."""

    def __init__(self, function: str, operands: Mapping[str, Any]) -> None:
        self.function = function
        self.operands = dict(operands)

    def fail(self, error: type[Exception], rule: str, advice: str, *only: str) -> NoReturn:
        """Raise ``error`` with a message of three lines, which describes the operands named by ``only``, or all."""
        raise error(self.message(rule, advice, *only))

    def message(self, rule: str, advice: str, *only: str) -> str:
        """Return the message that ``fail`` raises an error with."""
        shown = {name: self.operands[name] for name in only or self.operands}
        return message(self.function, rule, shown, advice)
