"""What depends on weights alone is computed when they are packed, and not in each call of a whole model."""

import re

import jax
import pytest
from jax.sharding import SingleDeviceSharding

import jaxdml.onnx
from benchmarks.compiling import compilers
from benchmarks.compiling.prepared import of_weights
from jaxdml._functions import prepack, prepack_filters
from tests.onnx import models

EXCEPTIONS = {
    # Filters that read few channels are padded to what a routine reads: the first layer of a network, some KiB.
    "cpu": {"pad_bitcast_fusion", "wrapped_pad"},
    # XLA joins products of the same few rows to one, and their matrices with it.
    "cuda": {"loop_pad_fusion", "wrapped_concatenate"},
    # XLA stores filters in the order that the TPU reads.
    "tpu": {"copy_bitcast_fusion"},
}
"""What is computed from weights in each call nevertheless, by the names that XLA gives it.

Vectors are no matter: a zero point times the sums of filters.
"""

RUNS = [*((platform, name) for platform in ("cpu", "cuda") for name in ("mobilenet_v2", "resnet", "bert"))]


@pytest.mark.parametrize(("platform", "name"), [*RUNS, ("tpu", "resnet")])
def test_no_kernel_of_a_model_depends_on_weights_alone(monkeypatch, platform, name):
    if not compilers.has(platform):
        pytest.skip(f"the compiler for {platform} is not installed")
    if platform != "cpu":
        monkeypatch.setattr(prepack, "is_on_cpu", lambda x: False)
        monkeypatch.setattr(prepack_filters, "is_on_gpu", lambda x: platform == "cuda")
    model, inputs = jaxdml.onnx.load(models.model(name, "qoperator")), models.inputs(name, batch=4)
    where = SingleDeviceSharding(compilers.devices_of(platform)[0])

    def there(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where)

    given = jax.tree.map(there, (dict(model.params), *(inputs[value.name] for value in model.inputs)))
    lowered = jax.jit(model.apply).trace(*given).lower()
    program = lowered.compile({"xla_backend_optimization_level": 0} if platform == "cpu" else None).as_text()
    assert "%params" in program
    computed = of_weights(program, lambda parameter: parameter.startswith("params"))
    kinds = {re.sub(r"[.\d]+$", "", each.name) for each in computed if not re.search(r" = s32\[\d+\]", each.text)}
    assert kinds <= EXCEPTIONS[platform]
