"""What the tests of all gathers share."""

import jax
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from tests.kit.laws import assert_same_bits
from tests.kit.scattering import any_values

MODES = ["clip", "fill", "promise_in_bounds"]


def fill_of(rng, mode, dtype):
    """Draw an element of ``dtype`` to fill with, any bits of it; None for another mode."""
    return any_values(rng, (), dtype)[()] if mode == "fill" else None


def check(name, x, indices, **options):
    """Compare an operator with the oracle: eagerly, and traced where JAX does not cut the indices."""
    expected = getattr(reference, name)(x, indices, **options)
    operator = getattr(jaxdml, name)
    assert_same_bits(operator(jax.device_put(x), indices, **options), expected)


def mapped(operator, oracle, in_axes, x, indices):
    """Compare ``vmap`` with a loop; both arguments have 3 members along their axis 0, of which None takes the first."""
    arguments = [
        part[0] if axis is None else np.moveaxis(part, 0, axis)
        for part, axis in zip((x, indices), in_axes, strict=True)
    ]
    got = jax.vmap(operator, in_axes=in_axes)(*arguments)
    for i in range(3):
        one = [part[0 if axis is None else i] for part, axis in zip((x, indices), in_axes, strict=True)]
        assert_same_bits(got[i], oracle(*one))


def refuse(call, error, rule, operands, advice):
    """Require a call to raise ``error`` with this message of three lines while it is traced."""
    with pytest.raises(error) as caught:
        jax.eval_shape(call)
    assert caught.type is error
    assert str(caught.value) == f"{rule}\n  {operands}\n  {advice}"
