"""Turn floats into integers and back, with the roundings of IEEE 754."""

from jaxdml._kernels.quantization.dequantizing import dequantize
from jaxdml._kernels.quantization.kernel import quantize
from jaxdml._kernels.quantization.shards import on_shard, scale_and_zero_point

__all__ = ["dequantize", "on_shard", "quantize", "scale_and_zero_point"]
