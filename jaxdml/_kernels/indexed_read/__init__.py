"""Read at indexed positions, bit for bit."""

from jaxdml._kernels.indexed_read.kernel import Reading
from jaxdml._kernels.indexed_read.shards import read

__all__ = ["Reading", "read"]
