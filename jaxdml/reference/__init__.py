"""The NumPy oracle: what every operator computes, as loops over its definition. Slow, and without JAX.

The functions take and return NumPy arrays and have the signatures of the public ones, less ``implementation``. They
check nothing: they say what the answer to a valid call is.
"""

from jaxdml.reference._quantized_linear_matrix_multiply import quantized_linear_matrix_multiply
from jaxdml.reference._scatter_elements import scatter_elements
from jaxdml.reference._scatter_nd import scatter_nd
from jaxdml.reference._top_k import top_k

__all__ = ["quantized_linear_matrix_multiply", "scatter_elements", "scatter_nd", "top_k"]
