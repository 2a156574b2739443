"""Check the arguments of a pooling: where its windows lie, and what has one value per channel."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from jax import lax

from jaxdml._arguments import dimensions, quantized
from jaxdml._arguments.call import Call
from jaxdml._arithmetic.windows import Windows
from jaxdml._base.shapes import Shape, broadcasts_to, is_static
from jaxdml._kernels.average_pooling import LARGEST_WINDOW
from jaxdml._placement.layout import Labels, Layout, layout


def orders(call: Call, x: jax.Array, dimension_numbers: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return where N, C and the spatial dimensions are, in ``x`` and in the result."""
    call.static("dimension_numbers", dimension_numbers)
    if x.ndim < 3:
        rule = f"x must have at least three dimensions; got {x.ndim}."
        call.fail(TypeError, rule, "Give x as [N, C, *spatial].", "x")
    given = dimension_numbers
    if isinstance(given, str):
        given = given, given
    if isinstance(given, list | tuple) and len(given) == 2 and isinstance(given[0], str):
        given = given[0], given[0].replace("N", "O").replace("C", "I"), given[1]
    order = dimensions.order(x.shape, x.shape, given)
    if order is None:
        rule = f"dimension_numbers must say where the {x.ndim} dimensions of x are; got {dimension_numbers!r}."
        call.fail(ValueError, rule, "Pass a string such as 'NHWC', or None for channels first.", "x")
    return tuple(order.lhs_spec), tuple(order.out_spec)


def windows(call: Call, x: jax.Array, spatial: tuple[int, ...], options: Mapping[str, Any]) -> Windows:
    """Require windows that fit the padded ``x``.

    Args:
      call: the call.
      x: its array.
      spatial: the places of the spatial dimensions.
      options: those of the spatial dimensions, as given.
    """
    each = dimensions.of_each(call, options, len(spatial), "x")
    given = Windows(spatial, each.pop("window"), **each, groups=1)
    sizes = given.spatial(x.shape)
    if not is_static(*sizes):
        rule = f"the spatial dimensions must be known numbers; got {list(sizes)}."
        call.fail(ValueError, rule, "Leave only N and C symbolic.", "x")
    for i, count in enumerate(given.counts(x.shape)):
        if count < 1:
            inside = sizes[i] + given.start_padding[i] + given.end_padding[i]
            rule = f"a window must have at most {inside} elements along spatial dimension {i}; got {given.reaches[i]}."
            call.fail(ValueError, rule, "Pad x more with start_padding or end_padding.", "x")
    if given.taps > LARGEST_WINDOW:
        rule = f"a window must have at most {LARGEST_WINDOW} elements; got {given.taps}."
        call.fail(ValueError, rule, "Average parts of it first.", "x")
    return given


def by_channel(call: Call, name: str, dtype: np.dtype[Any], shape: Shape) -> jax.Array | None:
    """Return a scale or zero point that broadcasts against ``shape``, in which only the channels are not 1; or None."""
    value = quantized.optional(call, name, dtype)
    if value is None:
        return None
    channels = max(range(len(shape)), key=lambda d: shape[d] != 1)
    given = value
    if value.ndim == 1:
        given = lax.expand_dims(value, [d for d in range(len(shape)) if d != channels])
    if not broadcasts_to(given.shape, shape):
        rule = f"{name} must be one value, or one per channel, {shape[channels]}, or broadcast to {list(shape)}"
        advice = f"Pass {name} with shape () or ({shape[channels]},)."
        call.fail(TypeError, f"{rule}; got {list(value.shape)}.", advice, "x", name)
    return lax.expand_dims(given, range(len(shape) - given.ndim))


def layout_of(
    call: Call,
    operands: Sequence[Any],
    of_x: tuple[int, ...],
    of_result: tuple[int, ...],
    windows: Windows,
) -> Layout:
    """Return how the operands and the result lie on a mesh.

    Args:
      call: the call.
      operands: the array, and pytrees of what has one value per channel.
      of_x: where N, C and the spatial dimensions are in ``x``.
      of_result: the same in the result.
      windows: the windows.
    """
    spatial = tuple(f"spatial dimension {i}" for i in range(len(of_x) - 2))
    labels: Labels = ("N", "C", *spatial)
    # A window of one element needs no other shard.
    edges = windows.start_padding, windows.end_padding
    alone = [part == (1, 1, 0, 0) for part in zip(windows.sizes, windows.strides, *edges, strict=True)]
    kept: Labels = ("N", "C", *(label if free else None for label, free in zip(spatial, alone, strict=True)))
    in_x = dimensions.ordered(labels, of_x)

    def fail(rule: str) -> NoReturn:
        call.fail(ValueError, rule, "Reshard x with jax.sharding.reshard.", "x")

    x, *parameters = jax.tree.leaves(operands, is_leaf=lambda leaf: leaf is None)
    channels = of_x[1]
    of_parameters = [
        () if p is None else tuple("C" if d == channels and p.shape[d] != 1 else None for d in range(p.ndim))
        for p in parameters
    ]
    where = layout(
        [(x, in_x), *zip(parameters, of_parameters, strict=True)],
        result=dimensions.ordered(kept, of_result),
        combined={},
        deciding=1,
        fail=fail,
    )
    dimensions.require_whole(where, [in_x], kept, fail)
    return where
