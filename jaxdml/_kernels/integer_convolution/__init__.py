"""Sum the windows of 8-bit arrays times filters exactly."""

from jaxdml._kernels.integer_convolution.edges import edge_sums, has_edges
from jaxdml._kernels.integer_convolution.kernel import METHODS, why_not
from jaxdml._kernels.integer_convolution.packed_filters import (
    Filters,
    PackedFilters,
    in_canonical_order,
    in_rows,
    pack,
)
from jaxdml._kernels.integer_convolution.shards import convolve
from jaxdml._kernels.integer_convolution.window_runs import runs

__all__ = [
    "METHODS",
    "Filters",
    "PackedFilters",
    "convolve",
    "edge_sums",
    "has_edges",
    "in_canonical_order",
    "in_rows",
    "pack",
    "runs",
    "why_not",
]
