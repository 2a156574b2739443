"""Data on which the time of a call may depend, and the same call on other data."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.cases.shapes import undrawn
from jaxdml._cases.data import Maker, few_distinct, plain
from jaxdml._cases.records import Array, NamedCall


def _ascending(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.sort(plain(rng, shape, dtype), axis=-1)


def _ones(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.ones(shape, dtype)


def _with_nan(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.where(rng.random(shape) < 0.001, np.array(np.nan, dtype), plain(rng, shape, dtype))


_MAKERS: Mapping[str, Maker] = {
    "random": plain,
    "ascending": _ascending,
    "all equal": _ones,
    "few distinct": few_distinct,
    "with NaN": _with_nan,
}
"""Only ``with NaN`` has NaNs, for which most stock forms do other work."""


def on(data: str, call: NamedCall) -> NamedCall:
    """Return a call of one array on data of this name."""

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        kinds = [(x.shape, x.dtype) for x in undrawn(call)]
        return tuple(_MAKERS[data](rng, *kind) for kind in kinds)

    return replace(call, data=data, draw=draw)
