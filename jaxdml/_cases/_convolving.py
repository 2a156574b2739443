"""What the cases of both convolutions share: shapes named for their trap."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jaxdml._cases._accumulating import Shape
from jaxdml._cases.records import Array, Scenario, Sharding, Way

CHANNELS_LAST = ("NHWC", "HWIO", "NHWC")


@dataclass(frozen=True)
class Geometry:
    """The shapes and options of a convolution, and how many such cases to draw."""

    trap: str
    x: Shape
    w: Shape
    options: Mapping[str, Any] = field(default_factory=dict)
    of_filters: Shape | None = None
    """The shape of what there is once for each output channel, or once; None if it is absent."""
    cases: int = 12
    way: Way = "one after another"

    @property
    def operands(self) -> tuple[tuple[Shape, Shape], ...]:
        """Return the shapes of x and of w, each with that of its zero point if it has one."""
        return (self.x, ()), (self.w, self.of_filters or ())

    @property
    def terms(self) -> int:
        """Return how many products a sum has."""
        filters = self.w[-1] if self.options.get("dimension_numbers") == CHANNELS_LAST else self.w[0]
        return math.prod(self.w) // filters

    @property
    def deep(self) -> bool:
        """Tell whether int32 cannot hold all sums."""
        return self.terms * 255 * 255 >= 2**31


_DEEP = "sums that int32 cannot hold"

# Filters have few elements in a channel: each takes time to compile.
GEOMETRIES = (
    Geometry(
        *("padding counts as the zero point, windows of it alone", (2, 2, 2, 3), (4, 2, 2, 1)),
        {"start_padding": 3, "end_padding": (2, 3)},
        (4,),
        15,
    ),
    Geometry(
        "groups, holes of dilated filters, padding on one side, strides that leave a rest",
        *((1, 4, 7, 7), (6, 2, 3, 2)),
        {
            "group_count": 2,
            "strides": (2, 3),
            "dilations": (1, 3),
            "start_padding": (1, 0),
            "end_padding": (0, 2),
        },
        (1, 6, 1, 1),
        30,
    ),
    Geometry(
        *("depthwise, two filters for each channel", (1, 3, 5, 5), (6, 1, 2, 2)),
        {"group_count": 3, "start_padding": 1},
        (6,),
    ),
    Geometry(
        *("one spatial dimension, holes of dilated filters count nothing", (2, 3, 12), (4, 3, 4)),
        {"strides": 2, "dilations": 2, "start_padding": 3, "end_padding": 1},
        (),
        30,
    ),
    Geometry(
        *("three spatial dimensions", (1, 2, 4, 3, 5), (3, 2, 2, 1, 2)),
        {"strides": (1, 2, 1), "start_padding": (0, 1, 2), "end_padding": (1, 0, 0)},
        (3,),
    ),
    Geometry("filters of one element", (2, 16, 3, 3), (5, 16, 1, 1), cases=18),
    Geometry(
        *("channels last", (1, 6, 7, 3), (2, 2, 3, 4)),
        {"dimension_numbers": CHANNELS_LAST, "strides": 2, "start_padding": 1, "end_padding": 1},
        (1, 1, 1, 4),
        30,
        "vmap",
    ),
    Geometry(_DEEP, (1, 8_300, 2, 2), (2, 8_300, 2, 2), of_filters=(2,), cases=6),
)
_IMAGES = Geometry("extremes, images sharded", (16, 2, 4, 4), (3, 2, 2, 2), {"start_padding": 1}, (3,), 6, "vmap")
_CHANNELS = replace(_IMAGES, trap="extremes, channels sharded", x=(2, 16, 4, 4), w=(3, 16, 2, 2))
_FILTERS = replace(_IMAGES, trap="extremes, filters sharded", x=(2, 2, 4, 4), w=(16, 2, 2, 2), of_filters=(16,))
_DEEP_CHANNELS = Geometry(
    *(f"sharded channels, {_DEEP}", (1, 8_304, 2, 2), (2, 8_304, 2, 2)), of_filters=(2,), cases=6, way="vmap"
)


def shardings(scenario: Callable[[Geometry], Scenario]) -> tuple[Sharding, ...]:
    """Return convolutions of images, channels or filters that are sharded; ``scenario`` makes cases of a geometry."""
    images, channels, deep, filters = map(scenario, (_IMAGES, _CHANNELS, _DEEP_CHANNELS, _FILTERS))
    return (
        Sharding("images", "n", (images,)),
        Sharding("channels", "c", (channels, deep)),
        Sharding("filters", "o", (filters,)),
    )


def near_zero_point(rng: np.random.Generator, shape: Shape, zero: Array | None, dtype: Any, spread: Array) -> Array:
    """Draw integers at most ``spread`` away from the zero point of their case, or from the first of several."""
    cases, info = shape[0], np.iinfo(dtype)
    middle = np.zeros(cases, int) if zero is None else zero.reshape(cases, -1)[:, 0].astype(int)
    middle, spread = (part.reshape(-1, *[1] * (len(shape) - 1)) for part in (middle, spread))
    drawn = middle + np.rint(rng.uniform(-1, 1, shape) * spread).astype(int)
    return np.clip(drawn, info.min, info.max).astype(dtype)
