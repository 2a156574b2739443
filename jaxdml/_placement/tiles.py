"""Know of the programs in which XLA for CUDA multiplies int8 rightly, whatever K is.

XLA tries several tiles for a product, and takes the fastest. With one of 16 along K it adds each product of int8 twice,
since one instruction multiplies 32. An option of a program names a file of tiles that XLA tries instead: the one beside
this file has none below 32 along K.

An option belongs to a whole program. What is traced for such a program may become a part of another one, and what is
computed while it is traced is another one. So it counts where a program is lowered, and ``jaxdml.jit`` says so there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

from jax.experimental.xla_metadata import set_xla_metadata
from jax.interpreters import mlir

OPTIONS: dict[str, Any] = {
    "xla_gpu_gemm_autotuner_override_file": str(Path(__file__).with_name("tiles.txtpb")),
    # Larger products that share an operand are not joined to one. Its sums would be stored, and its matrices joined in
    # each call. Smaller ones are faster if they are joined.
    "xla_gpu_dot_merger_threshold_mb": 6,
    # XLA splits no K, whose sums it would store: the products that rely on these options are cut into sections of K.
    "xla_gpu_experimental_force_split_k": 1,
}
"""The options of such a program."""

_given: ContextVar[bool] = ContextVar("jaxdml_tiles", default=False)


@contextmanager
def with_option(given: bool = True) -> Iterator[None]:
    """Say whether programs that are lowered here are compiled with ``OPTIONS``."""
    token = _given.set(given)
    try:
        yield
    finally:
        _given.reset(token)


def traced_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for ``jax.jit`` with ``OPTIONS``: while it is traced, what JAX lowers is other programs."""

    @wraps(function)
    def within(*operands: Any, **others: Any) -> Any:
        with with_option(False):
            return function(*operands, **others)

    return within


def is_given(context: mlir.LoweringRuleContext) -> bool:
    """Whether the program that is lowered is compiled with ``OPTIONS``; one that is exported is compiled elsewhere."""
    return _given.get() and not context.module_context.lowering_parameters.for_export


@contextmanager
def marked() -> Iterator[None]:
    """Mark products that rely on ``OPTIONS``.

    XLA remembers the fastest tile by the text of a product. The mark is a part of that text, so that a tile that was
    the fastest without the option is not taken with it.
    """
    with set_xla_metadata(jaxdml_least_tile=32):  # type: ignore[no-untyped-call]
        yield
