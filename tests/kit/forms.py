"""Run the forms of another platform on this one, whatever they would be chosen for."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import jax
import numpy as np

from jaxdml._kernels.requantization import kernel as requantization
from jaxdml._placement import lowering
from jaxdml._placement.lowering import Target


@contextmanager
def forms_of(platform: str) -> Iterator[None]:
    """Lower every program with the forms of this platform, on whichever device it runs."""
    # What was lowered before has the forms of its own platform, and so has what is lowered here.
    jax.clear_caches()
    with mock.patch.object(lowering, "Target", lambda _, *others: Target(platform, *others)):
        yield
    jax.clear_caches()


def rounded_on_cpu(raw, scales, zero_point, shape):
    """Round raw products to int8 as a program for one CPU does without a proof."""
    form = requantization.form(Target("cpu"), math.prod(shape), [scale.shape for scale in scales], None)
    return form(raw, None, scales, zero_point, None, how=requantization.Rounding(shape, np.dtype(np.int8)))
