"""Run the forms of another platform on this one, whatever they would be chosen for."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest import mock

import jax
import numpy as np

from jaxdml._kernels.requantization import kernel as requantization
from jaxdml._placement import lowering
from jaxdml._placement.lowering import Target


@contextmanager
def forms_of(platform: str, options: str = "") -> Iterator[None]:
    """Lower every program with the forms of this platform, on whichever device it runs.

    They may be those of a program with ``options``, a kind of ``jaxdml._placement.options``, as of the newest JAX.
    """

    def target(_: str, devices: int = 1, static: bool = True, given: str = "") -> Target:
        return Target(platform, devices, static, options or given)

    # What was lowered before has the forms of its own platform, and so has what is lowered here.
    jax.clear_caches()
    newest = mock.patch.object(lowering, "FUSES_BITS_WITH_PRODUCTS", True) if options else nullcontext()
    with mock.patch.object(lowering, "Target", target), newest:
        yield
    jax.clear_caches()


def rounded_on_cpu(raw, scales, zero_point, shape):
    """Round raw products to int8 as a program for one CPU does without a proof."""
    form = requantization.form(Target("cpu"), math.prod(shape), [scale.shape for scale in scales], None)
    return form(raw, None, scales, zero_point, None, how=requantization.Rounding(shape, np.dtype(np.int8)))
