"""Features, linear models and support vectors of ai.onnx.ml, judged by onnxruntime."""

import jax
import numpy as np
import onnx
import pytest
from jax.experimental import checkify
from onnx import helper, numpy_helper

import jaxdml.onnx
from tests.kit import quick
from tests.onnx.ml import agree, ml_model, ml_node

pytestmark = quick

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 3)).astype(np.float32)
WHOLE = RNG.integers(-2, 4, (4, 3)).astype(np.int64)
NAN = float("nan")


def floats(*shape):
    return [float(np.float32(each)) for each in RNG.standard_normal(shape).reshape(-1)]


def test_features():
    some = np.array([[0, -3, NAN], [0, 0, 0], [2, 1, -4]], np.float32)
    agree(
        ml_node("Scaler", "x", offset=[0.5], scale=[2.0]),
        ml_node("Scaler", "whole", offset=[0.5, 1.0, -1.0], scale=[2.0, 0.1, 3.0]),
        *(ml_node("Normalizer", name, norm=norm) for norm in ("MAX", "L1", "L2") for name in ("x", "whole", "row")),
        *(ml_node("Normalizer", "zeros", norm=norm) for norm in ("MAX", "L1", "L2")),
        ml_node("Normalizer", "some"),
        ml_node("Imputer", "some", imputed_value_floats=[7.0], replaced_value_float=NAN),
        ml_node("Imputer", "some", imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=0.0),
        ml_node("Imputer", "whole", imputed_value_int64s=[7, 8, 9], replaced_value_int64=1),
        ml_node("Binarizer", "x", threshold=0.25),
        ml_node("ArrayFeatureExtractor", "x", "places"),
        ml_node("ArrayFeatureExtractor", "row", "places"),
        ml_node("FeatureVectorizer", "x", "x", inputdimensions=[2, 5]),
        ml_node("FeatureVectorizer", "row", inputdimensions=[3]),
        x=X,
        whole=WHOLE,
        some=some,
        zeros=np.zeros((1, 3), np.float32),
        places=np.array([[2, 0]]),
        row=X[0],
    )


def test_encoders():
    x = np.array([[1.0, 2.5, NAN], [-1.0, 3.0, 0.0]], np.float32)
    tensors = {
        "keys_tensor": numpy_helper.from_array(np.array([1, 3, NAN], np.float32)),
        "values_tensor": numpy_helper.from_array(np.array([5, 6, 7], np.float32)),
    }
    agree(
        ml_node("OneHotEncoder", "x", cats_int64s=[1, 2, 1, -1]),
        ml_node("OneHotEncoder", "whole", cats_int64s=[1, 2**40, 3]),
        ml_node("LabelEncoder", "whole", keys_int64s=[3, 1, 1], values_floats=[0.5, 1.5, 2.5], default_float=9.0),
        ml_node("LabelEncoder", "whole", keys_int64s=[3, 1], values_int64s=[-5, 5]),
        ml_node("LabelEncoder", "x", keys_floats=[2.5, -1.0, 0.0], values_int64s=[1, 2, 3]),
        ml_node("LabelEncoder", "x", keys_floats=[2.5, NAN], values_floats=[1.0, 2.0]),
        x=x,
        whole=WHOLE,
    )
    # In version 4 NaN is found.
    agree(ml_node("LabelEncoder", "x", **tensors), version=4, x=x)


def test_label_encoders_of_tensors():
    x = np.array([1, 2, 3], np.int16)
    keys, values, default = (numpy_helper.from_array(np.array(each, np.int16)) for each in ([3, 1], [30, 10], [-7]))
    given = {"keys_tensor": keys, "values_tensor": values}
    nodes = [ml_node("LabelEncoder", "x", **given, default_tensor=default), ml_node("LabelEncoder", "x", **given)]
    # Keys that the input's dtype does not hold are never found.
    nodes.append(ml_node("LabelEncoder", "x", keys_int64s=[2**40], values_int64s=[1]))
    found = jaxdml.onnx.load(ml_model(*nodes, version=4, x=x))(x)
    assert found[0].dtype == np.int16
    np.testing.assert_array_equal(
        np.stack([np.asarray(each) for each in found]), [[10, -7, 30], [10, -1, 30], [-1] * 3]
    )


