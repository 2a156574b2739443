"""Attributes of ensembles of trees, as arrays: what each of their operators calls nodes, leaves and weights."""

from typing import Any

import jax
import numpy as np

from jaxdml.onnx._errors import NodeError
from jaxdml.onnx.nodes._comparisons import EQ, LEAF, MEMBER, Nodes, extended
from jaxdml.onnx.nodes._scores import labels_of, must_be_of_size
from jaxdml.onnx.nodes._trees import OneSided, Trees, Weights, pack

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
AGGREGATES = {"AVERAGE": np.add, "SUM": np.add, "MIN": np.minimum, "MAX": np.maximum}
"""By the value of ``aggregate_function``, in the order of TreeEnsemble's numbers: what combines weights."""


def regressor(
    dtype: Any,
    *,
    aggregate_function: str = "SUM",
    base_values: Any = (),
    base_values_as_tensor: Any = None,
    n_targets: int = 0,
    nodes_falsenodeids: Any = (),
    nodes_featureids: Any = (),
    nodes_hitrates: Any = (),
    nodes_hitrates_as_tensor: Any = None,
    nodes_missing_value_tracks_true: Any = (),
    nodes_modes: Any = (),
    nodes_nodeids: Any = (),
    nodes_treeids: Any = (),
    nodes_truenodeids: Any = (),
    nodes_values: Any = (),
    nodes_values_as_tensor: Any = None,
    target_ids: Any = (),
    target_nodeids: Any = (),
    target_treeids: Any = (),
    target_weights: Any = (),
    target_weights_as_tensor: Any = None,
) -> Trees:
    """Pack the trees of a TreeEnsembleRegressor. Hit rates do nothing."""
    if n_targets < 1:
        raise NodeError("n_targets must be at least 1")
    weights = _numbers(target_weights, target_weights_as_tensor, "target_weights")
    base = _numbers(base_values, base_values_as_tensor, "base_values")
    must_be_of_size("base_values", base, (0, n_targets))
    nodes, roots, place = _numbered(
        nodes_treeids,
        nodes_nodeids,
        nodes_modes,
        nodes_featureids,
        _numbers(nodes_values, nodes_values_as_tensor, "nodes_values"),
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )
    leaves = _weights(target_treeids, target_nodeids, target_ids, weights, place)
    return pack(nodes, roots, leaves, n_targets, AGGREGATES[aggregate_function], base, _dtype_for(dtype))


def classifier(
    dtype: Any,
    *,
    base_values: Any = (),
    base_values_as_tensor: Any = None,
    class_ids: Any = (),
    class_nodeids: Any = (),
    class_treeids: Any = (),
    class_weights: Any = (),
    class_weights_as_tensor: Any = None,
    classlabels_int64s: Any = (),
    classlabels_strings: Any = (),
    nodes_falsenodeids: Any = (),
    nodes_featureids: Any = (),
    nodes_hitrates: Any = (),
    nodes_hitrates_as_tensor: Any = None,
    nodes_missing_value_tracks_true: Any = (),
    nodes_modes: Any = (),
    nodes_nodeids: Any = (),
    nodes_treeids: Any = (),
    nodes_truenodeids: Any = (),
    nodes_values: Any = (),
    nodes_values_as_tensor: Any = None,
) -> Trees:
    """Pack the trees of a TreeEnsembleClassifier. Hit rates do nothing."""
    classes = len(labels_of(classlabels_int64s, classlabels_strings))
    weights = _numbers(class_weights, class_weights_as_tensor, "class_weights")
    base = _numbers(base_values, base_values_as_tensor, "base_values")
    nodes, roots, place = _numbered(
        nodes_treeids,
        nodes_nodeids,
        nodes_modes,
        nodes_featureids,
        _numbers(nodes_values, nodes_values_as_tensor, "nodes_values"),
        nodes_truenodeids,
        nodes_falsenodeids,
        nodes_missing_value_tracks_true,
    )
    leaves = _weights(class_treeids, class_nodeids, class_ids, weights, place)
    side = int(leaves.target[0]) if len(leaves.target) else 0
    one_sided = None
    if classes == 2 and side in (0, 1) and (leaves.target == side).all():
        one_sided, classes = OneSided(side, bool((weights >= 0).all())), 1
        leaves = leaves._replace(target=np.zeros_like(leaves.target))
    must_be_of_size("base_values", base, (0, classes) if not one_sided or one_sided.target == 0 else (0,))
    return pack(nodes, roots, leaves, classes, np.add, base, _dtype_for(dtype), one_sided)


