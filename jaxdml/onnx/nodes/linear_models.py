"""LinearRegressor and LinearClassifier of ai.onnx.ml. What they multiply by is a parameter of the model."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml.onnx._errors import NodeError
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._scores import (
    features_of,
    known_transform,
    labels_of,
    matrix_of,
    name_labels,
    of_one_score,
    product,
    row_of,
    transformed,
)


def _prepared_regressor(_: Any, *, coefficients: Any = (), intercepts: Any = (), targets: int = 1) -> Any:
    """Return the parameters of a LinearRegressor."""
    if targets < 1:
        raise NodeError("targets must be at least 1")
    return {
        "coefficients": matrix_of(coefficients, targets, "coefficients"),
        "intercepts": row_of(intercepts, (0, targets), "intercepts"),
    }


def _scores(call: NodeCall, X: Any, model: Any) -> jax.Array:
    score = product(features_of(call, X, model["coefficients"].shape[1]), model["coefficients"])
    return score + model["intercepts"] if model["intercepts"].size else score


def linear_regressor(call: NodeCall, X: Any, model: Any = None, *, post_transform: str = "NONE") -> Any:
    """Multiply by the coefficients and add the intercepts, in float32."""
    return transformed(_scores(call, X, model), post_transform)


def _prepared_classifier(
    _: Any,
    *,
    coefficients: Any = (),
    intercepts: Any = (),
    classlabels_ints: Any = (),
    classlabels_strings: Any = (),
) -> Any:
    """Return the parameters of a LinearClassifier: there are as many scores as intercepts, or classes without these."""
    classes = len(labels_of(classlabels_ints, classlabels_strings))
    scores = len(intercepts) or classes
    if scores not in ((1, 2) if classes == 2 else (classes,)) or classes == 1:
        raise NodeError(f"intercepts has {scores} entries, and there are {classes} classes")
    return {
        "coefficients": matrix_of(coefficients, scores, "coefficients"),
        "intercepts": row_of(intercepts, (0, scores), "intercepts"),
    }


def linear_classifier(
    call: NodeCall,
    X: Any,
    model: Any = None,
    *,
    classlabels_ints: Any = (),
    classlabels_strings: Any = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Any, Any]:
    """Return the class of each row, and the scores of all classes; ``multi_class`` does nothing, as in onnxruntime."""
    name_labels(call, "a product", classlabels_strings)
    labels = labels_of(classlabels_ints, classlabels_strings)
    score = _scores(call, X, model)
    if score.shape[1] > 1:
        return jnp.asarray(labels)[jnp.argmax(score, -1)], transformed(score, post_transform)
    score = score[:, 0]
    return jnp.asarray(labels)[(score > 0).astype(np.int32)], of_one_score(call, score, 1 - score, post_transform)


TABLE: Table = {
    "LinearClassifier": (
        Handler(1, linear_classifier, raw=True, prepares=_prepared_classifier, refuses=known_transform),
    ),
    "LinearRegressor": (Handler(1, linear_regressor, raw=True, prepares=_prepared_regressor, refuses=known_transform),),
}
