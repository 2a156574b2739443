"""The worked examples of the sources hold, for the operators and for their oracles."""

import jax
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from jaxdml._cases import OPERATORS, dimensions
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


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("tame", [False, True])
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_a_sample_has_the_dimensions_of_the_record(operator, tame, times):
    sizes = {letter: times * size for letter, size in operator.sizes.items()}
    arguments = operator.sample(np.random.default_rng(0), tame, **sizes)
    results = jax.tree.leaves(getattr(reference, operator.name)(*arguments, **operator.options))
    dims = dimensions.of(operator.dimensions)
    for array, letters in zip((*arguments, *results), (*dims.arguments, *dims.results), strict=True):
        assert array.ndim == len(letters)
        assert [sizes.get(letter, n) for letter, n in zip(letters, array.shape, strict=True)] == list(array.shape)
