"""What models of ai.onnx.ml do with their scores: ``post_transform``, and the labels of classes."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx._errors import NodeError
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.nodes._sizes import refusal
from jaxdml.onnx.values.kinds import channels_first
from jaxdml.onnx.values.stored import on_device


def must_be_one_of(**known: Sequence[Any]) -> Callable[[Node, Any], str | None]:
    """Return what says that an attribute of a node is none of those that it may be."""

    def reason(node: Node, _: Any) -> str | None:
        for name, values in known.items():
            if node.attributes.get(name, values[0]) not in values:
                return f"{name} is {node.attributes[name]!r}, and must be one of {', '.join(map(str, values))}"
        return None

    return reason


def _softmax_of_others(x: jax.Array) -> jax.Array:
    """Return a softmax of what is not 0, which stays 0."""
    zero = jnp.abs(x) <= np.float32(1e-7)
    powers = jnp.exp(x - x.max(-1, keepdims=True))
    total = jnp.where(zero, 0, powers).sum(-1, keepdims=True)
    return jnp.where(zero, x * jnp.exp(-x.max(-1, keepdims=True)), powers) / total


def probit(x: jax.Array) -> jax.Array:
    """Return onnxruntime's approximation of the probit function, which is off by up to 0.003."""
    double = 2 * x - 1
    log = jnp.log((1 - double) * (1 + double))
    half = 2 / (np.float32(np.pi) * np.float32(0.147)) + log / 2
    inverse = jnp.sqrt(jnp.sqrt(half * half - log / np.float32(0.147)) - half)
    return np.float32(np.sqrt(2)) * jnp.where(double < 0, -inverse, inverse)


TRANSFORMS: Mapping[str, Callable[[jax.Array], jax.Array]] = MappingProxyType(
    {
        "NONE": lambda x: x,
        "SOFTMAX": lambda x: jax.nn.softmax(x, -1),
        "LOGISTIC": jax.nn.sigmoid,
        "SOFTMAX_ZERO": _softmax_of_others,
        "PROBIT": probit,
    }
)
"""By the value of ``post_transform``, in the order of TreeEnsemble's numbers."""

known_transform = must_be_one_of(post_transform=tuple(TRANSFORMS))
"""Says that ``post_transform`` is none of these."""


def transformed(scores: jax.Array, post_transform: str) -> jax.Array:
    """Return scores ``[rows, targets]`` after ``post_transform``; of one target only PROBIT changes any."""
    if scores.shape[-1] == 1 and post_transform != "PROBIT":
        return scores
    return TRANSFORMS[post_transform](scores)


def of_both(score: jax.Array, other: jax.Array, post_transform: str) -> jax.Array:
    """Return scores ``[rows, 2]`` of two classes from that of the second, as onnxruntime does; only LOGISTIC counts."""
    if post_transform == "LOGISTIC":
        return jax.nn.sigmoid(jnp.stack([-score, score], -1))
    return jnp.stack([other, score], -1)


def of_one_score(call: NodeCall, score: jax.Array, other: jax.Array, post_transform: str) -> jax.Array:
    """Return what ``of_both`` does, where PROBIT is refused."""
    if post_transform == "PROBIT":
        raise refusal(f"{call.node} has two classes and one score, of which PROBIT makes no two.")
    return of_both(score, other, post_transform)


def labels_of(integers: Any, strings: Any) -> np.ndarray:
    """Return the labels of classes: integers, or the positions of texts.

    Raises:
      NodeError: if there are none, or both; or if they do not fit.
    """
    if bool(len(integers)) == bool(len(strings)):
        raise NodeError("it needs labels of classes, as integers or as texts")
    labels = np.asarray(integers, np.int64) if len(integers) else np.arange(len(strings))
    narrow = jax.dtypes.canonicalize_dtype(np.int64)
    if (labels != labels.astype(narrow)).any():
        raise NodeError("a label does not fit int32; set jax_enable_x64")
    return labels.astype(narrow)


def name_labels(call: NodeCall, what: str, strings: Any) -> None:
    """Tell the report what a node became, and which texts its labels stand for."""
    if len(strings):
        what += f"; labels are positions in {list(strings)}"
    call.note((call.node.name,), what)


def must_be_rows(call: NodeCall, x: Any) -> None:
    """Require an input ``[rows, features]`` or ``[features]``."""
    if x.ndim not in (1, 2):
        raise refusal(f"{call.node} takes [rows, features]; got an input of shape {list(x.shape)}.")


def rows_of(call: NodeCall, x: jax.Array) -> jax.Array:
    """Return an input as ``[rows, features]``; one of one dimension is one row."""
    must_be_rows(call, x)
    return x[None] if x.ndim == 1 else x


def matrix_of(values: Any, rows: int, name: str) -> jax.Array:
    """Return numbers as a matrix of some rows."""
    if not len(values) or len(values) % rows:
        raise NodeError(f"{name} has {len(values)} entries, which are not {rows} rows")
    return jnp.asarray(np.asarray(values, np.float32).reshape(rows, -1))


def must_be_of_size(name: str, values: Any, sizes: tuple[int, ...]) -> None:
    """Require as many numbers as may be."""
    if len(values) not in sizes:
        raise NodeError(f"{name} has {len(values)} entries, and must have {' or '.join(map(str, sizes))}")


def row_of(values: Any, sizes: tuple[int, ...], name: str) -> jax.Array:
    """Return numbers, if there are as many as may be."""
    must_be_of_size(name, values, sizes)
    return jnp.asarray(np.asarray(values, np.float32))


def features_of(call: NodeCall, X: Any, features: int) -> jax.Array:
    """Return an input as float32 ``[rows, features]``, if it has as many features as the model."""
    x = rows_of(call, on_device(channels_first(X))).astype(np.float32)
    if x.shape[1] != features:
        raise refusal(f"{call.node} takes {features} features; got an input of shape {list(x.shape)}.")
    return x


def product(x: jax.Array, matrix: jax.Array) -> jax.Array:
    """Return the products of all rows of one with all rows of the other."""
    return jnp.matmul(x, matrix.T, precision=lax.Precision.HIGHEST)
