"""Compile a function so that it may use the fastest products of its GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Literal, cast

import jax
from jax.extend.backend import get_backend
from jax.extend.core import get_opaque_trace_state
from jax.stages import Wrapped

from jaxdml._arguments.call import Call
from jaxdml._placement.jax_versions import FUSES_BITS_WITH_PRODUCTS
from jaxdml._placement.options import BLOCKS, OPTIONS, options_for, traced_alone, with_options

with jax.core.eval_context():
    _OUTSIDE = get_opaque_trace_state()  # type: ignore[no-untyped-call]


def jit(
    function: Callable[..., object], *, weights: Literal["integers", "blocks"] = "integers", **options: object
) -> Wrapped:
    """Compile as ``jax.jit`` does, and let products with packed weights use the matrix units of an NVIDIA GPU.

    Integers have the same bits; products of floats may be summed in another order. The program gets options of XLA.
    For integers these are options with which it multiplies int8 rightly for every K, and rounds in fewer operations.
    Without them jaxdml multiplies bfloat16 up to a K of 1024. Two kernels may run at the same time if neither needs
    the other's result, so temporary buffers may take 1.6 times the memory. For blocks these are options with which it
    makes floats of packed integers in the kernel of a product. Models of ``jaxdml.onnx`` are called so, if they have
    such weights, and initialized graphs of ``jaxdml.directml``, if they have packed integers.

    Args:
      function: what to compile.
      weights: what it multiplies by: "integers" for what ``prepack`` and ``prepack_filters`` return, "blocks" for what
        ``prepack_blocks`` returns. Weights of the other kind are multiplied as with ``jax.jit``.
      options: those of ``jax.jit``. Where the program gets options of jaxdml, ``compiler_options`` override them,
        except ``xla_gpu_gemm_autotuner_override_file``.

    Returns:
      A function with the methods ``lower``, ``trace``, ``eval_shape`` and ``clear_cache``, as that of ``jax.jit``, and
      ``takes_constants()``: whether arrays may as well be constants of the program of a call where this is asked. It
      does what ``jax.jit`` does on other devices, and within another trace, such as that of ``jax.jit``, ``jax.vmap``,
      ``jax.grad`` or ``jax.export``. So does a program that is lowered from its ``trace``. Where XLA divides a program
      between devices, products are those of ``jax.jit``, too, but the program has the options.

    Raises:
      ValueError: ``weights`` is neither.

    Source:
      JAX: ``jax.jit``.

    Example:
      >>> multiply = jaxdml.jit(jaxdml.matrix_multiply_integer)
      >>> packed = jaxdml.prepack(jnp.ones((64, 2), jnp.int8))
      >>> multiply(jnp.ones((1, 64), jnp.int8), None, packed, None)
      Array([[64, 64]], dtype=int32)
    """
    if weights not in OPTIONS:
        rule = f"weights must be one of {', '.join(OPTIONS)}; got {weights!r}."
        Call("jit").fail(ValueError, rule, "Pass the kind of the packed weights.")
    given: Any = options.pop("compiler_options", None) or {}
    plain: Any = jax.jit(function, **options)  # type: ignore[call-overload]
    optioned: Any = jax.jit(  # type: ignore[call-overload]
        traced_alone(function), compiler_options=options_for(weights, given), **options
    )

    def takes_constants() -> bool:
        """Whether XLA would take constants, as it takes arguments, into the kernels of products of a call here."""
        return FUSES_BITS_WITH_PRODUCTS and _is_outermost_on_cuda(weights)

    @wraps(function, updated=())
    def compiled(*operands: object, **named: object) -> Any:
        if not _is_outermost_on_cuda(weights):
            return plain(*operands, **named)
        with with_options(weights):
            return optioned(*operands, **named)

    def lower(*operands: object, **named: object) -> Any:
        if not _is_outermost_on_cuda(weights):
            return plain.lower(*operands, **named)
        with with_options(weights):
            return optioned.lower(*operands, **named)

    def clear_cache() -> None:
        plain.clear_cache()
        optioned.clear_cache()

    def _cache_size() -> int:
        """Return how many programs are compiled, as that of ``jax.jit`` does, which tests of programs ask."""
        return int(plain._cache_size()) + int(optioned._cache_size())

    vars(compiled).update(lower=lower, trace=plain.trace, eval_shape=plain.eval_shape, takes_constants=takes_constants)
    vars(compiled).update(clear_cache=clear_cache, _cache_size=_cache_size)
    return cast(Wrapped, compiled)


def _is_outermost_on_cuda(weights: str) -> bool:
    """Whether the program would be the outermost one, whose options JAX takes, and XLA for CUDA would compile it."""
    return get_opaque_trace_state() == _OUTSIDE and _on_cuda(weights)  # type: ignore[no-untyped-call]


@cache
def _on_cuda(weights: str) -> bool:
    is_cuda = jax.default_backend() == "gpu" and "cuda" in get_backend().platform_version.lower()
    serves = weights != BLOCKS or (FUSES_BITS_WITH_PRODUCTS and _has_tf32())
    return is_cuda and serves and _is_taken(OPTIONS[weights])


def _has_tf32() -> bool:
    """Whether the GPU multiplies float32 in its matrix units, as those of compute capability 8.0 and later do."""
    return float(getattr(jax.devices()[0], "compute_capability", 0)) >= 8


def _is_taken(options: dict[str, Any]) -> bool:
    """Whether XLA takes compiler options: other versions of it may have others."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
