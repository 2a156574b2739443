"""What ai.onnx.ml does with features before and after a model: scaling, imputing, encoding, selecting."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._scores import must_be_one_of, must_be_rows
from jaxdml.onnx.nodes._sizes import refusal
from jaxdml.onnx.nodes.indexing import gather
from jaxdml.onnx.values.bounded import report
from jaxdml.onnx.values.stored import as_jax

_STRINGS = "strings are not supported: encode them as integers before the model"


def _features(call: NodeCall, x: Any) -> int:
    """Return how many features an input ``[rows, features]`` or ``[features]`` has."""
    must_be_rows(call, x)
    return x.shape[-1]


def _of_features(call: NodeCall, name: str, values: Any, x: Any, dtype: Any) -> np.ndarray:
    """Return an attribute that has one number, or one for each feature."""
    if len(values) not in (1, _features(call, x)):
        rule = f"{call.node} has {len(values)} entries in {name}, and an input of shape {list(x.shape)}."
        raise refusal(rule, "It takes one entry, or one for each of the features.")
    return np.asarray(values).astype(dtype)


def scaler(call: NodeCall, X: Any, *, offset: Any = (), scale: Any = ()) -> Any:
    """Subtract the offset, then multiply by the scale; in float32, or in the float64 of the input."""
    dtype = jnp.promote_types(X.dtype, np.float32) if jnp.issubdtype(X.dtype, np.floating) else np.float32
    down, by = (_of_features(call, name, each, X, dtype) for name, each in (("offset", offset), ("scale", scale)))
    return ((X.astype(dtype) - down) * by).astype(np.float32)


def _scaler_refuses(node: Node, _: Any) -> str | None:
    sizes = [len(node.attributes.get(name, ())) for name in ("scale", "offset")]
    if not sizes[0] or sizes[0] != sizes[1]:
        return f"scale has {sizes[0]} entries and offset {sizes[1]}; they must have as many, and at least one"
    return None


def normalizer(call: NodeCall, X: Any, *, norm: str = "MAX") -> Any:
    """Divide by the largest element along the features, by the sum of magnitudes or by the root of that of squares."""
    _features(call, X)
    x = X.astype(np.float32)
    if norm == "MAX":
        by = x.max(-1, keepdims=True, initial=np.finfo(np.float32).min, where=~jnp.isnan(x))
    elif norm == "L1":
        by = jnp.abs(x).sum(-1, keepdims=True)
    else:
        squares = x * x
        by = squares.sum(-1, keepdims=True)
        return jnp.where(by == 0, x, jnp.sign(x) * jnp.sqrt(squares / jnp.where(by == 0, 1, by)))
    return jnp.where(by == 0, x, x / jnp.where(by == 0, 1, by))


def imputer(
    call: NodeCall,
    X: Any,
    *,
    imputed_value_floats: Any = (),
    imputed_value_int64s: Any = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Any:
    """Replace what equals a value, or is NaN where that is NaN."""
    floats = jnp.issubdtype(X.dtype, np.floating)
    name = "imputed_value_floats" if floats else "imputed_value_int64s"
    values, replaced = (
        (imputed_value_floats, replaced_value_float) if floats else (imputed_value_int64s, replaced_value_int64)
    )
    if not len(values):
        raise refusal(f"{call.node} has no {name}, which an input of {X.dtype} needs.")
    by = _of_features(call, name, values, X, X.dtype)
    missing = jnp.isnan(X) if np.isnan(replaced) else np.asarray(replaced).astype(X.dtype) == X
    return jnp.where(missing, by, X)


def _imputer_refuses(node: Node, _: Any) -> str | None:
    given = [name for name in ("imputed_value_floats", "imputed_value_int64s") if len(node.attributes.get(name, ()))]
    return None if len(given) == 1 else "it must have one of imputed_value_floats and imputed_value_int64s"


def binarizer(call: NodeCall, X: Any, *, threshold: float = 0.0) -> Any:
    """Return 1 where an element is greater than the threshold, else 0."""
    return (np.asarray(threshold, np.float32) < X).astype(X.dtype)


def array_feature_extractor(call: NodeCall, X: Any, Y: Any) -> Any:
    """Read the elements at some places of the last dimension."""
    if not X.ndim or not Y.size:
        raise refusal(f"{call.node} has an input {list(X.shape)} and indices {list(Y.shape)}; neither may be empty.")
    found = gather(call, X, Y.reshape(-1), axis=-1)
    return found[None] if X.ndim == 1 else found


def feature_vectorizer(call: NodeCall, *inputs: Any, inputdimensions: Any = ()) -> Any:
    """Lay inputs side by side as float32 ``[rows, features]``; each is cut, or padded with zeros, to its number."""
    parts = []
    for x, size in zip(inputs, map(int, inputdimensions), strict=True):
        part = x.reshape(1, -1) if x.ndim < 2 else x.reshape(x.shape[0], -1)
        part = part[:, :size].astype(np.float32)
        parts.append(jnp.pad(part, ((0, 0), (0, size - part.shape[1]))))
    if len({part.shape[0] for part in parts}) > 1:
        raise refusal(f"{call.node} has inputs of {', '.join(str(part.shape[0]) for part in parts)} rows.")
    return jnp.concatenate(parts, 1)


def _vectorizer_refuses(node: Node, _: Any) -> str | None:
    sizes = node.attributes.get("inputdimensions", ())
    if len(sizes) != len(node.inputs) or any(size < 0 for size in sizes):
        given = np.asarray(sizes).tolist()
        return f"inputdimensions is {given}; it must have a number for each of {len(node.inputs)} inputs"
    return None


def _exactly(values: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers in another dtype, and which of them it holds."""
    with np.errstate(all="ignore"):
        found = values.astype(dtype)
        return found, (found.astype(values.dtype) == values) | np.isnan(values.astype(np.float64))


