"""Turn floats into integers and back, with the roundings of IEEE 754."""

from jaxdml._kernels.quantization.dequantizing import are_normal, dequantize
from jaxdml._kernels.quantization.float64_quotient import are_ordinary
from jaxdml._kernels.quantization.kernel import quantize, quantize_by_range
from jaxdml._kernels.quantization.shards import on_shard, scale_and_zero_point

__all__ = [
    "are_normal",
    "are_ordinary",
    "dequantize",
    "on_shard",
    "quantize",
    "quantize_by_range",
    "scale_and_zero_point",
]
