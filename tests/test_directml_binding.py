"""Inputs that are OWNED_BY_DML: bound at initialization, prepared there once, and the same bits as without the flag."""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxdml
from jaxdml import directml as dml
from jaxdml import reference
from jaxdml.directml._c import c_field
from tests.directml_descs import FLOAT32, INT8, INT64, UINT8, tensor
from tests.kit import assert_same_bits, quick
from tests.structs import VALID, changed
from tests.test_directml_operators import PACKED, drawn

pytestmark = quick

OWNED = dml.TensorFlags.OWNED_BY_DML
QLMM = "QUANTIZED_LINEAR_MATRIX_MULTIPLY"


def owning(desc, *names):
    """Return the description with these inputs owned by DirectML."""

    def owned(described):
        return dataclasses.replace(described, flags=OWNED)

    each = {name: getattr(desc, name) for name in names}
    fields = {name: tuple(map(owned, one)) if isinstance(one, tuple) else owned(one) for name, one in each.items()}
    return dataclasses.replace(desc, **fields)


def inputs_of(desc):
    return [name for name, role in desc.roles().items() if not role.output]


def split(desc, names, inputs):
    """Split the inputs into what is bound, by its names in C, and the others."""
    each = dict(zip(inputs_of(desc), inputs, strict=True))
    return {c_field(name): each.pop(name) for name in names}, list(each.values())


def assert_same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(assert_same_bits, got, want)


@pytest.mark.parametrize("operator", PACKED)
def test_bound_inputs_give_the_same_bits(operator):
    desc = PACKED[operator]
    inputs = drawn(desc, np.random.default_rng(7))
    want = dml.compile_operator(desc)(*inputs)
    names = inputs_of(desc)
    for owned in [[], *([name] for name in names), names]:
        bound, others = split(desc, owned, inputs)
        initialized = dml.compile_operator(owning(desc, *owned)).initialize(**bound)
        assert list(initialized.bound) == list(bound)
        assert_same(initialized(*others), want)


@pytest.mark.parametrize("operator", [name for name in PACKED if "MATRIX_MULTIPLY" in name])
def test_the_right_matrix_of_every_product_is_packed(operator):
    desc = PACKED[operator]
    bound, _ = split(desc, ["b_tensor"], drawn(desc, np.random.default_rng(7)))
    initialized = dml.compile_operator(owning(desc, "b_tensor")).initialize(**bound)
    assert isinstance(initialized.bound["BTensor"], jaxdml.PackedMatrix)


def test_options_are_kept():
    desc = owning(VALID["SCATTER"], "input_tensor")
    x, indices = np.zeros((1, 1, 3, 4), np.float32), np.zeros((1, 1, 2, 4), np.uint32)
    updates = np.float32([[[[1] * 4, [2] * 4]]])
    got = dml.compile_operator(desc, duplicates="last").initialize(InputTensor=x)(indices, updates)
    assert got[0, 0, 0].tolist() == [2] * 4


PRODUCT = owning(VALID[QLMM], "b_tensor")
INPUTS = drawn(PRODUCT, np.random.default_rng(3))
WANT = reference.quantized_linear_matrix_multiply(*INPUTS, output_dtype=np.uint8)
BOUND, OTHERS = split(PRODUCT, ["b_tensor"], INPUTS)
B = BOUND["BTensor"]
MULTIPLY = "jaxdml.directml.QuantizedLinearMatrixMultiplyOperatorDesc: "


@pytest.mark.parametrize("strides", [(60, 30, 7, 1), (60, 30, 1, 6), (33, 16, 5, 1), (0, 0, 3, 2)])
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_a_bound_buffer_is_read_by_its_strides_once(strides, array):
    described = tensor(INT8, 1, 2, 4, 5, strides=strides, flags=OWNED)
    buffer = np.random.default_rng(5).integers(-128, 127, described.span + 3, np.int8, endpoint=True)
    plain = dataclasses.replace(PRODUCT, b_tensor=dataclasses.replace(described, flags=dml.TensorFlags.NONE))
    initialized = dml.compile_operator(dataclasses.replace(PRODUCT, b_tensor=described)).initialize(
        BTensor=array(buffer)
    )
    assert isinstance(initialized.bound["BTensor"], jaxdml.PackedMatrix)
    assert initialized.bound["BTensor"].shape == (1, 2, 4, 5)
    assert_same(initialized(*OTHERS), dml.compile_operator(plain)(*OTHERS[:3], buffer, *OTHERS[3:]))


