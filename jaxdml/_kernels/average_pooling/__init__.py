"""Average the windows of quantized arrays, rounded once and correctly."""

from jaxdml._kernels.average_pooling.kernel import average, counts
from jaxdml._kernels.average_pooling.pools import LARGEST_WINDOW

__all__ = ["LARGEST_WINDOW", "average", "counts"]
