"""SVMRegressor and SVMClassifier of ai.onnx.ml. What they multiply by is a parameter of the model."""

from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx._errors import NodeError
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._scores import (
    TRANSFORMS,
    features_of,
    labels_of,
    matrix_of,
    must_be_one_of,
    name_labels,
    of_one_score,
    product,
    row_of,
    transformed,
)

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _kernel(x: jax.Array, vectors: jax.Array, kind: str, parameters: Any) -> jax.Array:
    """Return the kernel function of each row with each vector, ``[rows, vectors]``."""
    gamma, constant, degree = (np.float32(each) for each in (parameters if len(parameters) else (0, 0, 0)))
    if kind == "RBF":
        # Feature by feature: squares of differences lose less than a difference of products.
        differences = x.T[:, :, None] - vectors.T[:, None, :]
        return jnp.exp(-gamma * (differences * differences).sum(0))
    found = product(x, vectors)
    if kind == "POLY":
        found = gamma * found + constant
        return lax.integer_pow(found, int(degree)) if degree in range(1, 9) else jnp.power(found, degree)
    return jnp.tanh(gamma * found + constant) if kind == "SIGMOID" else found


def _refuses(node: Node, dtypes: Any) -> str | None:
    if len(node.attributes.get("kernel_params", ())) not in (0, 3):
        return f"kernel_params has {len(node.attributes['kernel_params'])} entries, and must have 0 or 3"
    return must_be_one_of(kernel_type=_KERNELS, post_transform=tuple(TRANSFORMS))(node, dtypes)


def _prepared_regressor(
    _: Any, *, coefficients: Any = (), n_supports: int = 0, rho: Any = (), support_vectors: Any = ()
) -> Any:
    """Return the parameters of an SVMRegressor; without support vectors its coefficients are of features."""
    if n_supports < 0:
        raise NodeError("n_supports is negative")
    model = {"coefficients": matrix_of(coefficients, 1, "coefficients"), "rho": row_of(rho, (1,), "rho")}
    if n_supports:
        model["support_vectors"] = matrix_of(support_vectors, n_supports, "support_vectors")
        row_of(coefficients, (n_supports,), "coefficients")
    return model


def svm_regressor(
    call: NodeCall,
    X: Any,
    model: Any = None,
    *,
    kernel_params: Any = (),
    kernel_type: str = "LINEAR",
    one_class: int = 0,
    post_transform: str = "NONE",
) -> Any:
    """Sum the kernel functions with the support vectors, ``[rows, 1]``; if ``one_class``, give 1 or -1 by the sign."""
    vectors = model.get("support_vectors")
    x = features_of(call, X, (model["coefficients"] if vectors is None else vectors).shape[1])
    features = x if vectors is None else _kernel(x, vectors, kernel_type, kernel_params)
    score = product(features, model["coefficients"]) + model["rho"]
    return jnp.where(score > 0, 1, -1).astype(np.float32) if one_class else transformed(score, post_transform)


def _prepared_classifier(
    _: Any,
    *,
    coefficients: Any = (),
    classlabels_ints: Any = (),
    classlabels_strings: Any = (),
    prob_a: Any = (),
    prob_b: Any = (),
    rho: Any = (),
    support_vectors: Any = (),
    vectors_per_class: Any = (),
) -> Any:
    """Return the parameters of an SVMClassifier.

    With support vectors the coefficients become a matrix ``[pairs, vectors]``, a row for each pair of classes: of a
    vector of the one class what the file has for the other, and 0 for vectors of no class of the pair.
    """
    classes, counts = len(labels_of(classlabels_ints, classlabels_strings)), np.asarray(vectors_per_class, np.int64)
    if not counts.sum():
        least = row_of(rho, tuple(range(1, len(rho) + 1)), "rho")[:1]
        return {"coefficients": matrix_of(coefficients, classes, "coefficients"), "rho": least}
    if len(counts) != classes or classes < 2 or (counts < 0).any():
        raise NodeError(f"vectors_per_class is {counts.tolist()}, and there are {classes} classes; two are needed")
    count, pairs = int(counts.sum()), list(combinations(range(classes), 2))
    if len(coefficients) != (classes - 1) * count:
        rule = f"coefficients has {len(coefficients)} entries"
        raise NodeError(f"{rule}; {count} vectors of {classes} classes need {(classes - 1) * count}")
    given = np.asarray(coefficients, np.float32).reshape(classes - 1, count)
    owner = np.repeat(np.arange(classes), counts)
    of_pairs = [np.where(owner == i, given[j - 1], 0) + np.where(owner == j, given[i], 0) for i, j in pairs]
    probable = (0, len(pairs)) if not len(prob_a) else (len(pairs),)
    return {
        "coefficients": jnp.asarray(np.stack(of_pairs)),
        "rho": row_of(rho, (len(pairs),), "rho"),
        "support_vectors": matrix_of(support_vectors, count, "support_vectors"),
        "prob_a": row_of(prob_a, probable, "prob_a"),
        "prob_b": row_of(prob_b, (len(prob_a),), "prob_b"),
    }


