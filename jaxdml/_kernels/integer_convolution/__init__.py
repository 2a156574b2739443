"""Sum the windows of 8-bit arrays times filters exactly."""

from jaxdml._kernels.integer_convolution.kernel import METHODS, ONLY_ON, why_not
from jaxdml._kernels.integer_convolution.shards import convolve

__all__ = ["METHODS", "ONLY_ON", "convolve", "why_not"]
