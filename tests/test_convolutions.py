"""The kernel of integer convolutions: every method, part by part, and what each platform is given to run."""

import re
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic.windows import Windows
from jaxdml._cases._convolving import CHANNELS_LAST
from jaxdml._kernels.integer_convolution import channel_convolution, cpu, cuda, kernel
from jaxdml._kernels.integer_product import cpu as integer_product
from jaxdml._kernels.integer_sums import accumulator
from jaxdml._kernels.requantization.kernel import FEW_OUTPUTS
from tests.kit import assert_same_bits, meshes, quick

PLATFORMS = ["cpu", "cuda", "rocm", "tpu"]
LAST = {"dimension_numbers": CHANNELS_LAST}


def bytes_of(seed, dtype, *shape):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.random.default_rng(seed).integers(low, high, shape, dtype, endpoint=True)


def lowered(function, *arguments, platform, **named):
    return jax.jit(function).trace(*arguments, **named).lower(lowering_platforms=(platform,)).as_text()


def convolution(method, options):
    return jax.jit(partial(jaxdml.convolution_integer, implementation=method, **options))


@pytest.mark.parametrize(
    ("method", "w_dtype"),
    [("native_convolution", "uint8"), ("shifted_slices", "int8"), ("integer_dot", "uint8"), ("mixed_dot", "int8")],
)
def test_methods_agree_with_the_oracle_image_by_image(method, w_dtype, monkeypatch):
    if jax.default_backend() != (kernel.METHODS[method] or jax.default_backend()):
        pytest.skip(f"{method} does not serve here")
    monkeypatch.setattr(cpu, "OUTPUTS_PER_PART", 1)
    options, channels, depth = {"start_padding": 1, "strides": (1, 2)}, 6, 3
    if method == "native_convolution":
        channels, options = 3, options | LAST
    elif method == "shifted_slices":
        depth, options = 1, options | {"group_count": channels}
    else:
        # One of the two has its channels last.
        options |= {"group_count": 2} | (LAST if method == "integer_dot" else {})
    x, w = bytes_of(0, "uint8", 3, channels, 4, 5), bytes_of(1, w_dtype, 12, depth, 2, 2)
    if "dimension_numbers" in options:
        x, w = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)
    given = x, np.uint8(200), w, None if w_dtype == "int8" else bytes_of(2, w_dtype, 12)
    assert_same_bits(convolution(method, options)(*given), reference.convolution_integer(*given, **options))


@pytest.mark.parametrize("first", [True, False], ids=["channels first", "channels last"])
@pytest.mark.parametrize(
    ("channels", "size", "stride", "small"),
    [
        *((3, (3, 3), (2, 2), True), (3, (3, 3), (1, 1), True), (3, (7, 7), (2, 2), False), (3, (5, 5), (1, 1), False)),
        *((1, (5, 5), (1, 1), True), (2, (1, 3), (2, 1), True), (8, (3, 2), (1, 2), True), (8, (3, 3), (1, 1), False)),
    ],
)
def test_few_channels_are_copied_for_cuda(channels, size, stride, small, first):
    x, w = bytes_of(0, "uint8", 2, 11, 9, channels), bytes_of(1, "uint8", 5, channels, *size)
    zeros = np.uint8(200), bytes_of(2, "uint8", 5)
    options = {"start_padding": (2, 1), "end_padding": (0, 3), "strides": stride}
    wanted = reference.convolution_integer(x.transpose(0, 3, 1, 2), zeros[0], w, zeros[1], **options)
    given, dimensions = (x.transpose(0, 3, 1, 2), (2, 3)) if first else (x, (1, 2))
    windows = Windows(dimensions, size, stride, (1, 1), (2, 1), (0, 3), 1)
    shape = windows.with_channels(2, wanted.shape[2:], 5)

    @jax.jit
    def sums(x, w, zx, zw):
        return accumulator(cuda.convolve(windows, x, zx.reshape(1), w, zw), shape)

    got = sums(given, w, *zeros)
    assert_same_bits(got if first else got.transpose(0, 3, 1, 2), wanted)
    text = jax.jit(sums).trace(given, w, *zeros).lower().as_text()
    assert ("stablehlo.dot_general" in text, "stablehlo.convolution" in text) == (small, not small)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("zero", [None, -128, -1, 0, 127])