def svm_classifier(
    call: NodeCall,
    X: Any,
    model: Any = None,
    *,
    classlabels_ints: Any = (),
    classlabels_strings: Any = (),
    kernel_params: Any = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
) -> tuple[Any, Any]:
    """Return the class of each row; and probabilities of all classes, or what each pair of classes decides by."""
    name_labels(call, "a product", classlabels_strings)
    labels = labels_of(classlabels_ints, classlabels_strings)
    vectors = model.get("support_vectors")
    x = features_of(call, X, (model["coefficients"] if vectors is None else vectors).shape[1])
    if vectors is None:
        score = product(x, model["coefficients"]) + model["rho"]
        return jnp.asarray(labels)[_best(score, model["coefficients"])], transformed(score, post_transform)
    score = product(_kernel(x, vectors, kernel_type, kernel_params), model["coefficients"]) + model["rho"]
    pairs = np.array(list(combinations(range(len(labels)), 2)))
    winner = jnp.where(score > 0, pairs[:, 0], pairs[:, 1])
    votes = (winner[..., None] == np.arange(len(labels))).sum(1)
    best = jnp.asarray(labels)[jnp.argmax(votes, -1)]
    if model["prob_a"].size:
        # The probability that a row is of the first class of a pair, if it is of the pair.
        first = jnp.clip(1 - jax.nn.sigmoid(score * model["prob_a"] + model["prob_b"]), 1e-7, 1 - np.float32(1e-7))
        among = jnp.zeros((len(score), len(labels), len(labels)), np.float32)
        among = among.at[:, pairs[:, 0], pairs[:, 1]].set(first).at[:, pairs[:, 1], pairs[:, 0]].set(1 - first)
        return best, transformed(jax.vmap(_coupled)(among), post_transform)
    if len(labels) > 2:
        return best, transformed(score, post_transform)
    score = score[:, 0]
    return best, of_one_score(call, score, -score if post_transform == "NONE" else 1 - score, post_transform)


def _best(score: jax.Array, coefficients: jax.Array) -> jax.Array:
    """Return the place of the greatest score; of two classes as onnxruntime does, for which one score is enough."""
    greatest = jnp.argmax(score, -1)
    if score.shape[1] != 2:
        return greatest
    most = score.max(-1)
    second = jnp.where((coefficients >= 0).all(), most >= 0.5, most > 0)
    return jnp.where(second, 1, greatest)


def _coupled(among: jax.Array) -> jax.Array:
    """Return probabilities of classes that agree best with those within pairs, in at most a hundred rounds.

    Args:
      among: ``[i, j]`` is the probability of class i if it is i or j; 0 where they are one.

    This is the second method of "Probability Estimates for Multi-class Classification by Pairwise Coupling" (T.-F. Wu,
    C.-J. Lin and R. C. Weng, 2004), as libsvm ends it.
    """
    classes = len(among)
    q = jnp.diag((among * among).sum(0)) - among * among.T

    def unfinished(state: Any) -> jax.Array:
        turn, p = state
        product = _times(q, p)
        return (turn < 100) & ~(jnp.abs(product - (p * product).sum()).max() < np.float32(0.005) / classes)

    def each(i: Any, state: Any) -> Any:
        p, products, total = state
        step = (total - products[i]) / q[i, i]
        p = p.at[i].add(step)
        total = (total + step * (step * q[i, i] + 2 * products[i])) / (1 + step) / (1 + step)
        return p / (1 + step), (products + step * q[i]) / (1 + step), total

    def improved(state: Any) -> Any:
        turn, p = state
        products = _times(q, p)
        return turn + 1, lax.fori_loop(0, classes, each, (p, products, (p * products).sum()))[0]

    return lax.while_loop(unfinished, improved, (0, jnp.full(classes, 1 / classes, np.float32)))[1]


def _times(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    return (matrix * vector).sum(1)


TABLE: Table = {
    "SVMClassifier": (Handler(1, svm_classifier, raw=True, prepares=_prepared_classifier, refuses=_refuses),),
    "SVMRegressor": (Handler(1, svm_regressor, raw=True, prepares=_prepared_regressor, refuses=_refuses),),
}
