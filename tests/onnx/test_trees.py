"""Ensembles of trees, judged by onnxruntime, and by a loop over the definition where it differs from that."""

import jax
import numpy as np
import onnx
import pytest
from jax import export
from onnx import helper, numpy_helper

import jaxdml.onnx
from jaxdml.onnx.nodes._trees import MOST_LEVELS, Trees
from tests.kit import quick
from tests.onnx.ml import (
    MODES,
    agree,
    classifier,
    ml_model,
    ml_node,
    numbers,
    random_trees,
    regressor,
    with_weights,
    without,
)

pytestmark = quick

X = np.array([[-1], [0], [1], [np.nan]], np.float32)


def random_regressor(rng, *, targets=1, per_tree=None, modes=MODES, trees=4, depth=4, **attributes):
    """Return a node with random trees; ``per_tree`` says which targets each has weights for."""
    chosen = per_tree or (lambda tree: range(targets))
    grown = with_weights(rng, random_trees(rng, modes, trees, depth), "target", chosen)
    return ml_node("TreeEnsembleRegressor", "x", n_targets=targets, **{**grown, **attributes})


def random_classifier(rng, classes, *, per_tree=None, positive=False, **attributes):
    chosen = per_tree or (lambda tree: range(classes))
    grown = with_weights(rng, random_trees(rng, trees=5), "class", chosen, positive=positive)
    labels = {"classlabels_int64s": list(range(10, 10 + classes))}
    return ml_node("TreeEnsembleClassifier", "x", outputs=2, **{**grown, **labels, **attributes})


def test_every_mode_also_of_missing_values():
    rng = np.random.default_rng(0)
    nodes = [random_regressor(rng, modes=[mode], trees=2) for mode in MODES]
    nodes.append(without(random_regressor(rng), "nodes_missing_value_tracks_true"))
    agree(*nodes, x=numbers(rng))


def test_aggregates_targets_and_transforms():
    rng = np.random.default_rng(1)
    nodes = [
        random_regressor(rng, aggregate_function="AVERAGE", base_values=[0.5]),
        random_regressor(rng, targets=2, aggregate_function="MIN", base_values=[0.5, -1.0]),
        random_regressor(rng, targets=3, per_tree=lambda tree: [tree % 3], aggregate_function="MAX"),
        random_regressor(rng, targets=3, per_tree=lambda tree: [tree % 2]),
        random_regressor(rng, targets=3, per_tree=lambda tree: range(tree % 3 + 1), aggregate_function="MIN"),
        random_regressor(rng, targets=3, per_tree=lambda tree: range(tree % 2 + 1), post_transform="SOFTMAX_ZERO"),
        random_regressor(rng, targets=2, post_transform="SOFTMAX"),
        random_regressor(rng, targets=2, post_transform="LOGISTIC"),
        random_regressor(rng, post_transform="LOGISTIC"),
        regressor((0.2, 0.9), post_transform="PROBIT"),
        random_regressor(rng, depth=0),
    ]
    agree(*nodes, tolerance=1e-4, x=numbers(rng))


def test_integers_are_compared_as_floats():
    rng = np.random.default_rng(2)
    node = random_classifier(rng, 3)
    agree(node, x=rng.integers(-3, 4, (20, 3)).astype(np.int64))


def test_classes():
    rng = np.random.default_rng(3)
    nodes = [
        random_classifier(rng, 3),
        random_classifier(rng, 3, per_tree=lambda tree: [tree % 3], base_values=[0.1, -0.2, 0.3]),
        random_classifier(rng, 3, per_tree=lambda tree: [tree % 2], post_transform="SOFTMAX"),
        random_classifier(rng, 4, per_tree=lambda tree: range(tree % 2 + 1), post_transform="LOGISTIC"),
    ]
    agree(*nodes, x=numbers(rng))


@pytest.mark.parametrize("positive", [False, True])
def test_two_classes_with_weights_of_one(positive):
    weights = (0.3, 0.8) if positive else (-0.3, 0.8)
    nodes = [
        classifier(weights=weights),
        classifier(weights=weights, base_values=[0.25]),
        classifier(weights=weights, post_transform="LOGISTIC"),
        classifier(weights=weights, post_transform="SOFTMAX"),
        classifier(ids=[1], weights=weights),
        classifier(ids=[1], weights=weights, post_transform="LOGISTIC"),
        classifier(labels=1, weights=weights),
    ]
    agree(*nodes, x=X)


