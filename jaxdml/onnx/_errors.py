"""What the door raises for models that it cannot run."""

from collections.abc import Sequence

from jaxdml._base import errors


class UnsupportedModelError(ValueError):
    """A model, or a node of it, cannot be run; the message names every kind of such nodes and why."""


def unsupported(rule: str, *details: str) -> UnsupportedModelError:
    """Compose the error about a model."""
    return UnsupportedModelError(errors.compose("onnx.load", rule, *details))


def must_be_text(*names: str | bytes) -> None:
    """Refuse names that are not UTF-8, which protobuf gives as bytes."""
    for name in names:
        if isinstance(name, bytes):
            raise unsupported(f"a name in the model is not UTF-8: {name[:40]!r}.", "The file may be broken.")


def listed(lines: Sequence[str], most: int = 20) -> tuple[str, ...]:
    """Return the lines, or the first of them and how many follow."""
    return (*lines[:most], f"and {len(lines) - most} more.") if len(lines) > most else tuple(lines)