def test_categories_that_are_missing():
    node = ml_node("OneHotEncoder", "x", cats_int64s=[1, 2], zeros=0)
    model = jaxdml.onnx.load(ml_model(node, x=WHOLE))
    apply = jax.jit(checkify.checkify(lambda x: model.apply(model.params, x, checks=True), errors=checkify.user_checks))
    error, _ = apply(WHOLE)
    assert "has an element without category" in error.get()
    error, _ = apply(np.ones_like(WHOLE))
    assert error.get() is None


def test_zip_map():
    made = ml_model(
        ml_node("ZipMap", "x", classlabels_strings=["a", "b", "c"]),
        ml_node("ZipMap", "x", classlabels_int64s=[1, 2, 3]),
        x=X,
    )
    float_of_text = helper.make_map_type_proto(onnx.TensorProto.STRING, helper.make_tensor_type_proto(1, None))
    made.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(float_of_text))
    model = jaxdml.onnx.load(made)
    for result in model(X):
        np.testing.assert_array_equal(result, X)
    assert "the array as it is; its columns are ['a', 'b', 'c']" in model.report()
    assert "its columns are [1, 2, 3]" in model.report()


def test_linear_models():
    labels = {"classlabels_ints": [10, 11, 12]}
    two = {"coefficients": floats(3), "intercepts": [0.25], "classlabels_ints": [10, 11]}
    both = {"coefficients": floats(2, 3), "intercepts": floats(2), "classlabels_ints": [10, 11]}
    agree(
        ml_node("LinearRegressor", "x", coefficients=floats(2, 3), intercepts=floats(2), targets=2),
        ml_node("LinearRegressor", "x", coefficients=floats(3), targets=1, post_transform="LOGISTIC"),
        ml_node("LinearRegressor", "x", coefficients=floats(2, 3), targets=2, post_transform="SOFTMAX"),
        *(
            ml_node("LinearClassifier", "x", outputs=2, **{**given, "post_transform": transform})
            for given in ({"coefficients": floats(3, 3), "intercepts": floats(3), **labels}, both)
            for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
        ),
        ml_node("LinearClassifier", "x", outputs=2, **two),
        ml_node("LinearClassifier", "x", outputs=2, **two, post_transform="LOGISTIC"),
        ml_node("LinearClassifier", "whole", outputs=2, **both),
        x=X,
        whole=WHOLE,
    )


def vectors(classes, count=2, **attributes):
    """Return attributes of an SVMClassifier with some support vectors of each class."""
    total, pairs = classes * count, classes * (classes - 1) // 2
    return {
        "coefficients": floats(classes - 1, total),
        "support_vectors": floats(total, 3),
        "vectors_per_class": [count] * classes,
        "rho": floats(pairs),
        "classlabels_ints": list(range(10, 10 + classes)),
        "kernel_type": "RBF",
        "kernel_params": [0.3, 0.5, 3.0],
        **attributes,
    }


