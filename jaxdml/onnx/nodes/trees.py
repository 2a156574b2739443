"""Ensembles of trees: TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier of ai.onnx.ml.

They are packed when a model is loaded: see ``_trees``.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx.nodes._ensembles import AGGREGATES, classifier, ensemble, regressor
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._scores import (
    TRANSFORMS,
    known_transform,
    labels_of,
    must_be_one_of,
    name_labels,
    of_both,
    probit,
    rows_of,
    transformed,
)
from jaxdml.onnx.nodes._sizes import refusal
from jaxdml.onnx.nodes._trees import OneSided, Trees
from jaxdml.onnx.values.kinds import channels_first
from jaxdml.onnx.values.stored import on_device

_AT_ONCE = 2**14
"""How many positions, of trees and rows, are walked at once: with more, they leave a CPU's cache, and trees that are
less deep than others wait longer for these."""


def _walked(trees: Trees, x: jax.Array, combine: Any) -> tuple[jax.Array, jax.Array | None]:
    """Return the combined weights ``[rows, targets]``, and which there are any for, or None if for all."""
    keys = _keys(x, trees)
    rows, groups = keys.shape[0], len(trees.roots)
    records, table = trees.nodes.reshape(-1), trees.weights
    present = trees.present if trees.present is not None and trees.present.ndim == 2 else None
    join, limit = _COMBINE[combine]

    def step(_: Any, at: jax.Array) -> jax.Array:
        record = 4 * at
        # By rows, so that these may be sharded.
        key = jax.vmap(_read, (0, 2), 2)(keys, _read(records, record))
        return _read(records, record + 2 + (key > _read(records, record + 1)))

    def weight(leaf: jax.Array) -> jax.Array:
        found = _read(table, leaf)
        return found if present is None else jnp.where(_read(present, leaf), found, limit)

    def some(total: Any, trees: Any) -> tuple[Any, None]:
        (score, seen), (roots, levels) = total, trees
        first = jnp.broadcast_to(roots[..., None].astype(records.dtype), (*roots.shape, rows))
        leaf = _read(records, 4 * lax.fori_loop(0, levels.max(), step, first) + 1)
        # In order, as onnxruntime on one thread: votes that are as many are equal sums only then.
        score, _ = lax.scan(
            lambda score, leaf: (join(score, weight(leaf)), None), score, leaf.swapaxes(0, 1), unroll=32
        )
        return (score, seen if present is None else seen | _read(present, leaf).any(1)), None

    shape = (groups, rows, table.shape[1])
    total: Any = jnp.full(shape, limit, table.dtype), None if present is None else jnp.zeros(shape, bool)
    parts = _in_blocks(trees, rows, combine)
    results, _ = some(total, parts) if parts[0].ndim == 2 else lax.scan(some, total, parts)
    score, seen = _by_rows(results[0]), None if present is None else _by_rows(results[1])
    if trees.present is not None and present is None:
        seen = jnp.broadcast_to(trees.present, score.shape)
    return score if seen is None else jnp.where(seen, score, 0), seen


def _by_rows(array: jax.Array) -> jax.Array:
    """Return ``[groups, rows, targets]`` as ``[rows, groups * targets]``."""
    return jnp.moveaxis(array, 0, 1).reshape(array.shape[1], -1)


_COMBINE: Mapping[Any, Any] = MappingProxyType(
    {np.add: (jnp.add, 0), np.minimum: (jnp.minimum, np.inf), np.maximum: (jnp.maximum, -np.inf)}
)
"""By what combines weights: the same of JAX's arrays, and the number that changes nothing."""


