"""What is marked as quick is compiled with other options, and nothing else is."""

import jax
import numpy as np
import pytest

from tests.kit import THOROUGH, as_shipped, compiling
from tests.kit.compiling import quickly

pytestmark = [
    compiling.quick,
    pytest.mark.skipif(compiling.quick_options() is None, reason="there are no such options"),
    pytest.mark.skipif(THOROUGH, reason="the thorough profile compiles as users do"),
]


@pytest.fixture(autouse=True)
def _unknown_option(monkeypatch):
    """Add an option that XLA does not know, so that nothing can be compiled with these options."""
    monkeypatch.setitem(compiling.OPTIONS, "xla_no_such_option", 1)


def test_what_is_marked_is_compiled_with_the_options():
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        jax.jit(lambda x: x + 1)(np.float32(1))


@as_shipped
def test_what_is_about_machine_code_is_compiled_as_users_do():
    assert jax.jit(lambda x: x + 1)(np.float32(1)) == 2


@as_shipped
def test_a_program_that_was_compiled_quickly_is_compiled_again(monkeypatch):
    monkeypatch.delitem(compiling.OPTIONS, "xla_no_such_option")
    traced = []
    call = jax.jit(lambda x: traced.append(x) or x + 1)
    with quickly():
        call(np.float32(1))
    for _ in range(2):
        call(np.float32(1))
        assert len(traced) == 2