def test_support_vectors():
    kernels = [("LINEAR", 1.0), ("POLY", 3.0), ("POLY", 2.0), ("RBF", 1.0), ("SIGMOID", 1.0)]
    machine = {"coefficients": floats(4), "support_vectors": floats(4, 3), "n_supports": 4, "rho": [0.25]}
    linear = {"rho": [0.25], "kernel_params": [0.0, 0.0, 0.0], "classlabels_ints": [10, 11, 12]}
    two = {**linear, "classlabels_ints": [10, 11]}
    probable = {"prob_a": floats(3), "prob_b": floats(3)}
    agree(
        *(
            ml_node("SVMRegressor", "x", **machine, kernel_type=kind, kernel_params=[0.3, 0.5, degree])
            for kind, degree in kernels
        ),
        ml_node("SVMRegressor", "x", **machine, kernel_type="RBF", kernel_params=[0.3, 0.0, 0.0], one_class=1),
        ml_node("SVMRegressor", "x", coefficients=floats(3), rho=[0.25], n_supports=0, kernel_params=[0.0] * 3),
        ml_node("SVMClassifier", "x", outputs=2, **vectors(3)),
        ml_node("SVMClassifier", "x", outputs=2, **vectors(3, kernel_type="POLY")),
        ml_node("SVMClassifier", "x", outputs=2, **vectors(3), **probable),
        ml_node("SVMClassifier", "whole", outputs=2, **vectors(2)),
        ml_node("SVMClassifier", "x", outputs=2, **vectors(2, post_transform="LOGISTIC")),
        ml_node("SVMClassifier", "x", outputs=2, **vectors(2, prob_a=[-1.5], prob_b=[0.25])),
        ml_node("SVMClassifier", "x", outputs=2, **{**linear, "coefficients": floats(3, 3)}),
        ml_node("SVMClassifier", "x", outputs=2, **{**two, "coefficients": floats(2, 3)}),
        ml_node("SVMClassifier", "x", outputs=2, **{**two, "coefficients": [0.1, 0.2, 0.3, 0.3, 0.1, 0.1]}),
        tolerance=1e-4,
        x=X,
        whole=WHOLE,
    )


def test_powers_that_are_not_whole():
    node = ml_node(
        "SVMRegressor", "x", coefficients=[1.0], support_vectors=[1.0], n_supports=1, rho=[0.0], kernel_type="POLY",
        kernel_params=[1.0, 0.0, 0.5],
    )  # fmt: skip
    x = np.array([[4.0], [9.0]], np.float32)
    np.testing.assert_allclose(jaxdml.onnx.load(ml_model(node, x=x))(x)[0], [[2], [3]], rtol=1e-6)


def test_coefficients_can_be_fitted():
    node = ml_node("LinearRegressor", "x", coefficients=[1.0, 0.0, 0.0], intercepts=[0.0])
    model = jaxdml.onnx.load(ml_model(node, x=X))
    gradient = jax.jit(jax.grad(lambda params: model.apply(params, X)[0].sum()))(dict(model.params))
    np.testing.assert_allclose(gradient["n0 packed"]["coefficients"][0], X.sum(0), rtol=1e-5)