def test_a_packed_matrix_may_have_fewer_dimensions_than_the_scales():
    sizes = {"a_tensor": (UINT8, 3, 4), "b_tensor": (INT8, 4, 5), "output_tensor": (UINT8, 3, 5)}
    desc = owning(changed(QLMM, **{name: tensor(*described) for name, described in sizes.items()}), "b_tensor")
    got = dml.compile_operator(desc).initialize(BTensor=B[0, 0])(OTHERS[0][0, 0], *OTHERS[1:])
    assert_same(got, WANT[0, 0])


def test_an_initialized_operator_passes_through_transformations():
    compiled = dml.compile_operator(PRODUCT)
    initialized = compiled.initialize(BTensor=B)

    @jax.jit
    def run(operator, *inputs):
        return operator, operator(*inputs)

    # Closed over, an argument, made in the program.
    assert_same(jax.jit(initialized)(*OTHERS), WANT)
    moved = jax.device_put(initialized, jax.devices()[-1], may_alias=False)
    assert {leaf.device for leaf in jax.tree.leaves(moved)} == {jax.devices()[-1]}
    assert_same(moved(*OTHERS), WANT)
    passed, got = jax.jit(run, donate_argnums=0)(moved, *OTHERS)
    assert_same(got, WANT)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(moved))
    assert_same(passed.bound, initialized.bound)
    assert (type(passed), passed.operator) == (dml.InitializedOperator, compiled)
    assert_same(jax.jit(lambda b, *others: compiled.initialize(BTensor=b)(*others))(B, *OTHERS), WANT)
    # A second operator of equal description has the compiled program.
    assert run._cache_size() == 0
    run(initialized, *OTHERS)
    again = dml.compile_operator(PRODUCT).initialize(BTensor=B + np.int8(1))
    run(again, *OTHERS)
    assert run._cache_size() == 1
    # Shapes alone, which say nothing of magnitudes, and a saved and restored pytree.
    shapes = jax.eval_shape(lambda b: compiled.initialize(BTensor=b), B)
    restored = jax.tree.unflatten(jax.tree.structure(shapes), map(np.asarray, jax.tree.leaves(initialized)))
    assert [leaf.shape for leaf in jax.tree.leaves(shapes)] == [(1, 2, 5, 4), (1, 2, 5)]
    assert_same(restored(*OTHERS), WANT)


def test_an_initialized_operator_is_exported():
    desc = owning(VALID["SCATTER"], "updates_tensor")
    x, indices, updates = drawn(desc, np.random.default_rng(11))
    initialized = dml.compile_operator(desc, 0x4100, duplicates="last").initialize(UpdatesTensor=updates)
    exported = export.export(jax.jit(lambda operator, *others: (operator, operator(*others))))(initialized, x, indices)
    passed, got = export.deserialize(exported.serialize()).call(initialized, x, indices)
    assert_same(got, initialized(x, indices))
    assert jax.tree.structure(passed) == jax.tree.structure(initialized)
    assert passed.operator == initialized.operator


def test_an_initialized_operator_is_mapped():
    compiled = dml.compile_operator(PRODUCT)
    initialized = compiled.initialize(BTensor=B)
    a = np.stack([OTHERS[0], OTHERS[0] ^ np.uint8(255)])
    axes = (0, *[None] * 6)
    want = [jaxdml.quantized_linear_matrix_multiply(one, *INPUTS[1:], output_dtype=np.uint8) for one in a]
    assert_same(jax.jit(jax.vmap(initialized, in_axes=axes))(a, *OTHERS[1:]), jnp.stack(want))
    # A stack of layers: each has its own matrix.
    matrices = np.stack([B, B[..., ::-1]])
    layers = jax.vmap(lambda b: compiled.initialize(BTensor=b))(matrices)
    mapped = jax.jit(jax.vmap(lambda layer, a: layer(a, *OTHERS[1:])))(layers, a)
    want = [
        dml.compile_operator(VALID[QLMM])(one, *OTHERS[1:3], b, *OTHERS[3:]) for one, b in zip(a, matrices, strict=True)
    ]
    assert_same(mapped, jnp.stack(want))
    scanned = jax.eval_shape(
        lambda layers, a: jax.lax.scan(lambda a, layer: (a, layer(a, *OTHERS[1:])), a, layers)[1], layers, a[0]
    )
    assert (scanned.shape, scanned.dtype) == (mapped.shape, mapped.dtype)
    with pytest.raises(TypeError) as caught:
        layers(*OTHERS)
    assert str(caught.value) == (
        MULTIPLY + "BTensor must be bound as int8[1, 2, 4, 5]; got int8[2, 1, 2, 4, 5].\n"
        "  BTensor: int8[2, 1, 2, 4, 5]\n"
        "  Call initialize again, or map over a leading dimension with jax.vmap."
    )


