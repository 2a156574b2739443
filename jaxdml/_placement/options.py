"""Know of the programs that XLA for CUDA compiles with options of jaxdml.

``INTEGERS``: XLA tries several tiles for a product, and takes the fastest. With one of 16 along K it adds each product
of int8 twice, since one instruction multiplies 32. An option names a file of tiles that XLA tries instead: the one
beside this file has none below 32 along K. Its newer fusion of products takes in what rounds by an addition. Two
kernels may run at the same time if neither needs the other's result.

``BLOCKS``: XLA takes the scales of blocks into the kernel of a product only if its newer fusion of products is on.

An option belongs to a whole program. What is traced for such a program may become a part of another one, and what is
computed while it is traced is another one. So it counts where a program is lowered, and ``jaxdml.jit`` says so there.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jax.experimental.xla_metadata import set_xla_metadata
from jax.interpreters import mlir

from jaxdml._placement.jax_versions import FUSES_BITS_WITH_PRODUCTS

INTEGERS, BLOCKS = "integers", "blocks"

_TILES = {"xla_gpu_gemm_autotuner_override_file": str(Path(__file__).with_name("tiles.txtpb"))}

_WHOLE = {"xla_gpu_experimental_force_split_k": 1}
"""XLA splits no K, whose sums it would store: the products that rely on options are cut into sections of K."""

_FUSING = {
    # XLA takes the bits of a float into the kernel of a product, so that an addition may round there.
    "xla_gpu_experimental_gemm_fusion_v2": True,
    # With that it would also let cuBLAS store the sums of small products, and round them later, which takes longer.
    "xla_gpu_cublas_fallback": False,
}

OPTIONS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        INTEGERS: {
            **_TILES,
            # Larger products that share an operand are not joined to one. Its sums would be stored, and its matrices
            # joined in each call. Smaller ones are faster if they are joined.
            "xla_gpu_dot_merger_threshold_mb": 6,
            # Kernels run at the same time if neither needs the other's result, as those of a block and of the shortcut
            # around it. Then they share no temporary buffers, which may take 1.6 times the memory.
            "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
            **(_FUSING if FUSES_BITS_WITH_PRODUCTS else {}),
            **_WHOLE,
        },
        BLOCKS: {
            "xla_gpu_experimental_gemm_fusion_v2": True,
            # In loops, too, whose weights are no parameters of the program.
            "xla_gpu_experimental_enable_subchannel_dequantisation_fusion": True,
            **_WHOLE,
        },
    }
)
"""The options of such a program, by the kind of the packed weights that it multiplies."""


def options_for(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a program: what is ``given`` counts before ``OPTIONS``, but for tiles, which sums need."""
    return {**OPTIONS[kind], **given, **(_TILES if kind == INTEGERS else {})}


_given: ContextVar[str] = ContextVar("jaxdml_options", default="")


@contextmanager
def with_options(kind: str) -> Iterator[None]:
    """Say with which ``OPTIONS`` programs are compiled that are lowered here; an empty text for none."""
    token = _given.set(kind)
    try:
        yield
    finally:
        _given.reset(token)


def traced_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for ``jax.jit`` with ``OPTIONS``: while it is traced, what JAX lowers is other programs."""

    @wraps(function)
    def within(*operands: Any, **others: Any) -> Any:
        with with_options(""):
            return function(*operands, **others)

    return within


def given(context: mlir.LoweringRuleContext) -> str:
    """Return the kind of ``OPTIONS`` of the program that is lowered; one that is exported is compiled elsewhere."""
    return "" if context.module_context.lowering_parameters.for_export else _given.get()


@contextmanager
def marked() -> Iterator[None]:
    """Mark products that rely on the tiles of ``INTEGERS``.

    XLA remembers the fastest tile by the text of a product. The mark is a part of that text, so that a tile that was
    the fastest without the option is not taken with it.
    """
    with set_xla_metadata(jaxdml_least_tile=32):  # type: ignore[no-untyped-call]
        yield
