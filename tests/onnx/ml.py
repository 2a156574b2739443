"""Models of ai.onnx.ml: nodes side by side, random trees, and onnxruntime as their judge."""

from typing import Any

import jax
import numpy as np
import onnx
from onnx import helper

import jaxdml.onnx
from tests.onnx.sessions import session

INTS = onnx.AttributeProto.INTS
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

STUMP = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}
"""One comparison of the first feature with 0."""


def ml_node(kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> onnx.NodeProto:
    """Return a node of ai.onnx.ml; its outputs are named when it gets into a model."""
    node = helper.make_node(kind, inputs, [""] * outputs, domain="ai.onnx.ml")
    for name, value in attributes.items():
        empty = isinstance(value, list) and not value
        node.attribute.append(helper.make_attribute(name, value, attr_type=INTS if empty else None))
    return node


def regressor(weights: Any = (1.0, 2.0), **attributes: Any) -> onnx.NodeProto:
    """Return a TreeEnsembleRegressor of ``x``, by default of one comparison with weights for each side."""
    count = len(weights)
    target = {
        "target_treeids": [0] * count,
        "target_nodeids": [1 + place * 2 // count for place in range(count)],
        "target_ids": [place % (count // 2) for place in range(count)],
        "target_weights": list(weights),
        "n_targets": count // 2,
    }
    return ml_node("TreeEnsembleRegressor", "x", **{**STUMP, **target, **attributes})


def classifier(ids: Any = (0,), weights: Any = (0.3, 0.8), labels: int = 2, **attributes: Any) -> onnx.NodeProto:
    """Return a TreeEnsembleClassifier of ``x``, of one comparison, with weights for these classes at each side."""
    both = [*ids, *ids]
    given = {
        "class_treeids": [0] * len(both),
        "class_nodeids": [1 + place // len(ids) for place in range(len(both))],
        "class_ids": both,
        "class_weights": list(weights),
    }
    if "classlabels_strings" not in attributes:
        given["classlabels_int64s"] = list(range(10, 10 + labels))
    return ml_node("TreeEnsembleClassifier", "x", outputs=2, **{**STUMP, **given, **attributes})


def without(node: onnx.NodeProto, *names: str) -> onnx.NodeProto:
    """Return a node without some of its attributes."""
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    del changed.attribute[:]
    changed.attribute.extend(each for each in node.attribute if each.name not in names)
    return changed


def ml_model(*nodes: onnx.NodeProto, version: int = 3, opset: int = 17, **inputs: Any) -> onnx.ModelProto:
    """Return a model of nodes side by side; all their outputs are its outputs."""
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    made = []
    for place, node in enumerate(nodes):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"n{place}"
        copy.output[:] = [f"n{place}_{number}" for number in range(len(node.output))]
        made.append(copy)
    outputs = [onnx.ValueInfoProto(name=name) for node in made for name in node.output]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", version)]
    graph = helper.make_graph(made, "ml", typed, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def agree(*nodes: onnx.NodeProto, tolerance: float = 1e-5, version: int = 3, **inputs: Any) -> None:
    """Require what onnxruntime computes: classes are equal, scores within a tolerance."""
    made = ml_model(*nodes, version=version, **inputs)
    model = jaxdml.onnx.load(made)
    found = model(**inputs)
    for (name, wanted), got in zip(session(made)(**inputs).items(), found, strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, jax.dtypes.canonicalize_dtype(wanted.dtype)), name
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(got, wanted, err_msg=name)


def random_trees(
    rng: np.random.Generator, modes: Any = MODES, trees: int = 4, depth: int = 4, features: int = 3
) -> dict[str, Any]:
    """Return the attributes of random trees without weights."""
    names = [name for name in STUMP if name != "nodes_values"] + ["nodes_values", "nodes_missing_value_tracks_true"]
    found: dict[str, list[Any]] = {name: [] for name in names}

    def grow(tree: int, levels: int, number: int) -> int:
        """Add a node with all below it, and return the next number."""
        inner = levels > 0 and rng.random() < 0.85
        place = len(found["nodes_modes"])
        row = {
            "nodes_treeids": tree,
            "nodes_nodeids": number,
            "nodes_featureids": int(rng.integers(features)),
            "nodes_modes": modes[rng.integers(len(modes))] if inner else "LEAF",
            "nodes_values": float(rng.integers(-4, 5)) / 2,
            "nodes_truenodeids": number + 1 if inner else 0,
            "nodes_falsenodeids": 0,
            "nodes_missing_value_tracks_true": int(rng.integers(2)),
        }
        for name, value in row.items():
            found[name].append(value)
        if not inner:
            return number + 1
        after = grow(tree, levels - 1, number + 1)
        found["nodes_falsenodeids"][place] = after
        return grow(tree, levels - 1, after)

    for tree in range(trees):
        grow(tree, depth, 0)
    return found


def with_weights(
    rng: np.random.Generator, trees: dict[str, Any], prefix: str, targets: Any, *, positive: bool = False
) -> dict[str, Any]:
    """Return the attributes with random weights of each leaf for the targets ``targets(tree)``."""
    rows = [
        (tree, number, target, float(np.float32(rng.standard_normal())))
        for tree, number, mode in zip(trees["nodes_treeids"], trees["nodes_nodeids"], trees["nodes_modes"], strict=True)
        if mode == "LEAF"
        for target in targets(tree)
    ]
    columns = dict(zip(("treeids", "nodeids", "ids", "weights"), map(list, zip(*rows, strict=True)), strict=True))
    if positive:
        columns["weights"] = [abs(each) / 8 for each in columns["weights"]]
    return {**trees, **{f"{prefix}_{name}": column for name, column in columns.items()}}


def numbers(rng: np.random.Generator, rows: int = 60, features: int = 3) -> np.ndarray:
    """Return inputs that are often equal to what trees compare them with, or NaN, infinite or -0."""
    x = (rng.integers(-4, 5, (rows, features)) / 2).astype(np.float32)
    x[rng.random(x.shape) < 0.15] = np.nan
    x[0, 0], x[1, 1], x[2, -1], x[3, 0] = np.inf, -np.inf, -0.0, 1e-40
    return x
