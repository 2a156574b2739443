"""What ``implementation`` of an operator can be on the machine that runs the tests."""

import jax

from jaxdml._kernels import extremes, indexed_write, integer_convolution, integer_product, selection

BACKEND = jax.default_backend()


def _of(only):
    return tuple(name for name, platform in only.items() if platform in (None, BACKEND))


_PRODUCTS = _of(integer_product.METHODS)

METHODS = {
    "top_k": _of({name: selection.ONLY_ON.get(name) for name in selection.METHODS}),
    **dict.fromkeys(("argmax", "argmin"), tuple(extremes.METHODS)),
    **dict.fromkeys(("scatter_nd", "scatter_elements"), indexed_write.METHODS),
    **dict.fromkeys(("convolution_integer", "quantized_linear_convolution"), _of(integer_convolution.METHODS)),
    **dict.fromkeys(
        ("matrix_multiply_integer", "matrix_multiply_integer_to_float", "quantized_linear_matrix_multiply"), _PRODUCTS
    ),
}
"""By operator."""
