"""The worked examples of the sources hold, for the operators and for their oracles."""

import pytest

import jaxdml
from jaxdml import reference
from jaxdml._cases import OPERATORS
from tests.kit import assert_same_bits, quick

EXAMPLES = [example for operator in OPERATORS for example in operator.examples]


@quick
@pytest.mark.parametrize("module", [jaxdml, reference], ids=["jax", "oracle"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.operator} {example.options}")
def test_worked_examples(module, example):
    got = getattr(module, example.operator)(*example.arguments, **example.options)
    outputs = got if isinstance(got, tuple) else (got,)
    for output, expected in zip(outputs, example.expected, strict=True):
        assert_same_bits(output, expected)
