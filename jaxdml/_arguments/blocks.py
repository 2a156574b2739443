"""Check the scale and the zero point of an array that is quantized or dequantized; run a function on every shard."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxdml._arguments import quantized
from jaxdml._arguments.call import Call
from jaxdml._base.dtypes import SCALES
from jaxdml._base.shapes import broadcasts_to
from jaxdml._kernels.quantization import on_shard
from jaxdml._placement.layout import Layout, Names, layout, run

Blocks = tuple[tuple[int, int], ...]
"""Axes, each with the size of its blocks."""


class BlockPlan(NamedTuple):
    """Hold what is static of a call; ``run_by_blocks`` takes it with the operands."""

    blocks: tuple[Blocks, Blocks]
    """Of the scale and of the zero point: the axes along which they have one value for each block."""

    axes: tuple[int, ...]
    """All axes that are divided into blocks; ``where`` has the mesh axes of each."""

    where: Layout


def scale_of(call: Call) -> jax.Array:
    """Return the scale; what has no dtype of its own becomes float32."""
    dtype = np.dtype("float32")
    if hasattr(call.operands["scale"], "dtype"):
        given = call.array("scale")
        if not jax.typeof(given).weak_type:
            call.dtype("scale", SCALES)
            dtype = given.dtype
    return quantized.of_dtype(call, "scale", dtype)


def plan(
    call: Call, x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, axis: Any, block_size: Any
) -> tuple[tuple[jax.Array | None, ...], BlockPlan]:
    """Return ``x``, the scale and the zero point, all of the rank of ``x``, and what is static."""
    blocks = _blocks(call, x, axis, block_size)
    parameters = [_aligned(call, name, given, x, axis, blocks) for name, given in _named(scale, zero_point)]
    divided = tuple(_divided(x, given, blocks or ()) for given in parameters)
    axes = tuple(dict.fromkeys(axis for one in divided for axis, _ in one))
    labels = tuple(range(x.ndim))
    where = layout(
        [(x, labels), *((given, _labels(x, given, axes)) for given in parameters)],
        result=labels,
        combined=dict.fromkeys(axes, ()),
        deciding=1,
        fail=partial(call.fail, ValueError, advice=""),
    )
    return (x, *parameters), BlockPlan((divided[0], divided[1]), axes, where)


def run_by_blocks(
    function: Callable[..., jax.Array], operands: tuple[jax.Array | None, ...], plan: BlockPlan, **static: Any
) -> jax.Array:
    """Call ``function`` on ``x``, the scale and the zero point, on every shard; they broadcast against ``x``."""
    how = {"function": function, "blocks": plan.blocks, "axes": plan.axes}
    result: jax.Array = run(_spread, plan.where, *operands, **how, **static)
    return result


def _spread(
    x: jax.Array,
    *parameters: jax.Array | None,
    over: tuple[Names, ...],
    function: Callable[..., jax.Array],
    blocks: tuple[Blocks, Blocks],
    axes: tuple[int, ...],
    **static: Any,
) -> jax.Array:
    """Give each element of this shard its parameters; ``over`` has the mesh axes of each of the ``axes``."""
    mesh_axes = dict(zip(axes, over, strict=True))
    spread = []
    for given, divided in zip(parameters, blocks, strict=True):
        one = given
        for axis, block in divided:
            one = on_shard(one, axis, block, x.shape[axis], mesh_axes[axis])  # type: ignore[arg-type]
        spread.append(one)
    return function(x, *spread, **static)


def _named(scale: jax.Array, zero_point: jax.Array | None) -> tuple[tuple[str, jax.Array | None], ...]:
    return ("scale", scale), ("zero_point", zero_point)


def _blocks(call: Call, x: jax.Array, axis: Any, block_size: Any) -> dict[int, int] | None:
    """Return the size of the blocks along each divided axis; None if the array is not divided into blocks."""
    if block_size is None:
        return None
    call.static("axis", axis)
    call.static("block_size", block_size)
    if axis is None:
        rule = "block_size needs the axis that is divided into blocks; got axis=None."
        call.fail(ValueError, rule, "Pass axis, or leave out block_size.")
    axes = [call.axis(one, x.ndim) for one in (axis if isinstance(axis, tuple) else (axis,))]
    sizes = block_size if isinstance(block_size, tuple) else (block_size,) * len(axes)
    sizes = tuple(call.integer("block_size", size) for size in sizes)
    if len(sizes) != len(axes) or len(set(axes)) < len(axes):
        rule = f"block_size must be one size for each of different axes; got axis={axis}, block_size={block_size}."
        call.fail(ValueError, rule, "Pass one size for each axis.")
    if any(size < 1 for size in sizes):
        call.fail(ValueError, f"block_size must be at least 1; got {block_size}.", "Leave it out for a single block.")
    return dict(zip(axes, sizes, strict=True))


def _aligned(
    call: Call, name: str, given: jax.Array | None, x: jax.Array, axis: Any, blocks: dict[int, int] | None
) -> jax.Array | None:
    """Require a parameter to have a value for ``x``, for each index of an axis or for each block; give it x's rank."""
    if given is None:
        return None
    shape = list(given.shape)
    if blocks is not None:
        want = [-(-size // blocks[d]) if d in blocks else size for d, size in enumerate(x.shape)]
        if len(shape) != x.ndim or any(size not in (1, most) for size, most in zip(shape, want, strict=True)):
            rule = f"{name} must broadcast to {want}, one value for each block; got {shape}."
            call.fail(TypeError, rule, "Give it the rank of x, and a value for the last block even if that is shorter.")
        return given
    if axis is None:
        if not broadcasts_to(shape, x.shape):
            rule = f"{name} must be one value, or broadcast to {list(x.shape)}; got {shape}."
            call.fail(TypeError, rule, f"Pass axis if {name} has a value for each index of one axis.", "x", name)
        return lax.expand_dims(given, range(x.ndim - given.ndim))
    axis = call.axis(axis, x.ndim)
    if shape not in ([], [1], [x.shape[axis]]):
        rule = f"{name} must be one value, or {x.shape[axis]}, one for each index of axis {axis}; got {shape}."
        call.fail(TypeError, rule, f"Pass {name} as a vector, or leave out axis if it broadcasts.", "x", name)
    return lax.broadcast_in_dim(given, [*[1] * axis, *(shape or [1]), *[1] * (x.ndim - axis - 1)], [axis][: len(shape)])


def _divided(x: jax.Array, given: jax.Array | None, blocks: dict[int, int] | tuple[()]) -> Blocks:
    """Return the axes along which a parameter has a value for each of several blocks."""
    if given is None or not blocks:
        return ()
    return tuple((d, size) for d, size in blocks.items() if given.shape[d] not in (1, x.shape[d]))


def _labels(x: jax.Array, given: jax.Array | None, axes: tuple[int, ...]) -> tuple[int | None, ...]:
    """Return the labels of a parameter; None for a dimension that is whole on every shard."""
    if given is None:
        return ()
    return tuple(d if given.shape[d] == size and d not in axes else None for d, size in enumerate(x.shape))
