"""Ensembles of trees as arrays: what attributes say of them is checked and packed when a model is loaded."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jaxdml.onnx._errors import NodeError
from jaxdml.onnx.nodes._comparisons import LEAF, Compared, Nodes, compared

MOST_LEVELS = 2**14
"""Deeper trees are refused: counting the levels takes a step for each."""


class OneSided(NamedTuple):
    """Which of two classes has all weights, and whether none of them is negative."""

    target: int
    positive: bool


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["nodes", "roots", "levels", "weights", "present", "base"],
    meta_fields=["count", "features", "missing", "one_sided"],
)
@dataclass(frozen=True, eq=False)
class Trees:
    """Trees that are walked all at once: at each node to the right if the key of a feature is greater than a bound.

    Attributes:
      nodes: ``[N, 4]``, int32, or int64 for float64: the column of the keys, the bound, the nodes to the left and
        to the right. A leaf leads to itself, and has its row of ``weights`` as bound. The last is one without weights.
      roots: int32 ``[groups, trees]``. The trees of a group, if there are several, all have the group's target.
      levels: int32, shaped as ``roots``: how many steps lead to any leaf.
      weights: ``[leaves, targets]``, or ``[leaves, 1]`` where there are groups.
      present: bool, which targets a leaf has weights for, shaped as ``weights``, or of the groups ``[groups]``; None if
        all.
      base: what is added to scores: ``[targets]``, ``[1]`` or ``[0]``.
      count: how many trees there are. Static.
      features: how many features an input must have at least. Static.
      missing: keys that stand for NaN. Of each feature there is a column of keys for each. Static.
      one_sided: where only one of two classes has weights, which are for one target then; else None. Static.
    """

    nodes: Any
    roots: Any
    levels: Any
    weights: Any
    present: Any
    base: Any
    count: int
    features: int
    missing: tuple[int, ...]
    one_sided: OneSided | None

    def __str__(self) -> str:
        trees = "1 tree" if self.count == 1 else f"{self.count} trees"
        return f"{trees} of {len(self.nodes) - 1} nodes, in {self.weights.dtype}"


export.register_pytree_node_serialization(
    Trees,
    serialized_name="jaxdml.onnx.Trees",
    serialize_auxdata=lambda static: json.dumps(static).encode(),
    deserialize_auxdata=lambda text: _static(*json.loads(text.decode())),
)


def _static(count: int, features: int, missing: list[int], one_sided: Any) -> tuple[Any, ...]:
    return count, features, tuple(missing), one_sided and OneSided(*one_sided)


class Weights(NamedTuple):
    """The weights of an ensemble: the leaf, the target and the value of each."""

    leaf: np.ndarray
    target: np.ndarray
    value: np.ndarray


def pack(
    given: Nodes,
    roots: np.ndarray,
    weights: Weights,
    targets: int,
    combine: Any,
    base: np.ndarray,
    dtype: Any,
    one_sided: OneSided | None = None,
) -> Trees:
    """Pack an ensemble.

    Args:
      given: its nodes.
      roots: the node at which each tree starts.
      weights: of its leaves. Those of other nodes are ignored, as onnxruntime does.
      targets: how many targets there are.
      combine: the ufunc that makes one weight of all of a leaf for one target.
      base: what is added to scores.
      dtype: float32 or float64, in which features are compared and weights are added.
      one_sided: see ``Trees``.

    Raises:
      NodeError: if it is malformed, or trees do not end.
    """
    key = np.int64 if dtype == np.float64 else np.int32
    _require(bool(len(roots)), "it has no trees")
    inside = given.mode != LEAF
    possible = (given.feature[inside] >= 0) & (given.feature[inside] < 2**30)
    _require(possible.all(), "the number of a feature is negative, or too large")
    _require(((weights.target >= 0) & (weights.target < targets)).all(), f"a weight is for none of {targets} targets")
    leaves = np.flatnonzero(~inside)
    row = np.full(len(inside), -1)
    row[leaves] = np.arange(len(leaves))
    rows = row[weights.leaf]
    kept = Weights(rows[rows >= 0], weights.target[rows >= 0], weights.value[rows >= 0])
    weighted = np.zeros(len(leaves), bool)
    weighted[kept.leaf] = True
    _require(weighted.all(), "a leaf has no weight")
    nodes = compared(given, dtype, key)
    row = np.concatenate([row, np.full(len(nodes.left) - len(row), -1)])
    nodes, row, roots = _reached(nodes, row, roots)
    order = _in_levels(nodes, row < 0)
    height, lowest, highest = _from_leaves(nodes, order, row, kept)
    grouped = bool((lowest[roots] == highest[roots]).all())
    table, present = _table(len(leaves), 1 if grouped else targets, kept, combine, dtype)
    counted = len(leaves)
    to_left = nodes.to_left[row < 0]
    sides = [side for side in (False, True) if (to_left == side).any()] or [False]
    column = nodes.feature * len(sides) + (nodes.to_left if len(sides) > 1 else 0)
    bound = np.where(row >= 0, row, nodes.bound)
    column = np.where(row >= 0, 0, column)
    empty = len(column)
    records = np.stack([column, bound, nodes.left, nodes.right], -1)
    records = np.concatenate([records, [[0, len(leaves), empty, empty]]]).astype(key)
    limits = np.iinfo(key)
    if grouped:
        starts, present = _by_target(roots, lowest[roots], targets, empty, combine)
        counted = targets
    else:
        starts = roots[None]
    return Trees(
        jnp.asarray(records),
        jnp.asarray(starts.astype(np.int32)),
        jnp.asarray(np.append(height, 0)[starts].astype(np.int32)),
        jnp.asarray(table),
        None if present[:counted].all() else jnp.asarray(present),
        jnp.asarray(base.astype(dtype)),
        count=len(roots),
        features=int(given.feature[inside].max(initial=-1)) + 1,
        missing=tuple(int(limits.min if side else limits.max) for side in sides),
        one_sided=one_sided,
    )


def _require(holds: Any, otherwise: str) -> None:
    if not holds:
        raise NodeError(otherwise)


def _reached(nodes: Compared, row: np.ndarray, roots: np.ndarray) -> tuple[Compared, np.ndarray, np.ndarray]:
    """Return the nodes that trees consist of, the rows of those that are leaves, and the roots, numbered anew."""
    seen, scratch = np.zeros(len(row), bool), np.zeros(len(row), np.int64)
    level, levels = _once(roots, scratch), 0
    while len(level):
        levels += 1
        _require(levels <= MOST_LEVELS, f"a tree has more than {MOST_LEVELS} levels")
        seen[level] = True
        inner = level[row[level] < 0]
        level = np.concatenate([nodes.left[inner], nodes.right[inner]])
        level = _once(level[~seen[level]], scratch)
    number = np.cumsum(seen) - 1
    feature, bound, left, right, to_left = (array[seen] for array in nodes)
    return Compared(feature, bound, number[left], number[right], to_left), row[seen], number[roots]


def _once(numbers: np.ndarray, scratch: np.ndarray) -> np.ndarray:
    """Return each number once, without sorting; ``scratch`` has a place for each that there may be."""
    place = np.arange(len(numbers))
    scratch[numbers] = place
    return numbers[scratch[numbers] == place]


def _in_levels(nodes: Compared, inner: np.ndarray) -> list[np.ndarray]:
    """Return the nodes, each in a level after all that lead to it."""
    waiting = np.bincount(np.concatenate([nodes.left[inner], nodes.right[inner]]), minlength=len(inner))
    level, scratch = np.flatnonzero(waiting == 0), np.zeros(len(inner), np.int64)
    order: list[np.ndarray] = []
    while len(level):
        order.append(level)
        _require(len(order) <= MOST_LEVELS, f"a tree has more than {MOST_LEVELS} levels")
        level = level[inner[level]]
        follow = np.concatenate([nodes.left[level], nodes.right[level]])
        np.subtract.at(waiting, follow, 1)
        level = _once(follow[waiting[follow] == 0], scratch)
    _require(sum(map(len, order)) == len(inner), "nodes lead to one another in a circle")
    return order


def _from_leaves(
    nodes: Compared, order: list[np.ndarray], row: np.ndarray, weights: Weights
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return of each node: how many steps lead to a leaf at most, the least and the greatest target of its leaves."""
    leaves = int(weights.leaf.max()) + 1
    least, most = np.full(leaves, np.iinfo(np.int64).max), np.full(leaves, -1)
    np.minimum.at(least, weights.leaf, weights.target)
    np.maximum.at(most, weights.leaf, weights.target)
    height, lowest, highest = np.zeros(len(row), np.int64), least[row], most[row]
    for level in reversed(order[:-1]):
        inner = level[row[level] < 0]
        left, right = nodes.left[inner], nodes.right[inner]
        height[inner] = 1 + np.maximum(height[left], height[right])
        lowest[inner] = np.minimum(lowest[left], lowest[right])
        highest[inner] = np.maximum(highest[left], highest[right])
    return height, lowest, highest


