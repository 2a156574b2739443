"""Scale int32 sums to floats, with the roundings of IEEE 754."""

from jaxdml._kernels.float_scaling.kernel import to_float
from jaxdml._kernels.float_scaling.scaled_sums import Scaling

__all__ = ["Scaling", "to_float"]
