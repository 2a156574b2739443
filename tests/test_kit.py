"""The example in docs/contributing.md, and that it is this file."""

from pathlib import Path

import numpy as np
from hypothesis import given

import jaxdml
from jaxdml import reference
from tests.kit import assert_same_bits, data, grid, kinds, seeds


@grid(dtype=("float32", "int8"), axis=(0, -1))
@given(kind=kinds, seed=seeds)
def test_argmax_is_the_oracles(dtype, axis, kind, seed):
    x = data(kind, seed, (4, 6), np.dtype(dtype))
    got, want = jaxdml.argmax(x, axis=axis), reference.argmax(x, axis=axis)
    assert_same_bits(got, want)


def test_the_page_shows_this_file():
    page = (Path(__file__).parents[1] / "docs" / "contributing.md").read_text(encoding="utf-8")
    example = page.split("This is `tests/test_kit.py`")[1].split("```python\n")[1].split("```")[0]
    imports, test = example.split("\n\n\n")
    here = Path(__file__).read_text(encoding="utf-8")
    assert imports in here
    assert test in here
