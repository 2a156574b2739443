"""The cases of ``argmax``."""

import itertools
from collections.abc import Iterator
from functools import partial

from jax import lax

from jaxdml._cases import _extremes
from jaxdml._cases._extremes import DTYPES, SHARDED_DTYPES, sample, scenarios, shardings
from jaxdml._cases.records import NamedCall, Operator

_BY_AXES = (0, [[1, 2, 1]]), (1, [[2], [2], [1]]), ((0, 1), [[7]])
"""What DirectML's page prints, by the axes."""

call = partial(_extremes.call, "argmax")


def _grid() -> Iterator[NamedCall]:
    sizes = [(1, 4096), (64, 1000), (1024, 256), (16, 131_072), (1, 2**20), (1, 2**24)]
    dtypes = ["float32", "float16", "int32", "uint32", "int16", "uint8", "int8"]
    kinds = [("float32", "ascending"), ("float32", "all equal"), *((dtype, "random") for dtype in dtypes)]
    for size, (dtype, data) in itertools.product(sizes, kinds):
        yield call("grid", size, dtype, data=data)
    for size, dtype in itertools.product([(4096, 1024), (256, 1024)], ("float32", "bfloat16", "int8")):
        yield call("grid", size, dtype, axis=0)


def _models() -> Iterator[NamedCall]:
    for dtype in ("float32", "bfloat16"):
        yield call("models", (1, 50_257), dtype, origin="the likeliest token, GPT-2's vocabulary")
        yield call("models", (16, 128_256), dtype, origin="the likeliest token of 16, Llama 3's vocabulary")
    yield call("models", (1, 128_256), "float32", data="with NaN", origin="a diverged model's logits")
    yield call("models", (32, 1000), "float32", origin="classes of 32 images, ImageNet")
    yield call("models", (4096, 64), "float32", origin="routing 4,096 tokens to one of 64 experts")
    yield call("models", (21, 512, 512), "float32", axis=0, origin="a mask of 21 classes for an image, channels first")


def _accelerators() -> Iterator[NamedCall]:
    sizes = [((1, 2**28), -1), ((1, 128_256), -1), ((32, 128_256), -1), ((65_536, 64), -1), ((4096, 4096), 0)]
    for (size, axis), dtype in itertools.product(sizes, ("float32", "bfloat16", "int8")):
        yield call("accelerators", size, dtype, axis=axis, origin="what a GPU's memory limits")


OPERATOR = Operator(
    "argmax",
    _extremes.examples("argmax", _BY_AXES, [3, 2, 1, 2, 3], 0, 4),
    dimensions="a b n -> a b; n",
    sample=sample,
    dtypes=DTYPES,
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=SHARDED_DTYPES,
    calls=(*_grid(), *_models(), *_accelerators()),
    races=(call("races", (16, 128_256), "float32"),),
    small=call("overheads", (1, 1024), "float32", origin="a small call"),
    stock=partial(_extremes.stock, lax.argmax),
    judged_rows=2,
)