def one_hot_encoder(call: NodeCall, X: Any, *, cats_int64s: Any = (), zeros: int = 1) -> Any:
    """Return for each element a row with 1.0 at the place of its category, and zeros where it has none."""
    integers = jnp.trunc(X) if jnp.issubdtype(X.dtype, np.floating) else X
    wanted, holds = _exactly(np.asarray(cats_int64s, np.int64), integers.dtype)
    holds[np.setdiff1d(np.arange(len(wanted)), len(wanted) - 1 - np.unique(wanted[::-1], return_index=True)[1])] = False
    found = (integers[..., None] == wanted) & holds  # Of equal categories the last counts.
    if not zeros:
        report(found.any(-1).all(), f"{call.node} has an element without category")
    return found.astype(np.float32)


def _encoder_refuses(node: Node, _: Any) -> str | None:
    if "cats_strings" in node.attributes:
        return _STRINGS
    return None if len(node.attributes.get("cats_int64s", ())) else "it has no categories"


_KEYS = {"keys_int64s": np.int64, "keys_floats": np.float32, "keys_tensor": None}
_VALUES = {"values_int64s": np.int64, "values_floats": np.float32, "values_tensor": None}
_TEXTS = ("keys_strings", "values_strings", "classes_strings")


def _listed(attributes: Mapping[str, Any], kinds: Mapping[str, Any]) -> list[np.ndarray]:
    return [
        np.asarray(attributes[name]).reshape(-1).astype(dtype or attributes[name].dtype)
        for name, dtype in kinds.items()
        if attributes.get(name) is not None and len(attributes[name])
    ]


def label_encoder(
    call: NodeCall,
    X: Any,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "",
    default_tensor: Any = None,
    keys_floats: Any = (),
    keys_int64s: Any = (),
    keys_tensor: Any = None,
    values_floats: Any = (),
    values_int64s: Any = (),
    values_tensor: Any = None,
) -> Any:
    """Return the value that stands beside the key that each element equals, or the default; the first of equal keys."""
    (keys,) = _listed({"keys_floats": keys_floats, "keys_int64s": keys_int64s, "keys_tensor": keys_tensor}, _KEYS)
    given = {"values_floats": values_floats, "values_int64s": values_int64s, "values_tensor": values_tensor}
    (values,) = _listed(given, _VALUES)
    usual = default_float if values.dtype.kind == "f" else default_int64
    default = np.asarray(usual if default_tensor is None else default_tensor.reshape(-1)[0]).astype(values.dtype)
    wanted, holds = _exactly(keys, X.dtype)
    wanted, first = np.unique(wanted[holds], return_index=True)  # One NaN, at the end, if there are any.
    found = as_jax(np.append(values[holds][first], default))
    place = jnp.minimum(jnp.searchsorted(wanted, X), max(0, len(wanted) - 1))
    key = as_jax(np.append(wanted, wanted[:1] if len(wanted) else np.zeros(1, X.dtype)))[place]
    same = (key == X) | ((key != key) & (X != X) & (call.node.opset >= 4))  # noqa: PLR0124
    return found[jnp.where(same & bool(len(wanted)), place, len(wanted))]


def _label_encoder_refuses(node: Node, _: Any) -> str | None:
    if any(name in node.attributes for name in _TEXTS):
        return _STRINGS
    keys, values = (_listed(node.attributes, kinds) for kinds in (_KEYS, _VALUES))
    if len(keys) != 1 or len(values) != 1 or len(keys[0]) != len(values[0]):
        return "it must have keys of one kind, and as many values of one kind"
    default = node.attributes.get("default_tensor")
    return None if default is None or default.size == 1 else f"default_tensor has {default.size} elements"


def zip_map(call: NodeCall, X: Any, *, classlabels_int64s: Any = (), classlabels_strings: Any = ()) -> Any:
    """Return the scores as they are: there are no maps here; the report names the class of each column."""
    labels = list(classlabels_strings) or np.asarray(classlabels_int64s).tolist()
    call.note((call.node.name,), f"the array as it is; its columns are {labels}")
    if X.shape[-1:] != (len(labels),):
        raise refusal(f"{call.node} has labels for {len(labels)} columns; got an input of shape {list(X.shape)}.")
    return X


TABLE: Table = {
    "ArrayFeatureExtractor": (Handler(1, array_feature_extractor, host=True),),
    "Binarizer": (Handler(1, binarizer),),
    "FeatureVectorizer": (Handler(1, feature_vectorizer, refuses=_vectorizer_refuses),),
    "Imputer": (Handler(1, imputer, refuses=_imputer_refuses),),
    "LabelEncoder": (Handler(1, label_encoder, refuses=_label_encoder_refuses),),
    "Normalizer": (Handler(1, normalizer, refuses=must_be_one_of(norm=("MAX", "L1", "L2"))),),
    "OneHotEncoder": (Handler(1, one_hot_encoder, refuses=_encoder_refuses),),
    "Scaler": (Handler(1, scaler, refuses=_scaler_refuses),),
    "ZipMap": (Handler(1, zip_map),),
}
