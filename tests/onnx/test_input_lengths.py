"""Calls with inputs of many lengths run few programs, and return what onnxruntime does."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import onnx.parser
import pytest
from jax.experimental import checkify
from onnx import numpy_helper

import jaxdml.onnx
from jaxdml.onnx.running import model as model_module
from jaxdml.onnx.running import programs
from jaxdml.onnx.values import capacities, held
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime, close
from tests.onnx.padded import with_nan, without_rule
from tests.onnx.sessions import session

pytestmark = quick


@pytest.fixture(autouse=True)
def padding():
    """Pad inputs with what would be seen in any result."""
    with with_nan():
        yield


def parsed(text, **initializers):
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initializers.items())
    return proto


def loaded(text, lengths="rounded", **initializers):
    return jaxdml.onnx.load(parsed(text, **initializers), lengths=lengths)


def normal(*shape):
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


PROJECTED = """g (float[B, N, 4] x, float[B, M] m) => (y, z, s) {
    w = Constant<value = float[4, 2] {1, -2, 3, 4, -5, 6, 7, 8}>()
    last = Constant<value_ints = [2]>()
    a = MatMul(x, w)
    b = Unsqueeze(m, last)
    c = Mul(a, b)
    y = Softmax<axis = 1>(c)
    z = ReduceMean<axes = [1]>(c)
    s = Shape(c)
}"""


def projected(rows, length):
    return normal(rows, length, 4), normal(rows, length)


def test_few_programs_serve_all_lengths():
    proto = parsed(PROJECTED)
    model, wanted = jaxdml.onnx.load(proto), session(proto)
    for length in np.random.default_rng(0).permutation(np.arange(1, 71)).tolist():
        x, m = projected(2, length)
        close(model(x, m), list(wanted(x=x, m=m).values()))
    assert len(model._calls.programs) <= 6


def test_the_first_length_has_a_program_of_its_own_and_so_have_0_and_1():
    proto = parsed(PROJECTED)
    model = jaxdml.onnx.load(proto)
    counts = []
    for rows, length in ((2, 5), (2, 7), (2, 14), (2, 5), (3, 9), (5, 6), (1, 1), (4, 1), (6, 1)):
        for _ in range(2):
            close(model(*projected(rows, length)), by_onnxruntime(proto, *projected(rows, length)))
        counts.append(len(model._calls.programs))
    assert counts == [1, 2, 2, 2, 3, 3, 4, 5, 5]
    negative = loaded("g (float[N] x) => (y) { y = Neg(x) }")
    assert [negative(normal(length))[0].shape for length in (3, 0, 4, 1)] == [(3,), (0,), (4,), (1,)]
    assert len(negative._calls.programs) == 4


def test_a_length_that_is_called_often_gets_a_program_of_its_own():
    model = loaded("g (float[N] x) => (y) { y = Neg(x) }")
    for length in (50, 60):
        model(normal(length))
    for _ in range(20):
        np.testing.assert_array_equal(model(normal(20))[0], -normal(20))
        np.testing.assert_array_equal(model(normal(170))[0], -normal(170))
    assert len(model._calls.programs) == 3  # 50, what has room for three times 60, and 24.


@pytest.mark.parametrize(
    "lengths",
    [
        (23, 41, 17, 9, 64, 102, 33, 12, 78, 51),
        (102, 78, 64, 51, 41, 33, 23, 17, 12, 9),
        (320, 192, 77, 448, 256, 628, 137, 384, 511, 96),
    ],
)
def test_two_programs_serve_ten_lengths(lengths):
    model = loaded("g (float[N] x) => (y) { y = Neg(x) }")
    for length in lengths:
        np.testing.assert_array_equal(model(normal(length))[0], -normal(length))
    assert len(model._calls.programs) == 2


def test_room_is_for_the_longest_call():
    model = loaded("g (float[N] x) => (y) { y = Neg(x) }")
    for length in (60, 50, 170):
        model(normal(length))
    assert len(model._calls.programs) == 2


def chosen(made, shape, longest=None):
    """Return the elements of a program for an image, and whether it stays."""
    keys = (None, held.Free("height"), held.Free("width"))
    image = np.broadcast_to(np.float32(0), shape)
    sizes, stays = made.chosen([held.Keyed(image, keys, longest or shape)], {})
    return shape[0] * sizes[keys[1]] * sizes[keys[2]], stays


def test_a_large_image_soon_has_a_program_of_its_own():
    made = capacities.Capacities()
    needed = 3 * 1024 * 1024
    assert chosen(made, (3, 2000, 2000))[0] >= 3 * 2000 * 2000
    calls = [chosen(made, (3, 1000, 1000), (3, 2000, 2000)) for _ in range(12)]
    assert sum(elements - needed for elements, _ in calls) <= capacities.MOST
    assert all(elements <= 4 * needed for elements, _ in calls)
    assert calls[-1] == (needed, True)


def test_a_short_length_is_not_computed_as_a_long_one():
    made = capacities.Capacities()
    assert chosen(made, (1, 2, 5000))[0] >= 10000
    assert chosen(made, (1, 2, 10), (1, 2, 5000))[0] <= 24 * (1 + capacities.PATIENCE / capacities.CALLS)
    assert chosen(capacities.Capacities(), (0, 2, 10)) == (0, True)
    assert chosen(capacities.Capacities(), (3, 0, 10))[1]


def test_lengths_are_those_that_the_caller_names():
    model = loaded(PROJECTED, {"N": [8, 20], "M": [8, 20, ...], "B": "exact"})
    for length in (5, 7, 9, 19, 20, 2):
        close(model(*projected(2, length)), by_onnxruntime(parsed(PROJECTED), *projected(2, length)))
    assert len(model._calls.programs) == 2
    with pytest.raises(ValueError, match=r"'N' has length 21, and the greatest that lengths names is 20"):
        model(*projected(2, 21))
    further = loaded(PROJECTED, {"N": [8, ...], "M": [8, ...]})
    for length in (21, 25, 40):
        close(further(*projected(2, length)), by_onnxruntime(parsed(PROJECTED), *projected(2, length)))
    assert len(further._calls.programs) == 1


def test_exact_lengths_are_programs_each():
    model = loaded(PROJECTED, "exact")
    for length in (5, 6, 7, 6):
        close(model(*projected(2, length)), by_onnxruntime(parsed(PROJECTED), *projected(2, length)))
    assert len(model._calls.programs) == 3


def test_lengths_that_have_to_be_equal_are_compared():
    model = loaded(PROJECTED, {"N": [8], "M": [8]})
    for _ in range(2):
        with pytest.raises(ValueError, match=r"Mul 'c' has sizes 6 and 5, which must be equal"):
            model(normal(2, 5, 4), normal(2, 6))


def test_dimensions_of_one_name_and_several_lengths_are_told_apart():
    text = "g (float[N] a, float[N] b) => (float[K] y) { y = Concat<axis = 0>(a, b) }"
    for lengths in ("rounded", {"N": [8, 16]}, {"a[0]": [8, 16], "b[0]": [64]}):
        model = loaded(text, lengths)
        for n, m in ((3, 3), (4, 4), (5, 3), (9, 4), (2, 11)):
            a, b = normal(n), normal(m)
            np.testing.assert_array_equal(model(a, b)[0], np.concatenate([a, b]))


WRONG = {
    "text": ("round", "lengths is 'round'"),
    "name": ({"width": [8]}, "lengths has 'width', which names no open dimension"),
    "none": ({"N": []}, r"lengths has \[\] for 'N'"),
    "order": ({"N": [16, 8]}, r"lengths has \[16, 8\] for 'N'"),
    "zero": ({"N": [0, 8]}, r"lengths has \[0, 8\] for 'N'"),
    "number": ({"N": 8}, "lengths has 8 for 'N'"),
    "nothing but more": ({"N": [...]}, r"lengths has \[Ellipsis\] for 'N'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_lengths_that_are_none_are_refused(name):
    lengths, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        loaded("g (float[N, 2] x) => (y) { y = Neg(x) }", lengths)


def test_dimensions_without_a_name_are_called_by_input_and_axis():
    text = "g (float[2, ?] x) => (y) { y = Softmax(x) }"
    model = loaded(text, {"x[1]": [10]})
    for length in (3, 7):
        close(model(normal(2, length)), by_onnxruntime(parsed(text), normal(2, length)))
    assert len(model._calls.programs) == 1
    with pytest.raises(ValueError, match=r"'x\[1\]' has length 11"):
        model(normal(2, 11))
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [value], [onnx.ValueInfoProto(name="y")]
    )
    of_any_rank = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model = jaxdml.onnx.load(of_any_rank, lengths={"x[1]": [10]})
    for shape in ((2, 3), (2, 7), (5,)):
        np.testing.assert_array_equal(model(normal(*shape))[0], -normal(*shape))
    assert len(model._calls.programs) == 2


NORMALIZED = "g (float[B, N] x) => (y) { a = Neg(x) y = LpNormalization(a) }"


@without_rule("LpNormalization")
def test_a_length_that_a_node_cannot_mask_is_as_it_is():
    model = loaded(NORMALIZED)
    for rows, length in ((2, 5), (3, 5), (4, 6), (5, 6), (5, 7)):
        close(model(normal(rows, length)), by_onnxruntime(parsed(NORMALIZED), normal(rows, length)))
    assert "LpNormalization 'y'" in model._calls.programs.in_the_way[held.Free("N")]
    assert "Each length of 'N' is a program of its own: LpNormalization 'y'" in model.report()
    assert "is a program of its own" not in loaded(NORMALIZED, {"N": "exact", "B": "exact"}).report()
    assert "is a program of its own" not in loaded(NORMALIZED, "exact").report()


@without_rule("LpNormalization")
def test_lengths_named_for_such_a_dimension_are_refused():
    model = loaded(NORMALIZED, {"N": [8, 16]})
    for _ in range(2):
        with pytest.raises(jaxdml.onnx.UnsupportedModelError, match=r"named for 'N'.* LpNormalization 'y' has an op"):
            model(normal(2, 5))


CHOOSING = """g (float[N] x, int64 rate) => (float[M] y) {
    low = Constant<value_int = 8>() slow = Equal(rate, low)
    y = If(slow) <then_branch = t () => (float[K] a) { a = Softmax(x) },
        else_branch = e () => (float[L] b) { n = LpNormalization(x) b = Concat<axis = 0>(n, n) }>
}"""


@without_rule("LpNormalization")
def test_what_stands_in_the_way_in_a_branch_that_is_not_taken_does_not():
    model = loaded(CHOOSING, {"N": [8]})
    for length in (5, 7):
        x = normal(length)
        close(model(x, np.int64(8)), by_onnxruntime(parsed(CHOOSING), x, np.int64(8)))
    with pytest.raises(jaxdml.onnx.UnsupportedModelError, match=r"named for 'N'.* LpNormalization 'n' has an op"):
        model(normal(5), np.int64(16))


def test_lengths_may_be_named_by_places_that_have_one_name_and_size():
    model = loaded("g (float[1, N, N] x) => (y) { y = Softmax(x) }", {"x[1]": [16], "x[2]": [16]})
    for n, m in ((9, 5), (7, 7), (4, 4)):
        close(
            model(normal(1, n, m)),
            by_onnxruntime(parsed("g (float[1, N, M] x) => (y) { y = Softmax(x) }"), normal(1, n, m)),
        )
    assert len(model._calls.programs) == 1
    with pytest.raises(ValueError, match=r"'x\[1\]' has length 20, and the greatest that lengths names is 16"):
        model(normal(1, 20, 20))


STAGED = """g (float[N] x, float[M] z) => (at, y, s) {
    positive = Greater(x, zero)
    at = NonZero(positive)
    row = Squeeze(at, first)
    some = Gather(x, row)
    a = Neg(some)
    y = Concat<axis = 0>(a, z)
    s = ReduceSum<keepdims = 0>(z)
}"""


def test_lengths_of_inputs_go_through_stages():
    constants = {"zero": np.float32(0), "first": np.array([0])}
    proto = parsed(STAGED, **constants)
    model = jaxdml.onnx.load(proto)
    for n, m in ((5, 3), (7, 3), (12, 8), (9, 6), (11, 2), (13, 7), (20, 1)):
        close(model(normal(n), normal(m)), by_onnxruntime(proto, normal(n), normal(m)))
    assert [len(part) for stage, part in model._calls.parts if not stage.on_host] == [4, 4]
    assert "is a program of its own" not in model.report()


@without_rule("LpNormalization")
def test_what_a_stage_cannot_mask_has_its_true_length_there_only():
    text = STAGED.replace("s = ReduceSum<keepdims = 0>(z)", "s = LpNormalization<axis = 0>(y)")
    proto = parsed(text, zero=np.float32(0), first=np.array([0]))
    model = jaxdml.onnx.load(proto)
    for n, m in ((5, 3), (7, 4), (12, 8), (9, 6)):
        close(model(normal(n), normal(m)), by_onnxruntime(proto, normal(n), normal(m)))
    (_, first), _, (_, last) = model._calls.parts
    assert not first.in_the_way
    assert "LpNormalization 's'" in last.in_the_way[held.Free("M")]


DECODER = """g (float[B, step, 4] x, float[B, past, 4] past_k, float[B, "past + step"] mask) => (y, present_k) {
    present_k = Concat<axis = 1>(past_k, x)
    keys = Transpose<perm = [0, 2, 1]>(present_k)
    scores = MatMul(x, keys)
    places = Constant<value_ints = [1]>()
    wide = Unsqueeze(mask, places)
    masked = Add(scores, wide)
    weights = Softmax(masked)
    y = MatMul(weights, present_k)
}"""


def test_a_cache_grows():
    proto = parsed(DECODER.replace('"past + step"', "total"))
    proto.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "past + step"
    model, wanted = jaxdml.onnx.load(proto), session(proto)
    cache = np.zeros((1, 0, 4), np.float32)
    for step in [5] + [1] * 40:
        given = {"x": normal(1, step, 4), "past_k": cache, "mask": normal(1, cache.shape[1] + step)}
        found = model(**given)
        close(found, list(wanted(**given).values()))
        cache = np.asarray(found[1])
    assert len(model._calls.programs) <= 5


def test_arrays_of_jax_may_be_given():
    model = loaded("g (float[N] x, int32[N] i) => (y, j) { y = Neg(x) j = Neg(i) }")
    device = jax.devices()[-1]
    for length in (4, 6, 7, 7):
        x, i = normal(length), np.arange(length, dtype=np.int32)
        for put in (jax.device_put, lambda array: jax.device_put(array, device), lambda array: array):
            y, j = model(put(x), put(i))
            np.testing.assert_array_equal(y, -x)
            np.testing.assert_array_equal(j, -i)
    y, _ = model(jax.device_put(x, device), i)
    assert y.devices() == {device}


def test_what_is_traced_or_spread_has_its_own_shape():
    model = loaded("g (float[N] x) => (y) { y = Neg(x) }")
    for length in (4, 6, 7):
        np.testing.assert_array_equal(jax.jit(lambda x: model(x)[0])(normal(length)), -normal(length))
        np.testing.assert_array_equal(jax.vmap(lambda x: model(x)[0])(normal(2, length)), -normal(2, length))
    assert len(model._calls.programs) == 3
    mesh = jax.make_mesh((len(jax.devices()),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    for times in (2, 3):
        x = normal(times * len(jax.devices()))
        (y,) = model(jax.device_put(x, jax.NamedSharding(mesh, jax.P("d"))))
        np.testing.assert_array_equal(y, -x)
        assert len(y.devices()) == len(jax.devices())


def test_programs_that_were_not_called_for_long_are_let_go(monkeypatch):
    monkeypatch.setattr(programs, "MOST", 3)
    monkeypatch.setattr(model_module, "MANY", 4)
    model = loaded("g (float[N] x) => (y) { y = Neg(x) }", "exact")
    for length in (3, 4, 3, 5, 3, 6, 3, 4, 7, 8, 9, 3):
        np.testing.assert_array_equal(model(normal(length))[0], -normal(length))
        assert len(model._calls.programs) <= 3
        assert len(model._passed) <= 4
    assert len(model._calls.programs) == 3


DRAWN = "g (float[B, 2, N] x) => (y, z) { y = RandomNormalLike(x) z = RandomUniformLike(x) }"


def test_numbers_that_are_drawn_do_not_depend_on_the_padding():
    model = loaded(DRAWN)
    for rows, length in ((2, 5), (3, 6), (4, 7), (2, 9)):
        given, key = normal(rows, 2, length), jax.random.key(length)
        close(model(given, key=key), model.apply({}, given, key=key))
    assert len(model._calls.programs) <= 3
    rows_only = loaded("g (float[N, 2] x) => (y) { y = RandomNormalLike(x) }", {"N": [9]})
    for rows in (2, 7):
        key = jax.random.key(rows)
        close(rows_only(normal(rows, 2), key=key), rows_only.apply({}, normal(rows, 2), key=key))


def test_what_other_generators_draw_has_its_true_shape():
    model = loaded(DRAWN)
    for length in (5, 6):
        given, key = normal(2, 2, length), jax.random.key(0, impl="rbg")
        close(model(given, key=key), model.apply({}, given, key=key))
    assert "RandomNormalLike 'y'" in model._calls.programs.in_the_way[held.Free("N")]


def test_what_dropout_draws_has_its_true_shape():
    model = loaded("""g (float[N] x) => (y) {
        half = Constant<value_float = 0.5>()
        training = Constant<value = bool {1}>()
        y, kept = Dropout(x, half, training)
    }""")
    for length in (5, 6, 9):
        given, key = normal(length), jax.random.key(0)
        close(model(given, key=key), model.apply({}, given, key=key))
    assert "Dropout" in model._calls.programs.in_the_way[held.Free("N")]


def test_a_model_that_was_called_can_be_copied():
    model = loaded("g (float[N] x) => (y) { y = Neg(x) }")
    for length in (3, 5, 6):
        model(normal(length))
    np.testing.assert_array_equal(copy.deepcopy(model)(normal(4))[0], -normal(4))


def test_a_list_of_outputs_has_true_shapes():
    model = loaded("g (float[N] x) => (seq(float[N]) y) { a = Neg(x) y = SequenceConstruct(x, a) }")
    for length in (3, 5, 6, 6, 6):
        ((x, y),) = model(normal(length))
        np.testing.assert_array_equal(x, normal(length))
        np.testing.assert_array_equal(y, -normal(length))


def test_an_input_may_be_called_lengths():
    model = loaded("g (float[N] x, int32[N] lengths) => (y) { a = Cast<to = 1>(lengths) y = Add(x, a) }")
    for length in (3, 5):
        close(model(normal(length), lengths=np.ones(length, np.int32)), [normal(length) + 1])


def longer(array, *capacity):
    """Return an array in a longer one, with what would be seen in any result."""
    whole = np.full(capacity, held.fill(array.dtype), array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole


def padded(array, *capacity):
    return jaxdml.onnx.Padded(longer(array, *capacity), np.int32(array.shape))


def test_inputs_may_be_padded_under_jit():
    model = loaded(PROJECTED)
    apply = jax.jit(model.apply)
    for rows, length in ((2, 3), (2, 8), (1, 1), (3, 5)):
        x, m = projected(rows, length)
        y, z, s = apply(model.params, padded(x, 4, 8, 4), padded(m, 4, 8))
        wanted = by_onnxruntime(parsed(PROJECTED), x, m)
        for one, other in ((y, wanted[0]), (z, wanted[1])):
            assert one.lengths.tolist() == list(other.shape)
            expected = np.zeros(one.array.shape, np.float32)
            expected[tuple(map(slice, other.shape))] = other
            np.testing.assert_allclose(one.array, expected, rtol=1e-5, atol=1e-6)
        assert s.tolist() == [rows, length, 2]
    assert apply._cache_size() == 1


def test_known_lengths_of_padded_inputs_are_numbers():
    model = loaded(PROJECTED)

    @jax.jit
    def apply(x, m, length):
        sizes = jaxdml.onnx.Padded(x, (2, length, 4)), jaxdml.onnx.Padded(m, (2, length))
        return model.apply(model.params, *sizes)

    for length in (3, 8):
        x, m = projected(2, length)
        y, *_ = apply(longer(x, 2, 8, 4), longer(m, 2, 8), length)
        np.testing.assert_allclose(y.array[:, :length], by_onnxruntime(parsed(PROJECTED), x, m)[0], rtol=1e-5)
        assert y.lengths.tolist() == [2, length, 2]


def test_padded_inputs_are_checked():
    model = loaded("g (float[2, N] x, int64[N] i) => (y, j) { y = Neg(x) j = Neg(i) }")
    x, i = normal(2, 3), np.arange(3)
    y, j = model(padded(x, 2, 8), padded(i, 5))  # A call cuts them.
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(j, -i)
    with pytest.raises(ValueError, match="input 'x' is padded and has 2 dimensions, with 1 lengths"):
        model.apply({}, jaxdml.onnx.Padded(x, [3]), i)
    with pytest.raises(OverflowError, match="input 'i' holds integers"):
        model.apply({}, x, jaxdml.onnx.Padded(np.array([2**40]), [1]))
    checked = checkify.checkify(lambda given: model.apply({}, given, i, checks=True), errors=checkify.user_checks)
    error, _ = jax.jit(checked)(jaxdml.onnx.Padded(x, np.int32([2, 4])))
    assert "'N' has length 4, and its array has 3" in error.get()


def test_an_array_that_is_long_enough_is_not_copied():
    x = jnp.ones((4, 2))
    assert held.padded(x, (4, 2)) is x
    assert held.padded(x, (4, 3)).shape == (4, 3)
