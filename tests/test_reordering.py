"""Reordering the dimensions of 8-bit integers, which a GPU stores."""

import itertools
import re

import jax
import numpy as np
import pytest

from jaxdml._networks.reordering import reordered
from tests.kit import assert_same_bits
from tests.kit.forms import forms_of
from tests.kit.meshes import COUNT, mesh_of, needs_devices, put

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float32])
def test_every_order_of_dimensions(platform, dtype):
    with forms_of(platform):
        for shape in ((2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 0, 4)):
            x = RNG.integers(0, 100, shape).astype(dtype)
            for order in itertools.permutations(range(len(shape))):
                assert_same_bits(jax.jit(lambda x, order=order: reordered(x, order))(x), x.transpose(order))


def text_for(platform, x, order):
    return jax.jit(lambda x: reordered(x, order)).trace(x).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize(
    ("order", "moved"),
    [((0, 2, 1, 3), [(0, 2, 1, 3)]), ((0, 2, 3, 1), [(0, 2, 1, 3), (0, 1, 3, 2)]), ((0, 1, 3, 2), [(0, 1, 3, 2)])],
)
def test_on_a_gpu_rows_move_whole_and_are_stored(order, moved):
    x = RNG.integers(0, 100, (2, 3, 4, 8)).astype(np.int8)
    text = text_for("cuda", x, order)
    assert [tuple(map(int, dims.split(","))) for dims in re.findall(r"transpose .*dims = \[([\d, ]+)\]", text)] == moved
    assert ("optimization_barrier" in text) == (order != (0, 1, 3, 2))
    assert "optimization_barrier" not in text_for("cpu", x, order) + text_for("cuda", x.astype(np.float32), order)


@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 2, 3, 1)])
@pytest.mark.parametrize("axes", [("d",), (None, "d"), (None, None, None, "d")])
def test_a_sharded_array_is_not_flattened(kind, order, axes):
    mesh = mesh_of(kind, d=COUNT)
    x = RNG.integers(0, 100, (COUNT,) * 4).astype(np.uint8)
    with forms_of("cuda"):
        program = jax.jit(lambda x: reordered(x, order)).lower(put(mesh, x, *axes))
        assert "optimization_barrier" not in program.as_text()
        assert_same_bits(program.compile()(put(mesh, x, *axes)), x.transpose(order))
