"""Strictness, switched on for every test."""

import os

import hypothesis
import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

_common = {"deadline": None, "print_blob": True, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=25, **_common)
hypothesis.settings.register_profile("default", max_examples=25, **_common)
hypothesis.settings.register_profile("thorough", max_examples=400, **_common)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


@pytest.fixture(scope="module", autouse=True)
def _released():
    """Let go of what a module compiled: Linux allows a process 65,530 memory maps, and every program takes some."""
    yield
    jax.clear_caches()
