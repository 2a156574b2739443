"""Results for which the machine has no memory: refused by name before it is taken."""

import jax
import numpy as np
import onnx.parser
import pytest
from jax import export

import jaxdml.onnx
from jaxdml.onnx import _memory
from tests.kit import quick

pytestmark = quick

ROWS = int((2 * _memory.of_devices() // 4) ** 0.5) + 1
"""So many rows and columns of float32 take twice the memory that is there."""


def load(text, inputs="float[A, B] x", outputs="float[C, D] y"):
    head = f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => ({outputs}) '
    return jaxdml.onnx.load(onnx.parser.parse_model(head + text))


def refuses(call, node):
    with pytest.raises(
        ValueError, match=rf"^jaxdml\.onnx\.Model: {node} makes .*, which takes \d+ bytes; there are \d+\."
    ) as caught:
        call()
    lines = str(caught.value).split("\n")
    assert len(lines) >= 3
    assert lines[1] == "  A size in the model, or in an input, may be wrong."
    assert lines[2] == "  No memory was taken for it."


LARGE = {
    "ConstantOfShape": f"<int64[2] s = {{{ROWS}, {ROWS}}}> {{ y = ConstantOfShape(s) }}",
    "Expand": f"<int64[2] s = {{{ROWS}, {ROWS}}}> {{ y = Expand(x, s) }}",
    "Tile": f"<int64[2] s = {{{ROWS}, {ROWS}}}> {{ y = Tile(x, s) }}",
    "Resize": f"<float[2] s = {{{ROWS}.0, {ROWS}.0}}> {{ y = Resize(x, , s) }}",
    "Pad": f"<int64[4] s = {{0, 0, {ROWS}, {ROWS}}}> {{ y = Pad(x, s) }}",
    "RandomNormal": f"{{ y = RandomNormal<shape = [{ROWS}, {ROWS}]>() }}",
}


@pytest.mark.parametrize("name", LARGE)
def test_sizes_that_values_ask_for(name):
    model = load(LARGE[name])
    x, key = np.zeros([1, 1], np.float32), jax.random.key(0)
    refuses(lambda: model(x, key=key), f"{name} 'y'")
    refuses(lambda: jax.jit(model.apply)(model.params, x, key=key), f"{name} 'y'")
    refuses(lambda: model.apply(model.params, jax.numpy.asarray(x), key=key), f"{name} 'y'")
    refuses(lambda: model.report(x), f"{name} 'y'")


@pytest.mark.parametrize("operator", ["Add", "MatMul"])
def test_sizes_that_follow_from_shapes(operator):
    model = load(f"{{ t = Transpose(x) y = {operator}(x, t) }}")
    x = np.zeros([ROWS, 1], np.float32)
    refuses(lambda: model(x), f"{operator} 'y'")
    refuses(lambda: jax.jit(model.apply)(model.params, x), f"{operator} 'y'")
    refuses(lambda: model.apply(model.params, x), f"{operator} 'y'")


def test_operands_that_are_known():
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float x) => (int64[C, D] y) { y = MatMul(a, b) }'
    )
    column = np.zeros([ROWS, 1], np.int64)
    for name, array in (("a", column), ("b", column.T)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
    model = jaxdml.onnx.load(proto)
    refuses(lambda: model(np.float32(0)), "MatMul 'y'")


def test_nodes_of_bodies_are_named():
    shape = f"s = Constant<value = int64[2] {{{ROWS}, {ROWS}}}>()"
    text = f"""{{ y = If(c) <then_branch = t () => (float[C, D] k) {{ {shape} k = ConstantOfShape(s) }},
                            else_branch = e () => (float[C, D] m) {{ m = Identity(x) }}> }}"""
    model = load(text, "bool c, float[A, B] x")
    x = np.zeros([1, 1], np.float32)
    refuses(lambda: model(np.bool_(True), x), "ConstantOfShape 'k'")
    refuses(lambda: model.apply({}, np.asarray(True), x), "ConstantOfShape 'k'")
    np.testing.assert_array_equal(model.apply({}, np.asarray(False), x)[0], x)


def test_sizes_that_are_symbols_are_not_known():
    model = load("{ t = Transpose(x) y = MatMul(x, t) }")
    (rows,) = export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((rows, 1), np.float32)
    exported = export.export(jax.jit(lambda x: model.apply(model.params, x)))(shape)
    np.testing.assert_array_equal(exported.call(np.ones([3, 1], np.float32))[0], np.ones([3, 3]))


class Device:
    def __init__(self, stats):
        self.memory_stats = lambda: stats


def test_the_memory_of_devices_counts_where_it_is_more(monkeypatch):
    of_devices = _memory.of_devices.__wrapped__
    monkeypatch.setattr(_memory, "of_host", lambda: 1000)
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    for stats, expected in ((None, 1000), ({"bytes_limit": 100}, 1000), ({"bytes_limit": 200}, 1600), ({}, 1000)):
        monkeypatch.setattr(jax, "local_devices", lambda stats=stats: [Device(stats), Device(None)])
        assert of_devices() == expected
