"""Domains that a file imports twice, or not at all: as in onnxruntime."""

import numpy as np
import onnx
import onnx.parser
import pytest

import jaxdml.onnx
from jaxdml.onnx import nodes
from tests.kit import quick
from tests.onnx.broken import parsed, refused
from tests.onnx.sessions import session

pytestmark = quick

X = np.float32([-1, 3])
GELU = "{ y = com.microsoft.Gelu(x) }"
BY_INPUT = "{ axes = Constant<value = int64[1] {0}>() z = Unsqueeze(x, axes) y = Squeeze(z, axes) }"
"""From version 13 on."""


def importing(body, *imports):
    model = parsed(body)
    del model.opset_import[:]
    for domain, version in imports:
        model.opset_import.add(domain=domain, version=version)
    return model


def expected_lines(model, *lines):
    loaded = jaxdml.onnx.load(model)
    assert loaded.graph.remarks == lines
    assert loaded.report().endswith("\n".join(("", *lines)))


@pytest.mark.parametrize(
    ("body", "imports", "line"),
    [
        (GELU, [("", 17)], "Domain 'com.microsoft' is not imported; it is read as version 1."),
        (
            "{ y = Relu(x) }",
            [("com.microsoft", 1)],
            f"Domain 'ai.onnx' is not imported; it is read as version {onnx.defs.onnx_opset_version()}.",
        ),
    ],
)
def test_domains_that_are_not_imported(body, imports, line):
    model = importing(body, *imports)
    expected_lines(model, line)
    np.testing.assert_allclose(jaxdml.onnx.load(model)(X)[0], session(model)(x=X)["y"], rtol=1e-6)


def test_no_domain_is_imported():
    expected_lines(
        importing("{ z = com.microsoft.Gelu(x) w = Relu(z) y = com.microsoft.Gelu(w) }"),
        "Domain 'com.microsoft' is not imported; it is read as version 1.",
        f"Domain 'ai.onnx' is not imported; it is read as version {onnx.defs.onnx_opset_version()}.",
    )


@pytest.mark.parametrize("names", [("", "ai.onnx"), ("ai.onnx", ""), ("", "")])
def test_the_last_of_two_imports_counts(names):
    first, second = names
    model = importing(BY_INPUT, (first, 12), (second, 17))
    np.testing.assert_array_equal(jaxdml.onnx.load(model)(X)[0], X)
    np.testing.assert_array_equal(session(model)(x=X)["y"], X)
    expected_lines(
        model, "The model imports domain 'ai.onnx' in versions 12 and 17; the last counts, as in onnxruntime."
    )
    model = importing(BY_INPUT, (first, 17), (second, 12))
    refused(model, "opset 12: it has 2 inputs; 1 to 1 are expected")
    with pytest.raises(Exception, match="invalid model"):
        session(model)


def test_two_imports_that_agree():
    model = importing("{ y = Relu(x) }", ("", 17), ("ai.onnx", 17))
    np.testing.assert_array_equal(jaxdml.onnx.load(model)(X)[0], [0, 3])
    assert "import" not in jaxdml.onnx.load(model).report()


def test_operators_that_nobody_knows_need_an_import():
    refused(importing("{ y = Nope(x) }"), "domain 'ai.onnx', of which no version is imported", "Imported: nothing.")
    refused(parsed("{ y = com.microsoft.Nope(x) }"), "domain 'com.microsoft', of which no version is imported")


def test_functions_take_what_the_model_imports():
    head = '<ir_version: 10, opset_import: ["": 13, "own": 1]> g (float[2] x) => (float[2] y) { y = own.a(x) }'
    body = ' <domain: "own", opset_import: ["com.microsoft": 1]> a (p) => (r) { k = com.microsoft.Gelu(p) r = Relu(k) }'
    model = jaxdml.onnx.load(onnx.parser.parse_model(head + body))
    assert [node.opset for node in model.graph.nodes] == [1, 13]


def test_operators_that_are_expanded(monkeypatch):
    kind = ("", "MeanVarianceNormalization")
    monkeypatch.setattr(nodes, "OPERATORS", {key: found for key, found in nodes.OPERATORS.items() if key != kind})
    model = importing("{ y = MeanVarianceNormalization<axes = [0]>(x) }")
    loaded = jaxdml.onnx.load(model)
    np.testing.assert_allclose(loaded(X)[0], [-1, 1], rtol=1e-5)
    assert loaded.report().endswith(f"it is read as version {onnx.defs.onnx_opset_version()}.")
