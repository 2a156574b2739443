"""DirectML's operators for JAX, exact to the last bit on every device."""

from jaxdml import _commands as _commands  # First: it settles what Ctrl-C does while JAX is imported.
from jaxdml import reference
from jaxdml._arguments.known import Known
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._base.version import __version__ as __version__
from jaxdml._functions.fake_quantize import fake_quantize
from jaxdml._functions.jit import jit
from jaxdml._functions.matrix_multiply_block_quantized import matrix_multiply_block_quantized
from jaxdml._functions.prepack import prepack
from jaxdml._functions.prepack_blocks import prepack_blocks
from jaxdml._functions.prepack_filters import prepack_filters
from jaxdml._functions.requantize import requantize
from jaxdml._kernels.block_product import PackedBlocks
from jaxdml._kernels.integer_convolution import PackedFilters
from jaxdml._kernels.integer_product import PackedMatrix
from jaxdml._operators.argmax import argmax
from jaxdml._operators.argmin import argmin
from jaxdml._operators.convolution_integer import convolution_integer
from jaxdml._operators.dequantize_linear import dequantize_linear
from jaxdml._operators.dynamic_quantize_linear import DynamicQuantization, dynamic_quantize_linear
from jaxdml._operators.gather import gather
from jaxdml._operators.gather_elements import gather_elements
from jaxdml._operators.gather_nd import gather_nd
from jaxdml._operators.matrix_multiply_integer import matrix_multiply_integer
from jaxdml._operators.matrix_multiply_integer_to_float import matrix_multiply_integer_to_float
from jaxdml._operators.quantize_linear import quantize_linear
from jaxdml._operators.quantized_linear_add import quantized_linear_add
from jaxdml._operators.quantized_linear_average_pooling import quantized_linear_average_pooling
from jaxdml._operators.quantized_linear_convolution import quantized_linear_convolution
from jaxdml._operators.quantized_linear_matrix_multiply import quantized_linear_matrix_multiply
from jaxdml._operators.scatter_elements import scatter_elements
from jaxdml._operators.scatter_nd import scatter_nd
from jaxdml._operators.top_k import TopK, top_k

# isort: split
from jaxdml import directml  # Last: it calls what stands above.

__all__ = [
    "AxisDirection",
    "DynamicQuantization",
    "Known",
    "PackedBlocks",
    "PackedFilters",
    "PackedMatrix",
    "TopK",
    "argmax",
    "argmin",
    "convolution_integer",
    "dequantize_linear",
    "directml",
    "dynamic_quantize_linear",
    "fake_quantize",
    "gather",
    "gather_elements",
    "gather_nd",
    "jit",
    "matrix_multiply_block_quantized",
    "matrix_multiply_integer",
    "matrix_multiply_integer_to_float",
    "prepack",
    "prepack_blocks",
    "prepack_filters",
    "quantize_linear",
    "quantized_linear_add",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_matrix_multiply",
    "reference",
    "requantize",
    "scatter_elements",
    "scatter_nd",
    "top_k",
]
