"""What argmin does otherwise than argmax; tests/test_argmax.py has the laws of both."""

import numpy as np
import pytest

import jaxdml
from tests.kit import quick


def test_a_nan_is_chosen_where_top_k_takes_the_least_number():
    x = np.float32([2, np.nan, -np.inf, 1, -np.nan])
    assert jaxdml.argmin(x) == 1
    assert jaxdml.argmin(x, select_last_index=True) == 4
    assert jaxdml.top_k(x, 1, direction="increasing").indices.tolist() == [2]


def test_the_smallest_integer_is_the_least():
    x = np.array([0, 127, -128, -127, -128], np.int8)
    assert (int(jaxdml.argmin(x)), int(jaxdml.argmax(x))) == (2, 1)


@quick
def test_an_error_names_the_operator():
    with pytest.raises(ValueError, match=r"^jaxdml.argmin: axis 0 must have elements to choose from"):
        jaxdml.argmin(np.zeros(0, np.float32))
