"""Small sharded calls: one for each rule of what may be sent between devices, and the samples of all operators."""

from functools import partial

import numpy as np
from jax.sharding import PartitionSpec as P

import jaxdml
from benchmarks.cases.sharded_calls import argmax, gather, product, scatter_elements, scatter_nd, top_k
from benchmarks.cases.shardings import DEVICES, KINDS, ONE, TWO, Shape, Sharded
from jaxdml._cases import OPERATORS, dimensions
from tests.kit import THOROUGH

SMALL = (
    argmax("the axis", (2, 512), None, "d"),
    argmax("the axis and the batch, not the last axis", (64, 8), "d", "e", axis=0, axes=TWO),
    top_k("the axis, 1-D", (4096,), 8, "d"),
    top_k("the axis, not the last one", (2, 1024, 3), 4, None, "d", axis=1),
    top_k("the axis and the batch", (4, 256), 3, "d", "e", axes=TWO),
    top_k("k above a shard's length", (2, 64), 11, None, "d"),
    top_k("two dimensions of the batch", (2, 4, 64), 3, "d", "e", axes=TWO),
    scatter_nd("rows", (64, 3), 5, "d"),
    scatter_nd("rows, the last duplicate wins", (64, 3), 5, "d", duplicates="last"),
    scatter_nd("slices", (64, 8), 5, None, "d"),
    scatter_nd("rows, indices and updates", (64, 3), 16, "d", updates_over="d"),
    scatter_nd("both indexed dimensions", (8, 8, 3), 5, "d", "e", depth=2, axes=TWO),
    scatter_elements("rows, along the columns", (16, 9), (16, 5), "d", axis=1),
    scatter_elements("the axis", (64, 3), (16, 3), "d", gathers=True),
    gather("the axis", (64, 8), (5,), "d"),
    gather("the axis, not the first one", (2, 64, 3), (2, 2), None, "d", axis=1),
    gather("the axis and the indices", (64, 8), (4, 2), "d", indices_over=("e",), axes=TWO),
    gather("columns and indices", (5, 16), (4, 2), None, "d", indices_over=("e",), axes=TWO),
    gather("rows, along the columns", (16, 5), (3,), "d", axis=1),
    product("rows and columns", (16, 96, 16), rows="d", columns="e", dtype="uint8", by_axis=True, axes=TWO),
    product("K", (4, 1024, 6), depth="d", dtype="uint8", by_axis=True),
    product("K = 80,000", (4, 80_000, 6), depth="d"),
    product("rows and columns, packed", (16, 96, 16), rows="d", columns="e", by_axis=True, axes=TWO, packed=True),
    product("K, packed", (4, 1024, 6), depth="d", dtype="uint8", by_axis=True, packed=True),
    product("K = 80,000, packed", (4, 80_000, 6), depth="d", packed=True),
)


def sample(record, letter):
    """Return the sample of an operator with one dimension sharded whose blocks are independent: it may send nothing."""
    arrays = record.sample(np.random.default_rng(0), True, **{letter: DEVICES * record.sizes[letter]})
    specs, results = dimensions.of(record.dimensions).sharded({letter: "d"})
    ours = partial(getattr(jaxdml, record.name), **record.options)
    return Sharded(
        *(record.name, f"dimension {letter}", ONE, tuple(Shape(x.shape, x.dtype) for x in arrays)),
        *(tuple(P(*axes) for axes in specs), tuple(P(*axes) for axes in results), ours, ours),
    )


def independent(record, turn):
    """Return the dimensions of a sample whose blocks are independent: one in turn, or in the thorough profile all."""
    dims = dimensions.of(record.dimensions)
    found = [letter for letter in record.sizes if dims.independent((letter,))]
    return found if THOROUGH else found[turn % max(1, len(found)) :][:1]


SAMPLES = tuple(sample(record, letter) for turn, record in enumerate(OPERATORS) for letter in independent(record, turn))

WAYS = [
    *((call, way) for call in SMALL for way in call.ways),
    *((call, list(KINDS)[turn % 2]) for turn, call in enumerate(SAMPLES)),
]
"""The calls, each on a mesh of both kinds and with ``axis_name`` where it has one; samples on either kind in turn."""


def named(part):
    """Return what pytest shows of a call."""
    return getattr(part, "name", part)
