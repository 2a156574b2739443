"""Select the first ``k`` elements, with an algorithm chosen by platform, size and dtype."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.exact_gather import take_along_last, take_tangents_along_last
from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._base.shapes import is_static
from jaxdml._kernels.selection import cpu, default, gpu
from jaxdml._kernels.selection.carried import select_carried
from jaxdml._kernels.selection.cpu import CPU
from jaxdml._kernels.selection.default import LAX_TOP_K_LIMIT
from jaxdml._kernels.selection.segments import SelectWithKeys, by_segments, with_keys
from jaxdml._kernels.selection.threshold import by_threshold
from jaxdml._kernels.selection.whole_axis import Select, by_float_top_k, by_integer_top_k, by_sort
from jaxdml._placement.layout import on_batch_shards
from jaxdml._placement.lowering import Forced, Form, Target, at_lowering

PACKED_LIMIT = 2**32
"""The longest axis whose positions fit 32 bits."""

PRUNINGS = CPU.pruning_of_few_rows, CPU.pruning_of_many_rows, default.PRUNING
"""The sizes from which sequences are pruned, on each of the platforms that prune."""


def _pruned(target: Target) -> Select:
    return cpu.pruned if target.platform == "cpu" else gpu.pruned if target.is_gpu else default.pruned


def _places_carried(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select in each sequence of a batch, without merging its dimensions."""

    def places(sequence: jax.Array) -> jax.Array:
        return select_carried(sequence[None], k, direction)[1][0]

    for _ in range(x.ndim - 1):
        places = jax.vmap(places)
    return places(x)


METHODS: dict[str, Callable[[Target], Select]] = {
    "sort": lambda target: by_sort,
    "integer_top_k": lambda target: by_integer_top_k,
    "float_top_k": lambda target: by_float_top_k,
    "repeated_maxima": lambda target: cpu.repeated_maxima,
    "threshold": lambda target: by_threshold,
    "chunk_maxima": _pruned,
    "tournament": lambda target: gpu.tournament,
    "carried": lambda target: _places_carried,
}

ONLY_ON = {"float_top_k": "cpu"}
"""The platform of each method that only one has: only the CPU orders float32 by its bits in every case."""

_FOR_EVERY_N = "sort", "integer_top_k", "float_top_k"
"""The methods that do not depend on the length of a sequence."""

_FOR_EVERY_BATCH = *_FOR_EVERY_N, "repeated_maxima", "threshold"
"""The methods that do not depend on the number of sequences."""


def form(target: Target, n: int, itemsize: int, k: int, forced: Forced | None) -> Form:
    """Say who serves: what selects ``k`` of ``n`` elements of this width where a program is lowered for ``target``."""
    if forced:
        forced.require(target)
    if not target.alone:
        merging = gpu.MERGING if target.is_gpu else default.MERGING
        within = _forced_segments(target, forced) if forced else _best_segments(target)
        return partial(_and_elements, find=partial(by_segments, devices=target.devices, select=within, merging=merging))
    carries = forced.method == "carried" if forced else target.platform == "tpu"
    if carries and why_not("carried", n, k, itemsize) is None:
        return partial(_in_rows, select=select_carried)
    if forced:
        find = METHODS[forced.method](target)
    else:
        find = (cpu if target.platform == "cpu" else gpu if target.is_gpu else default).best
    return partial(_and_elements, find=partial(_in_rows, select=find))


def _forced_segments(target: Target, forced: Forced) -> SelectWithKeys:
    return partial(with_keys, select=METHODS[forced.method](target))


def _best_segments(target: Target) -> SelectWithKeys:
    if target.is_gpu:
        return gpu.best_partitioned
    if target.platform == "cpu":
        return partial(default.best_partitioned, pruning=default.PRUNING)
    return default.best_partitioned


def _and_elements(x: jax.Array, k: int, direction: AxisDirection, *, find: Form) -> tuple[jax.Array, jax.Array]:
    """Return the elements at the indices that ``find`` returns, and these."""
    indices = find(x, k=k, direction=direction)
    return take_along_last(x, indices), indices


def _in_rows(x: jax.Array, k: int, direction: AxisDirection, *, select: Form) -> Any:
    """Merge the batch: XLA's CPU backend has a fast top-k of at most two dimensions."""
    *batch, n = x.shape
    found = select(x.reshape(math.prod(batch), n), k=k, direction=direction)
    return jax.tree.map(lambda part: part.reshape(*batch, k), found)


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


def select(x: jax.Array, k: int, direction: AxisDirection, forced: Forced | None) -> tuple[jax.Array, jax.Array]:
    """Return the first ``k`` elements of every sequence of ``x: [..., n]`` and their indices, both ``[..., k]``.

    The elements keep their bits.
    """

    @jax.custom_batching.custom_vmap
    def found(x: jax.Array) -> Any:
        choose = partial(form, n=x.shape[-1], itemsize=x.dtype.itemsize, k=k, forced=forced)
        return at_lowering(choose, x, k=k, direction=direction)

    @found.def_vmap
    def _(axis_size: int, batched: list[bool], x: jax.Array) -> tuple[Any, tuple[bool, bool]]:
        # An axis of vmap is one more batch dimension. The method is chosen again, for all sequences together.
        del axis_size, batched
        return on_batch_shards(found, x), (True, True)

    values, indices = found(lax.stop_gradient(x))
    return _of_floats(x, indices, values) if jnp.issubdtype(x.dtype, jnp.inexact) else values, indices


@jax.custom_jvp
def _of_floats(x: jax.Array, indices: jax.Array, values: jax.Array) -> jax.Array:
    """Return ``values``, and let them depend on ``x``, where they stand at ``indices``."""
    del x, indices
    return values


@_of_floats.defjvp
def _(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    return _of_floats(*primals), take_tangents_along_last(tangents[0], primals[1])
