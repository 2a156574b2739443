"""GroupQueryAttention is onnxruntime's, with caches that grow, that have a fixed length, and that slide."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from onnx import helper

from jaxdml._networks import attention, caches
from jaxdml.onnx import UnsupportedModelError, load
from tests.kit import quick
from tests.kit.known_parameters import lowered
from tests.kit.meshes import COUNT, mesh_of, needs_devices
from tests.onnx.floats import by_onnxruntime, one_node

pytestmark = quick

HEADS, GROUPS, SIZE = 4, 2, 16
NAMES = ("past_k", "past_v", "last", "total", "cos", "sin", "at", "bias", "sink", "ks", "vs", "qn", "kn", "new")


def drawn(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def inputs(step, ends, past=None, total=None, batch=None, dtype=np.float32, packed=False, seed=0, **more):
    """Return what a node takes: ``ends`` are the numbers of valid keys after the step, ``past`` the rows before."""
    batch = batch or len(ends)
    q, k, v = (drawn(batch, step, n * SIZE, seed=seed + n, dtype=dtype) for n in (HEADS, GROUPS, GROUPS))
    given = {"q": np.concatenate((q, k, v), -1), "k": None, "v": None} if packed else {"q": q, "k": k, "v": v}
    given |= dict.fromkeys(NAMES)
    if past is not None:
        given |= {f"past_{x}": drawn(batch, GROUPS, past, SIZE, seed=seed + 9, dtype=dtype) for x in "kv"}
    angles = np.arange(40)[:, None] / 100 ** (np.arange(8) / 8)
    given |= {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}
    given |= {"last": np.array(ends, np.int32) - 1, "total": np.array(total or max(ends), np.int32)}
    return given | more


def node(given, *outputs, **attributes):
    last = max(place for place, value in enumerate(given.values()) if value is not None) + 1
    used = dict(list(given.items())[:last])
    options = {"num_heads": HEADS, "kv_num_heads": GROUPS, "domain": "com.microsoft"} | attributes
    return one_node("GroupQueryAttention", used, *(outputs or ("y", "k2", "v2")), **options)


WINDOW = {"local_window_size": 3}
TURNED = {"do_rotary": 1}
CASES = {
    "prompt": (inputs(5, (5, 5), past=0), TURNED),
    "prompt_alone": (inputs(5, (5, 5)), {}),
    "prompt_packed": (inputs(5, (5, 5), past=0, packed=True), TURNED),
    "prompt_padded": (inputs(5, (5, 2), past=0), TURNED),
    "prompt_in_a_buffer": (inputs(5, (5, 5), past=9), TURNED),
    "token": (inputs(1, (6, 6), past=5), TURNED),
    "token_of_ragged_rows": (inputs(1, (6, 3), past=5), TURNED | {"rotary_interleaved": 1}),
    "token_in_a_buffer": (inputs(1, (6, 3), past=9), TURNED),
    "chunk": (inputs(3, (7,), past=4), TURNED),
    "first_token": (inputs(1, (1,), past=4), TURNED),
    "window": (inputs(5, (5, 5), past=0), WINDOW | TURNED),
    "window_of_a_chunk": (inputs(4, (9,), past=5), WINDOW),
    "empty_window": (inputs(5, (5,), past=0), {"local_window_size": 0}),
    "both_directions": (inputs(5, (5, 4), past=0), {"causal": 0}),
    "capped": (inputs(5, (5, 5), past=0), {"softcap": 0.7, "scale": 0.4}),
    "smooth": (inputs(5, (5, 5), past=0), {"smooth_softmax": 1}),
    "sinks": (inputs(5, (5, 5), past=0, sink=drawn(HEADS)), WINDOW),
    "biased": (inputs(1, (6, 6), past=9, bias=drawn(1, HEADS, 1, 6)), {"softcap": 2.0}),
    "positions": (inputs(1, (6, 6), past=5, at=np.array([[7], [2]], np.int64)), TURNED),
    "shared_keys": (
        inputs(1, (5, 4), past=5, k=np.zeros((2, 0, 32), np.float32), v=np.zeros((2, 0, 32), np.float32)),
        {},
    ),
    "padded_chunks": (inputs(3, (7, 4), past=9, new=np.array([3, 1], np.int32)), TURNED),
    "idle_row": (inputs(2, (7, 4), past=9, new=np.array([2, 0], np.int32)), {}),
    "narrow": (inputs(5, (5, 5), past=0, dtype=np.float16), TURNED),
}


def valid(arrays, given):
    """Return outputs without what has no meaning: rows of padding, and rows of the cache behind the last."""
    ends = given["last"] + 1
    step = arrays[0].shape[1]
    new = given["new"] if given["new"] is not None else np.minimum(ends, step)
    for row, (end, count) in enumerate(zip(ends, new, strict=True)):
        yield np.asarray(arrays[0][row, :count], np.float32)
        for cache in arrays[1:]:
            yield np.asarray(cache[row, :, :end], np.float32)


@pytest.mark.parametrize("case", CASES)
def test_steps_are_those_of_onnxruntime(case):
    given, attributes = CASES[case]
    proto, arrays = node(given, **attributes)
    if case == "narrow":
        for output in proto.graph.output:
            output.type.tensor_type.elem_type = 10
    found, wanted = load(proto)(*arrays), by_onnxruntime(proto, *arrays)
    assert [x.shape for x in found] == [x.shape for x in wanted]
    for one, other in zip(valid(found, given), valid(wanted, given), strict=True):
        np.testing.assert_allclose(one, other, atol=4e-3 if case == "narrow" else 2e-5)


@pytest.mark.parametrize("case", ["token_of_ragged_rows", "chunk", "first_token", "empty_window", "narrow_token"])
def test_few_queries_are_multiplied_as_sums_on_cuda(case, monkeypatch):
    narrow = inputs(1, (6, 6), past=5, dtype=np.float16), TURNED
    given, attributes = narrow if case == "narrow_token" else CASES[case]
    proto, arrays = node(given, **attributes)
    if case == "narrow_token":
        for output in proto.graph.output:
            output.type.tensor_type.elem_type = 10
    taken = []

    def as_on_cuda(*operands, cuda, default):
        taken.append(getattr(cuda, "func", cuda).__name__)
        return cuda(*operands)

    monkeypatch.setattr(jax.lax, "platform_dependent", as_on_cuda)
    found = load(proto)(*arrays)
    of_a_token = ["_by_selection", "_by_selection", "by_sums", "by_sums"]
    assert taken == {"chunk": of_a_token[2:], "empty_window": ["stored", "einsum"]}.get(case, of_a_token)
    for one, other in zip(valid(found, given), valid(by_onnxruntime(proto, *arrays), given), strict=True):
        np.testing.assert_allclose(one, other, atol=4e-3 if case == "narrow_token" else 2e-5)


@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_one_place_of_a_cache_is_written_alike_on_cuda(axis, circular, monkeypatch):
    starts = jnp.int32([-6, -5, -1, 0, 3, 4, 5, 9])
    cache = np.where(drawn(len(starts), 5, 5, 5) < 0, np.nan, 1).astype(np.float16)
    update = drawn(*(1 if d == axis else size for d, size in enumerate(cache.shape))).astype(np.float16)
    wanted = jax.jit(caches.tensor_scatter, static_argnames=("axis", "circular"))(
        cache, update, starts, axis=axis, circular=circular
    )
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *operands, cuda, default: cuda(*operands))
    found = caches.tensor_scatter(jnp.asarray(cache), jnp.asarray(update), starts, axis=axis, circular=circular)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    for row, start in enumerate(starts.tolist()):
        place = start % 5 if circular else start
        if -5 <= place < 5:
            written = np.asarray(found[row]).take(place, axis - 1)
            np.testing.assert_array_equal(written, update[row].take(0, axis - 1))


def test_large_caches_are_written_in_place_on_cuda():
    for batch, keys, count in ((1, 2048, 0), (1, 2049, 1), (2, 1024, 0), (2, 1025, 1)):
        new, start = np.zeros((batch, 2, 1, 64), np.float32), np.full(batch, 5, np.int32)
        cache = np.zeros((batch, 2, keys, 64), np.float32)
        text = lowered(partial(caches.tensor_scatter, axis=2), cache, new, start)
        assert text.count('"stablehlo.scatter"(') == count


@pytest.mark.parametrize("sink", [None, np.float32(0.5), np.float32(-np.inf)])
def test_rows_without_a_score_are_0_and_so_are_their_derivatives(sink):
    x = np.array([[1, 2, 3], [-np.inf] * 3, [3e38, 1, -3e38], [-3e38, -3e38, 5], [1, 2, 3]], np.float32)
    visible = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0]], bool)

    def of(x):
        return attention.probabilities(x, visible, sink)

    with np.errstate(over="ignore"):
        powers = np.where(visible, np.exp(np.where(x < -1e38, -np.inf, np.minimum(x, 88)).astype(np.float64)), 0)
    powers[3] = [1, 1, 0] if sink is None or np.isinf(sink) else [0, 0, 0]
    total = powers.sum(-1, keepdims=True) + (0 if sink is None else np.exp(np.float64(sink)))
    np.testing.assert_allclose(of(x), powers / np.where(total == 0, 1, total), rtol=1e-6, atol=1e-30)
    derivatives = np.asarray(jax.grad(lambda x: (of(x) ** 2).sum())(x))
    assert np.isfinite(derivatives).all()
    assert (derivatives[[1, 4]] == 0).all()
    assert (derivatives[0] != 0).tolist() == [True, True, False]


@needs_devices
def test_keys_may_be_sharded_and_queries_not():
    mesh = mesh_of("explicit", d=COUNT)
    q, k = (drawn(COUNT, heads, 1 + heads, 8) for heads in (4, 2))
    placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in ((q[:, :, :1], P()), (k, P("d")))]
    scores = jax.jit(attention.products)(*placed)
    np.testing.assert_allclose(scores, attention.products(q[:, :, :1], k), rtol=1e-5, atol=1e-6)
    result = jax.jit(attention.weighted)(scores, placed[1])
    np.testing.assert_allclose(result, attention.weighted(np.asarray(scores), k), rtol=1e-5, atol=1e-6)


def test_many_products_are_no_sums():
    q, k = np.zeros((1, 2, 4, 64), np.float32), np.zeros((1, 2, 8192, 64), np.float32)
    for keys, count in ((8191, 0), (8192, 0), (8193, 1)):
        text = lowered(attention.products, q, np.resize(k, (1, 2, keys, 64)))
        assert text.count("dot_general") == count


STEPS = {
    "prompt": (5, (5, 2), 0),
    "prompt_in_a_buffer": (5, (5, 5), 9),
    "token": (1, (6, 6), 5),
    "token_of_ragged_rows": (1, (6, 3), 9),
    "chunk": (3, (7,), 9),
    "sliding": (1, (4,), 5),
}


def quantized(case, bits, kind, dtype=np.float32):
    """Return a node whose caches hold integers, its inputs as arrays, and by name."""
    step, ends, past = STEPS[case]
    given = inputs(step, ends, past=past, dtype=dtype, seed=1)
    rng, stored = np.random.default_rng(3), {4: np.uint8, 8: np.int8}[bits]
    shape = (1, GROUPS, 1, SIZE) if kind == "PER_CHANNEL" else (1,)
    for name in "kv":
        limits = np.iinfo(stored)
        caches = rng.integers(limits.min, limits.max + 1, (len(ends), GROUPS, past, SIZE * bits // 8))
        given[f"past_{name}"] = caches.astype(stored)
        given[f"{name}s"] = (rng.uniform(3, 6, shape) / 2 ** (bits - 1)).astype(np.float32)
    options = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits} | TURNED
    if case == "sliding":
        options |= WINDOW | {"sliding_window_cache": 1}
    proto, arrays = node(given, **options)
    for output, kept in zip(proto.graph.output, (dtype, stored, stored), strict=True):
        output.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(kept))
    return proto, arrays, given


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("case", STEPS)
def test_caches_of_integers_are_those_of_onnxruntime(case, bits, kind):
    if (case, bits) == ("sliding", 4):
        pytest.skip("onnxruntime wants heads of a multiple of 32 for it")
    proto, arrays, given = quantized(case, bits, kind)
    found, wanted = load(proto)(*arrays), by_onnxruntime(proto, *arrays)
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in wanted]
    for place, (one, other) in enumerate(zip(valid(found, given), valid(wanted, given), strict=True)):
        np.testing.assert_allclose(one, other, atol=0 if place % 3 else 2e-6)


@pytest.mark.parametrize("bits", [4, 8])
def test_steps_of_narrow_floats_may_have_caches_of_integers(bits):
    proto, arrays, given = quantized("token", bits, "PER_CHANNEL", np.float16)
    found, wanted = load(proto)(*arrays), by_onnxruntime(proto, *arrays)
    for place, (one, other) in enumerate(zip(valid(found, given), valid(wanted, given), strict=True)):
        np.testing.assert_allclose(one, other, atol=0 if place % 3 else 4e-3)


@pytest.mark.parametrize("mode", [1, 2])
def test_scores_and_probabilities_are_returned(mode):
    given = inputs(5, (5, 5), past=0)
    proto, arrays = node(given, "y", "k2", "v2", "qk", qk_output=mode, softcap=3.0)
    proto.graph.output[3].type.tensor_type.elem_type = 1
    np.testing.assert_allclose(load(proto)(*arrays)[3], by_onnxruntime(proto, *arrays)[3], atol=2e-5)


@pytest.mark.parametrize("room", [5, 7])
def test_caches_that_slide_keep_what_the_window_needs(room):
    """Feed a sequence in steps of several lengths; onnxruntime's caches and ours hold the same rows."""
    attributes = WINDOW | TURNED | {"sliding_window_cache": 1}
    empty = {f"past_{x}": np.zeros((1, GROUPS, room, SIZE), np.float32) for x in "kv"}
    ours, theirs, end = empty, empty, 0
    for seed, step in enumerate((2, 1, 4, 1, 1, 9, 1)):
        end += step
        proto, arrays = node(given := inputs(step, (end,), seed=seed) | ours, **attributes)
        y, *ours = load(proto)(*arrays)
        wanted, *theirs = by_onnxruntime(*_with(proto, given | theirs))
        np.testing.assert_allclose(y, wanted, atol=2e-5)
        more = room - 3 + 1
        kept = end if end <= room else end - more * -(-(end - room) // more)
        ours, theirs = (
            {f"past_{x}": np.asarray(c) for x, c in zip("kv", both, strict=True)} for both in (ours, theirs)
        )
        for name in ours:
            np.testing.assert_allclose(ours[name][:, :, :kept], theirs[name][:, :, :kept], atol=2e-5)


def _with(proto, given):
    return proto, *(value for value in given.values() if value is not None)


def test_heads_are_normalized_before_they_are_rotated():
    weights = {"qn": drawn(SIZE), "kn": drawn(SIZE, seed=1)}
    given = inputs(5, (5, 5), past=0, **weights)
    found = load(node(given, **TURNED, qk_norm_epsilon=0.1, q_norm_epsilon=0.3)[0])(*node(given)[1])

    def normal(x, weight, epsilon):
        heads = x.reshape(*x.shape[:2], -1, SIZE)
        return (heads / np.sqrt(np.square(heads).mean(-1, keepdims=True) + epsilon) * weight).reshape(x.shape)

    by_hand = inputs(5, (5, 5), past=0)
    by_hand |= {"q": normal(given["q"], weights["qn"], 0.3), "k": normal(given["k"], weights["kn"], 0.1)}
    for one, other in zip(found, by_onnxruntime(*_with(node(by_hand, **TURNED)[0], by_hand)), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_a_step_is_one_program_whatever_the_cache_holds():
    """A mask of a fixed length says nothing of the first step: where keys go follows from their numbers."""
    given = inputs(4, (4, 4), total=9, past=9)
    model = load(node(given, **TURNED)[0])
    arrays = [value for name, value in given.items() if value is not None and name != "last"]
    total = arrays.pop(5)
    apply = jax.jit(lambda arrays, last: model.apply({}, *arrays[:5], last, total, *arrays[5:]))
    for ends in ((4, 4), (2, 3), (6, 9)):
        y, keys, _ = apply(arrays, np.array(ends, np.int32) - 1)
        for row, end in enumerate(ends):
            count, before = min(end, 4), max(end - 4, 0)
            one = {n: x[row : row + 1] for n, x in given.items() if n in ("q", "k", "v", "past_k", "past_v")}
            alone = given | {n: x[:, :count] if n in "qkv" else x for n, x in one.items()}
            alone |= {"last": np.array([end - 1], np.int32), "total": np.array(end, np.int32)}
            wanted = by_onnxruntime(*_with(node(alone, **TURNED)[0], alone))
            np.testing.assert_allclose(y[row : row + 1, :count], wanted[0], atol=2e-5)
            np.testing.assert_allclose(keys[row, :, before:end], wanted[1][0, :, before:end], atol=2e-5)
    assert apply._cache_size() == 1


def test_what_is_not_valid_is_never_used():
    given = inputs(1, (3, 5), past=9)
    dirty = {name: given[name].copy() for name in ("past_k", "past_v")}
    for cache in dirty.values():
        for row, end in enumerate((3, 5)):
            cache[row, :, end:] = np.nan
    proto, arrays = node(given, **TURNED)
    (clean, *_), (y, *_) = load(proto)(*arrays), load(proto)(*_with(proto, given | dirty)[1:])
    np.testing.assert_array_equal(clean, y)


def test_a_key_that_does_not_fit_is_not_written():
    given = inputs(1, (6,), past=5, total=5)
    _, keys, _ = load(node(given)[0])(*node(given)[1])
    np.testing.assert_array_equal(keys, given["past_k"])


@pytest.mark.parametrize(
    ("rule", "attributes", "past"),
    [
        ("a quantized cache needs k_scale", {"k_quant_type": "PER_TENSOR"}, 0),
        ("v_quant_type 'PER_TOKEN' is none of", {"v_quant_type": "PER_TOKEN"}, 0),
        ("sliding_window_cache needs a past", WINDOW | {"sliding_window_cache": 1}, None),
    ],
)
def test_what_is_not_supported_is_refused(rule, attributes, past):
    with pytest.raises(UnsupportedModelError, match=rule):
        load(node(inputs(5, (5, 5), past=past), **attributes)[0])


def test_a_cache_of_other_bits_is_refused():
    proto, *_ = quantized("prompt", 8, "PER_TENSOR")
    next(a for a in proto.graph.node[0].attribute if a.name == "kv_cache_bit_width").i = 2
    with pytest.raises(UnsupportedModelError, match="kv_cache_bit_width is 2, and must be 4 or 8"):
        load(proto)


def test_a_cache_of_other_heads_is_an_error():
    given = inputs(1, (5,), past=4)
    given |= {name: given[name][..., :8] for name in ("past_k", "past_v")}
    proto, arrays = node(given)
    with pytest.raises(ValueError, match="heads of the cache have the size 8, those of the queries 16"):
        load(proto)(*arrays)
