"""A few of the graphs that ``python -m tests.onnx.random_input_lengths`` draws."""

from collections import Counter

import pytest

from tests.kit import quick
from tests.onnx import random_input_lengths

pytestmark = quick


@pytest.mark.parametrize("number", range(4))
def test_one_program_returns_what_programs_for_each_length_do(number):
    seen = Counter()
    assert not random_input_lengths.problems(random_input_lengths.draw(11, number), seen)
    assert seen["calls"]
