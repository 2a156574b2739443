"""Sum the windows of 8-bit arrays times filters exactly; choose the algorithm by platform and shape."""

import math

import jax.numpy as jnp

from jaxdml._algorithms.quantized.windows import Windows, filters_as_columns, padded, patches
from jaxdml._lowerings import integer_product
from jaxdml._lowerings.integer_product import Accumulator, DeepAccumulator, Quantized

METHODS, ONLY_ON = integer_product.METHODS, integer_product.ONLY_ON


def convolve(
    x: Quantized, w: Quantized, windows: Windows, implementation: str | None, refusal: str
) -> Accumulator | DeepAccumulator:
    """Return the accumulator ``[N, groups, M, O / groups]``, where M is the number of windows.

    Args:
      x: int8 or uint8 ``[N, *spatial, C]``, and its zero point ``[1]``.
      w: int8 or uint8 ``[O, C / groups, *sizes]``, and its zero point ``[1]`` or ``[O]``.
      windows: where the windows lie.
      implementation: one of ``METHODS``, or None to choose.
      refusal: the text of the error if the program is lowered for a platform without the method.
    """
    batch, groups = x[0].shape[0], windows.groups
    each = patches(padded(*x, windows), windows)
    count, depth = math.prod(each.shape[1:-1]), each.shape[-1] // groups
    parts = each.reshape(batch, count, windows.taps, groups, depth // windows.taps)
    rows = jnp.moveaxis(parts, 3, 1).reshape(batch, groups, count, depth)
    zx = None if x[1] is None else x[1].reshape(1, 1, 1, 1)
    zw = None if w[1] is None else w[1].reshape(1, groups if w[1].size > 1 else 1, 1, -1)
    columns = filters_as_columns(w[0], groups)[None]
    return integer_product.multiply((rows, zx), (columns, zw), implementation, refusal)
