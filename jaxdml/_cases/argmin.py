"""The cases of ``argmin``."""

from functools import partial

from jax import lax

from jaxdml._cases import _extremes
from jaxdml._cases._extremes import DTYPES, SHARDED_DTYPES, sample, scenarios, shardings
from jaxdml._cases.records import Operator

_BY_AXES = (0, [[0, 1, 2]]), (1, [[0], [1], [0]]), ((0, 1), [[4]])
"""What DirectML's page prints, by the axes."""

call = partial(_extremes.call, "argmin")


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
    races=(call("races", (16, 128_256), "float32"),),
    raced=False,
    small=call("overheads", (1, 1024), "float32", origin="a small call"),
    stock=partial(_extremes.stock, lax.argmin),
    judged_rows=2,
)