def test_channels_are_read_in_words(dtype, zero):
    x, w = bytes_of(0, dtype, 2, 6, 7, 8), bytes_of(1, "uint8", 8, 1, 3, 2)
    zx = None if zero is None else np.int32(zero + (128 if dtype == "uint8" else 0)).astype(dtype)
    zw = bytes_of(2, "uint8", 8)
    options = {"start_padding": (1, 0), "end_padding": (1, 2), "strides": (1, 2), "dilations": (2, 1)}
    wanted = reference.convolution_integer(x.transpose(0, 3, 1, 2), zx, w, zw, group_count=8, **options)
    windows = Windows((1, 2), (3, 2), (1, 2), (2, 1), (1, 0), (1, 2), 8)

    @jax.jit
    def sums(x, zx, w, zw):
        weights = channel_convolution.channel_weights(w, zw, windows, jnp.int32)
        zx = None if zx is None else zx.reshape(1)
        raw = channel_convolution.convolve_words(weights, zx, x, windows)
        return accumulator(raw, windows.with_channels(2, wanted.shape[2:], 8))

    assert_same_bits(sums(x, zx, w, zw).transpose(0, 3, 1, 2), wanted)


def test_gpus_read_channels_in_words_where_they_can():
    def text(platform, channels, last=True):
        x, w = jnp.zeros((1, 5, 5, channels), jnp.int8), jnp.zeros((3, 3, 1, channels), jnp.int8)
        if not last:
            x, w = x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
        options = {"group_count": channels, **(LAST if last else {})}
        call = partial(jaxdml.convolution_integer, x_zero_point=None, w_zero_point=None, **options)
        return lowered(call, x, w=w, platform=platform)

    assert "bitcast_convert" in text("cuda", 8)
    for platform, channels, last in [("cpu", 8, True), ("tpu", 8, True), ("cuda", 6, True), ("cuda", 8, False)]:
        assert "bitcast_convert" not in text(platform, channels, last)


@pytest.mark.parametrize(("channels", "padding", "word"), [(16, 1, "i32"), (16, 0, None), (18, 1, "i8")])
def test_cuda_pads_in_words_where_it_can(channels, padding, word):
    x, w = jnp.zeros((1, 5, 5, channels), jnp.uint8), jnp.zeros((3, 3, channels, 16), jnp.int8)
    options = {"start_padding": padding, "end_padding": padding, **LAST}
    call = partial(jaxdml.convolution_integer, x_zero_point=3, w_zero_point=None, **options)
    padded = re.findall(r"stablehlo\.pad .* -> tensor<1x7x7x\d+x(\w+)>", lowered(call, x, w=w, platform="cuda"))
    assert padded == ([word] if padding else [])


@pytest.mark.parametrize("features", [("avx512_vnni",), ("amx_int8", "avx512_vnni"), ()])
def test_each_cpu_gets_a_method_that_it_has(features, monkeypatch):
    monkeypatch.setattr(integer_product, "cpu_features", lambda: frozenset(features))
    # Another shape for each, since a traced program is kept.
    x, w = jax.ShapeDtypeStruct((1 + len(features), 4, 5, 3), jnp.uint8), jax.ShapeDtypeStruct((1, 1, 3, 7), jnp.int8)
    text = lowered(
        partial(jaxdml.convolution_integer, x_zero_point=None, w_zero_point=None, **LAST), x, w=w, platform="cpu"
    )
    mixed = re.search(r"stablehlo.dot_general.*xui8>, tensor<[x\d]*xi8>", text)
    assert bool(mixed) == ("avx512_vnni" in features)


def test_forced_methods_say_what_they_cannot_serve():
    x, w = jnp.zeros((1, 4, 5, 5), jnp.int8), jnp.zeros((4, 2, 2, 2), jnp.int8)
    for method, why in [
        ("shifted_slices", "each filter reads 2 channels, and it serves one"),
        ("native_convolution", "it serves two spatial dimensions, channels last and one group"),
    ]:
        with pytest.raises(NotImplementedError, match=why):
            jaxdml.convolution_integer(x, None, w, None, group_count=2, implementation=method)
    deep = jnp.zeros((1, 200, 200, 1), jnp.uint8), jnp.zeros((200, 200, 1, 2), jnp.uint8)
    with pytest.raises(NotImplementedError, match="it serves filters of up to 33025 elements"):
        jaxdml.convolution_integer(deep[0], None, deep[1], None, implementation="native_convolution", **LAST)


def test_filters_too_deep_for_int32_are_exact():
    x, w = np.full((1, 40_000, 1, 1), 255, np.uint8), np.full((2, 40_000, 1, 1), 255, np.uint8)
    want = 255 * 255 * 40_000
    assert (np.asarray(jaxdml.convolution_integer(x, None, w, None)) == want - 2**32).all()
    scale = np.float32(2.0**-25)
    got = jaxdml.quantized_linear_convolution(x, 1.0, None, w, scale, None, np.int32([0, 2**31 - 1]), 1.0)
    assert np.asarray(got).ravel().tolist() == [round(want * Fraction(2) ** -25), round((want + 2**31 - 1) / 2**25)]


