"""Know of the programs in which XLA for CUDA multiplies int8 rightly, whatever K is.

XLA tries several tiles for a product, and takes the fastest. With one of 16 along K it adds each product of int8 twice,
since one instruction multiplies 32. An option of a program names a file of tiles that XLA tries instead: the one beside
this file has none below 32 along K. Whether a program will be compiled with the option is not known where it is
lowered. So what is traced for such a program is marked.

XLA keeps which tile was the fastest, by the text of a product, and takes it in other programs too. The mark is part of
that text, so that a product without the option is never taken for one with it.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from jax.experimental.xla_metadata import set_xla_metadata
from jax.interpreters import mlir

_MARK = "jaxdml_least_tile"

OPTIONS = {"xla_gpu_gemm_autotuner_override_file": str(Path(__file__).with_name("tiles.txtpb"))}
"""The option of such a program."""


def marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose traces are marked as those of a program with ``OPTIONS``."""

    @wraps(function)
    def within(*operands: Any, **others: Any) -> Any:
        with set_xla_metadata(**{_MARK: 32}):  # type: ignore[no-untyped-call]
            return function(*operands, **others)

    return within


def is_marked(context: mlir.LoweringRuleContext) -> bool:
    """Whether an operation is lowered for a program with ``OPTIONS``; an exported one is compiled by others."""
    marks = context.jaxpr_eqn_ctx and context.jaxpr_eqn_ctx.xla_metadata
    return _MARK in (marks or ()) and not context.module_context.lowering_parameters.for_export
