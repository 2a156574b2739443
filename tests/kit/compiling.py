"""Have XLA's CPU backend make code in less time, for tests that are not about the code that it makes.

The options concern how machine code is made of a program: without LLVM's optimizations, in one piece, and by the older
and simpler emitters. What a program computes they leave alone. So the laws of an operator, and whatever depends on
rounding, are tested as users compile; transformations, meshes, checks and bindings are not. The thorough profile
compiles all that is marked as users do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import pytest

from tests.kit.grids import THOROUGH

OPTIONS = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
}

quick = pytest.mark.quick
"""Marks a test, or in ``pytestmark`` a module, all of whose programs take these options: ``tests/conftest.py``."""

as_shipped = pytest.mark.quick(False)
"""Marks a test of such a module whose programs are compiled as users compile."""

# Programs that were compiled with other options are others.
_options = jax.make_user_context(None)


@cache
def quick_options() -> dict[str, Any] | None:
    """Return the options, with which XLA takes a quarter of the time; None where there are none."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=OPTIONS)(0)
    except jax.errors.JaxRuntimeError:  # Another XLA has other options.
        return None
    return OPTIONS


def compiled(function: Any, **options: Any) -> Any:
    """Return ``jax.jit`` of the function, with these options."""
    return jax.jit(function, compiler_options=quick_options(), **options)


@contextmanager
def quickly() -> Iterator[None]:
    """Compile every program with these options, those of single operations and of ``jit`` within the library too."""
    # JAX has no public way to say it once for all programs. Without this one, they take their time.
    compiler = getattr(jax._src, "compiler", None)
    usual = getattr(compiler, "get_compile_options", None)
    if THOROUGH or usual is None or quick_options() is None:
        yield
        return

    def with_options(*args: Any, env_options_overrides: dict[str, Any] | None = None, **rest: Any) -> Any:
        return usual(*args, env_options_overrides=OPTIONS | (env_options_overrides or {}), **rest)

    compiler.get_compile_options = with_options
    try:
        with _options("quick"):
            yield
    finally:
        compiler.get_compile_options = usual