def work_on(size, call, *inputs):
    """Name the transpositions and reductions of so many elements in the programs for all platforms."""
    traced = jax.jit(call).trace(*inputs)
    texts = [traced.lower(lowering_platforms=(platform,)).as_text() for platform in ("cpu", "cuda", "tpu")]
    found = re.findall(r"stablehlo\.(transpose|reduce)\b.*: \(tensor<([x\d]+)x\w+>", "\n".join(texts))
    return {name for name, shape in found if math.prod(map(int, shape.split("x"))) == size}


def test_a_call_neither_transposes_nor_sums_a_bound_matrix():
    m, k, n = 3, 64, 96
    desc = changed(
        QLMM, a_tensor=tensor(INT8, 1, 1, m, k), a_zero_point_tensor=tensor(INT8, 1, 1, m, 1),
        b_tensor=tensor(INT8, 1, 1, k, n), b_scale_tensor=tensor(FLOAT32, 1, 1, 1, n),
        output_tensor=tensor(UINT8, 1, 1, m, n),
    )  # fmt: skip
    inputs = drawn(desc, np.random.default_rng(6))
    bound, others = split(desc, ["b_tensor"], inputs)
    plain, compiled = dml.compile_operator(desc), dml.compile_operator(owning(desc, "b_tensor"))
    assert "reduce" in work_on(k * n, plain, *inputs)
    assert work_on(k * n, compiled.initialize(**bound), *others) == set()
    # It is done at initialization.
    assert work_on(k * n, lambda b: compiled.initialize(BTensor=b), inputs[3]) == {"transpose", "reduce"}


def test_a_bound_array_does_not_change_with_numpys():
    for name in ("input_tensor", "updates_tensor"):
        desc = owning(PACKED["SCATTER"], name)
        inputs = drawn(desc, np.random.default_rng(8))
        want = dml.compile_operator(PACKED["SCATTER"])(*inputs)
        bound, others = split(desc, [name], inputs)
        initialized = dml.compile_operator(desc).initialize(**bound)
        bound[c_field(name)][...] = 0
        assert_same(initialized(*others), want)


LONG = owning(changed("SCATTER", indices_tensor=tensor(INT64, 1, 1, 2, 4)), "indices_tensor")
X, UPDATES = np.zeros((1, 1, 3, 4), np.float32), np.ones((1, 1, 2, 4), np.float32)
LONG_INDICES = np.array([2**32, -1, 1, 0, 1, 0, 2**32 + 1, 1]).reshape(1, 1, 2, 4)


def test_bound_indices_keep_their_64_bits():
    given = LONG_INDICES.copy()
    initialized = dml.compile_operator(LONG).initialize(IndicesTensor=given)
    given[...] = 0
    want = X.copy()
    want[0, 0, [2, 1, 0, 1, 0, 1], [1, 2, 3, 0, 1, 3]] = 1
    assert_same(initialized(X, UPDATES), jnp.asarray(want))
    assert_same(jax.jit(initialized)(X, UPDATES), jnp.asarray(want))
    with pytest.raises(ValueError, match="read-only"):
        initialized.bound["IndicesTensor"][...] = 0
    with pytest.raises(TypeError) as caught:
        jax.jit(lambda operator: operator(X, UPDATES))(initialized)
    assert str(caught.value) == (
        "jaxdml.directml.ScatterOperatorDesc: IndicesTensor is INT64, which JAX has only with jax_enable_x64.\n"
        "  IndicesTensor: int32[1, 1, 2, 4]\n"
        "  Enable jax_enable_x64, pass a NumPy array outside of jax.jit, or describe a narrower type."
    )


