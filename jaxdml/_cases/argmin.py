"""The cases of ``argmin``."""

import itertools
from collections.abc import Iterator
from functools import partial

from jax import lax

from jaxdml._cases import _extremes
from jaxdml._cases._extremes import DTYPES, SHARDED_DTYPES, sample, scenarios, shardings
from jaxdml._cases.records import NamedCall, Operator

_BY_AXES = (0, [[0, 1, 2]]), (1, [[0], [1], [0]]), ((0, 1), [[4]])
"""What DirectML's page prints, by the axes."""

call = partial(_extremes.call, "argmin")


def _grid() -> Iterator[NamedCall]:
    for size, dtype in itertools.product([(64, 1000), (16, 131_072), (1, 2**24)], ("float32", "int32", "uint8")):
        yield call("grid", size, dtype)


def _models() -> Iterator[NamedCall]:
    yield call("models", (4096, 1024), "float32", origin="the nearest of 1,024 codewords for 4,096 vectors")
    yield call("models", (1, 10**6), "float32", origin="the nearest of a million distances")


OPERATOR = Operator(
    "argmin",
    _extremes.examples("argmin", _BY_AXES, [1, 2, 3, 2, 1], 0, 4),
    dimensions="a b n -> a b; n",
    sample=sample,
    options={"select_last_index": True},
    dtypes=DTYPES[::2],
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=SHARDED_DTYPES[:1],
    calls=(*_grid(), *_models()),
    races=(call("races", (16, 128_256), "float32"),),
    raced=False,
    small=call("overheads", (1, 1024), "float32", origin="a small call"),
    stock=partial(_extremes.stock, lax.argmin),
    judged_rows=2,
)
