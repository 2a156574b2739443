"""The compilers for TPUs and for CUDA take every operator sharded, within the bounds on what is sent, and whole models.

They need the packages libtpu and jax-cuda12-pjrt, but no TPU and no GPU.
"""

import re
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from onnx import helper, numpy_helper

import jaxdml.onnx
from benchmarks.compiling import compilers
from jaxdml._networks import attention
from jaxdml._networks.caches import tensor_scatter
from jaxdml._placement.jax_versions import FUSES_BITS_WITH_PRODUCTS
from jaxdml._placement.options import BLOCKS, INTEGERS, OPTIONS, traced_alone, with_options
from tests.onnx import models
from tests.sharded_calls import SMALL, WAYS, named


@pytest.fixture(scope="module", params=["tpu", "cuda"])
def devices(request):
    if not compilers.has(request.param):
        pytest.skip(f"the compiler for {request.param} is not installed")
    return compilers.devices_of(request.param)


def entry_of(lowered):
    """Return the text of the kernels of a program."""
    return lowered.compile().as_text().partition("ENTRY")[2].partition("\n}")[0]


@pytest.mark.parametrize(("outputs", "most"), [(2**16, 1), (2**23, 2)])
def test_a_sum_of_quantized_arrays_is_a_gpu_kernel_or_few(devices, outputs, most):
    """Left to itself, XLA for CUDA has a GPU kernel for each scalar that is computed of scales and zero points."""
    if devices[0].platform == "tpu":
        pytest.skip("a TPU computes scalars beside vectors")
    data, scale, zero = (
        jax.ShapeDtypeStruct(shape, dtype, sharding=SingleDeviceSharding(devices[0]))
        for shape, dtype in (((outputs,), "uint8"), ((), "float32"), ((), "uint8"))
    )
    lowered = jax.jit(jaxdml.quantized_linear_add).lower(data, scale, zero, data, scale, zero, scale, zero)
    entry = entry_of(lowered)
    assert 0 < entry.count(" fusion(") <= most


@pytest.mark.parametrize("outputs", [2**16, 2**23])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_sum_with_known_scales_is_one_gpu_kernel(devices, outputs, dtype):
    if devices[0].platform == "tpu":
        pytest.skip("a TPU has no kernels")
    data = jax.ShapeDtypeStruct((outputs // 64, 64), dtype, sharding=SingleDeviceSharding(devices[0]))
    lowered = jax.jit(lambda a, b: jaxdml.quantized_linear_add(a, 0.02, 5, b, 0.017, 3, 0.03, dtype(7))).lower(
        data, data
    )
    entry = entry_of(lowered)
    assert entry.count(" fusion(") == 1, entry


@pytest.mark.parametrize("dtype", [None, "uint32"])
@pytest.mark.parametrize(("shape", "axis", "kernels"), [((1, 50257), 1, 2), ((32, 1000), 1, 1), ((21, 64, 64), 0, 1)])
def test_argmax_converts_its_indices_in_no_gpu_kernel(devices, shape, axis, kernels, dtype):
    """XLA reduces a long row in two kernels, and joins what follows to neither."""
    if devices[0].platform == "tpu":
        pytest.skip("a TPU has no kernels")
    data = jax.ShapeDtypeStruct(shape, np.float32, sharding=SingleDeviceSharding(devices[0]))
    entry = entry_of(jax.jit(lambda x: jaxdml.argmax(x, axis=axis, index_dtype=dtype)).lower(data))
    assert entry.count(" fusion(") == kernels, entry


def compiled_with(kind, devices, function, *given):
    """Return the text of a program with the options of this kind."""
    given = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=SingleDeviceSharding(devices[0])), given
    )
    with with_options(kind):
        lowered = jax.jit(traced_alone(function), compiler_options=OPTIONS[kind]).lower(*given)
    return lowered.compile().as_text()


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize(
    ("dtype", "of_a"), [("int4", "float16"), ("int4", "float32"), ("int8", "bfloat16"), ("int8", "float32")]
)
def test_a_few_bits_are_unpacked_in_the_kernel_of_a_product(devices, dtype, of_a, looped):
    """One multiplies sections of K, and one adds them up."""
    if devices[0].platform == "tpu":
        pytest.skip("a TPU unpacks what it multiplies in operations of its own")
    if dtype == "int4" and not FUSES_BITS_WITH_PRODUCTS:
        pytest.skip("this version of XLA writes the floats of int4")
    b, scale = jax.ShapeDtypeStruct((512, 2048), dtype), jax.ShapeDtypeStruct((16, 2048), of_a)
    packed = jax.eval_shape(partial(jaxdml.prepack_blocks, block_size=32), b, scale)

    def function(a, b):
        if not looped:
            return jaxdml.matrix_multiply_block_quantized(a, b)
        return jax.lax.scan(lambda a, _: (jaxdml.matrix_multiply_block_quantized(a, b)[:, :512], None), a, length=3)[0]

    text = compiled_with(BLOCKS, devices, function, jax.ShapeDtypeStruct((8, 512), of_a), packed)
    found = [line for line in text.splitlines() if " fusion(" in line]
    # A loop counts its passes, and cuts what it passes on.
    assert len(found) == 2 + 2 * looped, found
    assert sum("kind=kCustom" in line for line in found) == 1


