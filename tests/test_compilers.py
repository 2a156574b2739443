"""The compilers for TPUs and for CUDA take every operator sharded, within the bounds on what is sent, and whole models.

They need the packages libtpu and jax-cuda12-pjrt, but no TPU and no GPU.
"""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxdml.onnx
from benchmarks import compiling
from tests.onnx import models
from tests.sharded_calls import SMALL, WAYS, named


@pytest.fixture(scope="module", params=["tpu", "cuda"])
def devices(request):
    if not compiling.has(request.param):
        pytest.skip(f"the compiler for {request.param} is not installed")
    return compiling.devices_of(request.param)


@pytest.mark.parametrize(("call", "way"), WAYS, ids=named)
def test_a_sharded_call_compiles_and_keeps_its_bound(devices, call, way):
    found = compiling.compiled(call, way, devices)
    assert found["raises"] is None
    assert found["keeps"], found
    assert found["as_written"], found["results"]


def test_what_stock_sends_is_read_from_programs_for_others_too(devices):
    call = next(call for call in SMALL if call.operator == "top_k")
    (data,) = call.arguments
    stock = compiling.compiled(call, "Auto", devices, stock=True)
    assert stock["kinds"]["all-gather"] == {"count": 1, "elements": data.size, "bytes": 4 * data.size}
    assert not stock["keeps"]
    assert devices[0].platform != "tpu" or stock["estimate_us"] > 0


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet", "bert"])
def test_a_model_compiles(devices, name, count):
    """XLA for CUDA once aborted here, where it fused a product with a strided slice."""
    mesh = Mesh(np.array(devices[:count]), ("batch",))
    model, inputs = jaxdml.onnx.load(models.model(name, "qoperator")), models.inputs(name, batch=4)

    def on_devices(x, *spec):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, P(*spec)))

    params = jax.tree.map(on_devices, dict(model.params))
    given = [on_devices(inputs[value.name], "batch") for value in model.inputs]
    assert jax.jit(model.apply).trace(params, *given).lower().compile().as_text()