def _table(leaves: int, targets: int, weights: Weights, combine: Any, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights ``[leaves + 1, targets]``, of which the last row is 0, and which of them there are."""
    size = (leaves + 1) * targets
    _require(
        size <= max(2**24, 256 * len(weights.value)), f"a table of {leaves} leaves and {targets} targets is too large"
    )
    start = {np.minimum: np.inf, np.maximum: -np.inf}.get(combine, 0.0)
    place = weights.leaf * targets + np.where(targets == 1, 0, weights.target)
    table, present = np.full(size, start, dtype), np.zeros(size, bool)
    with np.errstate(invalid="ignore", over="ignore"):
        combine.at(table, place, weights.value.astype(dtype))
    present[place] = True
    table[~present] = 0
    return table.reshape(-1, targets), present.reshape(-1, targets)


def _by_target(
    roots: np.ndarray, of_tree: np.ndarray, targets: int, empty: int, combine: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return roots ``[targets, trees]``, as many for each target as there are at most, and which targets have any."""
    counts = np.bincount(of_tree, minlength=targets)
    _require(targets * counts.max() <= max(2**24, 256 * len(roots)), f"a table of {targets} targets is too large")
    order = np.argsort(of_tree, kind="stable")
    place = np.arange(len(roots)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.full((targets, counts.max()), empty)
    if combine is not np.add:
        # A tree that is there twice changes no minimum or maximum.
        starts[of_tree[order[::-1]]] = roots[order[::-1], None]
    starts[of_tree[order], place] = roots[order]
    return starts, counts > 0