def parameters_of(input_, weights, dtype, columns):
    return {
        f"{input_}_scale": np.float32(0.02), f"{input_}_zero_point": dtype(3),
        f"{weights}_scale": np.linspace(0.01, 0.02, columns).astype(np.float32),
        f"{weights}_zero_point": np.zeros(columns, np.int8),
        "bias": None, "output_scale": np.float32(0.4), "output_zero_point": dtype(9),
    }  # fmt: skip


def weights_of(*shape):
    return np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("rows", [1024, 100352])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_product_is_rounded_by_an_addition_in_its_kernel(devices, dtype, rows, on_gpu):
    if devices[0].platform == "tpu":
        pytest.skip("a TPU has no kernels")
    known = parameters_of("a", "b", dtype, 256)
    packed = jaxdml.prepack(weights_of(64, 256), parameters=known)
    text = compiled_with(
        INTEGERS,
        devices,
        lambda a, b: jaxdml.quantized_linear_matrix_multiply(a, b=b, **known),
        *(np.zeros((rows, 64), dtype), packed),
    )
    (kernel,) = (line for line in text.splitlines() if " fusion(" in line)
    assert re.search(rf"= [su]8\[{rows},256\].*kind=kCustom", kernel)
    if FUSES_BITS_WITH_PRODUCTS:
        assert "round-nearest-even" not in text
        # ptxas converts the float whose lowest byte is stored, unless an operation of integers comes between.
        assert re.search(r"convert\(%(min|clamp)[\w.]*\)", text)


