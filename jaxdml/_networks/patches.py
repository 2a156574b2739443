"""Write the windows of an image as columns, and add columns up to an image."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._networks.transposes import transposed


def unfold(
    x: Any,
    *,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> Any:
    """Return ``[n, channels * elements of a window, windows]`` of an image ``[n, channels, ...]`` padded with zeros."""
    n, channels, *_ = x.shape
    x = lax.pad(
        x,
        np.zeros((), x.dtype),
        [(0, 0, 0)] * 2 + [(*ends, 0) for ends in zip(start_padding, end_padding, strict=True)],
    )
    reach = [dilation * (size - 1) for size, dilation in zip(window, dilations, strict=True)]
    spans = [
        (size - 1 - far) // stride * stride + 1 for size, far, stride in zip(x.shape[2:], reach, strides, strict=True)
    ]
    taps = []
    for place in np.ndindex(*window):
        first = [at * dilation for at, dilation in zip(place, dilations, strict=True)]
        ends = [at + span for at, span in zip(first, spans, strict=True)]
        taps.append(lax.slice(x, (0, 0, *first), (n, channels, *ends), (1, 1, *strides)).reshape(n, channels, -1))
    return jnp.stack(taps, axis=2).reshape(n, channels * len(taps), -1)


def fold(columns: Any, image: Sequence[int], **windows: Sequence[int]) -> Any:
    """Add columns up to an image of these spatial sizes, at the places from which ``unfold`` would take them.

    Args:
      columns: ``[n, channels * elements of a window, windows]``.
      image: the sizes.
      windows: as for ``unfold``.
    """
    n, rows, _ = columns.shape
    return transposed(partial(unfold, **windows), (n, rows // math.prod(windows["window"]), *image), columns)