def ensemble(
    dtype: Any,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Any = (),
    leaf_weights: Any = None,
    membership_values: Any = None,
    n_targets: int = 0,
    nodes_falseleafs: Any = (),
    nodes_falsenodeids: Any = (),
    nodes_featureids: Any = (),
    nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Any = (),
    nodes_modes: Any = None,
    nodes_splits: Any = None,
    nodes_trueleafs: Any = (),
    nodes_truenodeids: Any = (),
    tree_roots: Any = (),
) -> Trees:
    """Pack the trees of a TreeEnsemble. Hit rates do nothing."""
    if n_targets < 1:
        raise NodeError("n_targets must be at least 1")
    modes, split, value = (np.asarray(each).reshape(-1) for each in (nodes_modes, nodes_splits, leaf_weights))
    feature, true, false, roots, target = (
        np.asarray(each, np.int64)
        for each in (nodes_featureids, nodes_truenodeids, nodes_falsenodeids, tree_roots, leaf_targetids)
    )
    true_leaf, false_leaf, missing = (
        np.asarray(each, bool) for each in (nodes_trueleafs, nodes_falseleafs, nodes_missing_value_tracks_true)
    )
    count, leaves = len(modes), len(value)
    missing = missing if len(missing) else np.zeros(count, bool)
    _must_be_alike(
        nodes_modes=modes,
        nodes_splits=split,
        nodes_featureids=feature,
        nodes_truenodeids=true,
        nodes_falsenodeids=false,
        nodes_trueleafs=true_leaf,
        nodes_falseleafs=false_leaf,
        nodes_missing_value_tracks_true=missing,
    )
    _must_be_alike(leaf_targetids=target, leaf_weights=value)
    if not (modes <= MEMBER).all():
        raise NodeError(f"nodes_modes has {modes.max()}, and must be 0 to {MEMBER}")
    for name, at, leaf in (("nodes_truenodeids", true, true_leaf), ("nodes_falsenodeids", false, false_leaf)):
        if ((at < 0) | (at >= np.where(leaf, leaves, count))).any():
            raise NodeError(f"{name} names a node or a leaf that there is not")
    if ((roots < 0) | (roots >= count)).any():
        raise NodeError("tree_roots names a node that there is not")
    blank = np.zeros(leaves, np.int64)
    nodes = Nodes(
        np.concatenate([modes.astype(np.int64), blank + LEAF]),
        np.concatenate([feature, blank]),
        np.concatenate([split, blank.astype(split.dtype)]),
        np.concatenate([missing, blank.astype(bool)]),
        np.concatenate([np.where(true_leaf, count + true, true), blank]),
        np.concatenate([np.where(false_leaf, count + false, false), blank]),
    )
    members = np.zeros(0, split.dtype) if membership_values is None else membership_values.reshape(-1)
    weights = Weights(count + np.arange(leaves), target, value)
    combine = list(AGGREGATES.values())[aggregate_function]
    base = np.zeros(0, np.float32)
    return pack(_without_members(nodes, members), roots, weights, n_targets, combine, base, _dtype_for(dtype))


def _without_members(nodes: Nodes, members: np.ndarray) -> Nodes:
    """Write each question whether a number is in a set as a chain of comparisons with the numbers of the set.

    Args:
      nodes: some of which have the mode MEMBER.
      members: the sets of these nodes, one after another, with a NaN after each.
    """
    at = np.flatnonzero(nodes.mode == MEMBER)
    ends = np.flatnonzero(np.isnan(members))
    if len(members) and (not len(ends) or ends[-1] != len(members) - 1):
        ends = np.append(ends, len(members))  # The NaN after the last set may be left out.
    sizes = np.diff(ends, prepend=-1) - 1
    if len(sizes) != len(at) or not (sizes > 0).all():
        rule = f"membership_values has {len(sizes)} sets, of which {(sizes < 1).sum()} are empty"
        raise NodeError(f"{rule}; there are {len(at)} nodes of mode {MEMBER}")
    values = members[~np.isnan(members)]
    last = np.cumsum(sizes) - 1
    first = last - sizes + 1
    chain = np.where(np.arange(len(values)) == np.repeat(first, sizes), np.repeat(at, sizes), -1)
    chain[chain < 0] = len(nodes.mode) + np.arange((chain < 0).sum())
    false = np.append(chain[1:], 0)
    false[last] = nodes.false[at]
    added = chain[chain >= len(nodes.mode)]
    size = len(nodes.mode) + len(added)
    owner = np.repeat(at, sizes)
    fields = zip(nodes, (EQ, nodes.feature[owner], values, nodes.missing[owner], nodes.true[owner], false), strict=True)
    return Nodes(*(extended(array, size, chain, inserted) for array, inserted in fields))