def test_two_classes_with_one_probit():
    # onnxruntime leaves the second score as it was in memory.
    model = jaxdml.onnx.load(ml_model(classifier(post_transform="PROBIT"), x=X))
    best, score = model(X)
    np.testing.assert_array_equal(best, [10, 10, 11, 11])
    np.testing.assert_allclose(score[1:3], [[-0.5244, 0.3], [0.8416, 0.8]], atol=1e-3)


def test_two_classes_with_weights_of_both_are_as_three():
    """onnxruntime's labels are 1 and 0 here, whatever the labels of the classes."""
    weights = (0.3, 0.1, 0.2, 0.9)
    node = classifier(ids=[0, 1], weights=weights, base_values=[0.0, 0.5])
    best, score = jaxdml.onnx.load(ml_model(node, x=X))(X)
    np.testing.assert_array_equal(best, [11, 11, 11, 11])
    np.testing.assert_allclose(score, [[0.3, 0.6], [0.3, 0.6], [0.2, 1.4], [0.2, 1.4]], rtol=1e-6)


def test_trees_in_blocks():
    """As many rows as make several blocks, of which the last is filled up."""
    rng = np.random.default_rng(4)
    nodes = [
        random_regressor(rng, trees=5, depth=2, aggregate_function=name, targets=2) for name in ("SUM", "MIN", "MAX")
    ]
    nodes.append(random_regressor(rng, targets=2, trees=5, depth=2, per_tree=lambda tree: range(tree % 2 + 1)))
    agree(*nodes, x=numbers(rng, rows=6000))


def test_equal_votes_are_equal_sums():
    """Forests vote with numbers such as 0.01, which are not exact: only in one order they add up alike."""
    rng = np.random.default_rng(5)
    node = random_classifier(rng, 3)
    votes = [
        float(np.float32(0.1 * rng.integers(5)))
        for each in node.attribute
        if each.name == "class_ids"
        for _ in each.ints
    ]
    node = without(node, "class_weights")
    node.attribute.append(helper.make_attribute("class_weights", votes))
    agree(node, x=numbers(rng, rows=300), tolerance=0)


def by_definition(model, x):
    """Walk the trees of a TreeEnsemble node by node."""
    given = {
        each.name: numpy_helper.to_array(each.t) if each.HasField("t") else helper.get_attribute_value(each)
        for each in model.graph.node[0].attribute
    }
    modes, sets = given["nodes_modes"], [[]]
    for value in given["membership_values"]:
        sets = [*sets, []] if np.isnan(value) else [*sets[:-1], [*sets[-1], value]]
    rest = iter(sets)
    owned = [next(rest) if mode == 6 else [] for mode in modes]

    def leaf(row, at):
        while True:
            value, split = row[given["nodes_featureids"][at]], given["nodes_splits"][at]
            compared = (value <= split, value < split, value >= split, value > split, value == split, value != split)
            true = (*compared, value in owned[at])[modes[at]]
            true = true or (given["nodes_missing_value_tracks_true"][at] and np.isnan(value))
            side = "true" if true else "false"
            after = given[f"nodes_{side}nodeids"][at]
            if given[f"nodes_{side}leafs"][at]:
                return after
            at = after

    result = np.zeros((len(x), given["n_targets"]))
    for place, row in enumerate(x):
        for root in given["tree_roots"]:
            found = leaf(row, root)
            result[place, given["leaf_targetids"][found]] += given["leaf_weights"][found]
    return result


def tree_ensemble(dtype=np.float32, **changes):
    """Return a TreeEnsemble that asks for membership, with two trees that share a node."""
    attributes = {
        "n_targets": 2,
        "aggregate_function": 1,
        "post_transform": 0,
        "tree_roots": [0, 3],
        "nodes_modes": np.array([6, 4, 6, 1], np.uint8),
        "nodes_featureids": [0, 1, 0, 1],
        "nodes_splits": np.array([0, 1.5, 0, 0], dtype),
        "nodes_truenodeids": [1, 0, 2, 2],
        "nodes_falsenodeids": [2, 1, 3, 4],
        "nodes_trueleafs": [0, 1, 1, 0],
        "nodes_falseleafs": [0, 1, 1, 1],
        "nodes_missing_value_tracks_true": [0, 1, 1, 0],
        "membership_values": np.array([1.5, -2, 0, np.nan, 0.5, 1, np.nan], dtype),
        "leaf_targetids": [0, 1, 0, 1, 1],
        "leaf_weights": np.array([1, 2, 4, 8, 16], dtype),
    }
    attributes = {name: value for name, value in {**attributes, **changes}.items() if value is not None}
    given = {n: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for n, v in attributes.items()}
    return ml_node("TreeEnsemble", "x", **given)


