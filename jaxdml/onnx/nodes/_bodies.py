"""Bodies of If, Loop and Scan as JAX traces them: arrays in and out, traced once."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend.core import jaxpr_as_fun

from jaxdml._base import errors
from jaxdml.onnx._errors import NotKnownError, UnsupportedModelError
from jaxdml.onnx._graph import Node
from jaxdml.onnx.values.bodies import tracing_a_body
from jaxdml.onnx.values.kinds import Value, channels_first
from jaxdml.onnx.values.lengths import LengthError
from jaxdml.onnx.values.stored import on_device


def traced(function: Callable[..., Any], *operands: Any) -> tuple[Callable[..., Any], Any]:
    """Return a function that does not trace this one again, and the shapes of its results."""
    with tracing_a_body():
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*operands)
    structure = jax.tree.structure(shapes)

    def run(*operands: Any) -> Any:
        return jax.tree.unflatten(structure, jaxpr_as_fun(program)(*jax.tree.leaves(operands)))

    return run, shapes


def traced_branches(node: Node, *functions: Callable[[], Any]) -> tuple[list[Callable[..., Any]], list[Any]]:
    """Return the branches of an If as functions that do not trace again, and the shapes of their results."""
    found: list[tuple[Callable[..., Any], Any]] = []
    failed: list[Exception] = []
    for function in functions:
        try:
            found.append(traced(function))
        except (UnsupportedModelError, NotKnownError, LengthError):
            raise
        except Exception as error:  # Of any operator, or of JAX: this branch is not meant for these shapes.
            failed.append(error)
    if len(failed) > 1:
        raise failed[0]
    if failed:
        first, *_ = str(failed[0]).removeprefix("jaxdml.onnx.Model: ").split("\n")
        reason = " ".join([first.removesuffix("."), *getattr(failed[0], "__notes__", ())[:1]])
        raise undecided(node, f"only one of its branches fits what is given; the other: {reason}") from failed[0]
    branches, shapes = zip(*found, strict=True)
    return list(branches), list(shapes)


def undecided(node: Node, rule: str) -> NotKnownError:
    """Compose the error about a traced value that decides what a node does; a call then knows it."""
    what = "Which branch is taken" if node.op_type == "If" else "How often it runs"
    why = f"{what} must then be known while tracing."
    return NotKnownError(f"{node}: {rule}.", why, undecided="" if node.decided else node.name)


def as_arrays(values: Sequence[Value]) -> list[Any]:
    """Bring values to what JAX's control flow takes."""
    return [_array(value) for value in values]


def _array(value: Value) -> Any:
    if isinstance(value, list):
        return as_arrays(value)
    return None if value is None else on_device(channels_first(value))


def like(results: Sequence[Any], start: Sequence[Any]) -> list[Any]:
    """Drop weak types."""
    return jax.tree.map(lambda result, first: lax.convert_element_type(result, first.dtype), list(results), list(start))


def types_of(values: Sequence[Any]) -> list[Any]:
    """Return the shape and the dtype of each array."""
    return jax.tree.map(lambda value: (value.shape, value.dtype), list(values))


def listed(values: Sequence[Any]) -> str:
    """Write what a graph takes or returns, for errors."""
    return ", ".join(
        f"a sequence of {len(value)}" if isinstance(value, list) else errors.describe(value) for value in values
    )
