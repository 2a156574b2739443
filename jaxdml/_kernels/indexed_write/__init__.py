"""Write at indexed positions, bit for bit."""

from jaxdml._kernels.indexed_write.kernel import METHODS, Block, reported, write_elements, write_slices
from jaxdml._kernels.indexed_write.shards import block_of

__all__ = ["METHODS", "Block", "block_of", "reported", "write_elements", "write_slices"]