def test_a_tree_ensemble_with_membership():
    """onnxruntime takes integers as members only, and onnx's reference reads other members."""
    x = numbers(np.random.default_rng(6), features=2)
    ends_open = tree_ensemble(membership_values=np.array([1.5, -2, 0, np.nan, 0.5, 1], np.float32))
    for node in (tree_ensemble(), ends_open):
        made = ml_model(node, version=5, x=x)
        np.testing.assert_array_equal(jaxdml.onnx.load(made)(x)[0], by_definition(made, x))


def test_the_numbers_of_transforms_are_those_of_onnx():
    """onnxruntime takes 1 for LOGISTIC and 2 for SOFTMAX."""
    x = np.array([[1.5, 1.5]], np.float32)
    nodes = [tree_ensemble(post_transform=number) for number in (0, 1, 2)]
    plain, softmax, logistic = jaxdml.onnx.load(ml_model(*nodes, version=5, x=x))(x)
    np.testing.assert_allclose(softmax, jax.nn.softmax(plain), rtol=1e-6)
    np.testing.assert_allclose(logistic, jax.nn.sigmoid(plain), rtol=1e-6)


def test_half_precision():
    x = np.array([[1.5, 1.5], [0, 0]], np.float16)
    (found,) = jaxdml.onnx.load(ml_model(tree_ensemble(np.float16), version=5, x=x))(x)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, by_definition(ml_model(tree_ensemble(), version=5, x=x), x))


def in_doubles():
    """Return a regressor with splits between neighbours of float32."""
    split = numpy_helper.from_array(np.array([0.1, 0.0, 0.0]))
    weights = numpy_helper.from_array(np.array([0.1, 0.2]))
    node = without(regressor(), "nodes_values", "target_weights")
    node.attribute.append(helper.make_attribute("nodes_values_as_tensor", split))
    node.attribute.append(helper.make_attribute("target_weights_as_tensor", weights))
    return node


def test_float64():
    x = np.array([[0.1], [np.nextafter(0.1, 1)], [np.nan]])
    with jax.enable_x64(True):
        agree(in_doubles(), x=x)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("LEQ", [1, 2]), ("LT", [1, 2]), ("GT", [2, 1]), ("GTE", [2, 1]), ("EQ", [2, 2]), ("NEQ", [1, 1])],
)
def test_splits_that_float32_does_not_hold(mode, wanted):
    below, above = np.float32(0.1) - np.float32(1e-8), np.float32(0.1)  # Around the float64 nearest to 0.1.
    node = in_doubles()
    node.attribute.append(helper.make_attribute("nodes_modes", [f"BRANCH_{mode}", "LEAF", "LEAF"]))
    modes = [each for each in node.attribute if each.name == "nodes_modes"]
    node.attribute.remove(modes[0])
    x = np.array([[below], [above]], np.float32)
    np.testing.assert_allclose(jaxdml.onnx.load(ml_model(node, x=x))(x)[0][:, 0], np.array(wanted) / 10, rtol=1e-6)


@pytest.mark.parametrize("missing", [0, 1])
def test_chains_of_equality_are_searched(missing):
    """LightGBM's sets are such chains, in which all comparisons lead to one node if they are true."""
    members = [3.0, -2.0, 0.0, 4.0, 1.0, 3.0]
    count = len(members)
    chain = {
        "nodes_treeids": [0] * (count + 2),
        "nodes_nodeids": list(range(count + 2)),
        "nodes_featureids": [0] * (count + 2),
        "nodes_modes": ["BRANCH_EQ"] * count + ["LEAF"] * 2,
        "nodes_values": [*members, 0.0, 0.0],
        "nodes_truenodeids": [count] * count + [0, 0],
        "nodes_falsenodeids": [*range(1, count), count + 1, 0, 0],
        "nodes_missing_value_tracks_true": [missing] * (count + 2),
        "target_nodeids": [count, count + 1],
    }
    # Another feature, or another node if it is true, is not of the chain.
    broken = {**chain, "nodes_featureids": [0, 0, 1, 0, 0, 0, 0, 0]}
    x = np.arange(-6, 11, dtype=np.float32)[:, None] / 2
    x = np.concatenate([x, [[np.nan], [np.inf], [-np.inf]]]).astype(np.float32)
    x = np.concatenate([x, x[::-1]], 1)
    agree(regressor(**chain), regressor(**broken), x=x)
    (trees,) = jaxdml.onnx.load(ml_model(regressor(**chain), x=x)).params.values()
    assert trees.levels.max() == 4


