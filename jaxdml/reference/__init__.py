"""Define every operator as a loop in NumPy: the oracle that the tests compare with. Slow, and without JAX.

The functions take and return NumPy arrays. Their signatures are those of the public functions, without
``implementation``. They do not check their arguments: they return the answer to a valid call.
"""

from jaxdml.reference._argmax import argmax
from jaxdml.reference._argmin import argmin
from jaxdml.reference._convolution_integer import convolution_integer
from jaxdml.reference._dequantize_linear import dequantize_linear
from jaxdml.reference._dynamic_quantize_linear import dynamic_quantize_linear
from jaxdml.reference._gather import gather
from jaxdml.reference._gather_elements import gather_elements
from jaxdml.reference._gather_nd import gather_nd
from jaxdml.reference._matrix_multiply_integer import matrix_multiply_integer
from jaxdml.reference._matrix_multiply_integer_to_float import matrix_multiply_integer_to_float
from jaxdml.reference._quantize_linear import quantize_linear
from jaxdml.reference._quantized_linear_add import quantized_linear_add
from jaxdml.reference._quantized_linear_average_pooling import quantized_linear_average_pooling
from jaxdml.reference._quantized_linear_convolution import quantized_linear_convolution
from jaxdml.reference._quantized_linear_matrix_multiply import quantized_linear_matrix_multiply
from jaxdml.reference._scatter_elements import scatter_elements
from jaxdml.reference._scatter_nd import scatter_nd
from jaxdml.reference._top_k import top_k

__all__ = [
    "argmax",
    "argmin",
    "convolution_integer",
    "dequantize_linear",
    "dynamic_quantize_linear",
    "gather",
    "gather_elements",
    "gather_nd",
    "matrix_multiply_integer",
    "matrix_multiply_integer_to_float",
    "quantize_linear",
    "quantized_linear_add",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_matrix_multiply",
    "scatter_elements",
    "scatter_nd",
    "top_k",
]
