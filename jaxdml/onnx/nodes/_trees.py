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

MOST_LEVELS = 2**14
"""Deeper trees are refused: counting the levels takes a step for each."""

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
"""What nodes do, as TreeEnsemble numbers it; LEAF is ours."""


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


class Nodes(NamedTuple):
    """The nodes of an ensemble, each an entry of every array.

    Attributes:
      mode: LEQ and so on.
      feature: which feature is compared.
      split: what it is compared with.
      missing: whether NaN goes where a comparison that is true does.
      true: the node that follows if the comparison is true.
      false: the node that follows if it is not.
    """

    mode: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    missing: np.ndarray
    true: np.ndarray
    false: np.ndarray


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
    nodes = _compared(given, dtype, key)
    leaves = np.flatnonzero(~inside)
    row = np.full(len(nodes.left), -1)
    row[leaves] = np.arange(len(leaves))
    order = _in_levels(nodes, row < 0)
    rows = row[weights.leaf]
    kept = Weights(rows[rows >= 0], weights.target[rows >= 0], weights.value[rows >= 0])
    weighted = np.zeros(len(leaves), bool)
    weighted[kept.leaf] = True
    _require(weighted.all(), "a leaf has no weight")
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


class _Compared(NamedTuple):
    """Nodes that all go to the right if a key is greater than a bound, and whether NaN goes to the left."""

    feature: np.ndarray
    bound: np.ndarray
    left: np.ndarray
    right: np.ndarray
    to_left: np.ndarray


def keys(x: np.ndarray, integer: Any) -> np.ndarray:
    """Return integers in the order of floats; 0 and -0 are one, those of NaN mean nothing."""
    bits = x.view(integer)
    return np.where(bits < 0, -(bits & np.iinfo(integer).max), bits)


def _compared(given: Nodes, dtype: Any, integer: Any) -> _Compared:
    """Write every comparison as one of the key with a bound; what asks for equality becomes two nodes."""
    limits = np.iinfo(integer)
    at_most, at_least = (keys(each, integer) for each in _around(given.split, dtype))
    unknown = np.isnan(given.split)
    mode, true, false, missing = given.mode, given.true, given.false, given.missing
    strict = (mode == LT) | (mode == GTE)
    swapped = (mode == GTE) | (mode == GT)
    bound = np.where(strict, at_least - 1, at_most)
    bound[unknown] = np.where(swapped, limits.max - 1, limits.min)[unknown]
    left, right = np.where(swapped, false, true), np.where(swapped, true, false)
    to_left = np.where(swapped, ~missing, missing)
    leaf = np.flatnonzero(mode == LEAF)
    left[leaf] = right[leaf] = leaf
    # Equal: not greater than the split, and greater than the number before it. NaN equals nothing, and differs.
    equality = np.flatnonzero((mode == EQ) | (mode == NEQ))
    differs = mode[equality] == NEQ
    if_equal = np.where(differs, false[equality], true[equality])
    otherwise = np.where(differs, true[equality], false[equality])
    second = len(mode) + np.arange(len(equality))
    never = unknown[equality] | (at_most != at_least)[equality]
    bound[equality[never]] = limits.min
    left[equality] = np.where(never, if_equal, second)
    right[equality] = otherwise
    to_left[equality] = missing[equality] & ~differs
    return _Compared(
        np.concatenate([given.feature, given.feature[equality]]),
        np.concatenate([bound, at_most[equality] - 1]),
        np.concatenate([left, otherwise]),
        np.concatenate([right, if_equal]),
        np.concatenate([to_left, np.zeros(len(equality), bool)]),
    )


def _around(split: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the greatest numbers of a dtype that are not more, and the least that are not less."""
    with np.errstate(over="ignore"):
        nearest = split.astype(dtype)
    below = np.where(nearest > split, np.nextafter(nearest, dtype(-np.inf)), nearest)
    return below, np.where(nearest < split, np.nextafter(nearest, dtype(np.inf)), nearest)


def _in_levels(nodes: _Compared, inner: np.ndarray) -> list[np.ndarray]:
    """Return the nodes, each in a level after all that lead to it."""
    waiting = np.bincount(np.concatenate([nodes.left[inner], nodes.right[inner]]), minlength=len(inner))
    level = np.flatnonzero(waiting == 0)
    order: list[np.ndarray] = []
    while len(level) and len(order) <= MOST_LEVELS:
        order.append(level)
        level = level[inner[level]]
        follow, times = np.unique(np.concatenate([nodes.left[level], nodes.right[level]]), return_counts=True)
        waiting[follow] -= times
        level = follow[waiting[follow] == 0]
    _require(len(order) <= MOST_LEVELS, f"a tree has more than {MOST_LEVELS} levels")
    _require(sum(map(len, order)) == len(inner), "nodes lead to one another in a circle")
    return order


def _from_leaves(
    nodes: _Compared, order: list[np.ndarray], row: np.ndarray, weights: Weights
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return of each node: how many steps lead to a leaf at most, the least and the greatest target of its leaves."""
    leaves = int(row.max()) + 1
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