def test_splits_that_are_no_number():
    x = np.array([[0.0], [np.inf], [np.nan]], np.float32)
    missing = {"nodes_missing_value_tracks_true": [1, 0, 0]}
    nodes = [
        regressor(nodes_values=[np.nan, 0.0, 0.0], nodes_modes=[mode, "LEAF", "LEAF"], **more)
        for mode in MODES
        for more in ({}, missing)
    ]
    agree(*nodes, x=x)


def test_weights_that_are_no_number():
    agree(
        regressor((np.nan, 2.0)),
        regressor((np.nan, 2.0), aggregate_function="MIN"),
        regressor((np.inf, 2.0), aggregate_function="MAX"),
        x=X,
    )


def test_one_row_without_dimension_of_rows():
    x = np.float32([1.0])
    agree_model = ml_model(regressor(), classifier(), x=x)
    found = jaxdml.onnx.load(agree_model)(x)
    assert [result.shape for result in found] == [(1, 1), (1,), (1, 2)]


@pytest.mark.parametrize(
    ("shape", "text"), [([1, 1, 1], r"takes \[rows, features\]"), ([2, 0], "compares 1 features; got an input")]
)
def test_inputs_that_do_not_fit(shape, text):
    x = np.zeros(shape, np.float32)
    with pytest.raises(ValueError, match=text):
        jaxdml.onnx.load(ml_model(regressor(), x=x))(x)


LENGTHS = "as many entries as there are nodes, or weights; got "


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (regressor(nodes_values=[0.0]), LENGTHS + "nodes_treeids 3, .*nodes_values 1"),
        (regressor(target_ids=[0]), LENGTHS + "trees_of_weights 2"),
        (regressor(nodes_missing_value_tracks_true=[1]), LENGTHS),
        (regressor(nodes_modes=["BRANCH_LEQ", "LEAF", "NOPE"]), "nodes_modes has 'NOPE'; known are BRANCH_LEQ"),
        (
            without(
                regressor(),
                *(
                    f"nodes_{name}"
                    for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
                ),
            ),
            "nodes_modes has no node",
        ),
        (regressor(nodes_nodeids=[0, 1, 1]), "two nodes of a tree have one"),
        (regressor(nodes_nodeids=[0, 1, -2]), "a node has a negative number"),
        (regressor(nodes_truenodeids=[7, 0, 0]), "nodes_truenodeids names a node that its tree does not have"),
        (regressor(nodes_truenodeids=[0, 0, 0]), "nodes lead to one another in a circle"),
        (regressor(nodes_falsenodeids=[2**40, 0, 0]), "nodes_falsenodeids names a node"),
        (
            regressor(
                nodes_truenodeids=[0, 0, 0],
                target_treeids=[0, 0, 0],
                target_nodeids=[0, 1, 2],
                target_ids=[0, 0, 0],
                target_weights=[1.0, 2.0, 3.0],
            ),
            "nodes lead to one another in a circle",
        ),
        (regressor(nodes_featureids=[-1, 0, 0]), "the number of a feature is negative"),
        (regressor(nodes_featureids=[2**30, 0, 0]), "the number of a feature is negative, or too large"),
        (regressor(target_nodeids=[1, 5]), "a weight names a node that its tree does not have"),
        (regressor(target_nodeids=[1, 1]), "a leaf has no weight"),
        (regressor(target_ids=[0, 1]), "a weight is for none of 1 targets"),
        (regressor(n_targets=0), "n_targets must be at least 1"),
        (regressor(base_values=[1.0, 2.0]), "base_values has 2 entries, and must have 0 or 1"),
        (regressor(post_transform="NOPE"), "post_transform is 'NOPE', and must be one of NONE, SOFTMAX"),
        (regressor(aggregate_function="NOPE"), "aggregate_function is 'NOPE'"),
        (regressor(target_weights_as_tensor=numpy_helper.from_array(np.zeros(2))), "both target_weights and"),
        (classifier(base_values=[0.0, 0.0]), "base_values has 2 entries, and must have 0 or 1"),
        (classifier(ids=[1], base_values=[0.0]), "base_values has 1 entries, and must have 0"),
        (classifier(ids=[2]), "a weight is for none of 2 targets"),
        (classifier(labels=0), "it needs labels of classes"),
        (classifier(labels=2, classlabels_strings=["a", "b"], classlabels_int64s=[1, 2]), "it needs labels"),
        (classifier(classlabels_int64s=[0, 2**40]), "a label does not fit int32; set jax_enable_x64"),
        (regressor(n_targets=2**30), "a table of 1073741824 targets is too large"),
        (regressor((1.0, 2.0, 3.0, 4.0), n_targets=2**40), "is too large"),
    ],
)
def test_what_is_refused(node, text):
    with pytest.raises(jaxdml.onnx.UnsupportedModelError, match=f"'n0', domain 'ai.onnx.ml', opset 3: .*{text}"):
        jaxdml.onnx.load(ml_model(node, x=X))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_targets": None}, "n_targets must be at least 1"),
        ({"nodes_featureids": [0]}, LENGTHS),
        ({"leaf_targetids": [0]}, LENGTHS + "leaf_targetids 1, leaf_weights 5"),
        ({"nodes_modes": np.array([7, 4, 6, 1], np.uint8)}, "nodes_modes has 7, and must be 0 to 6"),
        ({"nodes_truenodeids": [9, 0, 2, 2]}, "nodes_truenodeids names a node or a leaf that there is not"),
        ({"nodes_falsenodeids": [2, 1, 5, 4]}, "nodes_falsenodeids names a node or a leaf"),
        ({"nodes_truenodeids": [2, 0, 2, 3]}, "nodes lead to one another in a circle"),
        ({"tree_roots": [0, 4]}, "tree_roots names a node that there is not"),
        ({"tree_roots": []}, "it has no trees"),
        ({"membership_values": None}, "membership_values has 0 sets, of which 0 are empty; there are 2 nodes"),
        ({"membership_values": np.array([np.nan, 1], np.float32)}, "2 sets, of which 1 are empty"),
        ({"post_transform": 5}, "post_transform is 5, and must be one of 0, 1"),
        ({"aggregate_function": -1}, "aggregate_function is -1"),
    ],
)
def test_tree_ensembles_that_are_refused(changes, text):
    x = np.zeros((1, 2), np.float32)
    with pytest.raises(jaxdml.onnx.UnsupportedModelError, match=f"'n0', domain 'ai.onnx.ml', opset 5: .*{text}"):
        jaxdml.onnx.load(ml_model(tree_ensemble(**changes), version=5, x=x))


