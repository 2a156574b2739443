"""Convolve on a TPU with XLA's own convolution."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.windows import Windows, padded
from jaxdml._kernels.integer_convolution.packed_filters import Filters, as_int8_filters
from jaxdml._kernels.integer_convolution.patch_product import corrected
from jaxdml._kernels.integer_product import RawProduct, Zero, as_int8


def convolve(windows: Windows, x: jax.Array, zx: Zero, w: Filters, zw: Zero) -> RawProduct:
    """Convolve int8 by int8 and sum in int32, in any number of groups.

    It is exact, because the TPU's compiler keeps these types: nothing is a float anywhere. Patches would be stored, and
    read again.
    """
    (x, zx), (filters, zw) = as_int8(x, zx), as_int8_filters(w, zw)
    # The convolution pads with zeros as it reads. Any other number has to be written around x.
    edges = [*zip(windows.start_padding, windows.end_padding, strict=True)]
    around = padded(x, zx, windows) if zx is not None or zw is not None else x
    order = (0, windows.channel_axis, *windows.dimensions)
    numbers = lax.ConvDimensionNumbers(order, tuple(range(filters.ndim)), order)
    total = lax.conv_general_dilated(
        around,
        filters,
        windows.strides,
        edges if around is x else [(0, 0)] * len(edges),
        rhs_dilation=windows.dilations,
        dimension_numbers=numbers,
        feature_group_count=windows.groups,
        preferred_element_type=jnp.int32,
    )
    depth = math.prod(filters.shape[1:])
    sums = None if zx is None else jnp.sum(filters, axis=tuple(range(1, filters.ndim)), dtype=jnp.int32)
    return corrected(total, sums, zx, zw, around, windows, depth)
