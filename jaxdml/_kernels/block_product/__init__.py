"""Multiply floats by a matrix of few bits with a scale for each block."""

from jaxdml._kernels.block_product.kernel import multiply
from jaxdml._kernels.block_product.packed_blocks import BITS, PackedBlocks, pack

__all__ = ["BITS", "PackedBlocks", "multiply", "pack"]
