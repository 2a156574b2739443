"""The cases of ``argmax``."""

from functools import partial

from jax import lax

from jaxdml._cases import _extremes
from jaxdml._cases._extremes import DTYPES, SHARDED_DTYPES, sample, scenarios, shardings
from jaxdml._cases.records import Operator

_BY_AXES = (0, [[1, 2, 1]]), (1, [[2], [2], [1]]), ((0, 1), [[7]])
"""What DirectML's page prints, by the axes."""

call = partial(_extremes.call, "argmax")


OPERATOR = Operator(
    "argmax",
    _extremes.examples("argmax", _BY_AXES, [3, 2, 1, 2, 3], 0, 4),
    dimensions="a b n -> a b; n",
    sample=sample,
    dtypes=DTYPES,
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=SHARDED_DTYPES,
    races=(call("races", (16, 128_256), "float32"),),
    small=call("overheads", (1, 1024), "float32", origin="a small call"),
    stock=partial(_extremes.stock, lax.argmax),
    judged_rows=2,
)
