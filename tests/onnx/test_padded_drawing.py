"""Random numbers do not depend on how much longer than what counts an array is."""

import jax
import numpy as np
import pytest

from jaxdml.onnx import UnsupportedModelError, load
from tests.kit import quick
from tests.onnx.padded import parsed, with_nan

pytestmark = quick

CONSTANTS = {"half": np.float32(0.5), "yes": np.array(True)}
DRAWN = """g (float[B, 2, L] x) => (y, z, n) {
    y = RandomNormalLike<scale=2.0>(x) t = Transpose<perm=[2, 0, 1]>(x) z = RandomUniformLike(t) n = Dropout(x)
}"""


def test_one_key_draws_the_same_numbers_for_every_capacity():
    proto = parsed(DRAWN, CONSTANTS)
    model, exact = load(proto, lengths={"B": [3], "L": [8]}), load(proto)
    key = jax.random.key(3)
    for sizes in ((2, 2, 5), (3, 2, 8), (3, 2, 3)):
        x = np.ones(sizes, np.float32)
        with with_nan():
            found = model(x, key=key)
        for one, wanted in zip(found, exact(x, key=key), strict=True):
            np.testing.assert_allclose(one, wanted, 1e-6)


REFUSED = {
    "the numbers for sizes": ("y = RandomNormalLike(x)", jax.random.key(0, impl="rbg")),
    "what is drawn for sizes": ("y = Dropout(x, half, yes)", jax.random.key(0)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_numbers_that_depend_on_sizes_are_refused(reason):
    body, key = REFUSED[reason]
    model = load(parsed(f"g (float[B, 2, L] x) => (y) {{ {body} }}", CONSTANTS), lengths={"L": [8]})
    with pytest.raises(UnsupportedModelError, match=reason):
        model(np.ones((2, 2, 5), np.float32), key=key)
