"""What is known of each operator: worked examples, traps, sizes that occur in practice, and how stock JAX does it.

The self-check, the tests and the benchmarks take all of these from here. A new operator is a new file and its name in
``OPERATORS``.
"""

from jaxdml._cases import quantized_linear_matrix_multiply, scatter_elements, scatter_nd, top_k
from jaxdml._cases.records import Operator

OPERATORS: tuple[Operator, ...] = (
    top_k.OPERATOR,
    quantized_linear_matrix_multiply.OPERATOR,
    scatter_nd.OPERATOR,
    scatter_elements.OPERATOR,
)
"""One record for each operator; tables show them in this order."""
