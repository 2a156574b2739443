"""Hold int32 sums of products before they are computed, and finish them: add up zero points, round, or scale."""

from jaxdml._kernels.integer_sums.accumulators import (
    Accumulator,
    DeepAccumulator,
    finish,
    normalized,
    of_total,
    total,
    wrapped,
)
from jaxdml._kernels.integer_sums.raw import (
    PerPart,
    Raw,
    RawProduct,
    accumulator,
    as_stored,
    finished,
    part_by_part,
    whole,
    with_corrections,
)
from jaxdml._kernels.integer_sums.shards import ShardedSums, finish_everywhere

__all__ = [
    "Accumulator",
    "DeepAccumulator",
    "PerPart",
    "Raw",
    "RawProduct",
    "ShardedSums",
    "accumulator",
    "as_stored",
    "finish",
    "finish_everywhere",
    "finished",
    "normalized",
    "of_total",
    "part_by_part",
    "total",
    "whole",
    "with_corrections",
    "wrapped",
]