def _in_blocks(trees: Trees, rows: Any, combine: Any) -> tuple[jax.Array, jax.Array]:
    """Return roots and levels ``[blocks, groups, trees]`` of as many trees as are walked at once, or as they are."""
    groups, count = trees.roots.shape
    most = max(1, _AT_ONCE // max(1, rows * groups)) if isinstance(rows, int) else 1
    blocks = -(-count // most)
    if blocks == 1:
        return trees.roots, trees.levels
    size = -(-count // blocks)
    # Trees that are there twice change no minimum or maximum; to a sum the last node adds nothing.
    place = np.arange(blocks * size)
    roots, levels = trees.roots[:, place % count], trees.levels[:, place % count]
    if combine is np.add:
        roots = jnp.where(place < count, roots, len(trees.nodes) - 1)
    shape = groups, blocks, size
    return jnp.moveaxis(roots.reshape(shape), 1, 0), jnp.moveaxis(levels.reshape(shape), 1, 0)


def _read(array: jax.Array, at: jax.Array) -> jax.Array:
    return array.at[at].get(mode="promise_in_bounds")  # Trees are checked when they are packed.


def _keys(x: jax.Array, trees: Trees) -> jax.Array:
    """Return integers in the order of the features, a column of each for each key that stands for NaN."""
    integer = trees.nodes.dtype
    bits = lax.bitcast_convert_type(x.astype(np.float64 if integer.itemsize == 8 else np.float32), integer)
    size = bits & np.iinfo(integer).max
    key = jnp.where(bits < 0, -size, size)
    unknown = size > (0x7FF << 52 if integer.itemsize == 8 else 0xFF << 23)
    columns = [jnp.where(unknown, integer.type(missing), key) for missing in trees.missing]
    return jnp.stack(columns, -1).reshape(x.shape[0], -1)


def _scores(call: NodeCall, X: Any, trees: Trees, aggregate: str) -> tuple[jax.Array, jax.Array | None]:
    """Return the scores ``[rows, targets]``, and which targets had weights, or None if all."""
    x = rows_of(call, on_device(channels_first(X)))
    if x.shape[1] < trees.features:
        raise refusal(f"{call.node} compares {trees.features} features; got an input of shape {list(x.shape)}.")
    score, seen = _walked(trees, x, AGGREGATES[aggregate])
    score = score / trees.count if aggregate == "AVERAGE" else score
    return score + trees.base if trees.base.size else score, seen


def tree_ensemble_regressor(
    call: NodeCall, X: Any, trees: Any = None, *, aggregate_function: str = "SUM", post_transform: str = "NONE"
) -> Any:
    """Compute the combined weights of the leaves, in float32."""
    call.note((call.node.name,), str(trees))
    score, _ = _scores(call, X, trees, aggregate_function)
    return transformed(score.astype(np.float32), post_transform)


def tree_ensemble(
    call: NodeCall, X: Any, trees: Any = None, *, aggregate_function: int = 1, post_transform: int = 0
) -> Any:
    """Compute the combined weights of the leaves."""
    call.note((call.node.name,), str(trees))
    score, _ = _scores(call, X, trees, list(AGGREGATES)[aggregate_function])
    return transformed(score, list(TRANSFORMS)[post_transform]).astype(X.dtype)


def tree_ensemble_classifier(
    call: NodeCall,
    X: Any,
    trees: Any = None,
    *,
    classlabels_int64s: Any = (),
    classlabels_strings: Any = (),
    post_transform: str = "NONE",
) -> tuple[Any, Any]:
    """Compute the class of each row, and the scores of all classes in float32."""
    name_labels(call, str(trees), classlabels_strings)
    labels = labels_of(classlabels_int64s, classlabels_strings)
    score, seen = _scores(call, X, trees, "SUM")
    if trees.one_sided is not None:
        return _of_one_side(trees.one_sided, score[:, 0], labels, post_transform)
    if len(labels) == 1:
        best = (score[:, 0] > 0).astype(labels.dtype)  # 1 or 0, whatever the label is.
    else:
        counts = score if seen is None or trees.base.size else jnp.where(seen, score, -np.inf)
        best = jnp.asarray(labels)[jnp.argmax(counts, -1)]
    return best, transformed(score.astype(np.float32), post_transform)


def _of_one_side(side: OneSided, score: jax.Array, labels: np.ndarray, post_transform: str) -> tuple[Any, Any]:
    """Return classes and scores where one of two classes has all weights, as onnxruntime does."""
    best = jnp.asarray(labels)[(score > (0.5 if side.positive else 0)).astype(np.int32)]
    score = score.astype(np.float32)
    if side.target == 1:
        return best, transformed(jnp.stack([jnp.zeros_like(score), score], -1), post_transform)
    other = probit(score) if post_transform == "PROBIT" else 1 - score if side.positive else -score
    return best, of_both(score, other, post_transform)


TABLE: Table = {
    "TreeEnsemble": (
        Handler(
            5,
            tree_ensemble,
            raw=True,
            prepares=ensemble,
            refuses=must_be_one_of(post_transform=range(len(TRANSFORMS)), aggregate_function=range(len(AGGREGATES))),
        ),
    ),
    "TreeEnsembleClassifier": (
        Handler(1, tree_ensemble_classifier, raw=True, prepares=classifier, refuses=known_transform),
    ),
    "TreeEnsembleRegressor": (
        Handler(
            1,
            tree_ensemble_regressor,
            raw=True,
            prepares=regressor,
            refuses=must_be_one_of(post_transform=tuple(TRANSFORMS), aggregate_function=tuple(AGGREGATES)),
        ),
    ),
}
