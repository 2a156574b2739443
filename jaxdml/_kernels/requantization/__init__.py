"""Round int32 sums times scales to 8 bits, once and correctly."""

from jaxdml._kernels.requantization.chain_factors import factors, shifted_factors
from jaxdml._kernels.requantization.float32_chain import Chain, round_chain
from jaxdml._kernels.requantization.float32_pair import pair_sum
from jaxdml._kernels.requantization.float32_terms import Terms, proved_terms, round_terms
from jaxdml._kernels.requantization.float64_rounding import (
    ON_CPU,
    ON_CUDA,
    round_products,
    round_sums,
    sum_when_used,
)
from jaxdml._kernels.requantization.kernel import proved_rounding, requantize
from jaxdml._kernels.requantization.proofs import Addends, Multiplier, proved, proved_sum

__all__ = [
    "ON_CPU",
    "ON_CUDA",
    "Addends",
    "Chain",
    "Multiplier",
    "Terms",
    "factors",
    "pair_sum",
    "proved",
    "proved_rounding",
    "proved_sum",
    "proved_terms",
    "requantize",
    "round_chain",
    "round_products",
    "round_sums",
    "round_terms",
    "shifted_factors",
    "sum_when_used",
]