ONE = {"coefficients": [1.0, 1.0, 1.0]}
LABELS = {"classlabels_ints": [0, 1]}


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (ml_node("Scaler", "x", offset=[1.0], scale=[1.0, 2.0]), "scale has 2 entries and offset 1"),
        (ml_node("Scaler", "x"), "scale has 0 entries"),
        (ml_node("Normalizer", "x", norm="L3"), "norm is 'L3', and must be one of MAX, L1, L2"),
        (ml_node("Imputer", "x"), "it must have one of imputed_value_floats and imputed_value_int64s"),
        (ml_node("FeatureVectorizer", "x", inputdimensions=[1, 2]), r"inputdimensions is \[1, 2\]; it must have a"),
        (ml_node("FeatureVectorizer", "x", inputdimensions=[-1]), r"inputdimensions is \[-1\]"),
        (ml_node("OneHotEncoder", "x", cats_strings=["a"]), "strings are not supported: encode them as integers"),
        (ml_node("OneHotEncoder", "x"), "it has no categories"),
        (ml_node("LabelEncoder", "x", keys_strings=["a"], values_int64s=[1]), "strings are not supported"),
        (ml_node("LabelEncoder", "x", keys_int64s=[1, 2], values_int64s=[1]), "as many values of one kind"),
        (ml_node("CategoryMapper", "x", cats_int64s=[1], cats_strings=["a"]), "it reads or makes texts or maps"),
        (ml_node("LinearRegressor", "x", **ONE, targets=2), "coefficients has 3 entries, which are not 2 rows"),
        (ml_node("LinearRegressor", "x", **ONE, targets=0), "targets must be at least 1"),
        (ml_node("LinearRegressor", "x", **ONE, intercepts=[1.0, 2.0]), "intercepts has 2 entries, and must have 0"),
        (ml_node("LinearClassifier", "x", outputs=2, **ONE), "it needs labels of classes"),
        (ml_node("LinearClassifier", "x", outputs=2, **ONE, **LABELS, intercepts=[0.0] * 3), "there are 2 classes"),
        (ml_node("LinearClassifier", "x", outputs=2, **ONE, classlabels_ints=[0]), "there are 1 classes"),
        (ml_node("LinearClassifier", "x", outputs=2, **ONE, **LABELS, post_transform="X"), "post_transform is 'X'"),
        (ml_node("SVMRegressor", "x", **ONE), "rho has 0 entries, and must have 1"),
        (ml_node("SVMRegressor", "x", **ONE, rho=[0.0], n_supports=-1), "n_supports is negative"),
        (ml_node("SVMRegressor", "x", **ONE, rho=[0.0], n_supports=2, support_vectors=[1.0] * 4), "coefficients has 3"),
        (ml_node("SVMRegressor", "x", **ONE, rho=[0.0], kernel_params=[1.0]), "kernel_params has 1 entries"),
        (ml_node("SVMRegressor", "x", **ONE, rho=[0.0], kernel_type="X"), "kernel_type is 'X'"),
        (ml_node("SVMClassifier", "x", outputs=2, **vectors(2, vectors_per_class=[4])), "two are needed"),
        (ml_node("SVMClassifier", "x", outputs=2, **vectors(3, coefficients=floats(5))), "of 3 classes need 12"),
        (ml_node("SVMClassifier", "x", outputs=2, **vectors(2), prob_a=[1.0]), "prob_b has 0 entries"),
        (ml_node("SVMClassifier", "x", outputs=2, **vectors(2), prob_b=[1.0]), "prob_b has 1 entries"),
        (ml_node("SVMClassifier", "x", outputs=2, **ONE, **LABELS), "rho has 0 entries"),
    ],
)
def test_what_is_refused(node, text):
    with pytest.raises(jaxdml.onnx.UnsupportedModelError, match=f"'n0', domain 'ai.onnx.ml', opset 3: .*{text}"):
        jaxdml.onnx.load(ml_model(node, x=X))


def test_a_default_of_several_elements():
    three = numpy_helper.from_array(np.arange(3))
    node = ml_node("LabelEncoder", "x", keys_tensor=three, values_tensor=three, default_tensor=three)
    with pytest.raises(jaxdml.onnx.UnsupportedModelError, match="default_tensor has 3 elements"):
        jaxdml.onnx.load(ml_model(node, version=4, x=WHOLE))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (ml_node("Scaler", "x", offset=[1.0] * 2, scale=[1.0] * 2), "has 2 entries in offset, and an input of shape"),
        (ml_node("Normalizer", "cube"), r"takes \[rows, features\]; got an input of shape \[1, 9, 3\]"),
        (ml_node("Imputer", "x", imputed_value_int64s=[1]), "has no imputed_value_floats, which an input of float32"),
        (ml_node("ZipMap", "x", classlabels_int64s=[1, 2]), "has labels for 2 columns"),
        (ml_node("ArrayFeatureExtractor", "x", "none"), "neither may be empty"),
        (ml_node("FeatureVectorizer", "x", "rows", inputdimensions=[1, 1]), "has inputs of 9, 2 rows"),
        (ml_node("LinearRegressor", "x", coefficients=[1.0, 2.0]), "takes 2 features; got an input of shape"),
        (
            ml_node("LinearClassifier", "x", outputs=2, **ONE, intercepts=[0.0], **LABELS, post_transform="PROBIT"),
            "PROBIT makes no two",
        ),
        (ml_node("SVMClassifier", "x", outputs=2, **vectors(2, post_transform="PROBIT")), "PROBIT makes no two"),
    ],
)
def test_inputs_that_do_not_fit(node, text):
    given = {"x": X, "none": np.zeros(0, np.int64), "rows": X[:2], "cube": X[None]}
    with pytest.raises(ValueError, match=text):
        jaxdml.onnx.load(ml_model(node, **given))(**given)
