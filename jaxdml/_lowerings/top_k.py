"""Choose the method that selects: by platform, by size, by dtype."""

from collections.abc import Callable
from functools import partial

import jax

from jaxdml._algorithms import selection
from jaxdml._algorithms.selection import Select
from jaxdml._algorithms.threshold import by_threshold
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._lowerings import top_k_elsewhere, top_k_on_cpu, top_k_on_gpu
from jaxdml._lowerings._platform import by_platform
from jaxdml._lowerings.top_k_elsewhere import LAX_TOP_K_LIMIT

LONGEST_PACKED = 2**32
"""Positions that have 32 bits."""

PRUNINGS = top_k_on_cpu.PRUNING_OF_FEW_ROWS, top_k_on_cpu.PRUNING_OF_MANY_ROWS, top_k_elsewhere.PRUNING


def _by_platform(*, cpu: Select, default: Select, gpu: Select | None = None) -> Select:
    def select(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
        def branch(method: Select) -> Callable[[jax.Array], jax.Array]:
            return lambda x: method(x, k, direction)

        on_gpus = {"cuda": branch(gpu), "rocm": branch(gpu)} if gpu else {}
        return by_platform(x, cpu=branch(cpu), default=branch(default), **on_gpus)

    return select


def _float_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    # No default: only the CPU orders float32 by its bits in every case, so lowering fails anywhere else.
    return by_platform(x, cpu=partial(selection.by_float_top_k, k=k, direction=direction))


METHODS: dict[str, Select] = {
    "sort": selection.by_sort,
    "integer_top_k": selection.by_integer_top_k,
    "float_top_k": _float_top_k,
    "repeated_maxima": top_k_on_cpu.repeated_maxima,
    "threshold": by_threshold,
    "chunk_maxima": _by_platform(
        cpu=top_k_on_cpu.by_chunk_maxima,
        gpu=top_k_on_gpu.by_chunk_maxima,
        default=top_k_elsewhere.by_chunk_maxima,
    ),
    "tournament": top_k_on_gpu.by_rounds,
}

_AUTOMATIC = _by_platform(cpu=top_k_on_cpu.choose, gpu=top_k_on_gpu.choose, default=top_k_elsewhere.choose)


def why_not(method: str, n: int, k: int, itemsize: int) -> str | None:
    """Say why ``method`` cannot select ``k`` of ``n`` elements of this width, or return None where it can."""

    def at_most(limit: int) -> tuple[bool, str]:
        rule = f"it takes at most {limit} elements of at most 32 bits; these are {n} of {8 * itemsize}"
        return n > limit or itemsize > 4, rule

    packed = at_most(LAX_TOP_K_LIMIT)
    reasons = {
        "integer_top_k": (n > LAX_TOP_K_LIMIT, f"it counts in int32 and n is {n}"),
        "float_top_k": packed,
        "repeated_maxima": packed,
        "threshold": at_most(LONGEST_PACKED),
        "chunk_maxima": (n < 4 * k, f"it needs n >= 4 * k, and n is {n}, k is {k}"),
        "tournament": packed,
    }
    applies, reason = reasons.get(method, (False, ""))
    return reason if applies else None


def select(x: jax.Array, k: int, direction: AxisDirection, implementation: str | None) -> jax.Array:
    """Return the indices of the first ``k`` of every row of ``x: [b, n]``."""
    method = METHODS[implementation] if implementation else _AUTOMATIC

    @jax.custom_batching.custom_vmap
    def indices(x: jax.Array) -> jax.Array:
        return method(x, k, direction)

    @indices.def_vmap
    def _(axis_size: int, batched: list[bool], x: jax.Array) -> tuple[jax.Array, bool]:
        # An axis of vmap is more rows: the method is chosen again, for all of them.
        rows, n = x.shape[1:]
        return indices(x.reshape(axis_size * rows, n)).reshape(axis_size, rows, k), True

    return indices(x)
