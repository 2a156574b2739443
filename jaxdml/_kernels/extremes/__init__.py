"""Find the greatest or the least element along some axes."""

from jaxdml._kernels.extremes.kernel import CPU, METHODS, why_not
from jaxdml._kernels.extremes.reductions import Axes, Rule
from jaxdml._kernels.extremes.shards import find

__all__ = ["CPU", "METHODS", "Axes", "Rule", "find", "why_not"]
