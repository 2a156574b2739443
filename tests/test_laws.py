"""What ``assert_same_bits`` says where a law does not hold."""

import numpy as np
import pytest

from tests.kit import assert_same_bits


@pytest.mark.parametrize(
    ("got", "want", "said"),
    [
        (np.float32([[0, np.nan]]), np.float32([[-0.0, np.nan]]),
            "1 of 2 elements differ:\n  (0, 0): got 0.0 (0x00000000), wanted -0.0 (0x80000000)"),
        (np.int8(-1), np.int8(1), "1 of 1 elements differ:\n  (): got -1 (0xff), wanted 1 (0x01)"),
        (np.complex64([1, complex(2, 0.0)]), np.complex64([1, complex(2, -0.0)]),
            "1 of 2 elements differ:\n"
            "  (1,): got (2+0j) (0x40000000 0x00000000), wanted (2-0j) (0x40000000 0x80000000)"),
        (np.zeros(9, np.int16), np.arange(9, dtype=np.int16), "8 of 9 elements differ:\n"
            + "\n".join(f"  ({i},): got 0 (0x0000), wanted {i} (0x000{i})" for i in range(1, 6))),
        (np.int8([1]), np.uint8([1]), "int8(1,), wanted uint8(1,)"),
        (np.int8([1]), np.int8([[1]]), "int8(1,), wanted int8(1, 1)"),
    ],
)  # fmt: skip
def test_what_differs_is_shown_with_its_bits(got, want, said):
    with pytest.raises(AssertionError) as caught:
        assert_same_bits(got, want)
    assert str(caught.value) == said
