"""What the timed calls of both convolutions share: layers of networks, and how stock JAX convolves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._cases._accumulating import Shape


@dataclass(frozen=True)
class Layer:
    """A convolution of a network, on square images."""

    origin: str
    channels: int
    size: int
    filters: int
    kernel: int
    stride: int = 1
    groups: int = 1

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of the call; the padding keeps the size, divided by the stride."""
        around = self.kernel // 2
        return {
            "strides": self.stride,
            "start_padding": around,
            "end_padding": around,
            "group_count": self.groups,
        }

    @property
    def x(self) -> Shape:
        """Return the shape of one image."""
        return self.channels, self.size, self.size

    @property
    def w(self) -> Shape:
        """Return the shape of the filters."""
        return self.filters, self.channels // self.groups, self.kernel, self.kernel

    @property
    def output(self) -> Shape:
        """Return the shape of one image's result."""
        side = (self.size + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1
        return self.filters, side, side

    def named(self, batch: int) -> str:
        """Write the sizes of a batch of images and of the filters."""
        shapes = ("x".join(map(str, shape)) for shape in ((batch, *self.x), self.w))
        more = f" by {self.stride}" if self.stride > 1 else ""
        return " * ".join(shapes) + more + (f" in {self.groups} groups" if self.groups > 1 else "")

    def moved(self, batch: int, output_bytes: int) -> int:
        """Return the bytes of the images, of the filters and of results of so many bytes each."""
        return batch * math.prod(self.x) + math.prod(self.w) + batch * math.prod(self.output) * output_bytes

    def operations(self, batch: int) -> int:
        """Return the multiplications and additions."""
        return 2 * batch * math.prod(self.output) * math.prod(self.w[1:])


RACE = Layer("the races", 32, 14, 32, 3)
"""Small enough for the oracle's loops to answer one image."""

SMALL = Layer("a small call", 4, 6, 4, 3)


def stock_sums(
    options: Mapping[str, Any], x: jax.Array, x_zero: jax.Array, w: jax.Array, w_zero: jax.Array
) -> jax.Array:
    """Return the sums as stock JAX writes them: in float32, as few devices have a convolution of integers."""
    wide = [part.astype(jnp.float32) for part in (x, x_zero, w, w_zero)]
    rank = x.ndim - 2
    return lax.conv_general_dilated(
        wide[0] - wide[1],
        wide[2] - wide[3].reshape(-1, *[1] * (rank + 1)),
        [options["strides"]] * rank,
        [(options["start_padding"], options["end_padding"])] * rank,
        feature_group_count=options["group_count"],
        precision="highest",
    )
