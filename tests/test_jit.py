"""Programs with the option that lets XLA for CUDA multiply int8 for every K, and those without."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from numpy.testing import assert_array_equal

import jaxdml
from jaxdml import reference
from jaxdml._functions import jit as jits
from jaxdml._placement import lowering
from jaxdml._placement.options import BLOCKS, INTEGERS, OPTIONS, options_for, traced_alone, with_options
from jaxdml.onnx.running.program import jit_for
from jaxdml.onnx.values.stored import Transposed

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (8, 768), np.uint8)
W = RNG.integers(-128, 128, (768, 48)).astype(np.int8)


def layer(x, w, factor=1):
    return factor * jaxdml.matrix_multiply_integer(x, np.uint8(3), w, None)


def products(function, *operands, platform="cuda", option=False):
    """Return the dtypes that a program multiplies which is lowered for a platform, with the options or without."""
    return multiplied(text_of(function, *operands, platform=platform, option=option))


def text_of(function, *operands, platform="cuda", option=True):
    """Return what is lowered for a platform, with the options or without."""
    traced = jax.jit(traced_alone(function)).trace(*operands)
    with with_options(INTEGERS if option else ""):
        return traced.lower(lowering_platforms=(platform,)).as_text()


def multiplied(text):
    return set(re.findall(r"dot_general.*: \(tensor<[\dx]+x(\w+)>", text))


@pytest.mark.parametrize("depth", [32, 80, 768, 1024])
def test_a_packed_matrix_is_multiplied_as_int8_in_tiles_that_are_long_enough(depth):
    x, w = np.resize(X, (200, depth)), jaxdml.prepack(np.resize(W, (depth, 48)))
    assert products(layer, x, w) == {"bf16"}
    assert products(layer, x, w, option=True) == {"i8"}
    for platform in ("rocm", "tpu"):
        assert products(layer, x, w, platform=platform, option=True) == products(layer, x, w, platform=platform)


def test_a_k_below_the_shortest_tile_is_multiplied_as_bfloat16():
    x, w = np.resize(X, (200, 31)), jaxdml.prepack(np.resize(W, (31, 48)))
    assert products(layer, x, w, option=True) == {"bf16"}


def test_few_rows_are_multiplied_as_int8_in_sections():
    """XLA splits no K in such a program, so it pads no matrix for that, whatever K is."""
    x, w = np.resize(X, (196, 576)), jaxdml.prepack(np.resize(W, (576, 96)))
    assert products(layer, x, w) == {"bf16"}
    assert products(layer, x, w, option=True) == {"i8"}
    text = text_of(layer, x, w)
    assert "9x196x96xi32" in text
    # XLA would join two of one input, and transpose and join their matrices for that in each call.
    assert "optimization_barrier" in text
    assert "optimization_barrier" not in text_of(layer, x[:1], w)
    assert OPTIONS[INTEGERS]["xla_gpu_experimental_force_split_k"] == 1


def test_the_product_of_a_convolution_is_cut_otherwise():
    """A kernel that adds up sections would do nothing else. So rows are cut, as a batch dimension."""
    x, w = np.resize(X, (1, 8, 16, 768)), np.resize(W, (1, 1, 768, 768))

    def convolution(x, w):
        return jaxdml.convolution_integer(x, np.uint8(3), w, None, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    packed = jaxdml.prepack_filters(w, dimension_numbers="HWIO")
    assert "2x64x768xi32" in text_of(convolution, x, packed)
    assert "3x128x768xi32" in text_of(layer, x.reshape(128, 768), jaxdml.prepack(w[0, 0]))


def test_no_tile_is_shorter_than_what_one_instruction_multiplies():
    with open(OPTIONS[INTEGERS]["xla_gpu_gemm_autotuner_override_file"], encoding="utf-8") as file:
        depths = [int(depth) for depth in re.findall(r"block_k: (\d+)", file.read())]
    assert len(depths) > 20
    assert min(depths) == 32


def test_a_product_that_relies_on_the_option_says_so():
    (line,) = re.findall(r".*dot_general.*", text_of(layer, X, jaxdml.prepack(W)))
    assert 'jaxdml_least_tile = "32"' in line


@pytest.mark.parametrize(("rows", "sums"), [(8, "17x16x48xi32"), (196, "17x208x48xi32")])
def test_k_of_two_arrays_is_cut_too(rows, sums):
    x, w = np.resize(X, (rows, 1088)), np.resize(W, (1088, 48))
    text = text_of(layer, x, w)
    assert sums in text
    (line,) = re.findall(r".*dot_general.*", text)
    assert 'jaxdml_least_tile = "32"' in line
    # A shorter one is multiplied as bfloat16, as it is elsewhere.
    assert products(layer, x[:, :576], w[:576], option=True) == {"bf16"}


def test_what_one_program_has_traced_is_lowered_for_each():
    inner, w = jax.jit(layer), jaxdml.prepack(W)
    assert products(inner, X, w, option=True) == {"i8"}
    assert products(inner, X, w) == {"bf16"}
    assert products(inner, X, w, option=True) == {"i8"}


def test_an_exported_program_is_compiled_without_the_option():
    with with_options(INTEGERS):
        text = export.export(jax.jit(layer), platforms=["cuda"])(X, jaxdml.prepack(W)).mlir_module()
    assert multiplied(text.replace("contracting_dims", "")) == {"bf16"}


@pytest.fixture
def lowered(monkeypatch):
    """For each product that is lowered, as for an NVIDIA GPU, whether its program is compiled with the option."""
    found, given = [], lowering.given

    def recorded(context):
        found.append(given(context) == INTEGERS)
        return INTEGERS if found[-1] else ""

    monkeypatch.setattr(lowering, "given", recorded)
    monkeypatch.setattr(jits, "_on_cuda", lambda weights: True)
    jax.clear_caches()
    return found


def test_the_outermost_program_has_the_option(lowered):
    jaxdml.jit(layer)(X, W)
    jaxdml.jit(jax.jit(layer)).lower(X, W)
    jaxdml.jit(jaxdml.jit(layer))(X, W)
    assert lowered == [True] * 3


@jax.jit
def of_floats(x, w):
    q = lax.stop_gradient(jnp.round(x).astype(jnp.uint8))
    return jnp.sum(jnp.sin(x[:, :48] * layer(q, w).astype(jnp.float32)))


def backward():
    """Return what a checkpoint left, and compute it."""
    floats = X.astype(np.float32) / 8
    _, left = jaxdml.jit(lambda x, w: jax.vjp(lambda x: jax.checkpoint(of_floats)(x, w), x))(floats, W)
    yield
    left(jnp.float32(1))


def at_once():
    """Compute while a function is traced."""

    def function(x):
        with jax.ensure_compile_time_eval():
            once = layer(X, W), jaxdml.jit(layer)(X, W)
        return x + sum(once)

    yield
    jaxdml.jit(function)(jnp.int32(1))


def from_trace():
    """Lower a trace, by itself and in a program of another."""
    traced = jaxdml.jit(layer).trace(X, W)
    yield
    traced.lower()
    jax.jit(traced)(X, W)


def without_jit():
    mesh = Mesh(np.array(jax.devices()[:1]), ("rows",))
    on_shards = jax.shard_map(layer, mesh=mesh, in_specs=(P("rows"), P()), out_specs=P("rows"))
    yield
    with jax.disable_jit():
        jaxdml.jit(on_shards)(X, W)


def debugged():
    """Look for NaNs, operation by operation."""

    def function(x, w):
        return jnp.log(-1.0 - layer(x, w).astype(jnp.float32) ** 2)

    yield
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        jaxdml.jit(function)(X, W)


@pytest.mark.parametrize("leaving", [backward, at_once, from_trace, without_jit, debugged])
def test_what_leaves_the_program_is_lowered_without_the_option(leaving, lowered):
    steps = leaving()
    next(steps)
    lowered.clear()
    assert next(steps, None) is None
    # What looks for NaNs runs the program itself before.
    of_others = lowered[leaving is debugged :]
    assert of_others
    assert not any(of_others)


@pytest.fixture(params=[False, True])
def compiled(request, monkeypatch):
    """A function, compiled for the device that is here as it is and as an NVIDIA GPU would compile it."""
    monkeypatch.setattr(jits, "_on_cuda", lambda weights: request.param)
    return jaxdml.jit(layer, static_argnums=2)


def test_a_compiled_function_computes_what_it_is_of(compiled):
    want = reference.matrix_multiply_integer(X, np.uint8(3), W, None)
    assert_array_equal(compiled(X, W), want)
    assert_array_equal(compiled(X, W, 3), 3 * want)
    assert compiled.__name__ == "layer"
    compiled.clear_cache()
    assert_array_equal(compiled.lower(X, W, 2).compile()(X, W), 2 * want)
    assert compiled.trace(X, W, 2).out_info.shape == want.shape


@pytest.mark.parametrize(
    "sizes",
    [(2, 32, 2), (64, 64, 64), (200, 48, 80), (100, 1000, 24), (196, 576, 96), (1024, 256, 128), (3, 64, 64, 64)],
    ids=str,
)
def test_packed_products_are_right(sizes):
    """On an NVIDIA GPU these are products of int8, and XLA chooses the tiles."""
    *batch, m, k, n = sizes
    a, b = (RNG.integers(-128, 128, (*batch, *shape)).astype(np.int8) for shape in ((m, k), (k, n)))
    got = jaxdml.jit(jaxdml.matrix_multiply_integer)(a, None, jaxdml.prepack(jnp.asarray(b)), None)
    assert_array_equal(got, (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32))


@pytest.mark.parametrize("on_cuda", [False, True])
def test_programs_are_counted(monkeypatch, on_cuda):
    monkeypatch.setattr(jits, "_on_cuda", lambda weights: on_cuda)
    doubled = jaxdml.jit(lambda x: x + x)
    for x in (np.ones(2), np.zeros(2), np.ones(3)):
        doubled(x)
    assert doubled._cache_size() == 2


def test_within_another_trace_it_is_as_jax_compiles(compiled):
    want = reference.matrix_multiply_integer(X, np.uint8(3), W, None)
    assert_array_equal(jax.jit(lambda x: compiled(x, W))(X), want)
    assert_array_equal(jax.vmap(compiled, (0, None))(X[None], W)[0], want)
    assert jax.eval_shape(compiled, X, W).shape == want.shape
    assert export.export(jax.jit(lambda x: compiled(x, W)))(X).out_avals[0].shape == want.shape
    assert jax.grad(jaxdml.jit(lambda x: jnp.sum(x * x)))(jnp.float32(3)) == 6


def test_models_of_packed_integers_are_compiled_so():
    packed = jaxdml.prepack(jnp.asarray(W))
    assert jit_for({"scale": X, "w": packed}) is jaxdml.jit
    assert jit_for({"w": Transposed(packed)}) is jaxdml.jit
    assert jit_for({"scale": X, "w": W}) is jax.jit
    blocks = jaxdml.prepack_blocks(jnp.asarray(W), jnp.ones((24, 48)), block_size=32)
    assert jit_for({"scale": X, "w": blocks}).keywords == {"weights": BLOCKS}
    assert jit_for({"w": blocks, "v": packed}) is jaxdml.jit


def test_options_of_a_caller_stay(monkeypatch):
    monkeypatch.setattr(jits, "_on_cuda", lambda weights: True)
    compiled = jaxdml.jit(layer, compiler_options={"xla_embed_ir_in_executable": False}, keep_unused=True)
    assert_array_equal(compiled(X, W), reference.matrix_multiply_integer(X, np.uint8(3), W, None))
    mode, tiles = "xla_gpu_command_buffer_scheduling_mode", "xla_gpu_gemm_autotuner_override_file"
    given = options_for(INTEGERS, {mode: "LHS", tiles: "mine", "xla_embed_ir_in_executable": False})
    assert given == {**OPTIONS[INTEGERS], mode: "LHS", "xla_embed_ir_in_executable": False}
    with pytest.raises(jax.errors.JaxRuntimeError):
        jaxdml.jit(layer, compiler_options={mode: "no such mode"})(X, W)


def test_it_is_known_whether_the_option_serves_here():
    on_cuda = "cuda" in str(jax.devices()[0].client.platform_version).lower()
    assert jits._on_cuda(INTEGERS) == on_cuda
    assert jits._on_cuda(BLOCKS) == (on_cuda and jits.FUSES_BITS_WITH_PRODUCTS and jits._has_tf32())
    assert all(map(jits._is_taken, OPTIONS.values()))
    assert not jits._is_taken({"xla_no_such_option": "1"})


@pytest.mark.parametrize("capability", [None, "7.5", "8.0", "10.0"])
def test_a_gpu_without_tf32_multiplies_blocks_as_before(monkeypatch, capability):
    class Device:
        client = jax.devices()[0].client

    if capability:
        Device.compute_capability = capability
    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert jits._has_tf32() == (capability in ("8.0", "10.0"))


def test_blocks_have_options_of_their_own(monkeypatch):
    monkeypatch.setattr(jits, "_on_cuda", lambda weights: True)
    found, given = [], lowering.given
    monkeypatch.setattr(lowering, "given", lambda context: found.append(given(context)) or "")
    packed = jaxdml.prepack_blocks(jnp.ones((64, 4), jnp.int4), jnp.ones((2, 4)), block_size=32)
    product = jaxdml.jit(jaxdml.matrix_multiply_block_quantized, weights="blocks")
    assert_array_equal(product(np.ones((3, 64), np.float32), packed), np.full((3, 4), 64))
    assert found == [BLOCKS]


def test_other_weights_are_refused():
    with pytest.raises(ValueError, match="weights must be one of integers, blocks; got 'floats'") as info:
        jaxdml.jit(layer, weights="floats")
    assert len(str(info.value).splitlines()) == 3