def _numbered(
    trees: Any, numbers: Any, modes: Any, features: Any, split: np.ndarray, true: Any, false: Any, missing: Any
) -> tuple[Nodes, np.ndarray, Any]:
    """Return nodes that have numbers within trees, the first of each tree, and what finds nodes by their numbers."""
    tree, number, feature, true, false = (
        np.asarray(each, np.int64) for each in (trees, numbers, features, true, false)
    )
    missing = np.asarray(missing, np.int64) == 1 if len(missing) else np.zeros(len(tree), bool)
    _must_be_alike(
        nodes_treeids=tree,
        nodes_nodeids=number,
        nodes_modes=modes,
        nodes_featureids=feature,
        nodes_values=split,
        nodes_truenodeids=true,
        nodes_falsenodeids=false,
        nodes_missing_value_tracks_true=missing,
    )
    known = {mode: place for place, mode in enumerate(_MODES) if place != MEMBER}
    unknown = sorted(set(modes) - set(known))
    if unknown or not len(tree):
        raise NodeError(f"nodes_modes has {', '.join(map(repr, unknown)) or 'no node'}; known are {', '.join(known)}")
    mode = np.fromiter(map(known.__getitem__, modes), np.int64, len(tree))
    key = _key(tree, number)
    order = np.argsort(key, kind="stable")
    key = key[order]
    if (tree < 0).any() or (number < 0).any() or (np.diff(key) == 0).any():
        raise NodeError("a node has a negative number, or two nodes of a tree have one")

    def place(trees: np.ndarray, numbers: np.ndarray, what: str) -> np.ndarray:
        wanted = _key(trees, numbers)
        found = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        if (key[found] != wanted).any():
            raise NodeError(f"{what} names a node that its tree does not have")
        return order[found]

    own, inner = np.arange(len(tree)), mode != LEAF
    following = []
    for name, each in (("nodes_truenodeids", true), ("nodes_falsenodeids", false)):
        target = own.copy()
        target[inner] = place(tree[inner], each[inner], name)
        following.append(target)
    nodes = Nodes(mode, feature, split, missing, *following)
    return nodes, np.sort(np.unique(tree, return_index=True)[1]), place


def _key(tree: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return one number for a tree and a node in it; negative for what no node has."""
    fits = (tree >= 0) & (tree < 2**31) & (number >= 0) & (number < 2**31)
    return np.where(fits, tree << 31 | number, -1)


def _weights(trees: Any, numbers: Any, targets: Any, values: np.ndarray, place: Any) -> Weights:
    tree, number, target = (np.asarray(each, np.int64) for each in (trees, numbers, targets))
    _must_be_alike(trees_of_weights=tree, nodes_of_weights=number, targets_of_weights=target, weights=values)
    return Weights(place(tree, number, "a weight"), target, values)


def _numbers(values: Any, tensor: np.ndarray | None, name: str) -> np.ndarray:
    """Return what is given as numbers, or as a tensor."""
    if tensor is None:
        return np.asarray(values, np.float32)
    if len(values):
        raise NodeError(f"it has both {name} and {name}_as_tensor")
    return tensor.reshape(-1)


def _must_be_alike(**arrays: Any) -> None:
    if len({len(array) for array in arrays.values()}) > 1:
        found = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise NodeError(f"attributes have as many entries as there are nodes, or weights; got {found}")


def _dtype_for(dtype: Any) -> Any:
    """Return what an ensemble computes in: float64 where JAX has it, unless its input is known to be another."""
    other = dtype is not None and np.dtype(dtype) != np.float64
    return np.float32 if other else jax.dtypes.canonicalize_dtype(np.float64).type
