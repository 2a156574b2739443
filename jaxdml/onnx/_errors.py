"""What the door raises for models that it cannot run."""

from collections.abc import Sequence

from jaxdml._base import errors


class UnsupportedModelError(ValueError):
    """A model, or a node of it, cannot be run; the message names every kind of such nodes and why."""


class NotKnownError(NotImplementedError):
    """A value is traced that must be known while tracing.

    Args:
      rule: which one, as a sentence.
      why: another sentence.
      ways: what can be done beside calling the model itself, each as half a sentence.
      undecided: the name of the If or Loop that the value decides, where only tracing could show that it must be known.
    """

    def __init__(self, rule: str, why: str, *ways: str, undecided: str = "") -> None:
        advice = ", or ".join(["Call the model itself instead of jax.jit(model.apply)", *ways])
        super().__init__(errors.compose("onnx.Model", rule, why, f"{advice}."))
        self.rule, self.why, self.ways, self.undecided = rule, why, ways, undecided

    def with_way(self, way: str) -> "NotKnownError":
        """Return the error with one more way, the first."""
        return NotKnownError(self.rule, self.why, way, *self.ways, undecided=self.undecided)


class NodeError(ValueError):
    """A node cannot be run, for a reason that the text says; whoever knows the node names it."""


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
