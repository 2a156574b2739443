"""Runs of windows, which are stored beside filters, take a small part of a model's bytes."""

import jax
import numpy as np
import onnx
import pytest

import jaxdml
import jaxdml.onnx
from jaxdml import reference
from jaxdml._placement.options import INTEGERS
from jaxdml.onnx.running import parameters
from tests.kit import assert_same_bits, compiled
from tests.kit.forms import forms_of

RNG = np.random.default_rng(0)
SCALES = {"s": np.float32(0.02), "sw": np.float32(0.01), "so": np.float32(0.5), "z": np.uint8(128), "zw": np.int8(0)}


def network(layers, batch=1):
    """Return a model of convolutions of 16 channels, one after another, and their filters in this order."""
    filters = {name: RNG.integers(-128, 128, (16, 16, 3, 3)).astype(np.int8) for name in "wvu"[:layers]}
    nodes = [
        f"{name}_y = QLinearConv<pads = [1, 1, 1, 1]>({before}, s, z, {name}, sw, zw, so, z)"
        for before, name in zip(("x", "w_y", "v_y"), filters, strict=False)
    ]
    text = f"g (uint8[{batch}, 16, 4, 4] x) => ({list(filters)[-1]}_y) {{ {' '.join(nodes)} }}"
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    made.graph.initializer.extend(onnx.numpy_helper.from_array(x, name) for name, x in {**SCALES, **filters}.items())
    return made, filters


def counts(model):
    """Return how many windows the runs of each convolution have."""
    names = {name: [run.count for run in each.runs] for name, each in model.params.items() if hasattr(each, "runs")}
    return [names[name] for name in "wvu" if name in names]


FOUR, TWO = 4 * 3 * 6 * 16 * 16, 2 * 3 * 4 * 16 * 16


@pytest.mark.parametrize(
    ("room", "wanted"),
    [
        (0, [[], [], []]),
        (TWO * 1.5, [[2], [], []]),
        (TWO * 3.5, [[2], [2], [2]]),
        (TWO * 3.5 + FOUR * 1.2, [[2, 4], [2], [2]]),
        (2**20, [[2, 4], [2, 4], [2, 4]]),
    ],
)
def test_the_first_convolutions_have_runs_and_all_short_ones_come_before_longer_ones(monkeypatch, on_gpu, room, wanted):
    monkeypatch.setattr(parameters, "_ALWAYS_FOR_RUNS", int(room))
    monkeypatch.setattr(parameters, "_PART_OF_RUNS", 2**30)
    made, filters = network(3)
    model = jaxdml.onnx.load(made)
    assert counts(model) == wanted
    x = RNG.integers(0, 256, (1, 16, 4, 4)).astype(np.uint8)
    want, (s, sw, so, z, _) = x, SCALES.values()
    for w in filters.values():
        want = reference.quantized_linear_convolution(
            want, s, z, w, sw, None, None, so, z, start_padding=1, end_padding=1
        )
    with forms_of("cuda", INTEGERS):
        got = compiled(model.apply)(dict(model.params), x)[0]
    assert_same_bits(got, want)


def test_runs_take_a_part_of_the_bytes_of_weights(monkeypatch, on_gpu):
    monkeypatch.setattr(parameters, "_ALWAYS_FOR_RUNS", 0)
    monkeypatch.setattr(parameters, "_PART_OF_RUNS", 1)
    model = jaxdml.onnx.load(network(3)[0])
    of_all = sum(leaf.nbytes for leaf in jax.tree.leaves(dict(model.params)))
    of_runs = sum(leaf.nbytes for leaf in jax.tree.leaves([each.runs for each in model.params.values()]))
    assert counts(model) == [[2], [], []]
    assert TWO < of_runs < of_all / 2
