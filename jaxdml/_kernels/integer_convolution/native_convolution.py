"""Convolve with XLA's own convolution of int8, where that is right and fast."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.windows import Windows

_WORD = 4
"""The bytes of an int32."""


def native_sums(
    x: jax.Array,
    w: jax.Array,
    windows: Windows,
    summed: Any,
    otherwise: Callable[[jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    """Return the sums of products of int8 ``[N, H, W, C]`` and filters ``[H, W, C, O]``, in one group.

    If ``jax.vmap`` maps over the filters, JAX makes one convolution of several groups of them, which XLA gets wrong.
    ``otherwise`` takes the place of the convolution then.

    Args:
      x: the images.
      w: the filters.
      windows: where the windows lie, with padding by zeros; without if ``x`` is padded already.
      summed: the dtype of the sums: int32, or float32 if that holds all of them.
      otherwise: returns the same for ``x`` and ``w``.
    """

    @jax.custom_batching.custom_vmap
    def sums(x: jax.Array, w: jax.Array) -> jax.Array:
        # The barriers keep what comes before and after out of the convolution, which would then have no fast routine.
        total = lax.conv_general_dilated(
            lax.optimization_barrier(x),  # type: ignore[no-untyped-call]
            w,
            windows.strides,
            [*zip(windows.start_padding, windows.end_padding, strict=True)],
            rhs_dilation=windows.dilations,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            preferred_element_type=summed,
        )
        stored: jax.Array = lax.optimization_barrier(total)  # type: ignore[no-untyped-call]
        return stored

    @sums.def_vmap
    def _(size: int, batched: Any, x: jax.Array, w: jax.Array) -> tuple[jax.Array, bool]:
        if batched[1]:
            return jax.vmap(otherwise, [0 if each else None for each in batched], axis_size=size)(x, w), True
        merged = sums(x.reshape(size * x.shape[1], *x.shape[2:]), w)
        return merged.reshape(size, x.shape[1], *merged.shape[1:]), True

    result: jax.Array = sums(x, w)
    return result


def with_neighbours(
    x: jax.Array, w: jax.Array, windows: Windows, multiple: int, in_words: bool = False, most: int = 0
) -> tuple[jax.Array, jax.Array, Windows]:
    """Return a convolution with the same sums, whose windows have one column, and the channels of its neighbours.

    Few channels are slow to read window by window. Here neighbours are copied together, so that a window is read in few
    steps. What is read beyond a window is multiplied by 0.

    Args:
      x: padded ``[N, H, W, C]``.
      w: the filters ``[H, W, C, O]``.
      windows: where the windows lie: in one group, without dilations.
      multiple: the number of channels becomes a multiple of this, itself a multiple of four.
      in_words: whether to copy four bytes at once where that needs no more channels; GPUs copy bytes slower.
      most: the rows of a window become channels, too, if it has no more than so many then.
    """
    (height, width), (down, right) = windows.sizes, windows.strides
    channels, features = w.shape[-2:]
    rows, columns = windows.without_padding().counts(x.shape)
    steps, unit = -(-width // right), right * channels
    beyond = (columns - 1 + steps) * right - x.shape[2]
    x = lax.pad(x, np.int8(0), [(0, 0, 0), (0, 0, 0), (0, beyond, 0), (0, 0, 0)])
    x = x.reshape(*x.shape[:2], columns - 1 + steps, unit)
    w = lax.pad(w, np.int8(0), [(0, 0, 0), (0, steps * right - width, 0), (0, 0, 0), (0, 0, 0)])
    w = w.reshape(height, steps, unit, features)
    filled = -unit % _WORD
    words = in_words and steps * filled <= -steps * unit % multiple
    if words:
        x = lax.pad(x, np.int8(0), [(0, 0, 0)] * 3 + [(0, filled, 0)])
        w = lax.pad(w, np.int8(0), [(0, 0, 0)] * 2 + [(0, filled, 0), (0, 0, 0)])
        unit += filled
        x = lax.bitcast_convert_type(x.reshape(*x.shape[:3], unit // _WORD, _WORD), jnp.int32)
    merged = height * steps * unit <= most
    down_by, height_left = (1, 1) if merged else (down, height)
    of_rows = [slice(row, row + (rows - 1) * down + 1, down) for row in range(height)] if merged else [slice(None)]
    copies = [x[:, of_row, step : step + columns] for of_row in of_rows for step in range(steps)]
    depth = len(copies) * unit
    missing = -depth % multiple
    filling = jnp.zeros((*copies[0].shape[:3], missing // (_WORD if words else 1)), x.dtype)
    x = lax.concatenate([*copies, filling], 3)
    x = lax.bitcast_convert_type(x, jnp.int8).reshape(*x.shape[:3], depth + missing) if words else x
    w = w.reshape(height_left, 1, depth, features)
    w = lax.pad(w, np.int8(0), [(0, 0, 0), (0, 0, 0), (0, missing, 0), (0, 0, 0)])
    return x, w, windows.without_padding()._replace(sizes=(height_left, 1), strides=(down_by, 1))
