"""Check what convolutions and poolings share: the order of their dimensions, and the options of the spatial ones."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from jax import lax

from jaxdml._arguments.call import Call
from jaxdml._base.shapes import Shape
from jaxdml._placement.layout import Labels, Layout

_LEAST = {"window": 1, "strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0}
"""The options of the spatial dimensions, and the least value of each."""


def order(x: Shape, w: Shape, dimension_numbers: Any) -> lax.ConvDimensionNumbers | None:
    """Return which dimensions are which, as ``jax.lax`` understands it; None if it cannot, or if one is missing.

    Args:
      x: the shape of the input.
      w: the shape of the filters.
      dimension_numbers: as given.
    """
    try:
        result = lax.conv_dimension_numbers(x, w, dimension_numbers)
        is_whole = all(sorted(spec) == [*range(len(x))] for spec in result)
    except (TypeError, ValueError):
        return None
    return result if is_whole else None


def ordered(labels: Labels, places: Sequence[int]) -> Labels:
    """Return the labels of N, C and the spatial dimensions in the order of the dimensions."""
    at = dict(zip(places, labels, strict=True))
    return tuple(at[d] for d in range(len(places)))


def require_whole(
    where: Layout, operands: Sequence[Labels], but: Collection[Hashable], fail: Callable[[str], NoReturn]
) -> None:
    """Require dimensions not to be sharded over Explicit axes.

    Args:
      where: how the arrays lie.
      operands: the labels of the dimensions of the first operands.
      but: the labels of those that may be sharded.
      fail: raises an error that begins with the given rule.
    """
    for spec, labels in zip(where.operands, operands, strict=False):
        for axes, label in zip(spec or (), labels, strict=False):
            if axes is not None and label not in but:
                fail(f"{label} must be whole on every device; it is sharded over {axes!r}.")


def of_each(call: Call, options: Mapping[str, Any], count: int, *shown: str) -> dict[str, Shape]:
    """Return the options of the spatial dimensions, each one integer for all or one for each, as tuples.

    Args:
      call: the call.
      options: as given; those of other names are left out.
      count: how many spatial dimensions there are.
      shown: the operands that an error shows.
    """

    def one_each(name: str, value: Any) -> Shape:
        if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1):
            if len(value) != count:
                rule = f"{name} must be one integer, or one for each of the {count} spatial dimensions"
                advice = f"Pass {name} as one integer if all are equal."
                call.fail(ValueError, f"{rule}; got {len(value)}.", advice, *shown)
            return tuple(at_least(call, name, one, _LEAST[name], *shown) for one in value)
        return (at_least(call, name, value, _LEAST[name], *shown),) * count

    return {name: one_each(name, value) for name, value in options.items() if name in _LEAST}


def at_least(call: Call, name: str, value: Any, least: int, *shown: str) -> int:
    """Return a static integer argument as an ``int``; require it to be at least ``least``."""
    number = call.integer(name, value)
    if number < least:
        call.fail(ValueError, f"{name} must be at least {least}; got {number}.", f"Pass {name}={least}.", *shown)
    return number