@pytest.mark.parametrize("bias", [0, 2**31 - 1])
def test_doubtful_outputs_are_rounded_exactly_part_by_part(bias):
    images, size = 3, 64
    assert images * size**2 > FEW_OUTPUTS
    x, w = bytes_of(0, "int8", images, 1, size, size), np.int8([3]).reshape(1, 1, 1, 1)
    # A multiplier of 1/6 is no multiple of a power of two, and an odd multiple of 3 times it is a tie.
    got = jaxdml.quantized_linear_convolution(x, 1.0, None, w, 1.0, None, np.int32(bias), 6.0)
    sums = x.astype(np.int64) * 3 + bias
    rounded = {total: round(Fraction(total, 6)) for total in set(sums.ravel().tolist())}
    want = np.clip(np.vectorize(rounded.get)(sums), -128, 127).astype(np.int8)
    assert_same_bits(got, want)


@quick
def test_mapping_over_filters_makes_no_convolution_of_groups():
    x, w = bytes_of(0, "int8", 2, 5, 5, 16), bytes_of(1, "int8", 3, 2, 2, 16, 17)
    convolve = partial(jaxdml.convolution_integer, **LAST)
    over_filters = jax.vmap(lambda x, w: convolve(x, None, w, None), (None, 0))
    for platform in ("cpu", "cuda"):
        assert "stablehlo.convolution" not in lowered(over_filters, x, w, platform=platform)
    want = [reference.convolution_integer(x, None, each, None, **LAST) for each in w]
    assert_same_bits(jax.jit(over_filters)(x, w), np.stack(want))
    images = np.stack([x, x[::-1]])
    over_images = jax.vmap(lambda x: convolve(x, None, w[0], None))
    assert "stablehlo.convolution" in lowered(over_images, images, platform="cpu")
    assert_same_bits(jax.jit(over_images)(images), np.stack([want[0], want[0][::-1]]))


@quick
@meshes.needs_devices
def test_channels_are_convolved_by_themselves_on_each_device():
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (2 * meshes.COUNT, 4, 5, 6)).astype(np.int8)
    w = rng.integers(-128, 128, (4, 1, 3, 2)).astype(np.int8)
    convolve = jax.jit(lambda x, w: jaxdml.convolution_integer(x, None, w, None, group_count=4))
    got = convolve(meshes.put(meshes.mesh_of("auto"), x, ("x", "y")), w)
    assert_same_bits(got, reference.convolution_integer(x, None, w, None, group_count=4))


@quick
@pytest.mark.parametrize("platform", PLATFORMS)
def test_platforms_convolve_natively_only_where_that_is_exact(platform):
    def text(shape, filters, **options):
        arguments = (jax.ShapeDtypeStruct(each, jnp.int8) for each in (shape, filters))
        convolve = partial(jaxdml.convolution_integer, **options)
        return lowered(lambda x, w: convolve(x, None, w, None), *arguments, platform=platform)

    plain = text((2, 8, 8, 32), (3, 3, 32, 32), **LAST)
    assert ("stablehlo.convolution" in plain) == (platform in ("cpu", "cuda", "tpu"))
    if platform == "cuda":
        assert re.search(r"stablehlo.convolution.*xi8>.*-> tensor<[x\d]*xf32>", plain)
    first = text((2, 32, 8, 8), (32, 32, 3, 3))
    assert ("stablehlo.convolution" in first) == (platform in ("cuda", "tpu"))
    grouped = text((2, 32, 8, 8), (32, 16, 3, 3), group_count=2)
    assert ("stablehlo.convolution" in grouped) == (platform == "tpu")
    # float32, in which cuDNN sums, does not hold sums of more than 1,024 products.
    deep = text((2, 8, 8, 128), (3, 3, 128, 32), **LAST)
    assert ("stablehlo.convolution" in deep) == (platform in ("cpu", "tpu"))
    # Slices of single channels are added up; with greater strides a TPU's compiler aborts on some fusions of these.
    for strides in (1, 2):
        by_channel = text((2, 32, 8, 8), (32, 1, 3, 3), group_count=32, strides=strides)
        assert bool(re.search(r"stablehlo\.(convolution|dot)", by_channel)) == (platform == "tpu" and strides > 1)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="reads what XLA's CPU backend compiled")
def test_cpu_has_fast_kernels_for_all_products():
    for shape, filters, options in [
        ((3, 8, 8, 32), (3, 3, 32, 32), LAST),
        ((3, 8, 8, 32), (1, 1, 32, 32), LAST),
        ((3, 32, 8, 8), (32, 32, 3, 3), {}),
    ]:
        arguments = (jax.ShapeDtypeStruct(each, jnp.int8) for each in (shape, filters))
        convolve = partial(jaxdml.convolution_integer, **options)
        text = jax.jit(lambda x, w, convolve=convolve: convolve(x, None, w, None)).lower(*arguments).compile().as_text()
        slow = [
            line
            for line in text.splitlines()
            if re.search(r"= s32\S* (dot|convolution)\(", line) and "s32[" in line.split("(", 1)[1]
        ]
        assert "__ynn" in text
        assert not slow
