"""Define every operator as a loop in NumPy: the oracle that the tests compare with. Slow, and without JAX.

The functions take and return NumPy arrays. Their signatures are those of the public functions, without
``implementation``. They do not check their arguments: they return the answer to a valid call.
"""

from jaxdml.reference._matrix_multiply_integer import matrix_multiply_integer
from jaxdml.reference._quantized_linear_add import quantized_linear_add
from jaxdml.reference._quantized_linear_average_pooling import quantized_linear_average_pooling
from jaxdml.reference._quantized_linear_matrix_multiply import quantized_linear_matrix_multiply
from jaxdml.reference._scatter_elements import scatter_elements
from jaxdml.reference._scatter_nd import scatter_nd
from jaxdml.reference._top_k import top_k

__all__ = [
    "matrix_multiply_integer",
    "quantized_linear_add",
    "quantized_linear_average_pooling",
    "quantized_linear_matrix_multiply",
    "scatter_elements",
    "scatter_nd",
    "top_k",
]
