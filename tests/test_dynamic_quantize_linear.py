"""The laws of quantizing by the range of an array, against the oracle and by themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from jaxdml._cases._quantizing import dtype_of
from jaxdml._cases.dynamic_quantize_linear import _MAKERS
from tests.kit import as_shipped, assert_same_bits, meshes, quick

quantize = jax.jit(jaxdml.dynamic_quantize_linear, static_argnames="output_dtype")


def assert_agrees(got, x, **options):
    for ours, right in zip(got, reference.dynamic_quantize_linear(x, **options), strict=True):
        assert_same_bits(ours, right)


@pytest.mark.parametrize(("dtype", "output_dtype"), [("float32", "uint8"), ("float16", "int8"), ("bfloat16", "uint8")])
def test_agrees_with_the_oracle_on_ranges_of_any_size(dtype, output_dtype):
    rng = np.random.default_rng(0)
    x = np.concatenate([make(rng, (250, 9), dtype_of(dtype)) for make in _MAKERS.values()])
    got = jax.jit(jax.vmap(partial(jaxdml.dynamic_quantize_linear, output_dtype=output_dtype)))(x)
    for i in range(len(x)):
        assert_agrees((part[i] for part in map(np.asarray, got)), x[i], output_dtype=output_dtype)


RANGES = {
    "zeros": ([0, -0.0], 1, 0, [0, 0]),
    "nothing but NaN": ([np.nan, -np.nan], 1, 0, [0, 0]),
    "NaN gives the zero point": ([-255, np.nan, 255], 2, 128, [0, 128, 255]),
    "above 0": ([51, 102, 255], 1, 0, [51, 102, 255]),
    "below 0": ([-51, -102, -255], 1, 255, [204, 153, 0]),
    "infinite above": ([1, np.inf, -1], np.inf, 0, [0, 0, 0]),
    "infinite below": ([1, -np.inf, -1], np.inf, 0, [0, 0, 0]),
    "an overflowing range": ([3e38, -3e38], np.inf, 0, [0, 0]),
    "a range whose scale is 0": ([1e-45, 0], 0, 0, [255, 0]),
    "such a range below 0": ([-1e-45, 0, 1e-45], 0, 255, [0, 255, 255]),
    "a subnormal scale": ([255e-45, 0], 1e-45, 0, [182, 0]),
}


@pytest.mark.parametrize("which", RANGES)
def test_a_range_has_this_scale_and_zero_point(which):
    values, scale, zero_point, output = RANGES[which]
    # All have one shape, so that one program serves them.
    x = np.resize(np.float32(values), 6)
    got = quantize(x)
    assert_agrees(got, x)
    assert got.scale == np.float32(scale)
    assert got.zero_point == zero_point
    assert got.output[: len(values)].tolist() == output


@quick
def test_an_empty_array_has_the_range_of_0():
    got = quantize(np.zeros((0, 3), np.float32), output_dtype="int8")
    assert (got.scale, got.zero_point, got.output.shape) == (1, -128, (0, 3))


def test_one_element():
    assert_agrees(quantize(np.float32(-3)), np.float32(-3))


def test_the_output_is_that_of_quantize_linear():
    x = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    output, scale, zero_point = quantize(x)
    assert_same_bits(output, jaxdml.quantize_linear(x, scale, zero_point))
    error = jaxdml.dequantize_linear(output, scale, zero_point) - x
    assert np.abs(error).max() <= scale / 2 * (1 + 1e-6)


@as_shipped
@pytest.mark.parametrize("shape", [(4, 16), (3, 80, 90)])
def test_a_chain_on_a_cpu_is_compiled_link_by_link(shape):
    """Without a branch each link would compute anew all that comes before, and compiling would take the square."""

    def length(links):
        def chain(x):
            for _ in range(links):
                output, scale, zero_point = jaxdml.dynamic_quantize_linear(x)
                x = jaxdml.dequantize_linear(output, scale, zero_point)
            return x

        return jax.jit(chain).lower(np.ones(shape, np.float32)).compile().as_text().count("\n")

    lengths = [length(links) for links in (2, 4, 6)]
    first, second = np.diff(lengths)
    assert second < 1.2 * first


@quick
def test_a_range_of_each_shard():
    x = np.float32([[51, -255], [3, np.inf], [0, 0], [1, 2]])
    mesh = jax.make_mesh((1,), ("x",))
    mapped = jax.shard_map(
        lambda x: jaxdml.dynamic_quantize_linear(x).output, mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    x = jax.device_put(x, jax.NamedSharding(mesh, P("x")))
    assert_same_bits(jax.jit(mapped)(x), reference.dynamic_quantize_linear(np.asarray(x))[0])


@meshes.needs_devices
@pytest.mark.parametrize("names", ["y", ("x", "y")])
def test_the_range_is_that_of_all_shards(names):
    x = np.random.default_rng(2).standard_normal((3, 16)).astype(np.float32)
    spec = P(None, names)
    mapped = jax.shard_map(
        partial(jaxdml.dynamic_quantize_linear, axis_name=names),
        mesh=meshes.mesh_of("explicit"),
        in_specs=spec,
        out_specs=jaxdml.DynamicQuantization(spec, P(), P()),
    )
    lowered = jax.jit(mapped).lower(meshes.put(meshes.mesh_of("explicit"), x, None, names))
    assert lowered.as_text().count("all_reduce") == 1
    assert_agrees(lowered.compile()(meshes.put(meshes.mesh_of("explicit"), x, None, names)), x)


@quick
def test_an_axis_of_vmap_can_be_a_part_of_the_array():
    x = np.float32([[-3, 1], [2, 9]])
    got = jax.vmap(lambda x: jaxdml.dynamic_quantize_linear(x, axis_name="i"), axis_name="i")(x)
    want = reference.dynamic_quantize_linear(x)
    assert_same_bits(got.output, want[0])
    assert_same_bits(got.scale, np.stack([want[1]] * 2))


@quick
def test_derivatives_are_zero():
    def loss(x):
        output, scale, _ = jaxdml.dynamic_quantize_linear(x)
        return scale + (x * output.astype(jnp.float32)).sum()

    assert_same_bits(jax.jit(jax.grad(loss))(np.float32([51, 255])), np.float32([51, 255]))


@quick
@pytest.mark.parametrize(
    ("error", "options", "x", "rule", "shown", "advice"),
    [
        (TypeError, {}, np.int32([1]), "x must be one of float32, float16, bfloat16; got int32.", "x: int32[1]",
            "Convert x with .astype first."),
        (ValueError, {"output_dtype": "int16"}, np.float32([1]),
            "output_dtype must be one of 'int8', 'uint8'; got 'int16'.", "x: float32[1]", "Pass output_dtype='int8'."),
        (TypeError, {"output_dtype": np.int8}, np.float32([1]),
            "output_dtype must be one of 'int8', 'uint8'; got <class 'numpy.int8'>.", "x: float32[1]",
            "Pass output_dtype='int8'."),
        (ValueError, {"axis_name": "z"}, np.float32([1]),
            "axis_name must name mesh axes that are bound here; got 'z'.", "x: float32[1]",
            "Call it inside jax.shard_map over these axes, or leave axis_name out for an array that is whole."),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_write_instead(error, options, x, rule, shown, advice):
    with pytest.raises(error) as caught:
        jaxdml.dynamic_quantize_linear(x, **options)
    assert str(caught.value) == "\n  ".join(["jaxdml.dynamic_quantize_linear: " + rule, shown, advice])
