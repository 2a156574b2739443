"""Inputs of attention: products of the same rows, sums with vectors, and heads before rows, in two kernels of a GPU."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import jax
import jax.export
import numpy as np
import onnx
import pytest

import jaxdml.onnx
from jaxdml._kernels.requantization import proved_terms
from jaxdml._networks import projection
from jaxdml._networks.packed_projections import Projection, Projections, likeness
from jaxdml._placement.options import INTEGERS, traced_alone, with_options
from tests.kit import assert_same_bits, quick
from tests.kit.known_parameters import COLUMNS, named

pytestmark = quick

RNG = np.random.default_rng(0)
BATCH, LENGTH, WIDTH, HEADS = 2, 5, 32, 4


def numbers(dtype):
    """Return the initializers of models whose activations have this dtype."""
    limits = np.iinfo(dtype)
    several = lambda *shape: RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)  # noqa: E731
    found = {f"w{each}": RNG.integers(-128, 128, (WIDTH, WIDTH)).astype(np.int8) for each in "qkv"}
    found |= {f"b{each}": several(WIDTH) for each in "qkv"}
    found |= {name: np.float32(scale) for name, scale in SCALES.items()}
    found |= {name: np.asarray(limits.min + at, dtype) for name, at in ZEROS.items()}
    return found | {
        "zw": np.int8(0),
        "sw": RNG.uniform(0.5, 1, WIDTH).astype(np.float32) / 64,
        "zws": np.zeros(WIDTH, np.int8),
        "flat": np.int64([-1]),
        "alone": np.int64([1, 1, HEADS, WIDTH // HEADS]),
        "other_zero": np.int8(3),
        "split": np.int64([0, 0, HEADS, WIDTH // HEADS]),
        "split_n": np.int64([0, 0, HEADS, 2 * WIDTH // HEADS]),
        "join": np.int64([0, 0, WIDTH]),
        "other": np.int64([0, -1, HEADS, 4]),
        "each": RNG.uniform(0.1, 0.2, (BATCH, HEADS, LENGTH, 1)).astype(np.float32),
        "wn": RNG.integers(-128, 128, (WIDTH, 2 * WIDTH)).astype(np.int8),
        "bn": several(2 * WIDTH),
        "swn": RNG.uniform(0.5, 1, 2 * WIDTH).astype(np.float32) / 64,
        "zwn": np.zeros(2 * WIDTH, np.int8),
        "b1": several(1),
        "bm": several(LENGTH, WIDTH),
        "blocks": RNG.uniform(0.1, 0.3, (BATCH, HEADS // 2, LENGTH, WIDTH // HEADS)).astype(np.float32),
        "starts": several(BATCH, HEADS // 2, LENGTH, WIDTH // HEADS),
        "first": np.int64([1]),
        "mask": several(BATCH, 1, 1, LENGTH),
        "table": several(HEADS, 1, LENGTH),
    }


SCALES = {"sx": 0.02, "s1": 0.1134267, "sb": 0.0430917, "s2": 0.1203311, "s3": 0.31, "s4": 0.0039, "s5": 0.07}
ZEROS = {"zx": 120, "z1": 131, "zb": 9, "z2": 126, "z3": 140, "z4": 0, "z5": 127}


def projected(each, perm):
    """Return the nodes of one input."""
    return (
        f"m{each} = QLinearMatMul(x, sx, zx, w{each}, sw, zws, s1, z1)"
        f" a{each} = com.microsoft.QLinearAdd(m{each}, s1, z1, b{each}, sb, zb, s2, z2)"
        f" r{each} = Reshape(a{each}, split) {each} = Transpose<perm = [{perm}]>(r{each})"
    )


QUERY = projected("q", "0, 2, 1, 3")
MAPPED = QUERY.partition(" rq = ")[0]
INPUTS = f"{QUERY} {projected('k', '0, 2, 3, 1')} {projected('v', '0, 2, 1, 3')}"
SCORES = "s = QLinearMatMul(q, s2, z2, k, s2, z2, s3, z3)"
AFTER = "o = QLinearMatMul(p, s4, z4, v, s2, z2, s5, z5) t = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(t, join)"
SOFTMAX = "p = com.microsoft.QLinearSoftmax<axis = -1, opset = 13>"
GRAPHS = {
    "attention": f"{INPUTS} {SCORES} {SOFTMAX}(s, s3, z3, s4, z4) {AFTER}",
    "a mask": f"""{INPUTS} {SCORES} u = com.microsoft.QLinearAdd(s, s3, z3, mask, sb, zb, s3, z3)
        {SOFTMAX}(u, s3, z3, s4, z4) {AFTER}""",
    "a table of the heads": f"""{INPUTS} {SCORES} u = com.microsoft.QLinearAdd(table, sb, zb, s, s3, z3, s3, z3)
        {SOFTMAX}(u, s3, z3, s4, z4) {AFTER}""",
    "a result": f"{QUERY} y = Identity(q)",
    "an axis of it": f"{QUERY} f = DequantizeLinear<axis = 1>(q, s2, z2) y = ReduceMax<keepdims = 0>(f, first)",
    "a vector of one number": MAPPED.replace("bq", "b1") + " y = com.microsoft.QLinearSigmoid(aq, s2, z2, s4, z4)",
    "heads of a vector of one number": f"{QUERY.replace('bq', 'b1')} y = Identity(q)",
    "blocks dequantized": f"{QUERY} y = DequantizeLinear<axis = 1, block_size = 2>(q, blocks, starts)",
    "blocks quantized": f"{QUERY} f = DequantizeLinear(q, s2, z2)"
    " y = QuantizeLinear<axis = 1, block_size = 2>(f, blocks, starts)",
    "four bits": f"{QUERY} f = DequantizeLinear(q, s2, z2) g = QuantizeLinear<output_dtype = 22>(f, s5)"
    " y = DequantizeLinear(g, s5)",
    "scales of rows of heads": f"{INPUTS} {SCORES.replace('q, s2', 'q, each')} y = Identity(s)",
    "the left one of two": f"{INPUTS} c = Transpose<perm = [0, 1, 3, 2]>(k) d = Transpose<perm = [0, 1, 3, 2]>(c)"
    " y = QLinearMatMul(q, s2, z2, d, s2, z2, s3, z3)",
    "the right one of two": f"{INPUTS} c = Transpose<perm = [0, 2, 1, 3]>(q) d = Transpose<perm = [0, 2, 1, 3]>(c)"
    " y = QLinearMatMul(d, s2, z2, k, s2, z2, s3, z3)",
    "a table": f"{MAPPED} d = DequantizeLinear(aq, s2, z2) g = Gelu(d) y = QuantizeLinear(g, s5, z1)",
    "a table of com.microsoft": f"{MAPPED} y = com.microsoft.QLinearSigmoid(aq, s2, z2, s4, z4)",
    "a table that changes nothing": f"{MAPPED} d = DequantizeLinear(aq, s2, z2) g = LeakyRelu<alpha = 1.0>(d)"
    " y = QuantizeLinear(g, s2, z2)",
    "dequantized around": " ".join(
        (
            "xf = DequantizeLinear(x, sx, zx) wf = DequantizeLinear<axis = 1>(wq, sw, zws) mf = MatMul(xf, wf)",
            "m = QuantizeLinear(mf, s1, z1) md = DequantizeLinear(m, s1, z1) bd = DequantizeLinear(bq, sb, zb)",
            "af = Add(bd, md) a = QuantizeLinear(af, s2, z2) ad = DequantizeLinear(a, s2, z2) rf = Reshape(ad, split)",
            "r = QuantizeLinear(rf, s2, z2) rd = DequantizeLinear(r, s2, z2) qf = Transpose<perm = [0, 2, 1, 3]>(rd)",
            "y = QuantizeLinear(qf, s2, z2)",
        )
    ),
}


def proto(nodes, dtype, outputs="y", given=""):
    """Return a model of these nodes, whose initializers are those of ``numbers`` that they read."""
    given = given or f"{np.dtype(dtype)}[{BATCH}, {LENGTH}, {WIDTH}] x"
    text = f'<ir_version: 8, opset_import: ["": 21, "com.microsoft": 1]> g ({given}) => ({outputs}) {{ {nodes} }}'
    made = onnx.parser.parse_model(text)
    read = {name for node in made.graph.node for name in node.input}
    tensors = numbers(dtype)
    made.graph.initializer.extend(onnx.numpy_helper.from_array(tensors[name], name) for name in tensors if name in read)
    return made


def drawn(dtype):
    """Return an input."""
    return RNG.integers(0, 256, (BATCH, LENGTH, WIDTH)).astype(np.uint8).view(dtype)


def projections(model):
    found = model.params.values()
    return sum(len(each.names) if isinstance(each, Projections) else isinstance(each, Projection) for each in found)


@pytest.fixture(params=["in words", "in bytes", "otherwise"])
def forms(request, monkeypatch):
    """Lower projections in each form, whatever the device is."""
    monkeypatch.setattr(projection, "MIN_SIZE_IN_WORDS", 1)
    monkeypatch.setattr(projection, "MIN_SIZE_OF_PARTS_IN_WORDS", 2**30 if "bytes" in request.param else 1)
    if request.param != "otherwise":
        monkeypatch.setattr(projection, "form", lambda target: partial(projection._in_two_kernels, adds=True))
        monkeypatch.setattr(projection, "form_of_table", lambda target: projection._in_one_kernel)
    jax.clear_caches()
    yield request.param
    jax.clear_caches()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("name", GRAPHS)
def test_bits_are_those_of_the_nodes_one_by_one(name, dtype, forms, on_gpu, monkeypatch):
    made = proto(GRAPHS[name], dtype)
    x = drawn(dtype)
    model = jaxdml.onnx.load(made)
    assert projections(model) == (3 if INPUTS in GRAPHS[name] else 1)
    found = model(x)
    monkeypatch.undo()
    assert_same_bits(found, jaxdml.onnx.load(made)(x))


def lowered(made, x):
    """Return the program for CUDA, as ``jaxdml.jit`` compiles it."""
    model = jaxdml.onnx.load(made)
    with with_options(INTEGERS):
        traced = jax.jit(traced_alone(model.apply)).trace(dict(model.params), x)
        return traced.lower(lowering_platforms=("cuda",)).as_text()


ROWS, OF_HEAD = BATCH * LENGTH, WIDTH // HEADS
MOVED = f"(tensor<{ROWS}x{HEADS}x{OF_HEAD}xi8>) -> tensor<{HEADS}x{ROWS}x{OF_HEAD}xi8>"
"""The types of the transposition that brings heads before all rows, after a sum."""


def test_a_sum_is_added_where_heads_are_moved(on_gpu):
    text = lowered(proto(GRAPHS["a result"], np.uint8), drawn(np.uint8))
    assert text.count(MOVED) == 1
    assert f"tensor<{ROWS}x{WIDTH}xi32>" in text


def test_products_of_the_same_rows_are_one_and_scores_are_of_heads_first(on_gpu):
    text = lowered(proto(GRAPHS["attention"], np.uint8), drawn(np.uint8))
    # Each of the three writes it, and XLA computes it once.
    assert text.count(f"tensor<{ROWS}x{3 * WIDTH}xi32>") > 0
    assert text.count(MOVED) == 3
    assert f"tensor<{HEADS}x{BATCH}x{LENGTH}x{LENGTH}xi8>" in text


def test_only_projections_that_round_alike_are_one_record(on_gpu):
    """Factors are proved for the way in which an addition rounds."""
    known = named("a", "b", w_zero=np.int8(0))
    matrix = jaxdml.prepack(np.ones((32, COLUMNS), np.int8), parameters=known)
    one = Projection(matrix, (), (), of="one")
    chain = replace(matrix.chain, at_once=not matrix.chain.at_once)
    other = replace(one, matrix=replace(matrix, chain=chain))
    assert likeness(one) == likeness(replace(one, of="another"))
    assert likeness(one) != likeness(other)


REFUSED = {
    "read twice": f"{QUERY} y = Identity(q) o = Identity(mq)",
    "the sum is read twice": f"{QUERY} y = Identity(q) o = Identity(aq)",
    "another order": QUERY.replace("0, 2, 1, 3", "0, 3, 1, 2") + " y = Identity(q)",
    "no order": QUERY.partition(" q = ")[0] + " y = Identity(rq)",
    "what is added is not known": QUERY.replace("bq, sb, zb", "x, sx, zx") + " y = Identity(q)",
    "a scale for each column": GRAPHS["dequantized around"].replace("(bq, sb, zb)", "<axis = 0>(bq, sw, zws)"),
    "floats are split": "f = DequantizeLinear<axis = 2>(x, sw, zws) y = Reshape(f, split)",
    "a matrix that is added": QUERY.replace("bq", "bm") + " y = Identity(q)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_sum_is_not_packed_where(name, on_gpu, monkeypatch):
    made = proto(REFUSED[name], np.int8, "y, o" if " o = " in REFUSED[name] else "y")
    model, x = jaxdml.onnx.load(made), drawn(np.int8)
    assert projections(model) == 0
    found = model(x)
    monkeypatch.undo()
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(jaxdml.onnx.load(made)(x)), strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("name", ["attention", "a table"])
@pytest.mark.parametrize("shape", [(0, LENGTH, WIDTH), (BATCH, 0, WIDTH)])
def test_nothing_is_projected_to_nothing(name, shape, forms, on_gpu):
    made, x = proto(GRAPHS[name], np.uint8, given="uint8[N, L, 32] x"), np.zeros(shape, np.uint8)
    model = jaxdml.onnx.load(made)
    (found,) = jax.tree.leaves(model.apply(dict(model.params), x))
    assert found.shape == shape


def test_a_single_row_without_a_dimension_is_projected(on_gpu, monkeypatch):
    made = proto(QUERY.replace("split", "alone") + " y = Identity(q)", np.uint8, given=f"uint8[{WIDTH}] x")
    model, x = jaxdml.onnx.load(made), drawn(np.uint8)[0, 0]
    assert projections(model) == 1
    found = model(x)
    monkeypatch.undo()
    assert_same_bits(found, jaxdml.onnx.load(made)(x))


WRONG = {
    "an axis out of range": GRAPHS["attention"].replace("axis = -1", "axis = 4"),
    "a sum of another dtype": QUERY.replace("s2, z2", "s2, other_zero") + " y = Identity(q)",
    "one axis": QUERY.replace("split", "flat") + " y = Identity(q)",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_elsewhere_is_refused_with_the_same_message(name, on_gpu, monkeypatch):
    made = proto(WRONG[name], np.uint8)
    model = jaxdml.onnx.load(made)
    assert projections(model)
    with pytest.raises((TypeError, ValueError)) as found:
        model(drawn(np.uint8))
    monkeypatch.undo()
    with pytest.raises(type(found.value)) as wanted:
        jaxdml.onnx.load(made)(drawn(np.uint8))
    assert str(found.value).partition("\n")[0] == str(wanted.value).partition("\n")[0]


OTHERWISE = {
    "a scale of the product is overridden": QUERY + " y = Identity(q)",
    "rows are split, too": QUERY.replace("split", "other") + " y = Identity(q)",
    "the vector is overridden": QUERY + " y = Identity(q)",
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_packed_sum_is_computed_by_itself_where(name, on_gpu, monkeypatch):
    made, x, others = proto(OTHERWISE[name], np.int8), drawn(np.int8), {}
    if "overridden" in name:
        others = {"bq": RNG.integers(-128, 128, WIDTH).astype(np.int8)}
        others = {"sx": np.float32(0.03)} if "scale" in name else others
        for each, array in others.items():
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            made.graph.input.append(onnx.helper.make_tensor_value_info(each, kind, array.shape))
    model = jaxdml.onnx.load(made)
    assert others or MOVED not in lowered(made, x)
    found = model(x=x, **others)
    monkeypatch.undo()
    assert_same_bits(found, jaxdml.onnx.load(made)(x=x, **others))


def test_a_program_that_is_not_compiled_with_chosen_tiles_computes_sums_by_themselves(on_gpu):
    model = jaxdml.onnx.load(proto(GRAPHS["attention"], np.uint8))
    traced = jax.jit(model.apply).trace(dict(model.params), drawn(np.uint8))
    assert MOVED not in traced.lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("dtypes", [(np.uint8, np.int8, np.uint8), (np.int8, np.uint8, np.int8)])
def test_terms_of_stored_numbers_round_every_sum(dtypes):
    scales = np.float32([0.1134267, 0.0430917, 0.1203311])
    zeros = [int(np.iinfo(dtype).min) + at for dtype, at in zip(dtypes, (131, 9, 126), strict=True)]
    known = np.arange(np.iinfo(dtypes[1]).min, np.iinfo(dtypes[1]).max + 1).astype(dtypes[1])
    by = proved_terms(scales.tolist(), zeros, [*map(np.dtype, dtypes)], known)
    a, b, out = map(Fraction, scales.tolist())
    given, limits = np.iinfo(dtypes[0]), np.iinfo(dtypes[2])
    for number in range(given.min, given.max + 1):
        stored = np.float32(number - (128 if dtypes[0] == np.uint8 else 0))
        sums = [round(((number - zeros[0]) * a + (int(q) - zeros[1]) * b) / out) + zeros[2] for q in known]
        wanted = np.clip(sums, limits.min, limits.max)
        for exact in (np.float32, np.float64):  # A device may round the product before it adds, or not.
            total = (exact(stored) * exact(by.factor) + by.terms.astype(exact)).astype(np.float32)
            stored_as = 128 if dtypes[2] == np.uint8 else 0
            assert (np.clip(np.rint(total) + stored_as, limits.min, limits.max) == wanted).all()


def test_a_projection_is_a_pytree_that_is_exported(on_gpu):
    model = jaxdml.onnx.load(proto(GRAPHS["attention"], np.uint8))
    x = drawn(np.uint8)
    traced = jax.export.export(jax.jit(model.apply))(dict(model.params), x)
    again = jax.export.deserialize(traced.serialize())
    assert_same_bits(again.call(dict(model.params), x), model.apply(dict(model.params), x))


def of_several(nodes):
    """Return how many matrices each parameter holds, of a model that is loaded for a GPU, and the model."""
    model = jaxdml.onnx.load(proto(nodes, np.uint8, "q, k, v"))
    packed = [each for each in model.params.values() if isinstance(each, Projection | Projections)]
    return [len(each.names) if isinstance(each, Projections) else 1 for each in packed], model


WIDER_KEYS = INPUTS.replace("wk, sw, zws", "wn, swn, zwn").replace("bk,", "bn,").replace("ak, split", "ak, split_n")
APART = {
    "another input": " ".join(("h = Relu(x)", INPUTS.replace("mk = QLinearMatMul(x", "mk = QLinearMatMul(h"))),
    "another zero point": INPUTS.replace("mk = QLinearMatMul(x, sx, zx", "mk = QLinearMatMul(x, sx, z1"),
}


@pytest.mark.parametrize("name", APART)
def test_matrices_of_other_rows_are_packed_apart(name, on_gpu):
    found, model = of_several(APART[name])
    assert sorted(found) == [1, 2]
    assert len(model.params) == 2


def test_bits_of_matrices_of_other_sizes_are_the_same(on_gpu, monkeypatch):
    nodes = (
        INPUTS.replace("wk, sw, zws", "wn, swn, zwn").replace("bk, sb", "bn, sb").replace("ak, split", "ak, split_n")
    )
    made = proto(nodes, np.uint8, "q, k, v")
    model, x = jaxdml.onnx.load(made), drawn(np.uint8)
    assert projections(model) == 3
    found = model(x)
    monkeypatch.undo()
    for one, other in zip(found, jaxdml.onnx.load(made)(x), strict=True):
        assert_same_bits(one, other)


def test_two_of_three_matrices_are_packed_as_one(on_gpu, monkeypatch):
    nodes = (
        INPUTS.replace("wk, sw, zws", "wn, swn, zwn").replace("bk, sb", "bn, sb").replace("ak, split", "ak, split_n")
    )
    found, model = of_several(nodes)
    assert sorted(found) == [1, 2]
    (packed,) = (each for each in model.params.values() if isinstance(each, Projections))
    assert packed.names == ("wq", "wv")


def test_stages_read_what_is_packed_as_one(on_gpu, monkeypatch):
    # A program ends where its next size depends on values.
    after = "f = Cast<to = 1>(h) n = NonZero(f) c = Transpose<perm = [1, 0]>(n) y = GatherND(f, c)"
    made, x = proto(f"{GRAPHS['attention'].replace('y =', 'h =')} {after}", np.uint8), drawn(np.uint8)
    model = jaxdml.onnx.load(made)
    assert any("wk" in stage.given for stage, _ in model._calls.parts)
    found = model(x)
    monkeypatch.undo()
    assert_same_bits(found, jaxdml.onnx.load(made)(x))


def test_a_matrix_with_a_parameter_of_its_own_is_computed_by_itself(on_gpu, monkeypatch):
    made, x, other = proto(INPUTS, np.int8, "q, k, v"), drawn(np.int8), RNG.integers(-128, 128, WIDTH).astype(np.int8)
    made.graph.input.append(onnx.helper.make_tensor_value_info("bk", onnx.TensorProto.INT8, [WIDTH]))
    model = jaxdml.onnx.load(made)
    found = [model(x), model(x=x, bk=other)]
    monkeypatch.undo()
    wanted = [jaxdml.onnx.load(made)(x), jaxdml.onnx.load(made)(x=x, bk=other)]
    for one, another in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert_same_bits(one, another)


def test_what_is_looked_up_has_no_vectors(on_gpu):
    (packed,) = jaxdml.onnx.load(proto(GRAPHS["a table"], np.uint8)).params.values()
    assert isinstance(packed, Projection)
    assert (packed.factor, packed.terms) == ((), ())


def test_what_is_packed_together_is_one_parameter_with_no_more_bytes(on_gpu):
    _, model = of_several(INPUTS)
    (packed,) = model.params.values()
    assert packed.names == ("wq", "wk", "wv")
    assert packed.shape == (3, WIDTH, WIDTH)
    assert packed.ndim == 3
    assert packed.dtype == np.int8
    assert packed.stacked.matrix.matrix.nbytes == 3 * WIDTH * WIDTH
    alone = packed.by_name()
    assert [each.shape for each in alone.values()] == [(WIDTH, WIDTH)] * 3
    assert len({each.of for each in alone.values()}) == 3
