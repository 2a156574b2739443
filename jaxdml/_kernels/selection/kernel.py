"""Select the first ``k`` elements, with an algorithm chosen by platform, size and dtype."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.exact_gather import take_along_last, take_tangents_along_last
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._base.shapes import is_static
from jaxdml._kernels.selection import cpu as _selection_cpu
from jaxdml._kernels.selection import default as _selection_default
from jaxdml._kernels.selection import gpu as _selection_gpu
from jaxdml._kernels.selection.carried import select_carried
from jaxdml._kernels.selection.cpu import CPU
from jaxdml._kernels.selection.default import LAX_TOP_K_LIMIT
from jaxdml._kernels.selection.segments import by_segments, with_keys
from jaxdml._kernels.selection.threshold import by_threshold
from jaxdml._kernels.selection.whole_axis import by_float_top_k, by_integer_top_k, by_sort
from jaxdml._placement.partitioning import by_partitioning, on_batch_shards
from jaxdml._placement.platforms import Forced, Kernel, run
from jaxdml._placement.when_lowered import Form

PACKED_LIMIT = 2**32
"""The longest axis whose positions fit 32 bits."""

PRUNINGS = CPU.pruning_of_few_rows, CPU.pruning_of_many_rows, _selection_default.PRUNING
"""The sizes from which sequences are pruned, on each of the platforms that prune."""

METHODS: dict[str, Kernel] = {
    "sort": Kernel(by_sort),
    "integer_top_k": Kernel(by_integer_top_k),
    # Only the CPU orders float32 by its bits in every case.
    "float_top_k": Kernel(cpu=by_float_top_k),
    "repeated_maxima": Kernel(_selection_cpu.repeated_maxima),
    "threshold": Kernel(by_threshold),
    "chunk_maxima": Kernel(_selection_default.pruned, _selection_cpu.pruned, _selection_gpu.pruned),
    "tournament": Kernel(_selection_gpu.tournament),
    "carried": Kernel(lambda x, k, direction: select_carried(x, k, direction)[1]),
}

CARRIED = "carried"
"""The method that returns the elements together with their indices."""

ONLY_ON = {name: "cpu" for name, kernel in METHODS.items() if kernel == Kernel(cpu=kernel.cpu)}
"""The platform of each method that only one platform has."""

_BEST = Kernel(_selection_default.best, _selection_cpu.best, _selection_gpu.best)

_BEST_PARTITIONED = Kernel(
    _selection_default.best_partitioned,
    partial(_selection_default.best_partitioned, pruning=_selection_default.PRUNING),
    _selection_gpu.best_partitioned,
)
"""Each returns keys too."""


_FOR_EVERY_N = "sort", "integer_top_k", "float_top_k"
"""The methods that do not depend on the length of a sequence."""

_FOR_EVERY_BATCH = *_FOR_EVERY_N, "repeated_maxima", "threshold"
"""The methods that do not depend on the number of sequences."""


def why_not(method: str, n: int, k: int, itemsize: int, rows: int = 1) -> str | None:
    """Say why ``method`` cannot select ``k`` of ``n`` elements of this width in ``rows``, or return None if it can."""
    if not is_static(n) and method not in _FOR_EVERY_N:
        return f"it needs to know n, which is the symbolic size {n}"
    if not is_static(rows) and method not in _FOR_EVERY_BATCH:
        return f"it needs to know the number of sequences, which is the symbolic size {rows}"

    def packed(limit: int) -> tuple[bool, str]:
        rule = f"it takes at most {limit} elements of at most 32 bits; these are {n} of {8 * itemsize}"
        return at_most(n, limit) is False or itemsize > 4, rule

    reasons = {
        "integer_top_k": (at_most(n, LAX_TOP_K_LIMIT) is False, f"it counts in int32 and n is {n}"),
        "float_top_k": packed(LAX_TOP_K_LIMIT),
        "repeated_maxima": packed(LAX_TOP_K_LIMIT),
        "threshold": packed(PACKED_LIMIT),
        "chunk_maxima": (at_most(4 * k, n) is False, f"it needs n >= 4 * k, and n is {n}, k is {k}"),
        "tournament": packed(LAX_TOP_K_LIMIT),
        "carried": packed(LAX_TOP_K_LIMIT),
    }
    applies, reason = reasons.get(method, (False, ""))
    return reason if applies else None


def select(
    x: jax.Array, k: int, direction: AxisDirection, implementation: Forced | None
) -> tuple[jax.Array, jax.Array]:
    """Return the first ``k`` elements of every sequence of ``x: [..., n]`` and their indices, both ``[..., k]``.

    The elements keep their bits.
    """
    values, indices = _found(lax.stop_gradient(x), k, direction, implementation)
    return _of_floats(x, indices, values) if jnp.issubdtype(x.dtype, jnp.inexact) else values, indices


@jax.custom_jvp
def _of_floats(x: jax.Array, indices: jax.Array, values: jax.Array) -> jax.Array:
    """Return ``values``, and let them depend on ``x``, where they stand at ``indices``."""
    del x, indices
    return values


@_of_floats.defjvp
def _(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    return _of_floats(*primals), take_tangents_along_last(tangents[0], primals[1])


def _found(
    x: jax.Array, k: int, direction: AxisDirection, implementation: Forced | None
) -> tuple[jax.Array, jax.Array]:
    @jax.custom_batching.custom_vmap
    def found(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _chosen(x, k, direction, implementation)

    @found.def_vmap
    def _(axis_size: int, batched: list[bool], x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], tuple[bool, bool]]:
        # An axis of vmap is one more batch dimension. The method is chosen again, for all sequences together.
        del axis_size, batched
        return on_batch_shards(found, x), (True, True)

    both: tuple[jax.Array, jax.Array] = found(x)
    return both


def _forced(implementation: Forced) -> Kernel:
    return METHODS[implementation.method]._replace(refusal=implementation.refusal)


def _chosen(
    x: jax.Array, k: int, direction: AxisDirection, implementation: Forced | None
) -> tuple[jax.Array, jax.Array]:
    def in_rows(form: Form) -> Form:
        # XLA's CPU backend has a fast top-k of at most two dimensions.
        def reshaped(x: jax.Array) -> Any:
            *batch, n = x.shape
            found = form(x.reshape(math.prod(batch), n), k=k, direction=direction)
            return jax.tree.map(lambda part: part.reshape(*batch, k), found)

        return reshaped

    def single(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        if implementation and implementation.method == CARRIED:
            return in_rows(select_carried)(x)
        elsewhere = _forced(implementation) if implementation else _BEST
        on_tpu = not implementation and why_not(CARRIED, x.shape[-1], k, x.dtype.itemsize) is None
        kernel = Kernel(
            partial(_and_elements, elsewhere.each(in_rows)), tpu=in_rows(select_carried) if on_tpu else None
        )
        found: tuple[jax.Array, jax.Array] = run(kernel, x)
        return found

    def partitioned(devices: int, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def in_segments(platform: str) -> Form | None:
            if implementation:
                forced = getattr(METHODS[implementation.method], platform)
                select = forced and with_keys(forced)
            else:
                select = getattr(_BEST_PARTITIONED, platform)
            merging = _selection_gpu.MERGING if platform == "gpu" else _selection_default.MERGING
            given: dict[str, Any] = {"k": k, "direction": direction, "devices": devices}
            return select and partial(by_segments, select=select, merging=merging, **given)

        return _and_elements(Kernel.of(in_segments, implementation.refusal if implementation else ""), x)

    both: tuple[jax.Array, jax.Array] = by_partitioning(single, partitioned, x)
    return both


def _and_elements(kernel: Kernel, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the elements at the indices that a kernel returns, and these."""
    indices = run(kernel, x)
    return take_along_last(x, indices), indices