@pytest.mark.parametrize(("shape", "columns"), [((1, 100), 144), ((3, 2, 64, 130), 1), ((2, 49, 144), 31)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_products_compile_that_pad_one_row_or_merge_rows_of_bytes(
    devices, shape, columns, dtype, rounds, turned, on_gpu
):
    """XLA for CUDA made no code of them where they were cut, or converted, in the kernel of the product."""
    if devices[0].platform == "tpu":
        pytest.skip("a TPU has no kernels")
    known = parameters_of("a", "b", dtype, columns)
    packed = jaxdml.prepack(weights_of(shape[-1], columns), parameters=known)

    def product(a, b):
        a = jnp.swapaxes(a, -1, -2) if turned else a
        if rounds:
            return jaxdml.quantized_linear_matrix_multiply(a, b=b, **known)
        return jaxdml.matrix_multiply_integer(a, None, b, None)

    a = np.zeros(shape, dtype)
    assert compiled_with(INTEGERS, devices, product, a.swapaxes(-1, -2) if turned else a, packed)


def test_a_convolution_of_pixels_compiles_whose_bytes_are_converted(devices, on_gpu):
    if devices[0].platform == "tpu":
        pytest.skip("a TPU has no kernels")
    known = parameters_of("x", "w", np.uint8, 768)
    packed = jaxdml.prepack_filters(weights_of(768, 512, 1, 1), parameters=known)

    def convolution(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **known, dimension_numbers=("NHWC", "OIHW", "NHWC"))

    assert compiled_with(INTEGERS, devices, convolution, np.zeros((1, 7, 7, 512), np.uint8), packed)


def test_attention_of_a_token_is_three_gpu_kernels(devices):
    """One writes keys and values, one has the scores and their softmax, and one the sum of values."""
    if devices[0].platform == "tpu":
        pytest.skip("a TPU multiplies a row as it does others")

    def step(q, keys, values, k, v, place):
        keys, values = (tensor_scatter(old, new, place, axis=2) for old, new in ((keys, k), (values, v)))
        visible = (np.arange(keys.shape[2])[None] <= place[:, None])[:, None, None]
        return attention.weighted(attention.probabilities(attention.products(q, keys), visible), values), keys, values

    shapes = [(1, heads, keys, 64) for heads, keys in ((9, 1), (3, 128), (3, 128), (3, 1), (3, 1))]
    given = [jax.ShapeDtypeStruct(each, "float32", sharding=SingleDeviceSharding(devices[0])) for each in shapes]
    place = jax.ShapeDtypeStruct((1,), "int32", sharding=SingleDeviceSharding(devices[0]))
    entry = entry_of(jax.jit(step, donate_argnums=(1, 2)).lower(*given, place))
    assert entry.count(" fusion(") == 3, entry


@pytest.mark.parametrize(("call", "way"), WAYS, ids=named)
def test_a_sharded_call_compiles_and_keeps_its_bound(devices, call, way):
    found = compilers.compiled(call, way, devices)
    assert found["raises"] is None
    assert found["keeps"], found
    assert found["as_written"], found["results"]


def test_what_stock_sends_is_read_from_programs_for_others_too(devices):
    call = next(call for call in SMALL if call.operator == "top_k")
    (data,) = call.arguments
    stock = compilers.compiled(call, "Auto", devices, stock=True)
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
        dtype = jax.dtypes.canonicalize_dtype(x.dtype)
        return jax.ShapeDtypeStruct(x.shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    params = jax.tree.map(on_devices, dict(model.params))
    given = [on_devices(inputs[value.name], "batch") for value in model.inputs]
    assert jax.jit(model.apply).trace(params, *given).lower().compile().as_text()


@pytest.mark.parametrize("name", ["mobilenet_v2", "bert"])
def test_constants_of_a_model_add_no_gpu_kernel(devices, name, on_gpu):
    if devices[0].platform == "tpu":
        pytest.skip("no program for TPUs has options")
    if not FUSES_BITS_WITH_PRODUCTS:
        pytest.skip("this version of XLA takes no constants into the kernel of a product")
    model, inputs = jaxdml.onnx.load(models.model(name, "qoperator")), models.inputs(name, batch=4)
    given = [inputs[value.name].astype(jax.dtypes.canonicalize_dtype(value.dtype)) for value in model.inputs]

    def computed(leaves, *given):
        return model.apply(model.params_from(leaves), *given)

    def kernels(leaves):
        text = compiled_with(INTEGERS, devices, computed, leaves, *given)
        entry = text.partition("ENTRY")[2].partition("\n}")[0]
        return sum(f" {kind}(" in line for line in entry.splitlines() for kind in ("fusion", "custom-call", "copy"))

    passed = model.passed_to(SimpleNamespace(takes_constants=lambda: True))
    assert len(passed) < len(model.leaves)
    assert kernels(passed) == kernels(model.leaves) > 0


def test_a_pooling_between_convolutions_compiles(devices):
    """The TPU's compiler aborted here at the largest of strided slices, a part of an int8 ResNet-50 for 32 images."""

    def convolution(x, taken, given, stride, y):
        constants[y] = np.ones((given, taken, 1, 1), np.int8)
        names = [x, "scale", "zero", y, "scale", "zero_w", "scale", "zero"]
        return helper.make_node("QLinearConv", names, [f"{y}_out"], strides=[stride] * 2)

    constants = {"scale": np.float32(0.1), "zero": np.uint8(0), "zero_w": np.int8(0)}
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    nodes = [
        convolution("x", 3, 64, 2, "first"),
        helper.make_node("MaxPool", ["first_out"], ["pooled"], **window),
        convolution("pooled", 64, 64, 1, "narrow"),
        convolution("pooled", 64, 256, 1, "wide"),
        convolution("pooled", 64, 256, 2, "strided"),
    ]
    kind, shape = onnx.TensorProto.UINT8, (32, 3, 112, 112)
    graph = helper.make_graph(
        nodes,
        "pooling",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(f"{name}_out", kind, None) for name in ("narrow", "wide", "strided")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = jaxdml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))

    def there(x):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=SingleDeviceSharding(devices[0]))

    given = jax.tree.map(there, (dict(model.params), jax.ShapeDtypeStruct(shape, np.uint8)))
    if devices[0].platform == "tpu":
        assert jax.jit(model.apply).trace(*given).lower().compile().as_text()
        return
    with with_options(INTEGERS):
        lowered = jax.jit(traced_alone(model.apply)).trace(*given).lower()
    text = lowered.compile(compiler_options=OPTIONS[INTEGERS]).as_text()
    # What is between the convolutions is stored as int8. A product that converts its rows takes longer.
    rows = set(re.findall(r" = s32\S* dot\(%([a-z_]+?)[_.\d]*,", text))
    assert rows
    assert rows <= {"param", "parameter"}
