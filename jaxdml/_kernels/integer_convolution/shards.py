"""Convolve where the contracted channels are sharded: each shard convolves its channels."""

from dataclasses import replace

from jaxdml._arithmetic.signedness import Quantized
from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels import integer_product
from jaxdml._kernels.integer_convolution import kernel as integer_convolution
from jaxdml._kernels.integer_convolution.kernel import QuantizedFilters
from jaxdml._kernels.integer_convolution.packed_filters import PackedFilters
from jaxdml._kernels.integer_sums import Accumulator, DeepAccumulator, ShardedSums
from jaxdml._placement.layout import Names, axis_size
from jaxdml._placement.lowering import Forced


def convolve(
    x: Quantized, w: QuantizedFilters, windows: Windows, implementation: Forced | None, over: Names
) -> Accumulator | DeepAccumulator | ShardedSums:
    """Return the accumulator over all channels, or over those that a shard has.

    Args:
      x: as for ``integer_convolution.convolve``.
      w: as for ``integer_convolution.convolve``.
      windows: as for ``integer_convolution.convolve``.
      implementation: as for ``integer_convolution.convolve``.
      over: the axes that the contracted channels are sharded over.
    """
    if not over:
        return integer_convolution.convolve(x, w, windows, implementation)
    if isinstance(w[0], PackedFilters):  # Runs of windows hold all channels.
        w = replace(w[0], runs=()), w[1]
    sums = integer_convolution.convolve(x, w, windows, implementation)
    depth = windows.taps * w[0].shape[1] * axis_size(over)
    return ShardedSums(sums, integer_product.fits(x, w, depth), over)
