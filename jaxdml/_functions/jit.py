"""Compile a function so that it may use the fastest exact products of its GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, cast

import jax
from jax.extend.backend import get_backend
from jax.extend.core import get_opaque_trace_state
from jax.stages import Wrapped

from jaxdml._placement import tiles

with jax.core.eval_context():
    _OUTSIDE = get_opaque_trace_state()  # type: ignore[no-untyped-call]


def jit(function: Callable[..., object], **options: object) -> Wrapped:
    """Compile as ``jax.jit`` does, and let products with packed matrices use the int8 units of an NVIDIA GPU.

    Integers have the same bits; products of floats may be summed in another order. The program gets options with
    which XLA multiplies int8 rightly for every K. Without them jaxdml multiplies bfloat16 up to a K of 1024. Models of
    ``jaxdml.onnx`` and initialized graphs of ``jaxdml.directml`` are called so, if they have packed 8-bit weights.

    Args:
      function: what to compile.
      options: those of ``jax.jit``.

    Returns:
      A function with the methods ``lower``, ``trace``, ``eval_shape`` and ``clear_cache``, as that of ``jax.jit``. It
      does what ``jax.jit`` does on other devices, and within another trace, such as that of ``jax.jit``, ``jax.vmap``,
      ``jax.grad`` or ``jax.export``. So does a program that is lowered from its ``trace``. For several devices products
      are those of ``jax.jit``, too, but the program has the options.

    Source:
      JAX: ``jax.jit``.

    Example:
      >>> multiply = jaxdml.jit(jaxdml.matrix_multiply_integer)
      >>> packed = jaxdml.prepack(jnp.ones((64, 2), jnp.int8))
      >>> multiply(jnp.ones((1, 64), jnp.int8), None, packed, None)
      Array([[64, 64]], dtype=int32)
    """
    given: Any = options.pop("compiler_options", None) or {}
    plain: Any = jax.jit(function, **options)  # type: ignore[call-overload]
    with_option: Any = jax.jit(  # type: ignore[call-overload]
        tiles.traced_alone(function), compiler_options={**given, **tiles.OPTIONS}, **options
    )

    @wraps(function, updated=())
    def compiled(*operands: object, **named: object) -> Any:
        if not _is_outermost_on_cuda():
            return plain(*operands, **named)
        with tiles.with_option():
            return with_option(*operands, **named)

    def lower(*operands: object, **named: object) -> Any:
        if not _is_outermost_on_cuda():
            return plain.lower(*operands, **named)
        with tiles.with_option():
            return with_option.lower(*operands, **named)

    def clear_cache() -> None:
        plain.clear_cache()
        with_option.clear_cache()

    vars(compiled).update(lower=lower, trace=plain.trace, eval_shape=plain.eval_shape, clear_cache=clear_cache)
    return cast(Wrapped, compiled)


def _is_outermost_on_cuda() -> bool:
    """Whether the program would be the outermost one, whose options JAX takes, and XLA for CUDA would compile it."""
    return get_opaque_trace_state() == _OUTSIDE and _on_cuda()  # type: ignore[no-untyped-call]


@cache
def _on_cuda() -> bool:
    is_cuda = jax.default_backend() == "gpu" and "cuda" in get_backend().platform_version.lower()
    return is_cuda and _is_taken(tiles.OPTIONS)


def _is_taken(options: dict[str, Any]) -> bool:
    """Whether XLA takes compiler options: other versions of it may have others."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