def test_too_many_levels():
    count = MOST_LEVELS + 2
    chain = {
        "nodes_treeids": [0] * count,
        "nodes_nodeids": list(range(count)),
        "nodes_featureids": [0] * count,
        "nodes_modes": ["BRANCH_LEQ"] * (count - 1) + ["LEAF"],
        "nodes_values": [0.0] * count,
        "nodes_truenodeids": [*range(1, count), 0],
        "nodes_falsenodeids": [*range(1, count), 0],
        "target_treeids": [0],
        "target_nodeids": [count - 1],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    with pytest.raises(jaxdml.onnx.UnsupportedModelError, match=f"a tree has more than {MOST_LEVELS} levels"):
        jaxdml.onnx.load(ml_model(regressor(**chain), x=X))


def mutated(node, draw):
    """Return a node one of whose lists is changed."""
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    lists = [values for each in changed.attribute for values in (each.ints, each.floats, each.strings) if len(values)]
    values = lists[draw.integers(len(lists))]
    at, kind = int(draw.integers(len(values))), draw.integers(4)
    if kind == 0:
        del values[at]
    elif kind == 1:
        values.append(values[at])
    elif kind == 2:
        values[at] = values[int(draw.integers(len(values)))]
    elif isinstance(values[at], bytes):
        values[at] = [*(mode.encode() for mode in MODES), b"LEAF", b""][draw.integers(8)]
    else:
        values[at] = [-1, 0, 1, 2, 5, 1000, 2**31 - 1][draw.integers(7)]
    return changed


def must_end(trees):
    """Require that all nodes lead to nodes that there are, and all roots to leaves in as many steps as they say."""
    nodes, roots, levels = (np.asarray(each) for each in (trees.nodes, trees.roots, trees.levels))
    assert ((nodes[:, 2:] >= 0) & (nodes[:, 2:] < len(nodes))).all()
    assert ((nodes[:, 0] >= 0) & (nodes[:, 0] < max(1, trees.features * len(trees.missing)))).all()
    at = np.arange(len(nodes))[:, None]
    own = nodes[:, 2] == at[:, 0]
    assert ((nodes[own, 1] >= 0) & (nodes[own, 1] < len(trees.weights))).all()
    reached = {root: {root} for root in roots.reshape(-1).tolist()}
    for root, steps in zip(roots.reshape(-1).tolist(), levels.reshape(-1).tolist(), strict=True):
        for _ in range(steps):
            reached[root] = {int(after) for place in reached[root] for after in nodes[place, 2:]}
        assert own[list(reached[root])].all()


def test_mutated_attributes_are_refused_or_make_trees_that_end():
    rng = np.random.default_rng(7)
    kinds = [
        (random_regressor(rng, targets=2), 3),
        (random_classifier(rng, 3, per_tree=lambda tree: [tree % 3]), 3),
        (tree_ensemble(), 5),
    ]
    made = refused = 0
    for number in range(200):
        node, version = kinds[number % len(kinds)]
        try:
            model = jaxdml.onnx.load(ml_model(mutated(node, rng), version=version, x=np.zeros((1, 3), np.float32)))
        except jaxdml.onnx.UnsupportedModelError:
            refused += 1
            continue
        made += 1
        (trees,) = model.params.values()
        must_end(trees)
    assert made > 50
    assert refused > 50


def test_trees_are_parameters():
    rng = np.random.default_rng(8)
    x = numbers(rng)
    model = jaxdml.onnx.load(ml_model(classifier(), random_regressor(rng, trees=40), x=x))
    assert all(isinstance(trees, Trees) for trees in model.params.values())
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(dict(model.params)))
    exported = export.export(jax.jit(model.apply))(model.params, x)
    nodes = [trees.nodes for trees in model.params.values()]
    assert f"tensor<{len(nodes[1])}x4xi32>" in exported.mlir_module()
    reloaded = export.deserialize(exported.serialize())
    for one, other in zip(reloaded.call(model.params, x), model(x), strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_have_derivatives():
    model = jaxdml.onnx.load(ml_model(regressor(), x=X))
    ((name, trees),) = model.params.items()

    def total(weights):
        return model.apply({name: jax.tree.map(lambda leaf: weights if leaf is trees.weights else leaf, trees)}, X)[
            0
        ].sum()

    np.testing.assert_array_equal(jax.jit(jax.grad(total))(trees.weights)[:, 0], [2, 2, 0])


def test_batches_that_are_symbolic_or_mapped():
    rng = np.random.default_rng(9)
    x = numbers(rng)
    model = jaxdml.onnx.load(ml_model(random_regressor(rng, trees=3), x=x[:, :]))
    open_model = ml_model(random_regressor(np.random.default_rng(9), trees=3), x=x)
    open_model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    model = jaxdml.onnx.load(open_model)
    (wanted,) = model(x)
    (rows,) = export.symbolic_shape("rows")
    exported = export.export(jax.jit(model.apply))(model.params, jax.ShapeDtypeStruct((rows, 3), np.float32))
    np.testing.assert_array_equal(exported.call(model.params, x)[0], wanted)
    mapped = jax.jit(jax.vmap(lambda row: model.apply(model.params, row[None])[0][0]))(x)
    np.testing.assert_array_equal(mapped, wanted)


def test_trees_within_a_body():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[2, 1] x, bool c) => (float[2, 1] y) {
        y = If (c) <then_branch = t () => (float[2, 1] a) { a = Neg(x) },
                    else_branch = e () => (float[2, 1] b) { b = Neg(x) }>
    }"""
    made = onnx.parser.parse_model(text)
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    body = made.graph.node[0].attribute[1].g.node[0]
    body.CopyFrom(regressor())
    body.output[:] = ["b"]
    x = np.array([[-1], [1]], np.float32)
    model = jaxdml.onnx.load(made)
    np.testing.assert_array_equal(model(x, np.array(False))[0], [[1], [2]])
    np.testing.assert_array_equal(model(x, np.array(True))[0], -x)


def test_labels_that_are_texts_are_positions():
    made = ml_model(classifier(classlabels_strings=["no", "yes"]), x=X)
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("n0_0", onnx.TensorProto.STRING, [4]))
    model = jaxdml.onnx.load(made)
    np.testing.assert_array_equal(model(X)[0], [0, 0, 1, 1])
    assert "1 tree of 3 nodes, in float32; labels are positions in ['no', 'yes']" in model.report()


def test_the_report_counts_trees():
    model = jaxdml.onnx.load(ml_model(tree_ensemble(), version=5, x=X[:, [0, 0]]))
    assert "2 trees of" in model.report()
