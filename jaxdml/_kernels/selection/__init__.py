"""Select the first k elements of sequences, in order."""

from jaxdml._kernels.selection.cpu import CPU
from jaxdml._kernels.selection.kernel import METHODS, ONLY_ON, PRUNINGS, why_not
from jaxdml._kernels.selection.shards import from_all_shards, select

__all__ = ["CPU", "METHODS", "ONLY_ON", "PRUNINGS", "from_all_shards", "select", "why_not"]
