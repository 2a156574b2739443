"""Multiply 8-bit matrices with zero points exactly."""

from jaxdml._kernels.integer_product.cpu import methods_on_cpu, packed_on_cpu, storage
from jaxdml._kernels.integer_product.gpu import stored_as_int8
from jaxdml._kernels.integer_product.integer_dot import MIN_SIZE, dot, with_min_size
from jaxdml._kernels.integer_product.kernel import (
    METHODS,
    fits,
    form_of_patches,
    greatest_sum,
    greatest_total,
    longest,
    product_on_gpu,
)
from jaxdml._kernels.integer_product.operands import ALIGNMENT, Product, product_shape
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, Right, pack
from jaxdml._kernels.integer_product.shards import multiply
from jaxdml._kernels.integer_product.tensor_core_dot import GREATEST_FLOAT_BOUND, LONGEST_FLOAT_SUM

__all__ = [
    "ALIGNMENT",
    "GREATEST_FLOAT_BOUND",
    "LONGEST_FLOAT_SUM",
    "METHODS",
    "MIN_SIZE",
    "PackedMatrix",
    "Product",
    "Right",
    "dot",
    "fits",
    "form_of_patches",
    "greatest_sum",
    "greatest_total",
    "longest",
    "methods_on_cpu",
    "multiply",
    "pack",
    "packed_on_cpu",
    "product_on_gpu",
    "product_shape",
    "storage",
    "stored_as_int8",
    "with_min_size",
]