ONLY_B = "Pass only what is so described: BTensor."
FLAG = " must be bound by initialize, since DML_TENSOR_FLAG_OWNED_BY_DML is set."
STRIDED = dataclasses.replace(PRODUCT, b_tensor=tensor(INT8, 1, 2, 4, 5, strides=(60, 30, 7, 1), flags=OWNED))
REFUSALS = {
    "missing": (PRODUCT, {}, "BTensor" + FLAG, "BTensor: None",
        "Pass BTensor=... to initialize, and the other inputs to what it returns."),
    "two missing": (owning(PRODUCT, "a_tensor", "b_scale_tensor"), {"BTensor": B}, "ATensor, BScaleTensor" + FLAG,
        "ATensor: None, BTensor: int8[1, 2, 4, 5], BScaleTensor: None",
        "Pass ATensor=..., BScaleTensor=... to initialize, and the other inputs to what it returns."),
    "a name of Python's own": (PRODUCT, {"self": 1, "function": 2, "BTensor": B},
        "initialize takes inputs by their names in C; got self.", "self: int", ONLY_B),
    "unknown": (PRODUCT, {"b_tensor": B}, "initialize takes inputs by their names in C; got b_tensor.",
        "b_tensor: int8[1, 2, 4, 5]", ONLY_B),
    "an output": (PRODUCT, {"BTensor": B, "OutputTensor": B},
        "initialize takes inputs by their names in C; got OutputTensor.", "OutputTensor: int8[1, 2, 4, 5]", ONLY_B),
    "not owned": (PRODUCT, {"BTensor": B, "BScaleTensor": INPUTS[4]},
        "BScaleTensor must be OWNED_BY_DML for initialize to bind it.", "BScaleTensor: float32[1, 1, 1, 5]", ONLY_B),
    "nothing owned": (VALID[QLMM], {"BTensor": B}, "BTensor must be OWNED_BY_DML for initialize to bind it.",
        "BTensor: int8[1, 2, 4, 5]", "Pass only what is so described: nothing."),
    "not described": (dataclasses.replace(PRODUCT, b_zero_point_tensor=None), {"BTensor": B, "BZeroPointTensor": None},
        "BZeroPointTensor must be OWNED_BY_DML for initialize to bind it.", "BZeroPointTensor: None", ONLY_B),
    "none": (PRODUCT, {"BTensor": None}, "BTensor must be an array, as described.", "BTensor: None", "Pass one."),
    "list": (PRODUCT, {"BTensor": [1]}, "BTensor must be an array.", "BTensor: list", "Pass jnp.asarray(b_tensor)."),
    "masked": (PRODUCT, {"BTensor": np.ma.array(B, mask=B > 0)}, "BTensor must not be masked.",
        "BTensor: int8[1, 2, 4, 5]", "Pass b_tensor.filled(value)."),
    "packed before": (PRODUCT, {"BTensor": jaxdml.prepack(B)}, "BTensor must be an array.", "BTensor: int8[1, 2, 4, 5]",
        "Pass a NumPy or JAX array."),
    "dtype": (PRODUCT, {"BTensor": B.astype(np.uint8)}, "BTensor must be int8; got uint8.",
        "BTensor: uint8[1, 2, 4, 5]", "Pass b_tensor.astype('int8'), or describe another data type."),
    "sizes": (PRODUCT, {"BTensor": B[0]}, "BTensor must have the sizes [1, 2, 4, 5]; got [2, 4, 5].",
        "BTensor: int8[2, 4, 5]", "Pass b_tensor.reshape((1, 2, 4, 5)), or describe another size."),
    "buffer": (STRIDED, {"BTensor": B},
        "BTensor has strides, so it must be a 1-D buffer of at least 56 bytes; got [1, 2, 4, 5].",
        "BTensor: int8[1, 2, 4, 5]", "Pass the whole buffer as one dimension, 56 elements."),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_bound_is_refused_with_three_lines(name):
    desc, tensors, rule, *lines = REFUSALS[name]
    with pytest.raises(TypeError) as caught:
        dml.compile_operator(desc).initialize(**tensors)
    assert str(caught.value) == "\n  ".join([MULTIPLY + rule, *lines])


def test_calls_with_too_few_or_too_many_inputs():
    compiled = dml.compile_operator(PRODUCT)
    fields = list(map(c_field, inputs_of(PRODUCT)))
    with pytest.raises(TypeError) as caught:
        compiled(*INPUTS)
    rule, shown, advice = str(caught.value).split("\n  ")
    assert rule == MULTIPLY + "BTensor" + FLAG
    assert [part.partition(": ")[0] for part in shown.split(", ") if "Tensor" in part] == fields
    assert "BTensor: int8[1, 2, 4, 5]" in shown
    assert advice == "Pass BTensor=... to initialize, and the other inputs to what it returns."
    with pytest.raises(TypeError) as caught:
        compiled.initialize(BTensor=B)(*INPUTS)
    fields.remove("BTensor")
    rule, _, advice = str(caught.value).split("\n  ")
    assert rule == MULTIPLY + f"the inputs must be 7: {', '.join(fields)}; got 8."
    assert advice == "Leave out what initialize has bound: BTensor."
