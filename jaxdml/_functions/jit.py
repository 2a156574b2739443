"""Compile a function so that it may use the fastest exact products of its GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, update_wrapper
from typing import Any

import jax
from jax.extend.backend import get_backend
from jax.extend.core import get_opaque_trace_state
from jax.stages import Lowered, Traced

from jaxdml._placement import tiles

with jax.ensure_compile_time_eval():
    _OUTSIDE = get_opaque_trace_state()  # type: ignore[no-untyped-call]


def jit(function: Callable[..., object], **options: object) -> Jitted:
    """Compile as ``jax.jit`` does, and let jaxdml use the int8 units of an NVIDIA GPU for products of every size.

    Results have the same bits. The program gets an option with which XLA multiplies int8 rightly for every K; without
    it, up to a K of 1024, jaxdml multiplies bfloat16. Models of ``jaxdml.onnx`` with weights of 8 bits, and graphs of
    ``jaxdml.directml``, are called so.

    Args:
      function: what to compile.
      options: those of ``jax.jit``.

    Returns:
      A function like that of ``jax.jit``. On other devices, and within another trace such as that of ``jax.jit``,
      ``jax.grad`` or ``jax.export``, it is that one.

    Source:
      JAX: ``jax.jit``.

    Example:
      >>> multiply = jaxdml.jit(jaxdml.matrix_multiply_integer)
      >>> multiply(jnp.array([[1, 2]], jnp.int8), None, jnp.array([[3], [4]], jnp.int8), None)
      Array([[11]], dtype=int32)
    """
    return Jitted(function, options)


class Jitted:
    """A compiled function."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._plain: Any = jax.jit(function, **options)
        compiler_options = {**(options.pop("compiler_options", None) or {}), **tiles.OPTIONS}
        self._tiled: Any = jax.jit(tiles.marked(function), compiler_options=compiler_options, **options)
        update_wrapper(self, function)

    def __call__(self, *operands: object, **named: object) -> Any:
        """Compute the function."""
        return self._chosen(*operands, **named)

    def trace(self, *operands: object, **named: object) -> Traced:
        """Trace the function for such operands."""
        return self._chosen.trace(*operands, **named)

    def lower(self, *operands: object, **named: object) -> Lowered:
        """Lower the function for such operands."""
        return self._chosen.lower(*operands, **named)

    def clear_cache(self) -> None:
        """Let go of all that was compiled."""
        self._plain.clear_cache()
        self._tiled.clear_cache()

    @property
    def _chosen(self) -> Any:
        traced = get_opaque_trace_state() != _OUTSIDE  # type: ignore[no-untyped-call]
        return self._plain if traced or not _on_cuda() else self._tiled


@cache
def _on_cuda() -> bool:
    return jax.default_backend() == "gpu" and "cuda" in get_backend().platform_version.lower()
