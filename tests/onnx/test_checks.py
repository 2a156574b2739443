"""An index out of range names its node under checkify, and nothing is reported of any other."""

from functools import partial

import jax
import jax.export
import numpy as np
import onnx.parser
import pytest
from jax.experimental import checkify
from jax.sharding import AxisType

from jaxdml.onnx import load
from tests.kit import quick

pytestmark = quick

X = np.arange(12, dtype=np.float32).reshape(4, 3)
READING = {
    "Gather": "y = Gather<axis=1>(x, i)",
    "GatherElements": "y = GatherElements<axis=1>(x, i)",
    "GatherND": "y = GatherND(x, i)",
    "GatherND of a batch": "y = GatherND<batch_dims=1>(x, i)",
    "ScatterElements": "u = Gather<axis=0>(x, t) y = ScatterElements<axis=1>(x, i, u)",
    "ScatterElements adding": 'u = Gather<axis=0>(x, t) y = ScatterElements<axis=1, reduction="add">(x, i, u)',
    "ScatterND": "u = Gather<axis=0>(x, t) y = ScatterND(x, i, u)",
}
SHAPES = {"GatherND of a batch": (4, 1), "ScatterND": (2, 1)}


@pytest.mark.parametrize("name", READING)
def test_an_index_out_of_range_names_the_node(name):
    text = f"""<ir_version: 8, opset_import: ["": 18]> g (float[4, 3] x, int64[a, b] i) => (y) {{
        t = Constant<value_ints=[0, 1]>()
        {READING[name]}
    }}"""
    model = load(onnx.parser.parse_model(text))
    checked = jax.jit(checkify.checkify(partial(model.apply, checks=True), errors=checkify.user_checks))
    shape = SHAPES.get(name, (2, 2) if name == "GatherND" else (2, 3))
    good = np.full(shape, -2)
    limits = (4, 3) if name == "GatherND" else (4,) if name == "ScatterND" else (3,) * shape[-1]
    error, _ = checked(model.params, X, good)
    error.throw()
    for place, limit in enumerate(limits):
        for bad in (limit, -limit - 1):
            error, _ = checked(model.params, X, np.where(np.arange(shape[-1]) == place, bad, good))
            assert f"{name.split()[0]} 'y' has an index out of range" in error.get()
        error, _ = checked(model.params, X, np.where(np.arange(shape[-1]) == place, limit - 1, good))
        error.throw()


def test_an_index_beyond_what_counts_names_the_node():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x, int64[b, c] i) => (y) {
        zero = Constant<value_float=0.0>() flat = Constant<value_ints=[-1]>()
        m = Greater(x, zero) at = NonZero(m) row = Reshape(at, flat) some = Gather(x, row)
        y = Gather(some, i)
    }"""
    model = load(onnx.parser.parse_model(text))
    x = np.float32([-1, 5, -2, 6])
    np.testing.assert_array_equal(model(x, np.array([[-1, 0, -2]]), bounds={"at": 4})[0], [[6, 5, 5]])
    for bad in (2, -3):
        with pytest.raises(ValueError, match="Gather 'y' has an index out of range"):
            model(x, np.array([[bad]]), bounds={"at": 4})


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_batch_that_is_sharded_is_mapped_over(kind):
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4, 3] x, int64[2] i) => (y) { y = Gather(x, i) }"""
    model = load(onnx.parser.parse_model(text))
    mesh = jax.make_mesh((1,), ("batch",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        sharding = jax.NamedSharding(mesh, jax.P("batch"))
        x, i = (jax.device_put(array, sharding) for array in (np.stack([X, -X]), np.array([[0, 1], [3, 2]], np.int32)))
        (found,) = jax.jit(jax.vmap(lambda x, i: model.apply(model.params, x, i, checks=True)))(x, i)
    np.testing.assert_array_equal(found, np.stack([X[:2], -X[[3, 2]]]))


def test_a_program_without_checks_is_serialized():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x, int64[2] i) => (y) { y = Gather(x, i) }"""
    model = load(onnx.parser.parse_model(text))
    exported = jax.export.export(jax.jit(model.apply))(model.params, np.ones(4, np.float32), np.array([1, 2], np.int32))
    again = jax.export.deserialize(exported.serialize())
    found = again.call({}, X[:, 0].copy(), np.array([1, 2], np.int32))
    np.testing.assert_array_equal(found[0], [3, 6])
