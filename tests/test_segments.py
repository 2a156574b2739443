"""Selecting from segments agrees with the oracle, however the candidates are brought together."""

import jax
import numpy as np
import pytest

from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.selection import default as _selection_default
from jaxdml._kernels.selection import gpu as _selection_gpu
from jaxdml._kernels.selection.segments import by_segments
from jaxdml.reference import top_k

PLATFORMS = {"default": _selection_default, "gpu": _selection_gpu}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("k", [5, 7])  # Fewer than a segment has, and more.
def test_segments_agree_with_the_oracle(platform, k):
    forms = PLATFORMS[platform]
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 48)).astype(np.float32)
    x[..., ::5] = np.nan
    x[x == 3] = -0.0
    options = {"devices": 8, "select": forms.best_partitioned, "merging": forms.MERGING}
    both = jax.jit(lambda x: [by_segments(x, k, direction, **options) for direction in AxisDirection])(x)
    for indices, direction in zip(both, AxisDirection, strict=True):
        np.testing.assert_array_equal(indices, top_k(x, k, direction=direction)[1])
